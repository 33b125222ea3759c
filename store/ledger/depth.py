"""Reads the depth of a tenant's backlog at constant cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from store.database import Database
from store.ledger.stages import OWN

DEPTH = text("""
    select host_id, waiting, coalesce(extract(epoch from now() - oldest), 0)::float8 as oldest_s
      from afterturn.depth(cast(:hosts as uuid[]), cast(:stages as text[]), :most)""")


@dataclass(frozen=True, slots=True)
class Depth:
    """A tenant's backlog: ready undone rows of our own stages, and the age of the oldest in seconds."""

    rows: int = 0
    oldest_s: float = 0.0


async def read_depths(database: Database, hosts: Sequence[UUID], most: int) -> Mapping[UUID, Depth]:
    """Read the backlog of each of these hosts; rows are counted up to `most` a host."""
    async with database.operator() as connection:
        arguments = {"hosts": list(hosts), "stages": [stage.value for stage in OWN], "most": most}
        rows = (await connection.execute(DEPTH, arguments)).all()
    return {row.host_id: Depth(row.waiting, row.oldest_s) for row in rows}
