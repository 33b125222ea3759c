"""The traps of the contract (turn tools, 2.11): what caught the reference does not catch us. `TRAPS` names their tests.

Not there to be fallen into, since nothing is kept in files: archives that overwrite each other (of 8, that nothing is
lost to maintenance is left to see) and the second half of 9 (compressed bytes through a text interface).
"""

import asyncio
import json
import re
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.ext.asyncio import AsyncConnection

from producers.mcp.settings import NO_EFFECT, McpSettings, TurnMemorySettings
from producers.mcp.tools import TOOLS
from producers.service import session_calls
from producers.service.turn_lifecycle import BUSY_S
from producers.settings import ApiSettings
from store import identity
from store.text.rules import MessageText
from store.text.rules.facts import MAX_VALUE_BYTES, find_facts
from tests.named_tests import find_missing
from tests.producers.conftest import Tenant, World, broker_of, build
from tests.producers.mcp.test_tools import ERAS, call, client_of, count_events, refusal, said
from tests.producers.test_lock_timeouts import holding, places, psql
from tests.servers import TestValkey
from tests.tables import each_row

__all__ = ["psql"]

_HERE, _CYCLE = "producers/turns/test_turn_traps.py::test_trap_", "producers/service/test_turn_lifecycle.py::test_trap_"
_LISTED = (
    "producers/mcp/test_tools.py"
    "::test_trap_12_and_14_a_session_is_listed_as_the_contracts_directories_and_nothing_is_made"
)
#: Each trap by its number in the contract, and the tests (file of `tests`, name) that it would turn red.
TRAPS: dict[int, tuple[str, ...]] = {
    1: (f"{_HERE}1_a_known_turn_aborts_nothing_of_its_transaction",),
    2: (f"{_HERE}2_a_held_session_is_busy_and_no_half_claimed_turn_remains",),
    3: (f"{_HERE}3_a_turn_that_fails_half_way_has_written_nothing_and_is_kept_once_then",),
    4: (f"{_HERE}4_turns_that_end_while_others_begin_are_not_lost", f"{_CYCLE}4_before_a_turn_nothing_is_written"),
    5: (f"{_HERE}5_and_6_one_value_holds_and_a_fact_said_once_is_told_once",),
    6: (f"{_HERE}5_and_6_one_value_holds_and_a_fact_said_once_is_told_once",),
    7: (
        "producers/test_erasure_leaks.py::test_no_dump_and_no_queue_holds_what_was_erased",
        "store/erasure/test_gone.py::test_a_dump_holds_nothing_of_what_was_erased",
    ),
    8: (f"{_HERE}8_maintenance_again_and_again_loses_nothing_of_the_day",),
    9: (f"{_HERE}9_a_listing_that_is_cut_says_so",),
    10: (f"{_HERE}10_a_setting_has_its_effect_or_says_that_it_has_none",),
    11: (f"{_HERE}11_values_keep_their_case_are_cut_between_characters_and_words_are_whole",),
    12: (_LISTED,),
    13: (f"{_CYCLE}13_what_is_wrong_is_an_invalid_argument_without_its_value",),
    14: (_LISTED,),
    15: (f"{_CYCLE}15_no_item_is_in_a_log_or_an_audit_row",),
    16: ("workers/test_enrichment.py::test_what_a_model_finds_stands_beside_what_the_rules_found",),
    17: (f"{_HERE}17_a_turn_is_known_however_many_came_after_it",),
    18: ("producers/turns/test_turn_items.py::test_trap_18_tokens_are_those_of_all_texts_and_metadata_too",),
}
FUZZ = {"accept": "application/json", "content-type": "application/json"}
FRAME = '<memory_reference>\n{"kind": "historical_memory", "untrusted": true, "facts": []}\n</memory_reference>'


async def test_trap_1_a_known_turn_aborts_nothing_of_its_transaction(world: World, ana: Tenant) -> None:
    turn = {"session_id": "s", "turn_id": "1", "messages": [{"role": "user", "content": "hello"}]}
    await ana.http.post("/api/v1/turns", json=turn)
    both = {"turns": [turn, {**turn, "turn_id": "2"}, turn]}
    results = (await ana.http.post("/api/v1/turns:batch", json=both)).json()["results"]
    assert [(one["ok"], one["duplicate"]) for one in results] == [(True, True), (True, False), (True, True)]
    [[turns]] = await world.sql("select count(*) from afterturn.turn_t where host_id = :h", h=host_of(ana))
    assert turns == 2


