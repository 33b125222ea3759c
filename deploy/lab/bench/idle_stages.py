"""Stages that only claim and close rows, to measure the cost of ledger, notifications and runner alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deploy.settings import Settings
from store.ledger.ledger import Claim, Ledger, Outcome
from store.ledger.stages import Stage
from workers.embedding import EmbeddingStage
from workers.extraction.stage import ExtractionStage
from workers.projection import ProjectionStage
from workers.stage_work import ClaimSize, StageWork, Worked

if TYPE_CHECKING:  # that module is imported when the environment is prepared
    from deploy.worker.resources import StageParts


@dataclass(frozen=True, slots=True)
class IdleStage:
    """A stage that claims as many rows as the real one, and closes them together."""

    ledger: Ledger
    stage: Stage
    claim_size: ClaimSize

    async def work(self, claims: Sequence[Claim]) -> Worked:
        """Close the claims."""
        outcomes = [Outcome(row.item_id) for claim in claims for row in claim.rows]
        await self.ledger.end(claims, outcomes)
        return Worked(outcomes, frozenset({Stage.PROJECTION} if self.stage is Stage.EXTRACTION else ()))


def create_idle_stages(settings: Settings, parts: "StageParts") -> Sequence[StageWork]:
    """Return an idle stage for each real one except enrichment."""
    sizes = {
        Stage.GATEWAY: ClaimSize(streams=settings.gateway.at_once, rows=1),
        **{real.stage: real.claim_size for real in (ExtractionStage, EmbeddingStage, ProjectionStage)},
    }
    ledger = Ledger(parts.database)
    return [IdleStage(ledger, stage, replace(size, together=size.streams)) for stage, size in sizes.items()]
