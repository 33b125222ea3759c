"""`afterturn bench attacks`: attacks are named and bounded, a victim is measured beside each, failures are reported."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import psutil
import pytest
from sqlalchemy import NullPool, text
from typer.testing import CliRunner

from deploy.cli.app import build_cli
from deploy.lab.bench.attacks import run
from deploy.lab.bench.attacks.attack import RequiredEnding, attack
from deploy.lab.bench.attacks.attacker import ABORTED, CLOSED, NO_ANSWER, NOT_WORKED_OFF, Attacker, classify_ending
from deploy.lab.bench.attacks.report import AttackOutcome, AttackReport, Baseline, take_medians
from deploy.lab.bench.attacks.run import ATTACKS, AttackRound, TenantFactory
from deploy.lab.bench.attacks.victim import Victim, VictimCall, compute_call_p95_ms
from deploy.lab.bench.measures import Machine
from store.connections import create_owner_engine
from tests.tables import each_row

QUIET = Baseline(turn_p95_ms=30.0, recall_p95_ms=100.0, stages_p95_s=1.0)


async def _send(_attacker: Attacker) -> None:
    """Send nothing."""


HELD = AttackReport(
    attack("large_thing", "a large thing", RequiredEnding.BE_REFUSED)(_send),
    endings={"413 PAYLOAD_TOO_LARGE": 2},
    bystander_refused=0,
    seconds=5.0,
    turn_p95_ms=140.0,
    recall_p95_ms=350.0,
    stages_p95_s=6.0,
    victim_failed=0,
    memory_mib={"api": 3.0},
    restarts=(),
    disk_mib=1.0,
    quiet=QUIET,
)


def test_every_attack_has_a_name_of_its_own_and_says_what_it_sends() -> None:
    names = [one.name for one in ATTACKS]
    assert len(set(names)) == len(names) >= 24
    assert all(name.replace("_", "").isalnum() and name.islower() for name in names)
    assert all(one.does for one in ATTACKS)


def test_the_bench_ends_within_six_minutes_where_every_attack_is_held() -> None:
    assert sum(one.seconds for one in ATTACKS) <= 300


@pytest.mark.parametrize(
    "must, right, wrong",
    [
        (
            RequiredEnding.BE_CUT_OFF,
            ["431", "400", "408", "408 REQUEST_TIMEOUT", "429 RATE_LIMITED", CLOSED, ABORTED],
            ["200", "401 X"],
        ),
        (
            RequiredEnding.BE_REFUSED,
            ["413 PAYLOAD_TOO_LARGE", "422 INVALID_ARGUMENT", "400 -32600", "503 UNAVAILABLE"],
            ["200", "201", "413"],
        ),
        (RequiredEnding.BE_ANSWERED, ["200", "201", "202", "204", "429 RATE_LIMITED"], [CLOSED, "400"]),
    ],
)
def test_how_a_call_may_end(must: RequiredEnding, right: list[str], wrong: list[str]) -> None:
    assert [ending for ending in [*right, *wrong] if must.allows(ending)] == right
    assert not any(must.allows(ending) for ending in (NO_ANSWER, NOT_WORKED_OFF, "500 INTERNAL", "500", "502", ""))


@each_row(
    "status, body, ending",
    [
        (201, b'{"ok": true}', "201"),
        (413, b'{"error": {"code": "PAYLOAD_TOO_LARGE"}}', "413 PAYLOAD_TOO_LARGE"),
        (400, b"Invalid HTTP request received.", "400"),
        (500, b'{"error": "x"}', "500"),
    ],
)
def test_an_ending_is_a_status_and_the_code_of_an_error(status: int, body: bytes, ending: str) -> None:
    assert classify_ending(status, body) == ending


@each_row(
    "changed, failure",
    [
        ({"turn_p95_ms": 141.0}, "large_thing_turn_p95 is 141 ms"),
        ({"recall_p95_ms": 351.0}, "large_thing_recall_p95 is 351 ms"),
        ({"stages_p95_s": 6.1}, "large_thing_stages_p95 is 6 s"),
        ({"endings": {"201": 1}}, "1 calls ended with 201"),
        ({"victim_failed": 2}, "2 calls of the victim failed"),
        ({"bystander_refused": 1}, "1 calls of a third tenant were refused"),
        ({"restarts": ("api",)}, "api ended"),
    ],
)
def test_what_does_not_hold_is_told_and_three_times_quiet_and_50_ms_do(
    changed: Mapping[str, Any], failure: str
) -> None:
    machine = Machine(2, "18", "0.8")
    assert AttackOutcome(machine, QUIET, [HELD]).met
    wrong = replace(HELD, **changed)
    outcome = AttackOutcome(machine, QUIET, [HELD, wrong])
    assert (wrong.failures, outcome.met) == ([failure], False)
    assert [one["held"] for one in outcome.as_json()["attacks"]] == [True, False]


def test_each_attack_has_the_figures_of_others_and_the_quiet_ones_stand_beside_them() -> None:
    shown = AttackOutcome(Machine(2, "18", "0.8"), QUIET, [HELD]).as_json()
    rows = {row["measure"]: (row["ours"], row["target"], row["met"]) for row in shown["measures"]}
    assert rows == {
        "large_thing_turn_p95": (140.0, "<= 140.0", True),
        "large_thing_recall_p95": (350.0, "<= 350.0", True),
        "large_thing_stages_p95": (6.0, "<= 6.0", True),
    }
    assert shown["parts"] == {
        "quiet_turn_p95_ms": 30.0,
        "quiet_recall_p95_ms": 100.0,
        "quiet_stages_p95_s": 1.0,
    }


@pytest.mark.parametrize(
    "recalls, recall_p95_ms, quiet_again, target_ms",
    [
        ([350.0], 350.0, 0, 350.0),
        ([900.0, 100.0, 120.0], 120.0, 60.0, 290.0),
        ([900.0, 100.0, 800.0], 800.0, 120.0, 380.0),
    ],
)
def test_an_attack_that_misses_is_made_three_times_after_more_quiet_and_the_medians_count(
    recalls: list[float], recall_p95_ms: float, quiet_again: float, target_ms: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(recalls)

    async def make_once(_round: AttackRound, _attack: object) -> AttackReport:
        return replace(HELD, recall_p95_ms=next(left))

    async def measure_baseline(*_: object) -> Baseline:
        return replace(QUIET, recall_p95_ms=quiet_again)

    monkeypatch.setattr(AttackRound, "_make_once", make_once)
    monkeypatch.setattr(run, "_measure_baseline", measure_baseline)
    nowhere = cast("TenantFactory", None)
    report = asyncio.run(AttackRound(nowhere, Victim(0.0), QUIET, 24).make(HELD.attack))
    assert (report.made, report.recall_p95_ms, next(left, None)) == (len(recalls), recall_p95_ms, None)
    assert report.quiet.recall_target_ms == target_ms


def test_no_failed_call_of_a_repeated_attack_is_outvoted() -> None:
    wrong = replace(HELD, endings={"201": 1}, victim_failed=1, restarts=("api",), memory_mib={"api": 9.0})
    report = take_medians([HELD, wrong, HELD])
    assert (dict(report.endings), report.victim_failed, report.restarts, report.memory_mib) == (
        {"413 PAYLOAD_TOO_LARGE": 4, "201": 1},
        1,
        ["api"],
        {"api": 9.0},
    )


def test_a_percentile_is_of_one_kind_of_call() -> None:
    felt = [VictimCall("turn", n, n / 1000, well=True) for n in range(100)] + [
        VictimCall("recall", 0.0, 9.0, well=True)
    ]
    assert compute_call_p95_ms(felt, "turn") == pytest.approx(94.0)


def test_an_attack_that_there_is_none_of_is_wrong_usage() -> None:
    done = CliRunner().invoke(build_cli("bench"), ["bench", "attacks", "--only", "arson"])
    assert (done.exit_code, "large_header" in done.output) == (2, True)


@pytest.mark.nightly
@pytest.mark.xdist_group("attacks")
def test_a_run_measures_the_victim_counts_how_calls_ended_and_leaves_no_row_of_its_tenants() -> None:
    sizes = run.select_attacks(run.AttackSizes(quiet=2), ("large_url", "job_filters"))
    with run.servers() as on:
        pids = [on.stack.pid, *(process.pid for process in on.stack.processes)]
        outcome = asyncio.run(run.run(on, lambda _: None, sizes))
        left = asyncio.run(_tenants_left(on.stack.owner_url.get_secret_value()))
    assert not any(psutil.pid_exists(pid) for pid in pids)
    shown = json.loads(json.dumps(outcome.as_json()))
    assert [one["attack"] for one in shown["attacks"]] == ["large_url", "job_filters"]
    for one in shown["attacks"]:
        assert one["seconds"] >= 5.0
        assert sum(one["endings"].values()) > 0
        assert "api" in one["memory_mib"]
    assert all(row["ours"] > 0 for row in shown["measures"])
    assert left == {"default", "victim"}


async def _tenants_left(owner_url: str) -> set[str]:
    engine = create_owner_engine(owner_url, poolclass=NullPool)
    async with engine.connect() as connection:
        names = [row.name for row in await connection.execute(text("select name from afterturn.host_t"))]
    await engine.dispose()
    return {name.partition("-")[0] for name in names}
