"""The one call that writes completed turns (store/functions/22_append_turns.sql): for one who brings them, for many."""

from collections.abc import Sequence
from itertools import chain, islice
from uuid import UUID

from store.database import Database
from store.quotas import charged

#: What became of a turn, and its position.
Outcome = tuple[str, int | None]

APPEND = "select outcomes, positions from afterturn.append_turns($1, $2, $3)"


async def write_together(database: Database, host: UUID, turns: Sequence[Sequence[bytes]]) -> list[list[Outcome]]:
    """Write turns of many in one call, none of which waits for another's bank or session: that outcome is `held`."""
    found = iter(await write_offered(database, host, list(chain.from_iterable(turns)), wait=False))
    return [list(islice(found, len(some))) for some in turns]


async def write_offered(database: Database, host: UUID, turns: Sequence[bytes], *, wait: bool = True) -> list[Outcome]:
    """Append turns that are in the form `append_turns` takes, in one call; return what became of each.

    Where a quota was used up meanwhile, nothing was written and the call is made again. Raises RateLimited in the end.
    """
    offered = (b"[%b]" % b",".join(turns)).decode()

    async def write() -> list[Outcome]:
        [(outcomes, positions)] = await database.fetch(APPEND, host, offered, wait)
        return list(zip(outcomes, positions, strict=True))

    return await charged(write)
