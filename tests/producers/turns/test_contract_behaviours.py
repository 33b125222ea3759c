"""What the contract's own tests check (turn tools, 2.12): `BEHAVIOURS` names ours; its gates are held exactly here."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from producers.service import session_calls
from producers.settings import ApiSettings
from store import identity
from tests.named_tests import find_missing
from tests.producers.conftest import Tenant, World, broker_of, build
from tests.producers.mcp.test_tools import call, client_of, count_events, said
from tests.producers.service.test_profiles import worked_through
from tests.servers import TestPostgres, TestValkey
from tests.tables import each_row

BEFORE, AFTER = "/api/v1/turns/before", "/api/v1/turns/after"
_TRAPS, _CYCLE = "producers/turns/test_turn_traps.py::test_", "producers/service/test_turn_lifecycle.py::test_"
_ITEMS, _TOOLS = "producers/turns/test_turn_items.py::test_", "producers/mcp/test_tools.py::test_"
_SUMMARIES, _TIERS = "producers/service/test_session_summaries.py::test_", "workers/maintenance/test_tiers.py::test_"
_AGAIN = "workers/maintenance/test_consolidation.py::test_what_is_said_again_"
_HERE = "producers/turns/test_contract_behaviours.py::test_"
_LISTED = f"{_TOOLS}trap_12_and_14_a_session_is_listed_as_the_contracts_directories_and_nothing_is_made"
_GATES = f"{_HERE}the_contracts_gates_hold_exactly"
#: Each clause of 2.12, and the tests (file of `tests`, name) that it would turn red.
BEHAVIOURS: dict[str, tuple[str, ...]] = {
    "name and task are recalled; two days later the task is gone and the name stays": (
        f"{_TIERS}two_days_later_the_task_is_gone_and_the_name_stays",
        f"{_TIERS}a_fact_is_gone_at_the_very_instant_of_its_end",
    ),
    "an idempotent replay writes its events once": (
        f"{_CYCLE}the_same_request_writes_nothing_and_another_is_a_conflict",
    ),
    "an echoed prepared input persists only the delta, never the reference": (
        f"{_CYCLE}what_was_prepared_is_not_kept_again_when_it_comes_back",
        f"{_TRAPS}thirty_turns_with_the_frame_quoted_split_and_escaped_keep_no_echo",
    ),
    "an unchanged fact is told once": (
        f"{_TRAPS}trap_5_and_6_one_value_holds_and_a_fact_said_once_is_told_once",
        f"{_AGAIN}is_told_once_in_the_project_and_in_each_session",
    ),
    "compaction under a small budget": (
        f"{_TRAPS}over_the_budget_history_goes_first_then_what_is_told_and_nothing_is_written",
        f"{_SUMMARIES}a_summary_is_written_once_and_only_for_a_session_that_is_long",
        f"{_SUMMARIES}the_threshold_summarises_few_large_items_and_the_rest_stays",
    ),
    "legacy files block a processed turn": (
        "deploy/cli/test_memory.py::test_sessions_come_in_whole_and_again_nothing_is_added",
    ),
    "maintenance sweeps, and keeps abstracts to 200 and overviews to 2,000 words": (
        _LISTED,
        f"{_SUMMARIES}a_listing_tells_topics_people_decisions_and_open_ends_and_nothing_that_is_gone",
        f"{_TOOLS}maintenance_ends_what_is_over",
        f"{_TOOLS}maintenance_says_what_is_left_and_what_was_done",
    ),
    "gate: fact recall, precision and recall 1.0": (_GATES,),
    "gate: durable survival 1.0": (_GATES,),
    "gate: expired suppression 1.0": (_GATES,),
    "gate: idempotency 1.0": (_GATES,),
    "gate: session isolation leak 0.0": (_GATES, f"{_CYCLE}a_session_scope_recalls_nothing_of_other_sessions"),
    "gate: compaction guard 1.0": (
        _GATES,
        f"{_SUMMARIES}a_session_of_two_thousand_items_is_taken_at_every_budget_and_answers_for_its_first_half",
    ),
    "gate: exact dedup 1.0": (_GATES,),
    "gate: history equivalence 1.0": (_GATES, f"{_CYCLE}items_come_back_as_they_were_and_the_input_stands_last"),
    "gate: prompt duplicate rate 0.0": (_GATES,),
    "gate: persisted history echo 0.0": (
        _GATES,
        f"{_TRAPS}thirty_turns_with_the_frame_quoted_split_and_escaped_keep_no_echo",
    ),
    "boundary fuzz": (
        f"{_ITEMS}boundaries_hold_for_numbers_of_any_size",
        f"{_TRAPS}no_arguments_whatever_are_an_internal_error",
    ),
    "adversarial encoding": (
        "producers/http/test_fuzz.py::test_any_bytes_are_answered_by_the_contract",
        f"{_ITEMS}unknown_items_survive_whole_and_binary_becomes_a_digest",
        f"{_ITEMS}stored_text_cannot_close_the_frame",
    ),
    "schema wire pin": (
        f"{_TOOLS}all_tools_are_described_in_little",
        f"{_ITEMS}the_pinned_identity_is_the_contracts",
        "producers/mcp/test_tool_schemas.py::test_what_the_model_takes_its_schema_takes",
    ),
    "server: before, after, after again, maintenance, list, with one guard": (
        f"{_HERE}a_turn_through_all_tools_leaves_one_guard",
    ),
    "server: defaults": (f"{_TOOLS}defaults_of_the_contract_hold",),
    "server: current_input as text, string or object": (
        f"{_TOOLS}clients_of_both_eras_keep_a_turn_and_prepare_the_next",
    ),
    "server: error mapping": (
        f"{_TOOLS}arguments_that_break_a_rule_are_named_and_nothing_is_kept",
        "producers/mcp/test_oversized.py::test_every_code_stands_in_the_table_of_the_page",
    ),
    "server: log redaction": (f"{_CYCLE}trap_15_no_item_is_in_a_log_or_an_audit_row",),
}


@each_row("clause", BEHAVIOURS)
def test_every_behaviour_of_the_contract_has_its_tests(clause: str) -> None:
    assert find_missing(BEHAVIOURS[clause]) == []


@pytest_asyncio.fixture(loop_scope="session")
async def alone(fresh_database: TestPostgres, valkey: TestValkey) -> AsyncIterator[World]:
    """An API whose stages have nobody else's work."""
    made = build(fresh_database, broker_of(valkey.url, f"gates-{uuid4().hex}"), settings=ApiSettings())
    yield made
    await made.close()


