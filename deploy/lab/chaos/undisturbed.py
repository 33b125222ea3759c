"""Processes the same turns without faults in a second database, with every stage in this process."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from pydantic import SecretStr

from deploy.components.bootstrap import HOST
from deploy.lab.chaos.knowledge import PlannedDirective, PlannedDocument
from deploy.lab.chaos.talk import ChaosTurn
from deploy.lab.constant_embedder import ConstantEmbedder
from embeddings.protocol import Embedder
from embeddings.retry import Backoff
from store import identity
from store.clock import read_machine_time
from store.database import Database
from store.errors import NotFound
from store.ledger.ledger import Ledger
from store.ledger.stages import Stage
from store.memory.directives import Curation, NewDirective
from store.memory.documents import Documents, NewDocument
from store.memory.turns import Appended, NewMessage, NewTurn, TurnStore
from store.settings import DatabaseSettings
from store.tenancy.banks import Banks
from store.tenancy.keys import Keys
from workers.embedding import EmbeddingStage
from workers.extraction.stage import ExtractionStage
from workers.projection import ProjectionStage
from workers.retry import RetryPolicy
from workers.runner import Runner
from workers.stage_work import StageWork

#: Turns per append.
BATCH = 50
POOL_SIZE = 4
LEASE = timedelta(minutes=5)
LIMIT_S = 240.0
PAUSE_S = 0.01


class StagesUnfinished(Exception):
    """The stages could not process the turns even without faults."""


async def ingest_undisturbed(
    app_url: str,
    operator_url: str,
    turns: Sequence[ChaosTurn],
    papers: Sequence[PlannedDocument],
    rules: Sequence[PlannedDirective],
) -> None:
    """Append these turns, documents and directives, each in this order, and process them in every stage.

    Raises StagesUnfinished.
    """
    async with _open_database(app_url, operator_url) as database:
        await Keys(database).create(HOST, "undisturbed")
        await _write_knowledge(database, papers, rules)
        store = TurnStore(database, read_machine_time)
        for start in range(0, len(turns), BATCH):
            some = [_make_turn(turn) for turn in turns[start : start + BATCH]]
            answers = await store.append(identity.host_id(HOST), some)
            if not all(isinstance(answer, Appended) for answer in answers):
                raise StagesUnfinished("a turn was refused")
        await run_all_stages(database, ConstantEmbedder())


async def _write_knowledge(
    database: Database, papers: Sequence[PlannedDocument], rules: Sequence[PlannedDirective]
) -> None:
    """Write documents and directives as the API does, once for each accepted change."""
    host, curation, documents = (
        identity.host_id(HOST),
        Curation(database, read_machine_time),
        Documents(database, read_machine_time),
    )
    for bank in {one.bank for one in papers} | {one.bank for one in rules}:
        await Banks(database, read_machine_time).create(host, None, bank)
    for paper in papers:
        await documents.add(host, NewDocument(paper.bank, paper.digest, paper.content, occurred_at=paper.at))
    for rule in rules:
        if rule.content is not None:
            await curation.lay_down(host, rule.bank, NewDirective(rule.name, rule.content, rule.priority))
        else:
            with suppress(NotFound):  # as in the service: it had ended before, or never existed
                await curation.withdraw(host, rule.bank, rule.id)


@asynccontextmanager
async def _open_database(app_url: str, operator_url: str) -> AsyncIterator[Database]:
    app, operator = SecretStr(app_url), SecretStr(operator_url)
    database = Database(DatabaseSettings(url=app, operator_url=operator, pool_size=POOL_SIZE))
    try:
        yield database
    finally:
        await database.close()


async def run_all_stages(database: Database, embedder: Embedder) -> None:
    """Process all undone work, stage by stage, in this process. Raises StagesUnfinished."""
    ledger = Ledger(database)
    stages: Sequence[StageWork] = (
        ExtractionStage(database),
        EmbeddingStage(database, embedder),
        ProjectionStage(database),
    )
    runners = {stage.stage: _create_runner(ledger, stage) for stage in stages}
    until = time.monotonic() + LIMIT_S
    while undone := await _find_undone_stages(ledger):
        if time.monotonic() > until or not undone <= set(runners):
            raise StagesUnfinished(f"work was left: {', '.join(sorted(undone))}")
        for stage in undone:
            await runners[stage].drain()
        await asyncio.sleep(PAUSE_S)


async def _find_undone_stages(ledger: Ledger) -> set[Stage]:
    found = await ledger.gauges()
    return {stage for stage, one in found.items() if one.counts["pending"] or one.counts["running"]}


def _create_runner(ledger: Ledger, work: StageWork) -> Runner:
    retry_policy = RetryPolicy(Backoff(), 3)
    return Runner(
        ledger=ledger, work=work, notify=_notify_none, retry_policy=retry_policy, lease=LEASE, worker="undisturbed:0:0"
    )


def _make_turn(turn: ChaosTurn) -> NewTurn:
    """Return a turn as the API passes it to the store, without a gateway, which changes no compared table."""
    messages = [NewMessage("user", turn.asked), NewMessage("assistant", turn.answered)]
    return NewTurn(turn.bank, turn.session, turn.name, messages, turn.user, turn.at)


def _notify_none(_stage: Stage) -> None:
    """Send no notification, because the only worker polls."""
