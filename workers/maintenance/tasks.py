"""The registry of maintenance tasks: interval, batch and dry-run count of each."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

import structlog

from store.database_outage import is_outage
from store.derived.vector_indexes import VectorIndexes
from store.erasure import Erasures, ErasureTarget, Kind, Receipt
from store.errors import ResourceBusy
from store.maintenance import MORE, ExpiryTask, PrunedBatch, Pruning, WordReanalysis
from store.recall.jobs import RecallJobs
from workers.settings import MaintenanceSettings

log = structlog.get_logger(__name__)

#: How long one batch works on an erasure; another worker may run the next batch.
ERASE_FOR = timedelta(seconds=5)
#: A claim whose lease ran out this long ago belongs to a dead worker.
CLAIM_GRACE = timedelta(minutes=1)

#: The place at which a round over hosts and banks begins.
FIRST = f"{UUID(int=0)} {UUID(int=0)}"


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

    async def step(place: str | None) -> PrunedBatch:
        del place
        return await needs.pruning.open_turns(needs.clock())

    async def count() -> int:
        return await needs.pruning.expired_turns(needs.clock())

    return Task("open_turns", timedelta(minutes=5), step, count)


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

    async def step(place: str | None) -> PrunedBatch:
        del place
        return await needs.words.step()

    return Task("words", timedelta(seconds=30), step, needs.words.undone)


def _claims_task(needs: Needs) -> Task:
    """Return the task that removes claims of dead workers on streams that have no work left."""

    async def step(place: str | None) -> PrunedBatch:
        del place
        return await needs.pruning.claims(CLAIM_GRACE)

    async def count() -> int:
        return await needs.pruning.dead_claims(CLAIM_GRACE)

    return Task("claims", timedelta(minutes=5), step, count)


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

    async def erase(host: UUID, bank: UUID, before: datetime) -> Receipt | None:
        erasure = await erasures.age(host, bank, before)
        return None if erasure is None else await erasures.run(host, erasure, ERASE_FOR)

    async def page(before: datetime, place: str | None) -> PrunedBatch:
        found = await pruning.next_bank(place)
        if found is None:
            return PrunedBatch(0, None)
        host, bank = found
        receipt, failed = await _attempt(erase(host, bank, before))
        if receipt is None:
            return PrunedBatch(0, f"{host} {bank}", failed)
        # The same bank again: one erasure takes only a part of its old turns.
        return PrunedBatch(receipt.counts.get("turns", 0) if receipt.done else 0, place or FIRST)

    async def count(before: datetime) -> int:
        turns, place = 0, FIRST
        while found := await pruning.next_bank(place):
            turns += await erasures.aged(*found, before)
            place = f"{found[0]} {found[1]}"
        return turns

    return _age_task("said", needs, needs.settings.said_days, page, count)


def _ending_task(needs: Needs) -> Task:
    """Return the task that writes the end of expired units and banks as an event; reads already leave them out."""
    return Task("ending", timedelta(minutes=1), needs.ending.step, needs.ending.count)


def _ended_task(needs: Needs) -> Task:
    """Return the task that erases the text of units and banks that have expired, tenant by tenant, with a receipt."""
    ending, erasures = needs.ending, needs.erasures

    async def erase(host: UUID, before: datetime) -> Receipt | None:
        found = await ending.ended(host, before)
        if found is None:
            return None
        erasure = await (
            erasures.ended(host, found.units_of, before)
            if found.units_of is not None
            else erasures.request(host, ErasureTarget(Kind.BANK, found.bank_name))
        )
        return None if erasure is None else await erasures.run(host, erasure, ERASE_FOR)

    async def page(before: datetime, place: str | None) -> PrunedBatch:
        host = await ending.next_host(place)
        if host is None:
            return PrunedBatch(0, None)
        receipt, failed = await _attempt(erase(host, before))
        if receipt is None:
            return PrunedBatch(0, str(host), failed)
        return PrunedBatch(int(receipt.done), place or str(UUID(int=0)))

    async def count(before: datetime) -> int:
        number, place = 0, None
        while (host := await ending.next_host(place)) is not None:
            number += await ending.ended(host, before) is not None
            place = str(host)
        return number

    return _age_task("ended", needs, needs.settings.ended_days, page, count)


async def _attempt(erase: Awaitable[Receipt | None]) -> tuple[Receipt | None, str | None]:
    """Erase in one bank; return the receipt and the kind of an error. A bank that fails keeps no other from its turn.

    Raises only what would stop every bank: an outage of the database.
    """
    try:
        return await erase, None
    except ResourceBusy:
        return None, None  # another transaction holds the bank: it has its turn in the next run
    except Exception as error:
        if is_outage(error):
            raise
        log.warning("retention_of_a_bank_failed", error=type(error).__name__)
        return None, type(error).__name__


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

    async def step(place: str | None) -> PrunedBatch:
        return await page(needs.before(kept), place)

    async def counted() -> int:
        return await count(needs.before(kept))

    return Task(name, timedelta(hours=1), step, counted)


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
