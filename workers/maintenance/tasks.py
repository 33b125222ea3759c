"""The registry of maintenance tasks: interval, batch and dry-run count of each."""

import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from producers.service.session_summaries import Summariser
from store.database import Database
from store.derived.vector_indexes import VectorIndexes
from store.erasure import Erasures, ErasureTarget, Kind, Receipt
from store.errors import ResourceBusy
from store.maintenance import MORE, Consolidation, ExpiryTask, FoundBank, PrunedBatch, Pruning, WordReanalysis
from store.memory.session_digests import SessionDigests
from store.memory.session_summaries import SessionPlace, SessionSummaries
from store.recall.accuracy_check import StoredBank, compare_searches, find_stored_banks
from store.recall.jobs import RecallJobs
from store.recall.settings import RecallSettings
from workers.maintenance.bank_scan import BankScan, SessionScan, count_all
from workers.metrics import RECALL_COMPARED, RECALL_FOUND
from workers.settings import MaintenanceSettings

#: How long one batch works on an erasure; another worker may run the next batch.
ERASE_FOR = timedelta(seconds=5)
#: A claim whose lease ran out this long ago belongs to a dead worker.
CLAIM_GRACE = timedelta(minutes=1)
#: How long one batch reads a session into its digest, in seconds.
DIGEST_S = 1.0
#: Units of one bank that serve as questions of a check of recall: an exact search of a large bank is costly.
CHECKED_UNITS = 3
#: Why a task of sessions is off.
NOT_PERIODIC = "maintenance.sessions is not `periodic`"


@dataclass(frozen=True, slots=True)
class Task:
    """A maintenance task: `step` does one batch from a place on, `count` returns how much there is to do in all.

    `off`: why the task is switched off, if it is. `longest_s`: a run is cut off after this many seconds, and the next
    one is due as if it had finished.
    """

    name: str
    every: timedelta
    step: Callable[[str | None], Awaitable[PrunedBatch]]
    count: Callable[[], Awaitable[int]]
    off: str | None = None
    longest_s: float | None = None


@dataclass(frozen=True, slots=True)
class Needs:
    """The dependencies of the tasks."""

    pruning: Pruning
    jobs: RecallJobs
    erasures: Erasures
    settings: MaintenanceSettings
    clock: Callable[[], datetime]
    words: WordReanalysis
    ending: ExpiryTask
    consolidation: Consolidation
    summaries: SessionSummaries
    digests: SessionDigests
    summariser: Summariser | None = None

    def before(self, days: float) -> datetime:
        """Return the time this many days ago."""
        return self.clock() - timedelta(days=days)


def build_tasks(needs: Needs) -> Sequence[Task]:
    """Return every task, also those that are off, in the order in which they run."""
    return (
        _recall_jobs(needs),
        _open_turns_task(needs),
        _erasures_task(needs),
        _words_task(needs),
        _claims_task(needs),
        _ledger_task(needs),
        _late_rows_task(needs),
        _audit_task(needs),
        _calls_task(needs),
        _retention_task(needs),
        _ending_task(needs),
        _ended_task(needs),
        _sessions_task(needs),
        _digests_task(needs),
        _consolidation_task(needs),
    )


def _recall_jobs(needs: Needs) -> Task:
    """Return the task that wipes question and answer of expired recall jobs, and a day later deletes their rows."""

    async def step(place: str | None) -> PrunedBatch:
        del place
        gone = await needs.jobs.sweep()
        return PrunedBatch(gone, MORE if gone else None)

    return Task("recall_jobs", timedelta(seconds=30), step, needs.jobs.expired)


def _open_turns_task(needs: Needs) -> Task:
    """Return the task that drops open turns whose output did not come in time."""
    pruning, clock = needs.pruning, needs.clock
    return Task(
        "open_turns",
        timedelta(minutes=5),
        lambda _place: pruning.open_turns(clock()),
        lambda: pruning.expired_turns(clock()),
    )


def _erasures_task(needs: Needs) -> Task:
    """Return the task that continues interrupted erasures, without a second request."""

    async def step(place: str | None) -> PrunedBatch:
        del place
        left = await needs.erasures.list_stalled()
        if not left:
            return PrunedBatch(0, None)
        try:
            receipt = await needs.erasures.run(*left[0], ERASE_FOR)
        except ResourceBusy:
            await needs.erasures.put_off(*left[0])
            return PrunedBatch(0, MORE)
        except Exception:
            # An erasure that fails, perhaps every time, must not keep the others from running.
            await needs.erasures.put_off(*left[0])
            raise
        if not receipt.done:
            await needs.erasures.put_off(*left[0], timedelta())
        return PrunedBatch(int(receipt.done), MORE)

    async def count() -> int:
        return len(await needs.erasures.list_stalled())

    return Task("erasures", timedelta(seconds=30), step, count)


