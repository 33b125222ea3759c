"""The enrichment model chooses what a summary tells; what it does not quote is dropped, and the rules stand by."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest
from starlette.responses import JSONResponse, Response

from store.ledger.circuit_breakers import Gate, GatePolicy, gate_name
from store.ledger.stages import Stage
from tests.client.loopback import Loopback, Seen, loopback
from tests.workers.conftest import HOST, World
from tests.workers.models import KEY, called, facts, reader
from tests.workers.stages import Crew
from tests.workers.test_session_summaries import COMPACTED, PLACE, summariser_of, talk
from workers.extraction.llm.digest import TOOL, ModelDigester
from workers.extraction.llm.reader import LlmReader
from workers.extraction.llm.rights import ModelRights


@pytest.fixture
def server() -> Iterator[Loopback]:
    with loopback() as running:
        yield running


def answer_with(entries: list[dict[str, Any]], asked: list[dict[str, Any]]) -> Any:
    def answer(seen: Seen) -> Response:
        if seen.json["tools"][0]["name"] != TOOL:
            return JSONResponse(called(facts()))
        assert KEY.encode() not in seen.body
        [message] = seen.json["input"]
        text = message["content"][0]["text"]
        assert text.count("<") == text.count(">") == 2, "something could close the frame"
        asked.append(orjson.loads(text.removeprefix("<conversation>\n").removesuffix("\n</conversation>")))
        reply = called({"entries": entries})
        reply["output"][1]["name"] = TOOL
        return JSONResponse(reply)

    return answer


async def summarise(world: World, asker: LlmReader, rights: ModelRights | None = None) -> str:
    """Talk, have the model read the turns, and have it summarise them; return the event's data."""
    await talk(world, 0, 5)
    gate = Gate(world.database, gate_name("model", "the one"), GatePolicy(threshold=2, cooldown_s=60.0))
    digester = ModelDigester(asker, gate, world.turns.summaries, rights=rights or ModelRights())
    crew = Crew(world, reader=asker, model_gate=gate)
    await crew.drain(Stage.EXTRACTION, Stage.ENRICHMENT)
    await replace(summariser_of(world), digester=digester).summarise(PLACE)
    await asker.close()
    [(_, data)] = await world.sql(COMPACTED)
    return str(data)


async def test_what_the_model_quotes_is_told_and_what_it_makes_up_is_not(world: World, server: Loopback) -> None:
    asked: list[dict[str, Any]] = []
    entries = [
        {"kind": "decided", "quote": "plan 1 for Anna", "message": 2},
        {"kind": "stated", "quote": "Anna is in Kyoto", "message": 2},
        {"kind": "open", "quote": "plan 1 for Anna", "message": 99},
    ]
    server.answer = answer_with(entries, asked)
    data = await summarise(world, reader(server.url))
    assert [len(one["messages"]) for one in asked] == [6]
    assert ("plan 1 for Anna" in data, "Kyoto" in data, "plan 0" in data) == (True, False, False)


async def test_where_a_tenant_has_the_model_off_the_rules_choose_and_it_is_sent_nothing(
    world: World, server: Loopback
) -> None:
    asked: list[dict[str, Any]] = []
    server.answer = answer_with([], asked)
    data = await summarise(world, reader(server.url), ModelRights(read=lambda host, _bank: host != HOST))
    assert (asked, "plan 1 for Anna" in data) == ([], True)


@pytest.mark.parametrize("status", [500, 200])
async def test_where_the_model_gives_no_answer_the_rules_choose(world: World, server: Loopback, status: int) -> None:
    def answer(seen: Seen) -> Response:
        told = seen.json["tools"][0]["name"] != TOOL
        return JSONResponse(called(facts())) if told else JSONResponse({"output": []}, status)

    server.answer = answer
    assert "plan 0 for Anna" in await summarise(world, reader(server.url))


@pytest.mark.law("L11")
async def test_turns_that_the_model_never_read_are_not_sent_to_it(world: World, server: Loopback) -> None:
    asked: list[dict[str, Any]] = []
    server.answer = answer_with([], asked)
    await talk(world, 0, 5)
    asker = reader(server.url)
    gate = Gate(world.database, gate_name("model", "the one"), GatePolicy(threshold=2, cooldown_s=60.0))
    digester = ModelDigester(asker, gate, world.turns.summaries)
    assert (await replace(summariser_of(world), digester=digester).summarise(PLACE)).messages == 6
    await asker.close()
    assert asked == []
    [(_, data)] = await world.sql(COMPACTED)
    assert "plan 0 for Anna" in data
    assert PLACE.host == HOST
