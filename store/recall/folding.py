"""What is said once is answered once: facts drawn from a message fold into the message. Pure."""

from collections.abc import Iterable

from store.recall.fusion import Ranking
from store.recall.pool import Pool


def folded(ranking: Ranking, pool: Pool) -> Iterable[int]:
    """Return the ranking's order without the facts whose source stands in the pool.

    The source keeps its own place: it holds the fact's words and more.
    """
    present = {candidate.unit_id for candidate in pool.candidates}
    return (index for index in ranking.order if present.isdisjoint(pool.candidates[index].sources))
