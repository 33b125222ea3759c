"""How deep the backlog is: a look that costs the same however deep that is."""

from dataclasses import dataclass

from sqlalchemy import text

from store.database import Database
from store.ledger import Stage

#: Stages whose backlog is our own; what waits for somebody else's gateway is not.
OWN = (Stage.EXTRACTION, Stage.EMBEDDING, Stage.PROJECTION)

DEPTH = text("""
    select waiting, coalesce(extract(epoch from now() - oldest), 0)::float8 as oldest_s
      from afterturn.depth(cast(:stages as text[]), :most, :hosts)""")
#: Hosts whose oldest work is looked at.
HOSTS = 1000


@dataclass(frozen=True, slots=True)
class Depth:
    """Undone rows of our own stages that wait for nothing, and the age of the oldest in seconds."""

    rows: int = 0
    oldest_s: float = 0.0


async def depth(database: Database, most: int) -> Depth:
    """Look at the backlog; `rows` is told up to `most`."""
    async with database.operator() as connection:
        arguments = {"stages": [stage.value for stage in OWN], "most": most, "hosts": HOSTS}
        row = (await connection.execute(DEPTH, arguments)).one()
    return Depth(row.waiting, row.oldest_s)
