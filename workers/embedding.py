"""The embedding stage: embeds the texts of many turns in one batch."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from embeddings.errors import EmbeddingError
from embeddings.protocol import Embedder, SwitchesModels, pin_model
from store.database import NO_SYNC, Database
from store.derived.unit_vectors import (
    Unembedded,
    UnitsToEmbed,
    corrected_id,
    derive_reembedding_id,
    find_reflection,
    insert_vectors,
    read_missing,
    read_missing_reflections,
)
from store.errors import LeaseLost
from store.gen_ai_spans import trace_embedding
from store.ledger.ledger import Claim, LedgerRow, Outcome, close_claims
from store.ledger.stages import Stage
from workers.metrics import EMBEDDED_TEXTS
from workers.stage_work import ClaimSize, Worked

#: Seconds that the model of a generation that is not live may take for a batch.
BESIDE_S = 10.0
NO_VECTORS = np.empty((0, 0), dtype=np.float32)
#: The newest turns are recalled soonest, so they are embedded first; but none waits longer than this for newer ones.
OLDEST_FIRST_AFTER = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class NewVectors:
    """Vectors of one generation, one for each unit, in order."""

    generation: int
    units: Sequence[Unembedded]
    vectors: NDArray[np.float32] = field(repr=False)


@dataclass(frozen=True, slots=True)
class EmbeddingStage:
    """The embedding stage. It only makes batches large; the embedder sorts and splits them."""

    database: Database
    embedder: Embedder
    stage: ClassVar[Stage] = Stage.EMBEDDING
    #: About two texts a turn: a piece of 32 ends well before its lease and fills the model's runs. While the model
    #: works on one piece, the next is read, or the one before is written.
    claim_size: ClassVar[ClaimSize] = ClaimSize(streams=64, rows=1, together=32, oldest_first_after=OLDEST_FIRST_AFTER)

    async def work(self, claims: Sequence[Claim]) -> Worked:
        """Embed the texts of these rows, all of one host, that have no vector yet; write each vector once.

        Other generations whose vectors are kept up to date get them, too; where their models fail, the rows end all the
        same, and the generation is noted as behind.
        """
        host, model = claims[0].host_id, pin_model(self.embedder)
        units = await self._missing(host, claims, model)
        with trace_embedding(model.name, len(units)):
            vectors = await model.embed([unit.content for unit in units]) if units else NO_VECTORS
        made = [NewVectors(model.generation, units, vectors), *await self._embed_beside(host, claims)]
        outcomes = await self._write(host, claims, made)
        EMBEDDED_TEXTS.inc(len(units))
        if not outcomes:
            raise LeaseLost("every lease of the batch ran out")
        return Worked(outcomes)

    async def _embed_beside(self, host: UUID, claims: Sequence[Claim]) -> Sequence[NewVectors]:
        """Return the vectors of the other generations, of those whose models give them in time."""
        switching, made = self.embedder, list[NewVectors]()
        if not isinstance(switching, SwitchesModels):
            return made
        for generation in switching.lacking:
            switching.note_behind(generation)
        for model in switching.beside:
            try:
                async with asyncio.timeout(BESIDE_S):
                    units = await self._missing(host, claims, model)
                    if units:
                        vectors = await model.embed([unit.content for unit in units])
                        made.append(NewVectors(model.generation, units, vectors))
            except (TimeoutError, EmbeddingError):
                switching.note_behind(model.generation)
        return made

    async def _write(self, host: UUID, claims: Sequence[Claim], made: Sequence[NewVectors]) -> list[Outcome]:
        """Write the vectors of one host's units, and close its claims with them."""
        outcomes = [Outcome(row.item_id) for claim in claims for row in claim.rows]
        async with self.database.tenant(host, NO_SYNC) as connection:
            for one in made:
                await insert_vectors(connection, host, one.generation, one.units, one.vectors)
            ours = await close_claims(connection, claims, outcomes)
        items = {row.item_id for claim in ours for row in claim.rows}
        return [outcome for outcome in outcomes if outcome.item_id in items]

    async def _missing(self, host: UUID, claims: Sequence[Claim], model: Embedder) -> list[Unembedded]:
        """Return the units of these rows without a vector of this model; a row says for which generation it is."""
        rows = [row for claim in claims for row in claim.rows]
        generation, wanted, reflections = model.generation, list[UnitsToEmbed](), list[tuple[UUID, UUID]]()
        for row in rows:
            if (reflection := find_reflection(row, generation)) is not None:
                reflections.append((row.bank_id, reflection))
            else:
                wanted += self._wanted(row, generation)
        async with self.database.tenant(host) as connection:
            found = await read_missing(connection, host, generation, wanted) if wanted else []
            return found + await read_missing_reflections(connection, host, generation, reflections)

    @staticmethod
    def _wanted(row: LedgerRow, generation: int) -> list[UnitsToEmbed]:
        """Return the units a row asks to embed: a turn's messages, its facts, or both.

        The row's item says which: the turn itself its messages, another id its facts; one made by
        `derive_reembedding_id` (after a change of the model) or `corrected_id` (after a correction, or
        where vectors were found to be missing) both.
        """
        again = derive_reembedding_id(row.turn_id, generation, row.position)
        both = row.item_id in {again, corrected_id(row.turn_id, row.position)}
        which = (False, True) if both else (row.item_id != row.turn_id,)
        return [UnitsToEmbed(row.bank_id, row.turn_id, facts) for facts in which]
