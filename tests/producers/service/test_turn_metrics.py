"""The seven metrics of the turn interfaces that the seed names, and one more: their labels, and what each counts."""

from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import REGISTRY

from producers import metrics
from producers.service import session_calls
from store.errors import TurnBusy
from store.memory.turns import TurnStore
from tests.producers.conftest import Tenant, World
from tests.producers.mcp.test_tools import call, client_of, refusal
from tests.producers.service.test_turn_lifecycle import AFTER, BEFORE, after, before, said
from workers.metrics import FACT_WRITE

#: By the seed's names (13.1), with what their labels may say; how long a turn's beginning takes is ours.
NAMES: dict[str, dict[str, set[str]]] = {
    "mcp_memory_before_turn_total": {"status": {"ok", "error"}},
    "mcp_memory_before_turn_duration_ms_count": {},
    "mcp_memory_after_turn_total": {"status": {"ok", "duplicate", "conflict", "busy", "error"}},
    "mcp_memory_after_turn_duration_ms_count": {},
    "mcp_memory_maintenance_total": {"status": {"ok", "going_on", "error"}},
    "mcp_memory_compaction_total": {},
    "mcp_memory_fact_write_total": {"tier": {"L0", "L1", "L2"}},
    "mcp_memory_idempotency_conflicts_total": {},
}
OUTCOMES = [("memory_after_turn", code) for code in ("OK", "TURN_CONFLICT", "INVALID_ARGUMENT")]
Grown = Callable[[], dict[str, float]]


def read_samples() -> dict[str, float]:
    """Return these as they stand: name and label value, with what was counted."""
    return {
        " ".join([one.name, *one.labels.values()]): one.value
        for metric in REGISTRY.collect()
        for one in metric.samples
        if one.name in NAMES
    }


@pytest.fixture
def grown() -> Grown:
    """Return what has grown since the fixture was made, or was asked last."""
    last = read_samples()

    def compare() -> dict[str, float]:
        nonlocal last
        before, last = last, read_samples()
        return {name: value - before[name] for name, value in last.items() if value != before[name]}

    return compare


def test_each_is_there_before_its_first_event_with_the_seeds_labels_alone() -> None:
    assert FACT_WRITE._labelnames == ("tier",)
    found: dict[str, dict[str, set[str]]] = {name: {} for name in NAMES}
    for metric in REGISTRY.collect():
        for one in metric.samples:
            if one.name in NAMES:
                for label, value in one.labels.items():
                    found[one.name].setdefault(label, set()).add(value)
    assert found == NAMES


async def test_a_turn_is_counted_and_timed_once_however_it_ends(
    ana: Tenant, grown: Grown, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = {"mcp_memory_after_turn_duration_ms_count": 1}
    for body, status in (
        (after("1", [said("hello")]), {"mcp_memory_after_turn_total ok": 1}),
        (after("1", [said("hello")]), {"mcp_memory_after_turn_total duplicate": 1}),
        (
            after("1", [said("other")]),
            {"mcp_memory_after_turn_total conflict": 1, "mcp_memory_idempotency_conflicts_total": 1},
        ),
        (after(" ", [said("hello")]), {"mcp_memory_after_turn_total error": 1}),
    ):
        await ana.http.post(AFTER, json=body)
        assert grown() == {**timed, **status}

    async def busy(*_: Any) -> list[Any]:
        return [TurnBusy("held")]

    monkeypatch.setattr(TurnStore, "append", busy)
    monkeypatch.setattr("producers.service.turn_lifecycle.BUSY_S", 0.0)
    assert (await ana.http.post(AFTER, json=after("2", [said("hello")]))).status_code == 409
    assert grown() == {**timed, "mcp_memory_after_turn_total busy": 1}


async def test_a_turn_that_begins_is_counted_and_so_is_a_history_that_is_cut(ana: Tenant, grown: Grown) -> None:
    await ana.http.post(AFTER, json=after("1", [said("long " * 400)]))
    grown()
    assert (await ana.http.post(BEFORE, json=before("short"))).status_code == 200
    timed = {"mcp_memory_before_turn_duration_ms_count": 1}
    assert grown() == {"mcp_memory_before_turn_total ok": 1, **timed}
    assert (await ana.http.post(BEFORE, json=before("short", max_input_tok=50))).status_code == 200
    assert grown() == {"mcp_memory_before_turn_total ok": 1, "mcp_memory_compaction_total": 1, **timed}
    assert (await ana.http.post(BEFORE, json=before("short", session_id=".."))).status_code == 422
    assert grown() == {"mcp_memory_before_turn_total error": 1}


async def test_calls_over_mcp_are_counted_by_tool_and_code(world: World, ana: Tenant) -> None:
    def counted(tool: str, code: str) -> float:
        return float(metrics.TOOL_CALLS.labels(tool, code)._value.get())

    seen = {(tool, code): counted(tool, code) for tool, code in OUTCOMES}
    async with client_of(world, ana) as client:
        await call(client, "memory_after_turn", turn_id="1", input_items=[said("hello")])
        await refusal(client, "memory_after_turn", turn_id="1", input_items=[said("other")])
        await refusal(client, "memory_after_turn", session_id="..")
    assert {one: counted(*one) - before for one, before in seen.items()} == dict.fromkeys(OUTCOMES, 1)


async def test_a_recall_is_no_turn_that_begins(ana: Tenant, grown: Grown) -> None:
    assert (await ana.http.post("/api/v1/recall", json={"query": "where?"})).status_code == 200
    assert grown() == {}


async def test_maintenance_is_counted_by_how_it_ends(
    world: World, ana: Tenant, grown: Grown, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client_of(world, ana) as client:
        await call(client, "memory_run_maintenance")
        assert grown() == {"mcp_memory_maintenance_total ok": 1}
        await refusal(client, "memory_run_maintenance", session_id="..")
        assert grown() == {"mcp_memory_maintenance_total error": 1}
        await call(client, "memory_after_turn", turn_id="1", input_items=[said("My name is Ann.")])
        grown()
        monkeypatch.setattr(session_calls, "WAIT_S", 0.0)
        await call(client, "memory_run_maintenance")
        assert grown() == {"mcp_memory_maintenance_total going_on": 1}


async def test_a_line_of_the_log_has_latency_status_and_the_code_of_a_refusal(
    world: World, ana: Tenant, capsys: pytest.CaptureFixture[str]
) -> None:
    await ana.http.post(AFTER, json=after("1", [said("hello")]))
    await ana.http.post(AFTER, json=after("1", [said("other")]))
    async with client_of(world, ana) as client:
        assert (await refusal(client, "memory_after_turn", session_id=".."))["code"] == "INVALID_ARGUMENT"
    lines = [line for line in "".join(capsys.readouterr()).splitlines() if "after" in line]
    for line, told in zip(lines, ("status=200", "code=TURN_CONFLICT", "code=INVALID_ARGUMENT"), strict=True):
        assert told in line
        assert all(f" {name}=" in line for name in ("ms", "request_id", "status"))
    assert "code=" not in lines[0]
    assert all(f" {name}=" in line for line in lines[:2] for name in ("project", "session", "turn"))
