"""The order of a run: what is to happen while turns are sent has happened before anybody waits for their stages."""

from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from deploy.lab.chaos import run as chaos_run
from deploy.lab.chaos.database_observer import DatabaseObserver
from deploy.lab.chaos.feeder import TrafficSender
from deploy.lab.chaos.gateway import run_gateway
from deploy.lab.chaos.knowledge import KnowledgeWriter
from deploy.lab.chaos.run import Plan, _ChaosRun
from deploy.lab.chaos.sabotage import Sabotage
from deploy.local.stack import Stack, StackNotRunning
from tests.deploy.lab.chaos.conftest import TURNS
from tests.servers import TestPostgres

pytestmark = pytest.mark.slow

WAIT = "update afterturn.ledger_t set status = 'pending' where turn_id = :turn and stage = 'projection' returning 1"
WORKS = "insert into public.afterturn_worker (worker, version, stages) values ('this:1:a', '0', '{}') returning 1"
LEFT = "select 1 from afterturn.ledger_t where turn_id = :turn and stage = 'projection' and undone"


async def _answered_at_once(_sender: TrafficSender | KnowledgeWriter, _stack: Stack) -> None:
    """Stand in for a feeder whose last turn is answered before anybody else did anything."""


def _stack(database: TestPostgres, folder: Path) -> Stack:
    """Return a stack of which there is a database alone."""
    nothing = SecretStr("")
    return Stack(
        pid=0,
        api="",
        metrics="",
        docs="",
        api_key_file=folder / "api-key",
        database_url=nothing,
        operator_url=nothing,
        owner_url=SecretStr(database.owner_url),
        redis_url=nothing,
        postgres_dir=folder,
    )


async def test_a_row_is_dropped_however_soon_the_last_turn_was_answered(
    observer: DatabaseObserver, copied: TestPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sender in (TrafficSender, KnowledgeWriter):
        monkeypatch.setattr(sender, "run", _answered_at_once)
    assert await observer.query(text(WAIT), {"turn": TURNS[0].id})
    assert await observer.query(text(WORKS))
    with run_gateway(tmp_path, slow_seconds=1.0) as gateway:
        plan = Plan(turns=24, workers=1, sabotage=Sabotage.DROP, rounds=0)
        assert await _ChaosRun(plan, _stack(copied, tmp_path), gateway, lambda _: None).to_its_end() == []
    assert not await observer.query(text(LEFT), {"turn": TURNS[0].id})


async def test_no_turn_is_sent_before_every_worker_has_started(
    observer: DatabaseObserver, copied: TestPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault before that would seem to interrupt work for as long as the workers take to start."""
    monkeypatch.setattr(chaos_run, "START_S", 0.1)
    assert await observer.query(text(WORKS))
    said = list[str]()
    with run_gateway(tmp_path, slow_seconds=1.0) as gateway:
        run = _ChaosRun(Plan(turns=24, workers=2), _stack(copied, tmp_path), gateway, said.append)
        with pytest.raises(StackNotRunning, match="less than 2"):
            await run.to_its_end()
    assert said == []
