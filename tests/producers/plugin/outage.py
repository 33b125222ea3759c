"""Takes a database away, or brings it back: `python -m tests.producers.plugin.outage away|back SUPERUSER_URL`.

While it is away the service is not let in, and who was in is cut off.
"""

import asyncio
import sys

from sqlalchemy import NullPool, make_url, text

from store.connections import create_engine


async def main(wanted: str, url: str) -> None:
    named = make_url(url)
    administration = named.set(database="postgres").render_as_string(hide_password=False)
    engine = create_engine(administration, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    try:
        async with engine.connect() as connection:
            limit = -1 if wanted == "back" else 0
            await connection.execute(text(f'alter database "{named.database}" connection limit {limit}'))
            if wanted == "away":
                cut = text("select pg_terminate_backend(pid) from pg_stat_activity where datname = :name")
                await connection.execute(cut, {"name": named.database})
    finally:
        await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
