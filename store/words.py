"""Words that wait to be carried into the index of words, wherever many do.

A recall reads waiting words unit by unit. The projection stage carries them along with a turn; while a flood of turns
still waits for the stages before it, this keeps what a recall has to read short.
"""

import time
from uuid import UUID

from sqlalchemy import text

from store import derived, projections
from store.database import Database

#: So many waiting units of a bank cost a recall about a millisecond.
MANY = 200

LADEN = text("""
    select host_id, bank_id from afterturn.unit_word_t where not posted
     group by host_id, bank_id having count(*) >= :many order by count(*) desc limit 16""")


class WaitingWords:
    """Finds banks in which many words wait, over all hosts, and carries them, each as its own tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def carry(self, seconds: float) -> int:
        """Carry for about so long, a bounded transaction at a time; returns how many transactions that were."""
        until = time.monotonic() + seconds
        async with self._database.operator() as connection:
            laden = (await connection.execute(LADEN, {"many": MANY})).all()
        done = 0
        for row in laden:
            more = True
            while more and time.monotonic() < until:
                more = await self._carry(row.host_id, row.bank_id)
                done += 1
        return done

    async def _carry(self, host: UUID, bank: UUID) -> bool:
        async with self._database.tenant(host) as connection:
            # Whoever is at work on the bank carries its words too.
            if not await derived.lock_if_free(connection, bank):
                return False
            return await projections.carry_words(connection, host, bank)
