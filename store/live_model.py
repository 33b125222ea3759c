"""Records the current embedding model, whose vectors the public view shows."""

from sqlalchemy import text

from embeddings.protocol import Embedder
from store.database import Database

NOTE = text("""
    insert into public.afterturn_live_model as m (generation, name) values (:generation, :name)
    on conflict (one) do update set (generation, name, since) = row (excluded.generation, excluded.name, now())
     where (m.generation, m.name) <> (excluded.generation, excluded.name)""")


async def note_live_model(database: Database, embedder: Embedder) -> None:
    """Record the model of a starting process; from now on the schema `hindsight` shows its vectors alone."""
    async with database.operator() as connection:
        await connection.execute(NOTE, {"generation": embedder.generation, "name": embedder.name})
