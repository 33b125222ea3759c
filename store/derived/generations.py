"""Generations of vectors: which sentence models have vectors, which of them is live, and what an operator changes.

One generation is live: recall compares its vectors alone. A process offers its own model at its start, which is taken
only where none is live yet; after that operators' commands decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from sqlalchemy import func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from embeddings.protocol import Embedder
from store.database import Database
from store.errors import GenerationRefused
from store.schema import GENERATION


class GenerationState(StrEnum):
    """What a generation is for."""

    #: Recall compares its vectors.
    LIVE = "live"
    #: Its vectors are being made, of stored texts and of new ones.
    BUILDING = "building"
    #: It was live; new texts get vectors of it, too, so that a rollback finds all.
    RETIRED = "retired"
    #: Its vectors are being deleted.
    DROPPING = "dropping"


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of vectors: its number, its model's name and dimension, and its state since when.

    `at_host`, `at_position` and `texts`: how far a pass over all stored texts has come (tenant, position in its log)
    and how many it has embedded. `complete_at`: when a pass ended; None: texts may have no vector of this generation.
    """

    number: int
    model: str
    dimension: int
    state: GenerationState
    since: datetime
    at_host: UUID | None
    at_position: int
    texts: int
    complete_at: datetime | None


_TABLE = GENERATION.c
READ = select(
    _TABLE.generation,
    _TABLE.model,
    _TABLE.dimension,
    _TABLE.state,
    _TABLE.since,
    _TABLE.at_host,
    _TABLE.at_position,
    _TABLE.texts,
    _TABLE.complete_at,
).order_by(_TABLE.generation)
#: The number of the live generation, as a value within a statement.
LIVE = select(_TABLE.generation).where(_TABLE.state == GenerationState.LIVE).scalar_subquery()


async def read_generations(database: Database) -> Sequence[Generation]:
    """Return all generations, by number."""
    async with database.operator() as connection:
        return await _read(connection)


async def offer_model(database: Database, embedder: Embedder) -> None:
    """Make a process's model live if none is; its dimension must be known. Otherwise nothing changes."""
    offered = upsert(GENERATION).values(
        generation=embedder.generation,
        model=embedder.name,
        dimension=embedder.dimensions,
        state=GenerationState.LIVE,
        complete_at=func.now(),
    )
    async with database.operator() as connection:
        await connection.execute(offered.on_conflict_do_nothing())


async def begin_build(database: Database, embedder: Embedder) -> None:
    """Begin to build the vectors of this model; a build that has begun goes on. Raises GenerationRefused."""
    async with database.operator() as connection:
        there = await _read(connection, lock=True)
        known = next((one for one in there if one.number == embedder.generation), None)
        if other := next((one for one in there if one.state is GenerationState.BUILDING and one != known), None):
            raise GenerationRefused(f"{other.model} is being built: switch to it or drop it first")
        if known is None:
            values = {"generation": embedder.generation, "model": embedder.name, "dimension": embedder.dimensions}
            await connection.execute(insert(GENERATION).values(**values, state=GenerationState.BUILDING))
            return
        if known.state is GenerationState.LIVE:
            raise GenerationRefused(f"{known.model} is live; `embedding` of the settings has to name another model")
        if known.state is GenerationState.DROPPING:
            raise GenerationRefused(f"the vectors of {known.model} are being deleted: try again when they are gone")
        if known.dimension != embedder.dimensions:
            raise GenerationRefused(
                f"{known.model} gave vectors of {known.dimension} numbers, now of {embedder.dimensions}: drop it first"
            )
        if known.state is GenerationState.RETIRED:
            await _set_state(connection, known.number, GenerationState.BUILDING)
            await _begin_pass(connection, known.number)


async def switch_to(database: Database, number: int | None = None, *, incomplete: bool = False) -> Generation:
    """Make the built generation live, or the one of this number; the one that was live is retired.

    Raises GenerationRefused where there is none to switch to, or texts may lack its vectors and not `incomplete`.
    """
    async with database.operator() as connection:
        there = await _read(connection, lock=True)
        chosen = [
            one for one in there if (one.state is GenerationState.BUILDING if number is None else one.number == number)
        ]
        if not chosen or chosen[0].state is GenerationState.DROPPING:
            raise GenerationRefused("there is no built generation to switch to: `afterturn embeddings build` makes one")
        [target] = chosen
        if target.state is GenerationState.LIVE:
            return target
        if target.complete_at is None and not incomplete:
            raise GenerationRefused(
                f"texts lack a vector of {target.model}: wait for the build, or let it be incomplete"
            )
        for one in there:
            if one.state is GenerationState.LIVE:
                await _set_state(connection, one.number, GenerationState.RETIRED)
        await _set_state(connection, target.number, GenerationState.LIVE)
        # A text that was written while the switch ran may lack a vector: the next pass finds it.
        await _begin_pass(connection, target.number)
        return next(one for one in await _read(connection) if one.number == target.number)


async def roll_back(database: Database) -> Generation:
    """Make the generation live that was live last. Raises GenerationRefused where there is none."""
    retired = [one for one in await read_generations(database) if one.state is GenerationState.RETIRED]
    if not retired:
        raise GenerationRefused("no generation was live before this one, or it was dropped")
    return await switch_to(database, max(retired, key=lambda one: one.since).number, incomplete=True)


async def begin_drop(database: Database, number: int) -> None:
    """Begin to delete the vectors of a generation that is not live. Raises GenerationRefused."""
    async with database.operator() as connection:
        known = next((one for one in await _read(connection, lock=True) if one.number == number), None)
        if known is None:
            raise GenerationRefused(f"there is no generation {number}")
        if known.state is GenerationState.LIVE:
            raise GenerationRefused(f"{known.model} is live: switch to another generation first")
        if known.state is not GenerationState.DROPPING:
            await _set_state(connection, number, GenerationState.DROPPING)
            await _begin_pass(connection, number)


async def begin_pass(database: Database, number: int) -> None:
    """Have all stored texts looked at again: some may have no vector of this generation."""
    async with database.operator() as connection:
        await _begin_pass(connection, number)


async def _read(connection: AsyncConnection, *, lock: bool = False) -> Sequence[Generation]:
    rows = await connection.execute(READ.with_for_update() if lock else READ)
    return [Generation(row.generation, row.model, row.dimension, GenerationState(row.state), *row[4:]) for row in rows]


async def _set_state(connection: AsyncConnection, number: int, state: GenerationState) -> None:
    changed = update(GENERATION).where(_TABLE.generation == number).values(state=state, since=func.now())
    await connection.execute(changed)


async def _begin_pass(connection: AsyncConnection, number: int) -> None:
    again = {"at_host": None, "at_position": 0, "texts": 0, "complete_at": None}
    await connection.execute(update(GENERATION).where(_TABLE.generation == number).values(**again))