async def test_trap_2_a_held_session_is_busy_and_no_half_claimed_turn_remains(
    ana: Tenant, world: World, psql: AsyncConnection
) -> None:
    turn: dict[str, Any] = {"session_id": "monday", "turn_id": "2", "input_items": [said("hello")]}
    async with client_of(world, ana) as client:
        await call(client, "memory_after_turn", session_id="monday", turn_id="1", input_items=[said("x")])
        begun = time.monotonic()
        async with holding(psql, "session", places(ana)["session"]):
            told = await refusal(client, "memory_after_turn", **turn)
        assert time.monotonic() - begun >= BUSY_S == 5.0
        assert (told["code"], told["retryable"]) == ("RESOURCE_BUSY", True)
        assert "same turn_id" in told["message"], told
        assert await call(client, "memory_after_turn", **turn) == {"ok": True, "project": "default"}


@pytest.mark.law("L1")
async def test_trap_3_a_turn_that_fails_half_way_has_written_nothing_and_is_kept_once_then(
    world: World, ana: Tenant
) -> None:
    turn: dict[str, Any] = {
        "session_id": "s",
        "turn_id": "2",
        "input_items": [said("half")],
        "output_items": [said("b")],
    }
    name = f"fail_{host_of(ana).hex}"
    async with client_of(world, ana) as client:
        await call(client, "memory_after_turn", session_id="s", turn_id="1", input_items=[said("one")])
        events = await count_events(world, ana)
        await world.sql(f"""create function public.{name}() returns trigger language plpgsql as
            $$ begin raise exception 'planted'; end $$""")
        await world.sql(f"""create trigger {name} after insert on afterturn.ledger_t for each row
            when (new.host_id = '{host_of(ana)}' and new.stage = 'embedding') execute function public.{name}()""")
        try:
            assert (await refusal(client, "memory_after_turn", **turn))["retryable"] is True
        finally:
            await world.sql(f"drop function public.{name}() cascade")
        assert await count_events(world, ana) == events
        for _ in range(2):
            await call(client, "memory_after_turn", **turn)
        shown = await call(client, "memory_before_turn", session_id="s", current_input="now?")
        assert shown["input_items"] == [said("one"), said("half"), said("b"), said("now?")]


async def test_trap_4_turns_that_end_while_others_begin_are_not_lost(world: World, ana: Tenant) -> None:
    async with client_of(world, ana) as client:
        asked = {"session_id": "s", "current_input": "x" * 400, "max_input_tok": 120}
        await asyncio.gather(
            *(call(client, "memory_after_turn", session_id="s", turn_id=str(n), input_items=[said(f"item {n}")])
              for n in range(8)),
            *(call(client, "memory_before_turn", **asked) for _ in range(8)),
        )  # fmt: skip
        shown = str((await call(client, "memory_before_turn", session_id="s", current_input="all?"))["input_items"])
        assert [n for n in range(8) if f"item {n}'" not in shown] == []


async def test_trap_5_and_6_one_value_holds_and_a_fact_said_once_is_told_once(world: World, ana: Tenant) -> None:
    async with client_of(world, ana) as client:
        for n, text in enumerate(("My name is Ann.", "My name is Anna.", "I like jazz.")):
            await call(
                client, "memory_after_turn", session_id="s", turn_id=str(n), user_id="u", input_items=[said(text)]
            )
        shown = await call(client, "memory_before_turn", session_id="new", current_input="What is my name?")
        ids = shown["recall_fact_ids"]
        assert (len(ids), "user_name" in ids) == (len(set(ids)), True), ids
        lines = shown["input_items"][1]["content"][0]["text"].splitlines()
        facts = lines[lines.index("facts:") + 1 : lines.index("facts:") + 1 + len(ids)]
        said_of = sorted(re.sub(r"^\[\d\] [^:]*: |, said .*", "", line) for line in facts)
        assert said_of == ["likes jazz", "name is Anna"], facts
        assert shown["recall_insight_ids"] == []


async def test_trap_8_maintenance_again_and_again_loses_nothing_of_the_day(
    world: World, ana: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_calls, "WAIT_S", 0.0)  # there is no worker to wait for
    async with client_of(world, ana) as client:
        for n in range(3):
            await call(client, "memory_after_turn", session_id="s", turn_id=str(n), input_items=[said(f"turn {n}")])
            events = await count_events(world, ana)
            for _ in range(2):
                assert (await call(client, "memory_run_maintenance", session_id="s"))["ok"] is True
            assert await count_events(world, ana) == events
        shown = await call(client, "memory_before_turn", session_id="s", current_input="all?")
        assert shown["input_items"][-4:] == [*(said(f"turn {n}") for n in range(3)), said("all?")]


