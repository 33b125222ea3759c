"""Reranks the best units with a cross-encoder; on failure the order stays."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from embeddings.errors import EmbeddingError
from embeddings.protocol import Reranker
from store.recall.query import Recalled
from store.recall.settings import RerankSettings

#: The step's name in answers, traces and explanations, and in `RecallQuery.without`.
NAME = "rerank"


@dataclass(frozen=True, slots=True)
class RerankStep:
    """A reranker of an answer's best units, with its limits."""

    reranker: Reranker
    settings: RerankSettings

    def count_wanted(self, k: int) -> int:
        """Return how many units `rerank` needs for an answer of `k`."""
        return max(k, self.settings.candidates)

    async def rerank(self, question: str, items: Sequence[Recalled]) -> tuple[Sequence[Recalled], str | None]:
        """Return the items with the reranker's scores added, best first; items beyond `candidates` keep their scores.

        If the reranker fails or is late, return the items unchanged, with the reason.
        """
        shown = items[: self.settings.candidates]
        if not shown:
            return items, None
        try:
            async with asyncio.timeout(self.settings.deadline_ms / 1000):
                scores = await self.reranker.score(question, [item.text for item in shown])
        except TimeoutError:
            return items, f"{NAME}: late"
        except EmbeddingError as error:
            return items, f"{NAME}: {type(error).__name__}"
        by = [self.settings.weight * float(score) for score in scores] + [0.0] * (len(items) - len(shown))
        moved = [_shift_score(item, more) for item, more in zip(items, by, strict=True)]
        return sorted(moved, key=lambda item: (-item.score, item.unit_id)), None


def _shift_score(item: Recalled, by: float) -> Recalled:
    explain = item.explain and replace(item.explain, moved={**item.explain.moved, NAME: by})
    return replace(item, score=item.score + by, explain=explain)
