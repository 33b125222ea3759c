"""Generations of vectors: which sentence models have vectors, which of them is live, and what an operator changes.

One generation is live: recall compares its vectors alone. A process offers its own model at its start, which is taken
only where none is live yet; after that operators' commands decide. The vectors of a generation are made by passes over
all stored texts (`generation_pass`), beside the embedding stage, which makes those of new texts for every generation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from embeddings.protocol import Embedder
from store.database import Database
from store.errors import GenerationRefused, NotFound
from store.schema import GENERATION

#: The position where a pass has done all of a bank.
ENDED = -1


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
class PassPlace:
    """How far a pass over all stored texts has come: a tenant, a bank of it, a position in the log or ENDED."""

    host: UUID
    bank: UUID
    position: int = 0


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of vectors: its number, its model's name and dimension, and its state since when.

    `source` is the setting that names the model. `place`, `share` and `vectors`: how far a pass over all stored texts
    has come, which share of them that is, and how many vectors it has written (or deleted). `behind`: another pass is
    needed. `complete_at`: when a pass ended; None: texts may have no vector of this generation.
    """

    number: int
    model: str
    dimension: int
    state: GenerationState
    source: str
    since: datetime
    place: PassPlace | None
    vectors: int
    share: float
    behind: bool
    complete_at: datetime | None


_TABLE = GENERATION.c
READ = select(GENERATION).order_by(_TABLE.generation)
#: The number of the live generation, as a value within a statement.
LIVE = select(_TABLE.generation).where(_TABLE.state == GenerationState.LIVE).scalar_subquery()
_FROM_THE_START = {"at_host": None, "at_bank": None, "at_position": 0, "share": 0.0, "vectors": 0, "behind": False}


async def read_generations(database: Database) -> Sequence[Generation]:
    """Return all generations, by number."""
    async with database.operator() as connection:
        return await _read_generations(connection)


async def read_live(database: Database) -> Generation | None:
    """Return the live generation; None before a process has made its model live."""
    return next((one for one in await read_generations(database) if one.state is GenerationState.LIVE), None)


async def offer_model(database: Database, embedder: Embedder, source: str) -> None:
    """Make a process's model live if none is; its dimension must be known. Otherwise nothing changes."""
    values = _describe_model(embedder, source) | {
        "state": GenerationState.LIVE,
        "share": 1.0,
        "complete_at": func.now(),
    }
    async with database.operator() as connection:
        await connection.execute(upsert(GENERATION).values(values).on_conflict_do_nothing())


async def begin_build(database: Database, embedder: Embedder, source: str) -> None:
    """Begin to build the vectors of this model; a build that has begun goes on. Raises GenerationRefused."""
    async with database.operator() as connection:
        there = await _read_generations(connection, lock=True)
        known = next((one for one in there if one.number == embedder.generation), None)
        if other := next((one for one in there if one.state is GenerationState.BUILDING and one != known), None):
            raise GenerationRefused(f"{other.model} is being built: switch to it or drop it first")
        if known is None:
            values = _describe_model(embedder, source) | {"state": GenerationState.BUILDING}
            await connection.execute(insert(GENERATION).values(values))
            return
        if known.state is GenerationState.LIVE:
            raise GenerationRefused(
                f"{known.model} is live already: name another model in `embedding` of the settings, and restart"
            )
        if known.state is GenerationState.DROPPING:
            raise GenerationRefused(f"the vectors of {known.model} are being deleted: try again when they are gone")
        if known.dimension != embedder.dimensions:
            changed = f"{known.model} gave vectors of {known.dimension} numbers, now of {embedder.dimensions}"
            raise GenerationRefused(f"{changed}: drop that generation first")
        if known.state is GenerationState.RETIRED:
            await _update_generation(connection, known.number, state=GenerationState.BUILDING)
            await _begin_pass(connection, known.number)


async def switch_to(database: Database, number: int | None = None, *, incomplete: bool = False) -> Generation:
    """Make the built generation live, or the one of this number; the one that was live is retired.

    Raises GenerationRefused where there is none to switch to, or texts may lack its vectors and not `incomplete`.
    """
    async with database.operator() as connection:
        there = await _read_generations(connection, lock=True)
        target = _choose_target(there, number)
        if target.state is GenerationState.LIVE:
            return target
        if target.complete_at is None and not incomplete:
            raise GenerationRefused(f"texts lack a vector of {target.model}: wait until it is built, or force it")
        for one in there:
            if one.state is GenerationState.LIVE:
                await _update_generation(connection, one.number, state=GenerationState.RETIRED)
        await _update_generation(connection, target.number, state=GenerationState.LIVE)
        # A text that was written while processes learn of the switch may lack a vector: the next pass finds it.
        await _begin_pass(connection, target.number)
        return _choose_target(await _read_generations(connection), target.number)