#: What each session's user states: a sentence, the fact by id and value, and whether it has passed after three days.
STATED = {
    "monday": (
        ("My name is Ana Lima.", "user_name Ana Lima", False),
        ("I prefer window seats.", "user_preference window seats", False),
        ("Today I need a taxi.", "today_task a taxi", True),
    ),
    "tuesday": (
        ("I like jazz.", "user_like jazz", False),
        ("I live in Porto.", "user_home Porto", False),
        ("I like jazz.", "user_like jazz", False),
    ),
}
LONG_AGO = datetime.now(UTC) - timedelta(days=3)


def turn_of(session: str, nth: int, words: str, at: datetime) -> dict[str, Any]:
    place = {"session_id": session, "turn_id": f"{session}-{nth}", "user_id": "ana", "occurred_at": at.isoformat()}
    return {**place, "input_items": [said(words)], "output_items": [said(f"Noted {nth}.", "assistant")]}


async def prepare(tenant: Tenant, session: str, **more: Any) -> dict[str, Any]:
    asked = {"session_id": session, "turn_id": "next", "user_id": "ana", "current_input": [said("What do you know?")]}
    reply = await tenant.http.post(BEFORE, json={**asked, "scope": "session", "reference": "json", **more})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def told_facts(prepared: dict[str, Any]) -> list[str]:
    items = prepared["input_items"]
    frames = [part["text"] for item in items for part in item["content"] if "<memory_reference>" in part["text"]]
    bodies = [json.loads(text.partition("\n")[2].rpartition("\n")[0]) for text in frames]
    return sorted(f"{one['id']} {one['value']}" for body in bodies for one in body.get("facts", ()))


