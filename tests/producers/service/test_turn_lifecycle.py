"""POST /api/v1/turns/before and /after: a history is kept whole, once, and shown again."""

import asyncio
from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock

import orjson
import pytest

from producers.service.prepared_turns import Conversation, TurnCounters, trim_to_budget
from producers.turns.recalled import RecalledContext
from producers.turns.requests import TurnReference
from store import identity
from store.off_loop import run_steps
from tests.producers.conftest import Tenant, World
from tests.tables import each_row

BEFORE, AFTER = "/api/v1/turns/before", "/api/v1/turns/after"
MARK = "zanzibar-quartz-4711"


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def after(turn: str, given: list[Any], output: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"session_id": "s", "turn_id": turn, "input_items": given, "output_items": output or [], **more}


def before(text: str, **more: Any) -> dict[str, Any]:
    return {"session_id": "s", "turn_id": "next", "current_input": [said(text)], **more}


async def count_events(world: World, tenant: Tenant) -> int:
    rows = await world.sql(
        "select count(*) from afterturn.event_store_t where host_id = :h", h=identity.host_id(tenant.host)
    )
    return int(rows[0][0])


async def test_items_come_back_as_they_were_and_the_input_stands_last(ana: Tenant) -> None:
    items = [
        said("what is there?"),
        {"type": "reasoning", "id": "r", "encrypted_content": "gAAA", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": '{"at": 1}'},
        {"type": "function_call_output", "call_id": "c", "output": "a lamp"},
        {"type": "unheard_of", "deep": [{"n": 1.5, "x": None}], "metadata": {"k": "v"}},
        said("a lamp", "assistant"),
    ]
    kept = await ana.http.post(AFTER, json=after("1", items[:1], items[1:]))
    assert (kept.status_code, kept.json()["ok"], kept.json()["project"]) == (200, True, "default")
    shown = (await ana.http.post(BEFORE, json=before("and now?"))).json()
    assert shown["input_items"] == [*items, said("and now?")]
    assert (shown["recall_insight_ids"], shown["project"]) == ([], "default")
    assert shown["position"] >= kept.json()["position"]


@each_row("path, field", [(BEFORE, "conversation_items"), (AFTER, "conversation_items"), (AFTER, "output_items")])
async def test_far_too_many_items_are_refused_before_they_are_measured_and_parsed(
    ana: Tenant, monkeypatch: pytest.MonkeyPatch, path: str, field: str
) -> None:
    measured = Mock(side_effect=AssertionError("measured"))
    monkeypatch.setattr("producers.service.turn_lifecycle.measure_value", measured)
    refused = await ana.http.post(path, json={"session_id": "s", "turn_id": "1", field: [said("x")] * 2049})
    assert (refused.status_code, refused.json()["error"]["code"], measured.called) == (413, "PAYLOAD_TOO_LARGE", False)


#: An item as an agent writes it: names in no order, numbers of several spellings, escaped characters.
SPELLED = (
    b'{"type":"unheard_of","zeta":1.0,"alpha":{"y":1e5,"b":-0.0,"a":[2.50,1e22,7,9007199254740993]},'
    b'"Caf\\u00e9":"\\u0041\\ud83d\\ude00\\u2028<&>","content":"said","metadata":{"z":"1","a":"2"},"call_id":"c"}'
)


@pytest.mark.parametrize("listed", [False, True], ids=["as text", "as a list of jsonb"])
async def test_an_item_comes_back_with_the_order_of_its_names_and_its_numbers(
    world: World, ana: Tenant, *, listed: bool
) -> None:
    body = b'{"session_id":"s","turn_id":"1","input_items":[%s]}' % SPELLED
    assert (await ana.http.post(AFTER, content=body)).status_code == 200
    item, here = orjson.loads(SPELLED), {"h": identity.host_id(ana.host)}
    if listed:
        ordered = "data = jsonb_set(data, '{parts}', cast(data->>'parts' as jsonb)) where data->>'parts' is not null"
        await world.sql(f"update afterturn.event_store_t set {ordered} and host_id = :h", **here)
    shown = await ana.http.post(BEFORE, json=before("and now?"))
    assert shown.json()["input_items"][0] == item
    assert (orjson.dumps(item) in shown.content) is not listed
    again = await ana.http.post(AFTER, json=after("1", [dict(reversed(item.items()))]))
    assert again.status_code == 200, "the order of names makes no other turn"
    messages = await ana.http.get("/api/v1/turns/s/1?bank=default")
    assert (orjson.dumps(item) in messages.content) is not listed


@pytest.mark.law("L2")
@pytest.mark.parametrize("given", [[said("hello")], []])
async def test_the_same_request_writes_nothing_and_another_is_a_conflict(
    world: World, ana: Tenant, given: list[Any]
) -> None:
    """Traps 1, 2, 3 and 17: the guard, the events and their acknowledgement are one transaction, for good."""
    first = await ana.http.post(AFTER, json=after("1", given))
    events = await count_events(world, ana)
    again = await ana.http.post(AFTER, json=after("1", given))
    assert (again.status_code, again.json()["position"]) == (200, first.json()["position"])
    other = await ana.http.post(AFTER, json=after("1", [said("other")]))
    assert (other.status_code, other.json()["error"]["code"]) == (409, "TURN_CONFLICT")
    assert other.json()["error"]["retryable"] is False
    assert await count_events(world, ana) == events


@pytest.mark.law("L2")
async def test_eight_at_once_are_one_turn_and_get_equal_answers(ana: Tenant) -> None:
    replies = await asyncio.gather(*(ana.http.post(AFTER, json=after("1", [said("hello")])) for _ in range(8)))
    assert {reply.status_code for reply in replies} == {200}
    assert len({reply.json()["position"] for reply in replies}) == 1
    shown = (await ana.http.post(BEFORE, json=before("x"))).json()["input_items"]
    assert shown == [said("hello"), said("x")]


@pytest.mark.law("L8")
async def test_what_was_prepared_is_not_kept_again_when_it_comes_back(world: World, ana: Tenant) -> None:
    await ana.http.post(AFTER, json={**after("0", [said("We fly to Lisbon on Friday")]), "session_id": "other"})
    await ana.http.post(AFTER, json=after("1", [said("hello")], [said("hi", "assistant")]))
    prepared = (await ana.http.post(BEFORE, json=before("when to Lisbon?"))).json()["input_items"]
    assert "<memory_reference>" in prepared[1]["content"][0]["text"]
    assert [item["role"] for item in prepared[:2]] == ["developer", "user"]
    await ana.http.post(AFTER, json=after("2", prepared, [said("Friday", "assistant")]))
    rows = await world.sql(
        "select content from afterturn.agent_memory_unit_t where host_id = :h and session_name = 's' order by seq",
        h=identity.host_id(ana.host),
    )
    assert [row[0] for row in rows] == ["hello", "hi", "when to Lisbon?", "Friday"]


async def test_what_the_callers_own_history_shows_is_not_told_again(ana: Tenant) -> None:
    known = said("We fly to Lisbon on Friday")
    await ana.http.post(AFTER, json={**after("0", [known]), "session_id": "other"})
    history = {"conversation_items": [known, said("when to Lisbon?")], "current_input_start": 1}
    asked = {"session_id": "s", "turn_id": "next", **history}
    assert (await ana.http.post(BEFORE, json=asked)).json()["input_items"] == history["conversation_items"]


async def test_a_session_scope_recalls_nothing_of_other_sessions(ana: Tenant) -> None:
    await ana.http.post(AFTER, json={**after("0", [said("We fly to Lisbon on Friday")]), "session_id": "other"})
    reply = await ana.http.post(BEFORE, json=before("when to Lisbon?", scope="session"))
    assert reply.json()["input_items"] == [said("when to Lisbon?")]


async def test_trap_4_before_a_turn_nothing_is_written(world: World, ana: Tenant) -> None:
    await ana.http.post(AFTER, json=after("1", [said("hello")]))
    events = await count_events(world, ana)
    reply = await ana.http.post(BEFORE, json=before("hello again", max_input_tok=1))
    assert reply.json()["input_items"] == [said("hello again")]
    assert await count_events(world, ana) == events


@pytest.mark.parametrize("more", [{"session_id": ".."}, {"turn_id": ""}, {"plug": 1}, {"input_items": [{}]}])
async def test_trap_13_what_is_wrong_is_an_invalid_argument_without_its_value(
    ana: Tenant, more: dict[str, Any]
) -> None:
    reply = await ana.http.post(AFTER, json=after("1", [said(MARK)]) | more)
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "INVALID_ARGUMENT")
    assert reply.json()["error"]["retryable"] is False
    assert MARK not in reply.text


