"""Rows as code of earlier revisions wrote them: each file is named after its revision, and is data alone.

`python -m tests.store.old_rows` writes those of this code: to be done at each release, so that what it writes
is upgraded by every later version.
"""

import asyncio
import re
import zlib
from pathlib import Path
from uuid import uuid4

import numpy as np
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from numpy.typing import NDArray
from sqlalchemy import Connection

from store import migrations
from store.erasure.erasures import Erasures
from store.erasure.requests import ErasureTarget, Kind
from store.memory.documents import Documents, NewDocument, content_hash
from store.memory.units import Units
from tests.dumps import dumped
from tests.servers import Servers, TestPostgres, connected
from tests.workers.conftest import HOST, World, dialogue, now, open_world
from tests.workers.stages import Crew, KnownEmbedder

#: The servers' database without a schema.
EMPTY = "afterturn"
FOLDER = Path(__file__).with_name("rows_of_revisions")
PLAIN = ("--data-only", "--schema=afterturn", "--column-inserts", "--load-via-partition-root", "--rows-per-insert=100")
#: psql's own commands and comments, which say when and by which release of pg_dump.
CHATTER = re.compile(rb"^(\\(un)?restrict .*|--.*|)\n", re.MULTILINE)


def migrate_to(connection: Connection, revision: str) -> None:
    """Bring an empty database to an earlier revision, without the functions, which are always the newest."""
    config = Config()
    config.set_main_option("script_location", str(migrations.FOLDER.parent / "migrations"))
    scripts = ScriptDirectory.from_config(config)
    options = {"version_table": "afterturn_version", "version_table_schema": "public"}
    context = MigrationContext.configure(connection, opts=options)
    with Operations.context(context):
        for script in reversed(list(scripts.walk_revisions("base", revision))):
            script.module.upgrade()
    context.stamp(scripts, revision)


class ShortVectors(KnownEmbedder):
    """Vectors of one number that is not zero: they take little room in a file."""

    def vector(self, text: str) -> NDArray[np.float32]:
        vector = np.zeros(self.dimensions, dtype=np.float32)
        vector[zlib.crc32(text.encode()) % self.dimensions] = 1.0
        return vector


async def write_memory(world: World, session: str) -> None:
    """Say, correct and erase: two turns and a document that are worked off, a session that is gone, and a turn that
    waits.
    """
    crew = Crew(world, ShortVectors())
    for n, home in enumerate(("Kyoto", "Lisbon")):
        words = f"My name is Karl Berger. I live in {home}. Karl met Ann Moore."
        await world.append(session, f"t{n}", messages=dialogue(words, f"Ann Moore likes {home}."))
    await world.append(f"{session}-gone", "t0", messages=dialogue("The door is red.", "Red, noted."))
    text = f"Porto has six bridges, says {session}."
    await Documents(world.database, now).add(HOST, NewDocument("default", content_hash(text.encode()), text))
    await crew.drain()
    corrected = await world.sql(
        "select unit_id from afterturn.agent_memory_unit_t where active and content = 'Ann Moore likes Lisbon.'"
    )
    await Units(world.database, now).correct(HOST, "default", corrected[0].unit_id, "Ann Moore likes Porto.")
    await crew.drain()
    erasures = Erasures(world.database, now)
    await erasures.run(HOST, await erasures.request(HOST, ErasureTarget(Kind.SESSION, "default", f"{session}-gone")))
    await crew.drain()
    await world.append(session, "t2", messages=dialogue("I moved to Oslo.", "Oslo it is."))


async def write_rows(postgres: TestPostgres) -> Path:
    """Write a memory by this code, and its rows into the file of this code's revision."""
    world = await open_world(postgres)
    await write_memory(world, "s")
    await world.database.close()
    path = FOLDER / f"{migrations.newest_revision().rpartition('_')[2]}.sql"
    path.write_bytes(CHATTER.sub(b"", await dumped(postgres.superuser_url, *PLAIN)))
    return path


async def _write_into_new_database(server: TestPostgres) -> Path:
    return await write_rows(await server.create(f"rows_{uuid4().hex}"))


if __name__ == "__main__":
    servers = Servers()
    try:
        print(asyncio.run(_write_into_new_database(connected(servers.urls())[0])))
    finally:
        servers.stop()
