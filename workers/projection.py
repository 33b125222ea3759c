"""The projection stage: one writer a bank counts what its turns add to it, each turn once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from store.database import NO_SYNC, Database
from store.derived import bank_state, locks
from store.identity import user_id
from store.ledger.ledger import Claim, Outcome, close_claim, lock_held_claims
from store.ledger.stages import Stage
from store.log.envelope import Origin
from workers.stage_work import ClaimSize, Worked


@dataclass(frozen=True, slots=True)
class ProjectionStage:
    """The projection stage. Counts and the end of their ledger row are one transaction, so nothing counts twice."""

    database: Database
    stage: ClassVar[Stage] = Stage.PROJECTION
    claim_size: ClassVar[ClaimSize] = ClaimSize(streams=4, rows=64, at_once=2)

    async def work(self, claims: Sequence[Claim]) -> Worked:
        """Advance a bank's derived state by its first extracted turns, and by what was erased or found later."""
        claim = claims[0]
        bank = claim.rows[0].bank_id
        # A row that is not a turn's own stands for an erasure (then its turn is the bank's id) or a later finding.
        turns = sorted({row.turn_id for row in claim.rows if row.turn_id != bank})
        origin = Origin(claim.host_id, bank, user_id(claim.host_id, None), max(row.accepted_at for row in claim.rows))
        async with self.database.tenant(claim.host_id, NO_SYNC) as connection:
            await locks.lock_bank(connection, bank)
            await lock_held_claims(connection, [claim])
            done = await bank_state.advance_bank(connection, origin, turns)
            # While there is more to count, an erasure's row stays open, and is claimed again.
            outcomes = [Outcome(row.item_id) for row in claim.rows if not done.more or row.turn_id != bank]
            await close_claim(connection, claim, outcomes)
        reflected = done.reflected
        while done.more and len(outcomes) == len(claim.rows):
            async with self.database.tenant(claim.host_id, NO_SYNC) as connection:
                await locks.lock_bank(connection, bank)
                done = await bank_state.advance_bank(connection, origin, ())
            reflected |= done.reflected
        return Worked(outcomes, frozenset({Stage.EMBEDDING} if reflected else ()))
