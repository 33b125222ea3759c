"""Ends sessions of ours that wait in the middle of a statement for a client that is gone.

A client that was stopped, or whose network was cut, between two messages of one statement leaves a session that is
`active` and reads from it. `idle_in_transaction_session_timeout` does not count for it, since it is not idle, nor does
`statement_timeout`, which the server puts off while it reads. Meanwhile it holds the locks of its transaction.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog
from asyncpg import Record

from store.database import APPLICATION_NAME, COMMAND_TIMEOUT_S, Database
from store.database_outage import may_pass

log = structlog.get_logger(__name__)

#: Seconds for which a session may wait for the rest of a statement, as for one that idles in a transaction.
LONGEST_S = 30.0
#: Seconds between two looks.
EVERY_S = 10.0

# A copy reads what its client sends, and a long answer waits until its client has read it: both may take as long as a
# statement does, and as long again.
END = """
    select pg_terminate_backend(a.pid) as ended, a.usename, a.wait_event,
           extract(epoch from now() - a.state_change)::float8 as seconds
      from pg_stat_activity a
     where a.usename = session_user and a.datname = current_database() and a.application_name = $1
       and a.state = 'active' and a.pid <> pg_backend_pid()
       and extract(epoch from now() - a.state_change) > case
               when a.wait_event = 'ClientRead' and a.query !~* '^\\s*copy' then $2::float8
               when a.wait_event in ('ClientRead', 'ClientWrite') then $3::float8
               else 'infinity' end"""


async def end_half_open_sessions(database: Database) -> int:
    """End the half-open sessions of both roles; return how many. Raises the driver's errors."""
    arguments = APPLICATION_NAME, LONGEST_S, 2 * COMMAND_TIMEOUT_S
    fetches: Sequence[Callable[..., Awaitable[list[Record]]]] = (database.fetch, database.operator_fetch)
    ended = [row for fetch in fetches for row in await fetch(END, *arguments) if row["ended"]]
    for row in ended:
        log.warning(
            "half_open_session_ended", role=row["usename"], waited_for=row["wait_event"], seconds=round(row["seconds"])
        )
    return len(ended)


async def keep_ending_half_open_sessions(database: Database) -> None:
    """Look every EVERY_S until cancelled."""
    while True:
        await asyncio.sleep(EVERY_S)
        try:
            await end_half_open_sessions(database)
        except Exception as error:  # noqa: BLE001 - the driver raises many kinds; the next round looks again
            if not may_pass(error):
                log.warning("half_open_sessions_unknown", error=type(error).__name__)
