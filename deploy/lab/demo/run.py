"""`afterturn demo`: stores a household's conversations in a real stack, asks about them, and returns the results."""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from uuid import UUID

from afterturn_client import AsyncAfterturn
from afterturn_client.calls import RecallOptions
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sqlalchemy import text

from deploy.lab.demo.data import DemoData, DemoQuestion, DemoTurn, FreshWrite, TurnName
from deploy.lab.demo.outcome import (
    FRESH_FIRST,
    DemoOutcome,
    DemoStageCounts,
    EntityRow,
    FreshAnswer,
    RankedAnswer,
    RecalledTurn,
)
from deploy.lab.worker_pause import pause_workers
from deploy.local.private_stack import run_private_stack
from deploy.local.stack import Stack
from store import identity
from store.database import Database
from store.ledger.ledger import PUBLIC_STATUSES
from store.ledger.stages import TURN_STAGES
from store.settings import DatabaseSettings

# Mentions and co-occurrences of an alias count for its canonical entity. An entity without a profile stands for itself.
MOST_MENTIONED = text("""
    with known as materialized (
        select e.entity_id, coalesce(p.canonical_id, e.entity_id) as head, e.mention_count,
               coalesce(p.name, e.canonical_name) as name, coalesce(p.kind, e.metadata->>'kind', '') as kind
          from afterturn.agent_memory_entity_t e
          left join afterturn.entity_profile_t p
            on p.host_id = e.host_id and p.bank_id = e.bank_id and p.entity_id = e.entity_id
         where e.host_id = :host and e.bank_id = :bank and e.active
    ), heads as (
        select k.head, sum(k.mention_count)::int as mentions from known k group by 1
    ), top as (
        select h.head, h.mentions, k.name, k.kind from heads h join known k on k.entity_id = h.head
         order by h.mentions desc, k.name, h.head limit :limit
    )
    select t.name, t.kind, t.mentions, b.names, b.counts
      from top t
      cross join lateral (
            select coalesce(array_agg(n.name order by n.units desc, n.name, n.entity_id), '{}') as names,
                   coalesce(array_agg(n.units order by n.units desc, n.name, n.entity_id), '{}') as counts
              from (select o.entity_id, o.name, sum(c.cooccur_count)::int as units
                      from known m
                      join lateral (
                            select c.entity_id_2 as other, c.cooccur_count
                              from afterturn.agent_memory_entity_cooccur_t c
                             where c.host_id = :host and c.bank_id = :bank and c.entity_id_1 = m.entity_id
                            union all
                            select c.entity_id_1, c.cooccur_count from afterturn.agent_memory_entity_cooccur_t c
                             where c.host_id = :host and c.bank_id = :bank and c.entity_id_2 = m.entity_id) c on true
                      join known k on k.entity_id = c.other
                      join known o on o.entity_id = k.head
                     where m.head = t.head and o.entity_id <> t.head
                     group by o.entity_id, o.name
                     order by units desc, o.name, o.entity_id limit :beside) n) b
     order by t.mentions desc, t.name, t.head""")


async def most_mentioned(
    database: Database, host: UUID, bank: str, *, limit: int = 10, beside: int = 3
) -> Sequence[EntityRow]:
    """Return the most mentioned entities of a bank with their strongest co-occurrences."""
    arguments = {"host": host, "bank": identity.bank_id(host, bank), "limit": limit, "beside": beside}
    async with database.tenant(host) as connection:
        rows = (await connection.execute(MOST_MENTIONED, arguments)).all()
    return [EntityRow(r.name, r.kind, r.mentions, tuple(zip(r.names, r.counts, strict=True))) for r in rows]


BANK = "demo"
HOST = "default"
#: The session of the read-your-writes check.
FRESH_SESSION = "read-your-writes"
#: Longest wait for the stages, in seconds, long enough for a busy machine.
SETTLE_SECONDS = 300
POLL_SECONDS = 0.25

Advance = Callable[[], None]


def play_demo(data: DemoData, progress: Progress, show: Callable[[Stack, DemoOutcome], None]) -> DemoOutcome:
    """Run the whole demo on a private stack, have its outcome shown while the stack still runs, and return it."""
    began = time.monotonic()
    with progress:
        starting = progress.add_task("starting PostgreSQL, Valkey, API, workers", total=1)
        with run_private_stack(name="demo") as stack:
            progress.advance(starting)
            outcome = asyncio.run(_play_on_stack(data, stack, progress, began))
            progress.stop()
            show(stack, outcome)
            return outcome


