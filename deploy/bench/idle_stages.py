"""Stages that do nothing but claim and close: what the ledger, the nudges and the runner cost by themselves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from store.database import Database
from store.ledger import Claim, Outcome, Stage, close_together
from workers.embedding import EmbeddingStage
from workers.extraction.stage import ExtractionStage
from workers.gateway import GatewayStage
from workers.projection import ProjectionStage
from workers.runner import Shape, StageWork, Worked


@dataclass(frozen=True, slots=True)
class IdleStage:
    """Takes as much as the real stage does, and closes it, all of it together."""

    database: Database
    stage: Stage
    shape: Shape

    async def work(self, claims: Sequence[Claim]) -> Worked:
        """Close the claims, those of a host together."""
        outcomes: list[Outcome] = []
        for host in sorted({claim.host_id for claim in claims}):
            ours = [claim for claim in claims if claim.host_id == host]
            done = [Outcome(row.item_id) for claim in ours for row in claim.rows]
            async with self.database.tenant(host) as connection:
                await close_together(connection, ours, done)
            outcomes += done
        return Worked(outcomes, frozenset({Stage.PROJECTION} if self.stage is Stage.EXTRACTION else ()))


def idle_stages(_settings: object, database: Database, *_: object) -> Sequence[StageWork]:
    """Return one for each stage; takes what the real ones are made of."""
    return [
        IdleStage(database, real.stage, replace(real.shape, together=True))
        for real in (GatewayStage, ExtractionStage, EmbeddingStage, ProjectionStage)
    ]
