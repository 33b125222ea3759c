"""L7 in the agent's process: a distinctive key and distinctive texts, and every place they must not reach."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from afterturn_client.curated import MemoryTool, Target
from afterturn_client.gateway import GatewayClient
from afterturn_client.hybrid import HybridMemory
from afterturn_client.layers import MemoryGatewayService
from afterturn_client.settings import MemoryConfigError, MemorySettings
from starlette.responses import JSONResponse, PlainTextResponse, Response

from tests.client.hybrid.worlds import ANSWER, KEY, RECALLED, World, calls, config, gateway_answers, model_answers, says
from tests.client.loopback import Loopback, everything_in

PROMPT = "the walrus-prompt 8841 is private"
PRIVATE = (KEY, "walrus-prompt 8841", RECALLED, ANSWER)
ECHO = f"{KEY} walrus-prompt 8841 {RECALLED}"
REPLIES = [
    JSONResponse({"error": ECHO}, 401),
    JSONResponse({"error": ECHO, "raw": {"key": KEY}}, 500),
    PlainTextResponse(ECHO),
    JSONResponse([ECHO]),
    JSONResponse({"results": ECHO}),
]


@pytest.fixture
def everything(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Every record of every logger, httpx's and httpcore's included."""
    with caplog.at_level(logging.DEBUG):
        yield caplog


def shown(caplog: pytest.LogCaptureFixture, *others: object) -> str:
    records = [f"{record.getMessage()} {record.args} {record.__dict__}" for record in caplog.records if ours(record)]
    return "\n".join([*records, *map(repr, others)])


def ours(record: logging.LogRecord) -> bool:
    """Leave out the servers of this test, which run in the same process and may show what they are sent."""
    return not record.name.startswith(("uvicorn", "asyncio"))


@pytest.mark.law("L7")
@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("operation", ["search", "add", "flush"])
async def test_a_failing_gateway_that_echoes_everything_makes_nobody_repeat_it(
    hybrid: World, everything: pytest.LogCaptureFixture, operation: str, reply: Response
) -> None:
    gateway_answers(hybrid.gateway, **{operation: reply})
    result = await hybrid.run(PROMPT)
    seen = shown(everything, hybrid.events, result, hybrid.memory)
    assert [text for text in PRIVATE if text in seen] == []


@pytest.mark.law("L7")
async def test_a_run_that_goes_well_writes_texts_to_the_history_alone_and_the_key_nowhere(
    hybrid: World, everything: pytest.LogCaptureFixture
) -> None:
    model_answers(
        hybrid.model,
        calls("memory", json.dumps({"action": "add", "target": "user", "content": "likes rye"})),
        says(ANSWER),
    )
    result = await hybrid.run(PROMPT)
    seen = shown(everything, hybrid.events, result, hybrid.memory, hybrid.memory.layer)
    assert [text for text in PRIVATE if text in seen] == []
    written = {path: path.read_text() for path in hybrid.home.rglob("*") if path.is_file()}
    assert all(KEY not in text and RECALLED not in text for text in written.values())
    assert [path.suffix for path, text in written.items() if "walrus-prompt" in text] == [".jsonl"]


@pytest.mark.law("L7")
async def test_the_model_is_sent_no_credentials(hybrid: World) -> None:
    await hybrid.run(PROMPT)
    for seen in hybrid.model.seen:
        assert KEY not in f"{seen.body.decode()} {seen.headers} {seen.params}"


@pytest.mark.law("L7")
async def test_the_key_travels_in_bodies_only(hybrid: World) -> None:
    await hybrid.run(PROMPT)
    for seen in hybrid.gateway.seen:
        assert KEY in seen.body.decode()
        assert KEY not in f"{seen.raw_path} {seen.headers} {seen.params}"


@pytest.mark.law("L7")
def test_no_error_or_warning_of_loading_shows_the_key(
    tmp_path: Path, gateway: Loopback, everything: pytest.LogCaptureFixture
) -> None:
    wrong: list[dict[str, Any]] = [
        {"userId": ""},
        {"baseUrl": f"http://u:{KEY}@h:port"},
        {"baseUrl": f"http://u:{KEY}@127.0.0.1"},
        {"topK": KEY},
        {"scope": [KEY]},
        {"timeoutSeconds": KEY},
        {"appId": [KEY]},
        {"userKey": [KEY]},
    ]
    texts = []
    for change in wrong:
        with pytest.raises(MemoryConfigError) as caught:
            HybridMemory.open(config(gateway, **change), tmp_path)
        texts.append(everything_in(caught.value))
    with pytest.raises(MemoryConfigError) as caught:
        MemorySettings.parse({"memory": {"mode": KEY}})
    degraded = config(gateway, userId=" ")
    del degraded["memory"]["mode"]
    assert HybridMemory.open(degraded, tmp_path).layer is None
    assert len(everything.records) == 1
    assert KEY not in shown(everything, *texts, everything_in(caught.value))


@pytest.mark.law("L7")
async def test_no_repr_on_the_way_shows_the_key(hybrid: World, gateway: Loopback) -> None:
    assert isinstance(hybrid.memory.layer, MemoryGatewayService)
    parsed = MemorySettings.parse(config(gateway))
    client = GatewayClient(gateway.url, "ana", KEY)
    assert KEY not in "".join(map(repr, (hybrid.memory, hybrid.memory.layer, parsed, parsed.gateway, client)))
    assert KEY not in str(parsed.status())
    await client.aclose()


@pytest.mark.law("L7")
async def test_what_is_curated_stays_between_file_and_prompt(
    hybrid: World, everything: pytest.LogCaptureFixture
) -> None:
    hybrid.memory.store.add(Target.MEMORY, "curated-marker 5577")
    refused = MemoryTool(hybrid.memory.store).call(
        {"action": "add", "target": "user", "content": "curated-marker\u200b"}
    )
    assert "curated-marker" not in json.loads(refused)["message"]
    await hybrid.run(PROMPT)
    sent = "".join(seen.body.decode() for seen in hybrid.gateway.seen)
    assert "curated-marker" not in sent
    assert "curated-marker" not in shown(everything, hybrid.events, hybrid.memory)
    assert "curated-marker 5577" in hybrid.asked()[0]["content"]
