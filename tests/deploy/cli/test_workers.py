"""`afterturn workers list`, `afterturn worker drain`: what operators see and say; the process: test_worker_process."""

from datetime import timedelta

from sqlalchemy import text

from deploy.cli.operator_command import read_operator_name
from store.ledger.workers import SILENT_S, WorkerRegistry
from store.tenancy.call_audit import CallAudit, CallFilter, Interface
from tests.deploy.operated import Operated

SILENCE = text("update public.afterturn_worker set seen_at = now() - cast(:since as interval)")
FIRST, SECOND = "node1:1:aaaa", "node2:2:bbbb"


async def test_workers_are_listed_and_told_to_drain(operated: Operated) -> None:
    async with operated.opened() as database:
        registry = WorkerRegistry(database)
        await registry.begin(FIRST, "1.2.3", ["extraction", "embedding"])
        await registry.begin(SECOND, "1.2.4", ["gateway"])
        listed = (await operated.answer("workers", "list"))["workers"]
        assert [(one["worker"], one["version"], one["stages"], one["state"], one["claims"]) for one in listed] == [
            (FIRST, "1.2.3", ["extraction", "embedding"], "working", 0),
            (SECOND, "1.2.4", ["gateway"], "working", 0),
        ]
        assert (await operated.answer("worker", "drain", FIRST)) == {"workers": {FIRST: "draining"}}
        assert await registry.beat(FIRST) == "draining"
        assert await registry.beat(SECOND) == "working"
        assert (await operated.run("worker", "drain", FIRST, "--wait", "0s")).exit_code == 1
        assert await registry.beat(FIRST, "drained") == "drained"
        assert (await operated.answer("worker", "drain", "--all")) == {"workers": {SECOND: "draining"}}
        calls = (await CallAudit(database).read(CallFilter(door=Interface.OPERATOR), 10)).calls
        drained = ("POST /api/v1/operator/workers/drain", read_operator_name(), 200)
        assert [(one.operation, one.actor, one.status) for one in calls] == [drained] * 3
    assert (await operated.run("worker", "drain", "nobody")).exit_code == 2
    assert (await operated.run("worker", "drain")).exit_code == 2


async def test_a_worker_that_is_silent_is_told_as_gone_and_cannot_drain(operated: Operated) -> None:
    async with operated.opened() as database:
        registry = WorkerRegistry(database)
        await registry.begin(FIRST, "1.2.3", ["gateway"])
        silent = {"since": timedelta(seconds=2 * SILENT_S)}
        async with database.operator() as connection:
            await connection.execute(
                text("update public.afterturn_worker set seen_at = now() - cast(:since as interval)"), silent
            )
        assert [one.state for one in await registry.list()] == ["gone"]
        assert await registry.drain([FIRST]) == []
        await registry.end(FIRST)
        assert await registry.list() == []