@pytest.mark.law("L7")
async def test_trap_15_no_item_is_in_a_log_or_an_audit_row(
    world: World, ana: Tenant, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    await ana.http.post(AFTER, json=after("1", [said(MARK)]))
    await ana.http.post(AFTER, json=after("1", [said(MARK + "2")]))
    await ana.http.post(BEFORE, json=before(MARK))
    await world.recorder.flush()
    rows = await world.sql(
        "select c::text from afterturn.call_audit_t c where host_id = :h", h=identity.host_id(ana.host)
    )
    assert rows
    heard = capsys.readouterr()
    assert MARK not in f"{rows}{heard.out}{heard.err}{caplog.text}"


class NotedTokens:
    """Counts words, and notes of which texts."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        self.noted += texts
        return [len(text.split()) for text in texts]


@each_row("most, shown, counted", [(0, 64, 64), (350, 3, 4), (50, 0, 1), (100_000, 64, 64)])
def test_of_a_long_history_no_more_is_counted_than_fits_and_one_item(most: int, shown: int, counted: int) -> None:
    stored = [said(f"{'word ' * 99}{n}") for n in range(64)]
    counter, place = NotedTokens(), TurnReference(project="p", session="s", turn="t")
    conversation, counters = Conversation([], stored, [said("now")]), TurnCounters(counter, counter)
    told = run_steps(trim_to_budget(place, RecalledContext(), conversation, most, counters))
    assert told["input_items"] == [*stored[64 - shown :], said("now")]
    assert sum("word" in text for text in counter.noted) == counted
    whole = sum(NotedTokens().count_tokens([text for item in told["input_items"] for text in find_texts(item)]))
    assert told["context_token_count"] == whole


def find_texts(item: dict[str, Any]) -> list[str]:
    return [item["type"], item["role"], *(one for part in item["content"] for one in part.values())]
