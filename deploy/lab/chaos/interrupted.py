"""Reads the ledger rows that a fault interrupts, and how long they took to recover."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from deploy.lab.chaos.database_observer import DatabaseObserver
from store.ledger.stages import Stage

#: The key of a ledger row: its stage and its item.
LedgerKey = tuple[str, UUID]

IN_WORK = text("""
    select l.stage, l.item_id, c.worker
      from afterturn.claim_t c join afterturn.ledger_t l using (host_id, stage, stream_id)
     where l.undone and l.status <> 'pending'""")
WAITING = text("""
    select stage, item_id from afterturn.ledger_t where undone and status = 'pending' and next_attempt_at <= now()""")
AT_THE_GATEWAY = text("""
    select stage, item_id from afterturn.ledger_t
     where undone and stage = 'gateway' and (status <> 'pending' or attempts > 0)""")


async def read_running_rows(observer: DatabaseObserver) -> dict[int, set[LedgerKey]]:
    """Return the running rows, by the process id of their worker."""
    held: dict[int, set[LedgerKey]] = {}
    for row in await observer.query(IN_WORK):
        held.setdefault(_parse_process_id(row.worker), set()).add((row.stage, row.item_id))
    return held


async def read_waiting_rows(observer: DatabaseObserver) -> set[LedgerKey]:
    """Return the rows that are ready and not yet claimed."""
    return {(row.stage, row.item_id) for row in await observer.query(WAITING)}


async def read_gateway_rows(observer: DatabaseObserver) -> set[LedgerKey]:
    """Return the deliveries that are running, or have failed and will be retried."""
    return {(row.stage, row.item_id) for row in await observer.query(AT_THE_GATEWAY)}


def list_turn_rows(turns: Collection[UUID]) -> set[LedgerKey]:
    """Return the keys of the rows that these turns will have, in every stage."""
    return {(stage.value, turn) for turn in turns for stage in Stage}


def _parse_process_id(worker: str) -> int:
    """Return the process id in a worker's name (`host:pid:id`)."""
    return int(worker.rsplit(":", 2)[1])


@dataclass(frozen=True, slots=True)
class FaultEpisode:
    """A fault that happened: kind, target, begin and end (seconds since 1970), and the rows it interrupted."""

    kind: str
    target: str
    began: float
    ended: float
    rows: frozenset[LedgerKey]

    def recovery(self, finished: Mapping[LedgerKey, float]) -> tuple[float, float] | None:
        """Return the seconds from its end until the first and the last interrupted row finished.

        `finished` holds the time at which each row ended. Rows that ended before the fault do not count; those that
        ended during it count as 0 s. None when no row was interrupted.
        """
        ends = [finished[row] for row in self.rows if finished.get(row, 0.0) >= self.began]
        if not ends:
            return None
        return max(0.0, min(ends) - self.ended), max(0.0, max(ends) - self.ended)


FINISHED = text("""
    select stage, item_id, extract(epoch from case when undone then now() else updated_at end)::float8 as at
      from afterturn.ledger_t""")


async def read_finishing_times(observer: DatabaseObserver) -> dict[LedgerKey, float]:
    """Return when each row of the ledger ended (seconds since 1970); for undone rows the current time.

    After a wait for all rows that timed out, the undone ones so exceed the allowed recovery time.
    """
    return {(row.stage, row.item_id): row.at for row in await observer.query(FINISHED)}
