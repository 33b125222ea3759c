"""Stages that do nothing but claim and close: what the ledger, the notifications and the runner cost by themselves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deploy.settings import Settings
from store.database import Database
from store.ledger.ledger import Claim, Ledger, Outcome
from store.ledger.stages import Stage
from workers.embedding import EmbeddingStage
from workers.extraction.stage import ExtractionStage
from workers.projection import ProjectionStage
from workers.stage_work import ClaimSize, StageWork, Worked


@dataclass(frozen=True, slots=True)
class IdleStage:
    """Takes as much as the real stage does, and closes it, all of it together."""

    ledger: Ledger
    stage: Stage
    shape: ClaimSize

    async def work(self, claims: Sequence[Claim]) -> Worked:
        """Close the claims, those of a host together."""
        outcomes = [Outcome(row.item_id) for claim in claims for row in claim.rows]
        await self.ledger.end(claims, outcomes)
        return Worked(outcomes, frozenset({Stage.PROJECTION} if self.stage is Stage.EXTRACTION else ()))


def create_idle_stages(settings: Settings, database: Database, *_: object) -> Sequence[StageWork]:
    """Return one for each stage; takes what the real ones are made of."""
    shapes = {
        Stage.GATEWAY: ClaimSize(streams=settings.gateway.at_once, rows=1),
        **{real.stage: real.shape for real in (ExtractionStage, EmbeddingStage, ProjectionStage)},
    }
    ledger = Ledger(database)
    return [IdleStage(ledger, stage, replace(shape, together=shape.streams)) for stage, shape in shapes.items()]