def _words_task(needs: Needs) -> Task:
    """Return the task that analyses words anew in banks whose language changed; recall meanwhile uses both rules."""
    return Task("words", timedelta(seconds=30), lambda _place: needs.words.step(), needs.words.undone)


def _claims_task(needs: Needs) -> Task:
    """Return the task that removes claims of dead workers on streams that have no work left."""
    pruning = needs.pruning
    return Task(
        "claims",
        timedelta(minutes=5),
        lambda _place: pruning.claims(CLAIM_GRACE),
        lambda: pruning.dead_claims(CLAIM_GRACE),
    )


def _ledger_task(needs: Needs) -> Task:
    """Return the task that prunes done rows of the ledger; the outcome of each turn is kept with its guard."""
    return _age_task("ledger", needs, needs.settings.ledger_days, needs.pruning.ledger, needs.pruning.prunable_rows)


def _late_rows_task(needs: Needs) -> Task:
    """Return the task that prunes rows opened for a turn that had left the ledger; daily, as it reads whole stages."""
    pruning, days = needs.pruning, needs.settings.ledger_days
    task = _age_task("ledger", needs, days, pruning.late_rows, pruning.prunable_late_rows)
    return replace(task, name="late_rows", every=timedelta(days=1))


def _audit_task(needs: Needs) -> Task:
    """Return the task that prunes audit rows of calls to the Memory Gateway and their outcomes."""
    return _age_task("audit", needs, needs.settings.audit_days, needs.pruning.audit, needs.pruning.prunable_audit)


def _calls_task(needs: Needs) -> Task:
    """Return the task that prunes the call audit: who called which interface, and the outcome."""
    return _age_task("calls", needs, needs.settings.calls_days, needs.pruning.calls, needs.pruning.prunable_calls)


def _retention_task(needs: Needs) -> Task:
    """Return the task that erases turns past their retention, bank by bank, with a receipt."""
    pruning, erasures = needs.pruning, needs.erasures

    def scan(before: datetime) -> BankScan:
        async def erase(host: UUID, found: FoundBank) -> int | None:
            # One erasure takes only a part of a bank's old turns.
            receipt = await _run_erasure(erasures, host, await erasures.request_old_turns(host, found.bank_id, before))
            if receipt is None:
                return None
            return receipt.counts.get("turns", 0) if receipt.done else 0

        return BankScan(pruning.next_host, pruning.next_bank, erase)

    async def count(before: datetime) -> int:
        aged = [
            await erasures.count_old_turns(host, found.bank_id, before) async for host, found in scan(before).find_all()
        ]
        return sum(aged)

    return _age_task("said", needs, needs.settings.said_days, lambda before, place: scan(before).step(place), count)


def _ending_task(needs: Needs) -> Task:
    """Return the task that writes the end of expired units and banks as an event; reads already leave them out."""
    pruning, ending = needs.pruning, needs.ending

    async def end(host: UUID, found: FoundBank) -> int | None:
        return await ending.end(host, found) or None

    scan, count = (
        BankScan(pruning.next_host, ending.find_ending, end),
        partial(count_all, pruning.next_host, ending.count),
    )
    return Task("ending", timedelta(minutes=1), scan.step, count)


def _ended_task(needs: Needs) -> Task:
    """Return the task that erases the text of units and banks that have expired, bank by bank, with a receipt."""
    pruning, ending, erasures = needs.pruning, needs.ending, needs.erasures

    def scan(before: datetime) -> BankScan:
        async def erase(host: UUID, found: FoundBank) -> int | None:
            erasure = await (
                erasures.request_ended_units(host, found.bank_id, before)
                if found.bank_name is None
                else erasures.request(host, ErasureTarget(Kind.BANK, found.bank_name))
            )
            receipt = await _run_erasure(erasures, host, erasure)
            return None if receipt is None else int(receipt.done)

        return BankScan(pruning.next_host, lambda host, after: ending.find_ended(host, after, before), erase)

    async def count(before: datetime) -> int:
        return len([found async for found in scan(before).find_all()])

    return _age_task("ended", needs, needs.settings.ended_days, lambda before, place: scan(before).step(place), count)