def _choose_target(there: Sequence[Generation], number: int | None) -> Generation:
    """Return the generation to make live: the one of this number, or else the one that is being built."""
    for one in there:
        if one.number == number or (number is None and one.state is GenerationState.BUILDING):
            if one.state is GenerationState.DROPPING:
                raise GenerationRefused(f"the vectors of {one.model} are being deleted")
            return one
    raise GenerationRefused("there is no such generation to switch to: `afterturn embeddings build` makes one")


async def roll_back(database: Database) -> Generation:
    """Make the generation live that was live last. Raises GenerationRefused where there is none."""
    retired = [one for one in await read_generations(database) if one.state is GenerationState.RETIRED]
    if not retired:
        raise GenerationRefused("no generation was live before this one, or it was dropped")
    return await switch_to(database, max(retired, key=lambda one: one.since).number, incomplete=True)


async def begin_drop(database: Database, number: int) -> Generation:
    """Begin to delete the vectors of a generation that is not live. Raises NotFound, GenerationRefused."""
    async with database.operator() as connection:
        known = next((one for one in await _read_generations(connection, lock=True) if one.number == number), None)
        if known is None:
            raise NotFound(f"there is no generation {number}")
        if known.state is GenerationState.LIVE:
            raise GenerationRefused(f"{known.model} is live: switch to another generation first")
        if known.state is not GenerationState.DROPPING:
            await _update_generation(connection, number, state=GenerationState.DROPPING)
            await _begin_pass(connection, number)
        return next(one for one in await _read_generations(connection) if one.number == number)


async def note_behind(database: Database, number: int) -> None:
    """Note that a text was written without a vector of this generation: another pass over all texts is needed."""
    behind = update(GENERATION).where(_TABLE.generation == number).values(behind=True, complete_at=None)
    async with database.operator() as connection:
        await connection.execute(behind)


async def save_place(
    database: Database, number: int, place: PassPlace, vectors: int, share: float | None = None
) -> None:
    """Keep how far a pass has come, and that it has written or deleted this number of further vectors.

    `share` is the share of all texts; None leaves it. It never falls, though banks that are created enlarge the whole.
    """
    async with database.operator() as connection:
        at = {"at_host": place.host, "at_bank": place.bank, "at_position": place.position}
        told = {} if share is None else {"share": func.greatest(_TABLE.share, share)}
        await _update_generation(connection, number, **at, **told, vectors=_TABLE.vectors + vectors)


async def end_pass(database: Database, number: int) -> bool:
    """End a pass; return whether the generation is complete: where texts were written without it, a pass begins."""
    async with database.operator() as connection:
        behind = await connection.scalar(select(_TABLE.behind).where(_TABLE.generation == number).with_for_update())
        if behind:
            await _begin_pass(connection, number)
        elif behind is not None:
            await _update_generation(
                connection, number, at_host=None, at_bank=None, at_position=0, share=1.0, complete_at=func.now()
            )
        return behind is False


async def begin_pass(database: Database, number: int) -> None:
    """Begin another pass over all stored texts."""
    async with database.operator() as connection:
        await _begin_pass(connection, number)


async def forget_generation(database: Database, number: int) -> None:
    """Take a generation that is being dropped off the list."""
    gone = delete(GENERATION).where(_TABLE.generation == number, _TABLE.state == GenerationState.DROPPING)
    async with database.operator() as connection:
        await connection.execute(gone)


async def _read_generations(connection: AsyncConnection, *, lock: bool = False) -> Sequence[Generation]:
    rows = await connection.execute(READ.with_for_update() if lock else READ)
    return [
        Generation(
            number=row.generation,
            model=row.model,
            dimension=row.dimension,
            state=GenerationState(row.state),
            source=row.source,
            since=row.since,
            place=None if row.at_host is None else PassPlace(row.at_host, row.at_bank, row.at_position),
            vectors=row.vectors,
            share=row.share,
            behind=row.behind,
            complete_at=row.complete_at,
        )
        for row in rows
    ]


def _describe_model(embedder: Embedder, source: str) -> dict[str, object]:
    return {
        "generation": embedder.generation,
        "model": embedder.name,
        "dimension": embedder.dimensions,
        "source": source,
    }


async def _update_generation(connection: AsyncConnection, number: int, **values: object) -> None:
    if "state" in values:
        values["since"] = func.now()
    await connection.execute(update(GENERATION).where(_TABLE.generation == number).values(values))


async def _begin_pass(connection: AsyncConnection, number: int) -> None:
    await _update_generation(connection, number, **_FROM_THE_START, complete_at=None)
