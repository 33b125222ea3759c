"""Ledger rows that were in progress or blocked when a fault began."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from deploy.lab.chaos.eye import DatabaseObserver
from store.ledger.stages import Stage

#: A row of the ledger: its stage and its item.
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


async def read_running_rows(eye: DatabaseObserver) -> dict[int, set[LedgerKey]]:
    """Return the rows that are being worked on, by the process id of their worker."""
    held: dict[int, set[LedgerKey]] = {}
    for row in await eye.query(IN_WORK):
        held.setdefault(_parse_process_id(row.worker), set()).add((row.stage, row.item_id))
    return held


async def read_waiting_rows(eye: DatabaseObserver) -> set[LedgerKey]:
    """Return the rows that are ready and whose notification has not reached a worker."""
    return {(row.stage, row.item_id) for row in await eye.query(WAITING)}


async def read_gateway_rows(eye: DatabaseObserver) -> set[LedgerKey]:
    """Return the deliveries that are under way, or were tried and are to be tried again."""
    return {(row.stage, row.item_id) for row in await eye.query(AT_THE_GATEWAY)}


def list_turn_rows(turns: Collection[UUID]) -> set[LedgerKey]:
    """Return the rows of turns that are on their way to the API."""
    return {(stage.value, turn) for turn in turns for stage in Stage}


def _parse_process_id(worker: str) -> int:
    """Return the process id in a worker's name (`host:pid:id`)."""
    return int(worker.rsplit(":", 2)[1])


@dataclass(frozen=True, slots=True)
class FaultEpisode:
    """One fault as it was: what, to whom, from when to when (seconds since 1970), and what it interrupted."""

    kind: str
    target: str
    began: float
    ended: float
    rows: frozenset[LedgerKey]

    def recovery(self, finished: Mapping[LedgerKey, float]) -> tuple[float, float] | None:
        """Return the seconds from its end to the first finished row among those it interrupted, and to the last.

        `finished` says when each row ended. What ended before the fault was not interrupted by it; what others took
        over while it lasted needed no time after it. None when nothing was interrupted.
        """
        ends = [finished[row] for row in self.rows if finished.get(row, 0.0) >= self.began]
        if not ends:
            return None
        return max(0.0, min(ends) - self.ended), max(0.0, max(ends) - self.ended)


FINISHED = text("""
    select stage, item_id, extract(epoch from case when undone then now() else updated_at end)::float8 as at
      from afterturn.ledger_t""")


async def read_finishing_times(eye: DatabaseObserver) -> dict[LedgerKey, float]:
    """Return when each row of the ledger ended (seconds since 1970); what has not ended yet ends now at the earliest.

    Who waited for all rows in vain, and asks then, finds those later than any recovery may be.
    """
    return {(row.stage, row.item_id): row.at for row in await eye.query(FINISHED)}