def create_progress_bar(console: Console) -> Progress:
    """Return the progress display of the demo."""
    columns = (TextColumn("{task.description:<42}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console)


async def _play_on_stack(data: DemoData, stack: Stack, progress: Progress, began: float) -> DemoOutcome:
    def bar(what: str, total: int) -> Advance:
        task = progress.add_task(what, total=total)
        return lambda: progress.advance(task)

    async with AsyncAfterturn(stack.api, stack.api_key(), bank=BANK, allow_http=True) as memory:
        await _send_turns(
            memory, data.turns, bar(f"{len(data.turns)} turns in {len(data.sessions)} sessions", len(data.turns))
        )
        stages = await _wait_until_settled(memory, data.turns, progress)
        answers = await _ask_questions(memory, data.questions, bar("questions", len(data.questions)))
        with pause_workers(stack):
            fresh = await _write_and_ask(
                memory, data.writes, bar("write, then ask at once; workers paused", len(data.writes))
            )
        entities = await _read_entities(stack)
        return DemoOutcome(len(data.turns), stages, answers, fresh, entities, time.monotonic() - began)


async def _send_turns(memory: AsyncAfterturn, turns: tuple[DemoTurn, ...], advance: Advance) -> None:
    """Send every turn, as an agent would when it ends."""
    for turn in turns:
        await memory.add_turn(
            turn.session_id,
            [message.model_dump(mode="json") for message in turn.messages],
            turn_id=turn.turn_id,
            user_id=turn.user_id,
            occurred_at=turn.occurred_at.isoformat(),
            bank=turn.bank,
        )
        advance()


async def _wait_until_settled(
    memory: AsyncAfterturn, turns: tuple[DemoTurn, ...], progress: Progress
) -> tuple[DemoStageCounts, ...]:
    """Wait until every turn has passed every stage, and return the counts by state."""
    task = progress.add_task(", ".join(TURN_STAGES), total=len(turns) * len(TURN_STAGES))
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        counts = {stage.value: dict.fromkeys(PUBLIC_STATUSES, 0) for stage in TURN_STAGES}
        for turn in turns:
            status = await memory.turn_status(turn.session_id, turn.turn_id)
            for stage, how in status.stages.items():
                counts[stage][how.status] += 1
        undone = sum(c["pending"] + c["running"] for c in counts.values())
        progress.update(task, completed=len(turns) * len(TURN_STAGES) - undone)
        if not undone or time.monotonic() > deadline:
            return tuple(DemoStageCounts.of(stage, c) for stage, c in counts.items())
        await asyncio.sleep(POLL_SECONDS)


async def _ask_questions(
    memory: AsyncAfterturn, questions: tuple[DemoQuestion, ...], advance: Advance
) -> tuple[RankedAnswer, ...]:
    answers = []
    for question in questions:
        results, took_ms = await _time_recall(memory, question.question)
        answers.append(RankedAnswer(question, results, took_ms))
        advance()
    return tuple(answers)


async def _write_and_ask(
    memory: AsyncAfterturn, writes: tuple[FreshWrite, ...], advance: Advance
) -> tuple[FreshAnswer, ...]:
    """Write each text as a turn and ask for it at once, while the workers are paused; return the answers."""
    answers = []
    for number, write in enumerate(writes, start=1):
        name = TurnName(session_id=FRESH_SESSION, turn_id=f"w{number:02}")
        message = {"role": "user", "name": "Ines", "content": write.text}
        await memory.add_turn(
            name.session_id, [message], turn_id=name.turn_id, occurred_at=datetime.now(UTC).isoformat()
        )
        results, took_ms = await _time_recall(memory, write.ask, session_id=name.session_id)
        rank = next((place for place, one in enumerate(results, start=1) if one.turn == name), None)
        answers.append(FreshAnswer(write, rank, took_ms))
        advance()
    return tuple(answers)


async def _time_recall(
    memory: AsyncAfterturn, query: str, session_id: str | None = None
) -> tuple[tuple[RecalledTurn, ...], float]:
    """Recall over HTTP; return the results and the milliseconds of the whole call."""
    options: RecallOptions = {"k": FRESH_FIRST}
    if session_id:
        options["session_id"] = session_id
    began = time.perf_counter()
    answer = await memory.recall(query, **options)
    took_ms = (time.perf_counter() - began) * 1000
    return tuple(RecalledTurn(one.text, _name_turn(one.session_id, one.turn_id)) for one in answer.results), took_ms


def _name_turn(session_id: str | None, turn_id: str | None) -> TurnName | None:
    return TurnName(session_id=session_id, turn_id=turn_id) if session_id and turn_id else None


async def _read_entities(stack: Stack) -> tuple[EntityRow, ...]:
    database = Database(DatabaseSettings(url=stack.database_url, operator_url=stack.operator_url))
    try:
        found = await most_mentioned(database, identity.host_id(HOST), BANK)
    finally:
        await database.close()
    return tuple(found)