async def test_over_the_budget_history_goes_first_then_what_is_told_and_nothing_is_written(
    world: World, ana: Tenant
) -> None:
    """The contract's note on before_turn: it trims. No row of work is opened for that: nothing has to be done later."""
    rows = """select (select count(*) from afterturn.event_store_t where host_id = :h),
                     (select count(*) from afterturn.ledger_t where host_id = :h),
                     (select count(*) from afterturn.recall_job_t where host_id = :h),
                     (select count(*) from afterturn.open_turn_t where host_id = :h)"""
    async with client_of(world, ana) as client:
        for n in range(6):
            items = [said(f"My name is Ann. The boiler of house {n} {'hums ' * 40}")]
            session = "s" if n % 2 else "old"
            await call(client, "memory_after_turn", session_id=session, turn_id=str(n), user_id="u", input_items=items)
        before = await world.sql(rows, h=host_of(ana))
        asked = {"session_id": "s", "current_input": "which boiler?"}
        shown = [await call(client, "memory_before_turn", **asked, max_input_tok=most) for most in (0, 300, 150, 40, 1)]
        assert await world.sql(rows, h=host_of(ana)) == before
    tokens = [one["context_token_count"] for one in shown]
    assert tokens == sorted(tokens, reverse=True)
    assert (tokens[1] <= 300, tokens[2] <= 150, tokens[0] > 300) == (True, True, True), tokens
    history = [sum("hums" in str(item) for item in one["input_items"] if item["role"] == "user") for one in shown]
    assert history[0] > history[2]
    # What the caller sent stays, even over the budget; nothing else does.
    assert shown[-1]["input_items"] == [said("which boiler?")]
    assert shown[-1]["recall_fact_ids"] == []


async def test_trap_9_a_listing_that_is_cut_says_so(world: World, ana: Tenant) -> None:
    async with client_of(world, ana) as client:
        await call(client, "memory_after_turn", session_id="s", turn_id="1", input_items=[said("x")])
        for limit, more in ((13, True), (14, False), (1024, False)):
            told = await call(client, "memory_list_dir_with_abstract", session_id="s", limit=limit)
            assert (len(told["summaries"]), told["has_more"]) == (min(limit, 14), more)


async def test_trap_10_a_setting_has_its_effect_or_says_that_it_has_none(world: World, valkey: TestValkey) -> None:
    changed = {"scope": "session", "recent_context_items": 1, "recall_facts_limit": 0, "insight_recall_limit": 0,
               "search_limit": 1, "reference": "json"}  # fmt: skip
    silent = {
        name for name, field in TurnMemorySettings.model_fields.items()
        if isinstance(field.json_schema_extra, dict) and NO_EFFECT in field.json_schema_extra
    }  # fmt: skip
    # Retention: tests/workers/maintenance/test_tiers.py; by tenant and bank: tests/producers/mcp/test_bank_memory.py.
    # The threshold: tests/producers/service/test_session_summaries.py.
    # What a model may do: tests/workers/test_model_deletions.py.
    elsewhere = {"compact_threshold", "l1_retention_days", "l2_retention_days", "tiers", "tenants", "heuristic",
                 "model_reads", "model_deletions"}  # fmt: skip
    assert set(TurnMemorySettings.model_fields) == {*changed, *silent, *elsewhere}
    settings = ApiSettings(mcp=McpSettings(memory=TurnMemorySettings.model_validate(changed)))
    made = build(world.postgres, broker_of(valkey.url, "changed"), settings=settings)
    ana = await made.tenant()
    try:
        async with client_of(made, ana) as client:
            for n, session in enumerate(("old", "s", "s", "s")):
                items = [said(f"boiler {session} {n}")]
                await call(client, "memory_after_turn", session_id=session, turn_id=str(n), input_items=items)
            shown = await call(client, "memory_before_turn", session_id="s", current_input="which boiler?")
        assert shown["input_items"][3:] == [said("boiler s 3"), said("which boiler?")]
        assert '"earlier":' in str(shown["input_items"][2])
        told = str(shown["input_items"][1])
        assert [told.count(f"boiler s {n}") for n in (1, 2)] in ([0, 1], [1, 0])
        assert "boiler old" not in told
    finally:
        await ana.http.aclose()
        await made.close()


def test_trap_11_values_keep_their_case_are_cut_between_characters_and_words_are_whole() -> None:
    def values(text: str, role: str = "user") -> list[str]:
        return [fact.value for fact in find_facts(MessageText(role, text, None), 0)]

    assert values("My name is Alice McDonald.") == ["Alice McDonald"]
    assert values("Hawaii likes what Mimi likes") == []
    long = values(f"I prefer {'é' * 200}")
    assert all(len(value.encode()) <= MAX_VALUE_BYTES for value in long)
    assert values("My name is Bob.", "assistant") == []


