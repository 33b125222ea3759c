"""What a soak says of a stack: what did not return is named, what allocators keep is not."""

from dataclasses import replace

from deploy.lab.bench.capacity import LoadPhase
from deploy.lab.bench.usage import StackUsage, Usage
from deploy.lab.soak import MIB, Calls, Soaked, describe_growth
from tests.tables import each_row

BEFORE = StackUsage({"api": Usage(1, 200 * MIB, 50, 1.0), "workers": Usage(1, 200 * MIB, 50, 1.0)}, 10, 0)


def grown(memory_mib: int = 0, files: int = 0, connections: int = 0, undone: int = 0) -> StackUsage:
    api = BEFORE.parts["api"]
    api = replace(api, memory_bytes=api.memory_bytes + memory_mib * MIB, files=api.files + files)
    return StackUsage({**BEFORE.parts, "api": api}, BEFORE.connections + connections, undone)


def test_what_allocators_and_pools_keep_is_no_growth() -> None:
    assert describe_growth(BEFORE, grown(memory_mib=40, files=5, connections=3)) == []


@each_row(
    "after, named",
    [
        (grown(memory_mib=200), "memory"),
        (grown(files=40), "open files"),
        (grown(connections=20), "connections"),
        (grown(undone=1), "ledger"),
    ],
)
def test_what_did_not_return_is_named_and_fails_the_run(after: StackUsage, named: str) -> None:
    soaked = Soaked(3, Calls(), BEFORE, [BEFORE, after], after)
    [failure] = soaked.failures
    assert failure.startswith(named)
    assert soaked.as_json()["failures"] == [failure]


def test_a_call_that_failed_fails_the_run() -> None:
    calls = Calls()
    calls.failed["recall"] += 2
    assert Soaked(3, calls, BEFORE, [BEFORE], BEFORE).failures == ["recall: 2 calls failed"]


def test_capacity_is_by_the_processor_time_that_was_spent() -> None:
    phase = LoadPhase(calls=100, seconds=10.0, cpu_s={"api": 1.0, "workers": 3.0})
    assert (phase.per_core("api"), phase.per_core()) == (100.0, 25.0)
    assert phase.as_json()["per_s"] == 10.0
