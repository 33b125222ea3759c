"""Makes a generation of vectors live at once, as no command does: a test says which model's vectors are stored."""

from dataclasses import dataclass

from sqlalchemy import delete, func, insert

from embeddings.protocol import Embedder
from store.database import Database
from store.derived.generations import GenerationState
from store.schema import GENERATION


async def make_live(database: Database, embedder: Embedder) -> None:
    """Make this model's generation live; there is none but it."""
    await make_generation_live(database, embedder.generation, embedder.dimensions, embedder.name)


async def make_generation_live(database: Database, generation: int, dimension: int = 384, model: str = "known") -> None:
    """Make this generation live; there is none but it."""
    await forget_generations(database)
    await _list_generation(database, GenerationState.LIVE, generation, dimension, model)


async def add_retired(database: Database, generation: int, dimension: int = 384) -> None:
    """List a generation that was live before, whose vectors are still there."""
    await _list_generation(database, GenerationState.RETIRED, generation, dimension, "former")


async def _list_generation(
    database: Database, state: GenerationState, generation: int, dimension: int, model: str
) -> None:
    about = {"generation": generation, "model": model, "dimension": dimension}
    values = {**about, "state": state, "share": 1.0, "complete_at": func.now()}
    async with database.operator() as connection:
        await connection.execute(insert(GENERATION).values(values))


async def forget_generations(database: Database) -> None:
    """Take every generation off the list."""
    async with database.operator() as connection:
        await connection.execute(delete(GENERATION))


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model as a process's settings name it; it is loaded."""

    own: Embedder
    source: str = "named"

    async def load_own(self) -> Embedder:
        """Return the model."""
        return self.own
