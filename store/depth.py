"""How deep the backlog is: a look that costs the same however deep that is."""

from dataclasses import dataclass

from sqlalchemy import text

from store.database import Database
from store.ledger import Stage

#: Stages whose backlog is our own; what waits for somebody else's gateway is not.
OWN = (Stage.EXTRACTION, Stage.EMBEDDING, Stage.PROJECTION)

# Counts no further than asked, and reads the first row of each stage; both by the index of ready rows.
DEPTH = text("""
    select (select count(*) from (select from afterturn.ledger_t l
                                   where l.stage = any(:stages) and l.undone and l.next_attempt_at < 'infinity'
                                   limit :most) l) as rows,
           coalesce(extract(epoch from now() - min(o.accepted_at)), 0)::float8 as oldest_s
      from unnest(cast(:stages as text[])) s(stage),
           lateral (select l.accepted_at from afterturn.ledger_t l
                     where l.stage = s.stage and l.undone and l.next_attempt_at < 'infinity'
                     order by l.position limit 1) o""")


@dataclass(frozen=True, slots=True)
class Depth:
    """Undone rows of our own stages that wait for nothing, and the age of the oldest in seconds."""

    rows: int = 0
    oldest_s: float = 0.0


async def depth(database: Database, most: int) -> Depth:
    """Look at the backlog; `rows` is told up to `most`."""
    async with database.operator() as connection:
        row = (await connection.execute(DEPTH, {"stages": [stage.value for stage in OWN], "most": most})).one()
    return Depth(row.rows, row.oldest_s)
