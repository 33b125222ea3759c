"""The arm that knows meanings: exact search over a bank's vectors, and over those not stored yet."""

from collections.abc import Sequence
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.recall.arms import Found, Search
from store.recall.dense import cosines
from store.recall.filters import conditions, is_filtered
from store.recall.pool import Pool
from store.recall.settings import RecallSettings

# Unit vectors: the inner product is the cosine, and `<#>` is its negative.
NEAREST = """
    select v.unit_id, -(v.embedding <#> cast(:vector as halfvec)) as cosine
      from afterturn.unit_vector_t v {units}
     where v.host_id = :host and v.bank_id = :bank and v.generation = :generation {conditions}
     order by v.embedding <#> cast(:vector as halfvec), v.unit_id
     limit :candidates"""
PLAIN = text(NEAREST.format(units="", conditions=""))
FILTERED = text(
    NEAREST.format(
        units="join afterturn.agent_memory_unit_t u using (host_id, bank_id, unit_id)",
        conditions=f"and {conditions('u')}",
    )
)


class DenseArm:
    """Cosine of the question, names cut out, to each message in the light of its neighbours."""

    name = "dense"

    def weight(self, settings: RecallSettings) -> float:
        """Return how much a cosine counts against a share of words found."""
        return settings.ranking.dense_weight

    async def find(self, connection: AsyncConnection, search: Search) -> Found:
        """Find the nearest units, stored or of the fresh tail."""
        arguments = {
            "host": search.host,
            "bank": search.bank,
            "generation": search.generation,
            "vector": search.vector,
            "candidates": search.settings.candidates,
        }
        filtered = is_filtered(search.filters)
        rows = await connection.execute(
            FILTERED if filtered else PLAIN, {**arguments, **search.filters} if filtered else arguments
        )
        near = dict(_nearest_of_tail(search)) | {unit: float(cosine) for unit, cosine in rows}
        best = sorted(near, key=lambda unit: (-near[unit], unit))[: search.settings.candidates]

        def view(pool: Pool) -> NDArray[np.float64]:
            ranking = search.settings.ranking
            after = np.full(len(pool), ranking.dense_context, dtype=np.float64)
            return cosines(pool.products, after + ranking.dense_answer * pool.answers, after)

        return Found(best, [], view)


def _nearest_of_tail(search: Search) -> Sequence[tuple[UUID, float]]:
    return [(unit, float(vector @ search.vector)) for unit, vector in search.tail.items()]