@pytest.mark.law("L2")
async def test_trap_17_a_turn_is_known_however_many_came_after_it(world: World, ana: Tenant) -> None:
    def turn(n: int) -> dict[str, Any]:
        return {"session_id": "s", "turn_id": str(n), "messages": [{"role": "user", "content": f"turn {n}"}]}

    for first in range(0, 1100, 500):
        turns = [turn(n) for n in range(first, min(first + 500, 1100))]
        assert (await ana.http.post("/api/v1/turns:batch", json={"turns": turns})).status_code == 200
    events = await count_events(world, ana)
    assert (await ana.http.post("/api/v1/turns", json=turn(0))).json()["duplicate"] is True
    assert await count_events(world, ana) == events


@pytest.mark.law("L8")
async def test_thirty_turns_with_the_frame_quoted_split_and_escaped_keep_no_echo(world: World, ana: Tenant) -> None:
    """The history echo of the contract's gates: 0.0, over both eras of the protocol."""
    half = len(FRAME) // 2

    def carriers(n: int, prepared: list[Any]) -> list[Any]:
        quoted = f"```\n{FRAME}\n``` turn {n}"
        split = {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": FRAME[:half]}, {"type": "input_text", "text": f"{FRAME[half:]} turn {n}"},
        ]}  # fmt: skip
        told = json.dumps({"log": f"{FRAME} turn {n}"}).replace("<", "\\u003c").replace(">", "\\u003e")
        output = {"type": "function_call_output", "call_id": f"c{n}", "output": told}
        call_item = {"type": "function_call", "call_id": f"c{n}", "name": "look", "arguments": "{}"}
        lines = "\n".join(f"> {line}" for line in FRAME.split("\n"))
        marked = said(f"{lines}\n turn {n}")
        return [prepared, [said(quoted)], [split], [call_item, output], [marked]][n % 5]

    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client_of(world, ana, era)) for era in ERAS]
        for n in range(30):
            client, asked = clients[n % 3], said(f"turn {n}: the boiler of house {n}")
            shown = await call(client, "memory_before_turn", session_id="s", turn_id=str(n), current_input=[asked])
            given = carriers(n, shown["input_items"])
            given = given if given[-1] == asked else [*given, asked]
            answer = [said(f"answer {n}", "assistant")]
            await call(
                client, "memory_after_turn", session_id="s", turn_id=str(n), input_items=given, output_items=answer
            )
    rows = await world.sql(
        "select content from afterturn.agent_memory_unit_t where host_id = :h and active", h=host_of(ana)
    )
    echoes = [
        row[0] for row in rows if '"kind": "historical_memory"' in row[0] or '"kind":"historical_memory"' in row[0]
    ]
    assert echoes == []
    # Each house was said once, and stands there once.
    said_once = [sum(f"the boiler of house {n}" == row[0].partition(": ")[2] for row in rows) for n in range(30)]
    assert said_once == [1] * 30


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


async def test_no_arguments_whatever_are_an_internal_error(ana: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fuzz: each tool, each of its arguments and some that it has not, with values of every kind."""
    monkeypatch.setattr(session_calls, "WAIT_S", 0.0)  # there is no worker to wait for
    tried: list[tuple[str, dict[str, Any]]] = []

    @settings(max_examples=15, database=None)
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        for name, tool in TOOLS.items():
            names = st.sampled_from([*tool.takes.model_fields, "unknown"])
            drawn = data.draw(st.dictionaries(names, json_values, max_size=4))
            place = {"session_id": "fuzz"} if "session_id" in tool.takes.model_fields else {}
            tried.append((name, {**place, **drawn}))

    draw()
    for name, drawn in tried:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": drawn}}
        reply = await ana.http.post("/mcp", content=json.dumps(body), headers=FUZZ)
        assert reply.status_code < 500, (name, drawn, reply.text)
        result = reply.json().get("result", {})
        if result.get("isError"):
            assert json.loads(result["content"][0]["text"])["code"] == "INVALID_ARGUMENT", (name, drawn)
    assert {name for name, _ in tried} == set(TOOLS)


def host_of(tenant: Tenant) -> Any:
    return identity.host_id(tenant.host)


@each_row("trap", TRAPS)
def test_every_trap_of_the_contract_has_its_tests(trap: int) -> None:
    assert find_missing(TRAPS[trap]) == []


def test_the_contracts_eighteen_traps_are_all_there() -> None:
    assert list(TRAPS) == list(range(1, 19))
    assert all(TRAPS.values())