@pytest.mark.parametrize("worked", [False, True], ids=["before workers", "after workers"])
async def test_the_contracts_gates_hold_exactly(alone: World, *, worked: bool) -> None:
    ana, turns = await alone.tenant(), []
    for session, stated in STATED.items():
        turns += [turn_of(session, nth, words, datetime.now(UTC)) for nth, (words, _, _) in enumerate(stated)]
        turns += [turn_of(f"old {session}", nth, words, LONG_AGO) for nth, (words, _, _) in enumerate(stated)]
    for turn in turns:
        assert (await ana.http.post(AFTER, json=turn)).status_code == 200
    if worked:
        await worked_through(alone)
    # Idempotency: every turn again writes nothing.
    events = await count_events(alone, ana)
    for turn in turns:
        assert (await ana.http.post(AFTER, json=turn)).status_code == 200
    assert await count_events(alone, ana) == events
    for session, stated in STATED.items():
        prepared = await prepare(ana, session)
        # Precision and recall of facts, no leak of the other sessions, and what was said twice is told once.
        assert told_facts(prepared) == sorted({fact for _, fact, _ in stated})
        # What lasts survives, what has passed is suppressed.
        old = await prepare(ana, f"old {session}")
        assert told_facts(old) == sorted({fact for _, fact, passes in stated if not passes})
        # The history is what was handed in, and no item stands twice in the prompt.
        items = prepared["input_items"]
        pairs = [(said(words), said(f"Noted {nth}.", "assistant")) for nth, (words, _, _) in enumerate(stated)]
        expected = [item for pair in pairs for item in pair]
        assert items[-1 - len(expected) :] == [*expected, said("What do you know?")]
        frames = [str(item) for item in items[: -1 - len(expected)]]
        assert len(frames) == len(set(frames))
        told = "".join(frames)
        assert not any(words in told for words, _, _ in stated), "what the history shows is not recalled beside it"
        # The guard of compaction: within the budget, but for what the caller sent.
        for budget in (40, 80, 160, 320):
            cut = await prepare(ana, session, max_input_tok=budget)
            assert cut["context_token_count"] <= budget or cut["input_items"] == [said("What do you know?")]
    # No echo: the prepared input comes back, and only what is new is kept.
    prepared = await prepare(ana, "monday")
    back = {**turn_of("monday", 9, "", datetime.now(UTC)), "input_items": prepared["input_items"]}
    assert (await ana.http.post(AFTER, json=back)).status_code == 200
    rows = await alone.sql(
        "select content from afterturn.agent_memory_unit_t where host_id = :h and session_name = 'monday'"
        " and origin = 'message' order by seq",
        h=identity.host_id(ana.host),
    )
    kept = [text for nth, (words, _, _) in enumerate(STATED["monday"]) for text in (words, f"Noted {nth}.")]
    assert [row.content for row in rows] == [*kept, "What do you know?", "Noted 9."]


async def test_a_turn_through_all_tools_leaves_one_guard(
    world: World, ana: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_calls, "WAIT_S", 0.0)  # there is no worker to wait for
    turn = {"session_id": "s", "turn_id": "1", "input_items": [said("hello")]}
    async with client_of(world, ana) as client:
        assert (await call(client, "memory_before_turn", session_id="s", current_input_text="hello"))["input_items"]
        for _ in range(2):
            assert (await call(client, "memory_after_turn", **turn))["ok"] is True
        assert (await call(client, "memory_run_maintenance", session_id="s"))["ok"] is True
        assert (await call(client, "memory_list_dir_with_abstract", session_id="s"))["summaries"]
    guards = await world.sql("select count(*) from afterturn.turn_t where host_id = :h", h=identity.host_id(ana.host))
    assert guards[0][0] == 1