def _sessions_task(needs: Needs) -> Task:
    """Return the task that summarises long sessions that the stage after a turn left, or whose summary was erased."""
    summariser, every = needs.summariser, timedelta(minutes=5)
    if summariser is None or needs.settings.sessions == "tool":
        return Task("sessions", every, _empty_page, _count_none, NOT_PERIODIC)
    found = summariser

    async def summarise(due: Sequence[SessionPlace]) -> tuple[int, bool]:
        return sum([(await found.summarise(one)).messages > 0 for one in due]), False

    scan = SessionScan(needs.pruning.next_host, found.summaries.list_sessions, found.find_due, summarise)
    return Task("sessions", every, scan.step, scan.count)


def _digests_task(needs: Needs) -> Task:
    """Return the task that reads messages into the digests of sessions: those that the stage after a turn left.

    Nothing is removed. What cannot be read now is left to the next run.
    """
    digests = needs.digests

    async def read(behind: Sequence[SessionPlace]) -> tuple[int, bool]:
        return 0, bool(behind and await digests.extend(behind[0], time.monotonic() + DIGEST_S))

    scan = SessionScan(needs.pruning.next_host, needs.summaries.list_sessions, digests.find_behind, read)
    return Task("digests", timedelta(minutes=5), scan.step, scan.count)


def _consolidation_task(needs: Needs) -> Task:
    """Return the task that links facts to the newer ones that say the same, bank by bank; it removes nothing."""
    pruning, consolidation, every = needs.pruning, needs.consolidation, timedelta(minutes=5)
    if needs.settings.sessions == "tool":
        return Task("consolidation", every, _empty_page, _count_none, NOT_PERIODIC)

    async def link(host: UUID, found: FoundBank) -> int | None:
        return 0 if await consolidation.consolidate(host, found.bank_id) else None

    scan = BankScan(pruning.next_host, consolidation.find_bank, link)
    return Task("consolidation", every, scan.step, partial(count_all, pruning.next_host, consolidation.count))


async def _run_erasure(erasures: Erasures, host: UUID, erasure: UUID | None) -> Receipt | None:
    """Run an erasure for a while; return its receipt, or None where there is none to run."""
    return None if erasure is None else await erasures.run(host, erasure, ERASE_FOR)


def _age_task(
    name: str,
    needs: Needs,
    days: float | None,
    page: Callable[[datetime, str | None], Awaitable[PrunedBatch]],
    count: Callable[[datetime], Awaitable[int]],
) -> Task:
    """Return a task that prunes rows older than `days`; with None it is off."""
    if days is None:
        return Task(name, timedelta(hours=1), _empty_page, _count_none, f"maintenance.{name}_days is not set")
    kept = days
    return Task(
        name,
        timedelta(hours=1),
        lambda place: page(needs.before(kept), place),
        lambda: count(needs.before(kept)),
    )


async def _empty_page(_place: str | None) -> PrunedBatch:
    return PrunedBatch(0, None)


async def _count_none() -> int:
    return 0


def index_task(indexes: VectorIndexes) -> Task:
    """Return the task that builds missing or outgrown vector indexes; only the database's owner can run it.

    An index is built without blocking other work; a batch takes some seconds.
    """

    async def step(place: str | None) -> PrunedBatch:
        del place
        return PrunedBatch(0, MORE if await indexes.build_some() else None)

    async def count() -> int:
        return len(await indexes.needed())

    return Task("vector_indexes", timedelta(minutes=1), step, count)


def recall_check_task(database: Database, settings: RecallSettings) -> Task:
    """Return the task that compares recall with an exact search in one random large bank, for the metrics."""

    async def large() -> list[StoredBank]:
        return [bank for bank in await find_stored_banks(database) if bank.units > settings.exact_units]

    async def step(place: str | None) -> PrunedBatch:
        del place
        for bank in random.sample(banks := await large(), min(1, len(banks))):
            for check in await compare_searches(database, bank, CHECKED_UNITS, settings):
                RECALL_COMPARED.labels(check.filter).inc(check.there)
                RECALL_FOUND.labels(check.filter).inc(check.found)
        return PrunedBatch(0, None)

    async def count() -> int:
        return len(await large())

    return Task("recall_check", timedelta(hours=1), step, count)
