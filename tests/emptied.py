"""Databases that serve one test after another: each test finds its own empty, as the migrations left it.

A new one costs more than most tests: its files, and each of its sessions reads the catalog and plans every function
anew. So a database is emptied for the next test, and its sessions stay, unless a test changed its catalog,
filled it, or left a session of its own in it: then it is dropped.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import asyncpg
from asyncpg.exceptions import InterfaceError, PostgresError
from sqlalchemy.ext.asyncio import AsyncConnection

from store.settings import DatabaseSettings
from tests.patience import PAUSE_S
from tests.servers import TestPostgres
from tests.watched import Watched

#: What a definition is written in; each change of one makes a newer row. ANALYZE changes that of pg_class in place.
CATALOGS = (
    *("pg_attrdef", "pg_attribute", "pg_class", "pg_constraint", "pg_db_role_setting", "pg_extension", "pg_index"),
    *("pg_namespace", "pg_policy", "pg_proc", "pg_rewrite", "pg_trigger", "pg_type"),
)
OURS = "schemaname not in ('pg_catalog', 'information_schema')"
TABLES = f"select format('%I.%I', schemaname, tablename) from pg_tables where {OURS} order by 1"
SEQUENCES = f"""select format('%I.%I', schemaname, sequencename) as name, last_value, start_value
                  from pg_sequences where {OURS} order by 1"""
SESSIONS = "select count(*) from pg_stat_activity where datname = current_database()"
#: The bytes of a table beyond which a database is dropped: it would cost more to empty, and be planned for otherwise.
LARGE = 2**20
STATISTICS = "select count(*) || ' ' || max(cast(cast(xmin as text) as bigint)) from pg_statistic"
#: Erasures and replays analyze. PostgreSQL 18 can forget what that found.
FORGOTTEN = f"""
    select pg_clear_relation_stats(schemaname, tablename) from pg_tables where {OURS};
    select pg_restore_relation_stats('schemaname', schemaname::text, 'relname', indexname::text, 'reltuples', 0::real)
      from pg_indexes join pg_class c on c.oid = format('%I.%I', schemaname, indexname)::regclass
     where {OURS} and reltuples > 0;
    select pg_clear_attribute_stats(schemaname, tablename, attname, inherited) from pg_stats where {OURS};
    select afterturn.first_statistics('afterturn')"""
LOOKS = 10
NO_LONGER = (PostgresError, InterfaceError, OSError)


@dataclass
class Kept:
    """One such database: what it was when it was migrated, the session that empties it, and those of its tests."""

    postgres: TestPostgres
    session: Any
    loop: asyncio.AbstractEventLoop
    unchanged: str = ""
    find_filled: str = ""
    began: str = ""
    statistics: str = ""
    moved: frozenset[str] = frozenset()
    stores: dict[int, Watched] = field(default_factory=dict)

    def watch(self, settings: DatabaseSettings) -> Watched:
        """Lend a store whose sessions stay."""
        if settings.pool_size not in self.stores:
            self.stores[settings.pool_size] = Watched(settings, self.postgres.superuser_url)
        return self.stores[settings.pool_size].lend()

    async def describe(self) -> None:
        """Remember what holds after the migrations, as long as no test has written."""
        await self.session.execute("set session_replication_role = replica")  # rows go without their triggers
        tables = [name for (name,) in await self.session.fetch(TABLES)]
        empty = [name for name in tables if not await self.session.fetchval(f"select exists (select from {name})")]
        parts = [f"(select count(*) || ' ' || max(cast(cast(xmin as text) as bigint)) from {one})" for one in CATALOGS]
        filled = sorted(set(tables) - set(empty))
        parts += [f"(select md5(string_agg(cast(t as text), '' order by cast(t as text))) from {t} t)" for t in filled]
        parts += [f"(select cast(last_value as text) from {name})" for name in await self._list_moved()]
        self.unchanged = f"select concat_ws(' ', {', '.join(parts)})"
        self.find_filled = " union all ".join(
            f"select '{name}', pg_relation_size('{name}') > {LARGE} where exists (select from {name})" for name in empty
        )
        self.moved = frozenset(await self._list_moved())
        await self._remember()

    async def empty(self) -> bool:
        """Make it as it was; return False where that cannot be done."""
        with suppress(*NO_LONGER):
            return (
                not await self._is_in_use()
                and await self._is_unchanged()
                and await self._empty()
                and await self._forget()
            )
        return False

    async def end(self) -> None:
        """End its sessions."""
        for store in self.stores.values():
            with suppress(*NO_LONGER):
                await store.close()
        self.session.terminate()

    async def _is_in_use(self) -> bool:
        pools = [pool for store in self.stores.values() for pool in store.pools()]
        if any(pool.checkedout() for pool in pools):
            return True
        ours = 1 + sum(pool.checkedin() for pool in pools)
        for _ in range(LOOKS):  # a session that was closed ends a little later
            if await self.session.fetchval(SESSIONS) <= ours:
                return False
            await asyncio.sleep(PAUSE_S)
        return True

    async def _is_unchanged(self) -> bool:
        return bool(await self.session.fetchval(self.unchanged) == self.began)

    async def _empty(self) -> bool:
        filled = await self.session.fetch(self.find_filled)
        if any(large for _, large in filled):
            return False
        moved = await self._list_moved()
        back = [f"select setval('{name}', {moved[name]}, false)" for name in moved if name not in self.moved]
        if statements := [*(f"delete from only {name}" for name, _ in filled), *back]:
            await self.session.execute("; ".join(statements))
        return True

    async def _forget(self) -> bool:
        """Make the statistics those after the migrations."""
        if await self.session.fetchval(STATISTICS) != self.statistics:
            await self.session.execute(FORGOTTEN)
            await self._remember()
        return True

    async def _remember(self) -> None:
        self.began = await self.session.fetchval(self.unchanged)
        self.statistics = await self.session.fetchval(STATISTICS)

    async def _list_moved(self) -> dict[str, int]:
        """The sequences that were used, and where each begins."""
        found = await self.session.fetch(SEQUENCES)
        return {name: start for name, last, start in found if last is not None}


#: The databases that are lent now, by name.
LENT: dict[str, Kept] = {}


def watch(settings: DatabaseSettings, postgres: TestPostgres) -> Watched:
    """Return a store on a database of the tests: one whose sessions are open, where the database is one of these."""
    kept = LENT.get(postgres.database)
    if kept is None or asyncio._get_running_loop() is not kept.loop:
        return Watched(settings, postgres.superuser_url)
    return kept.watch(settings)


@dataclass
class Lender:
    """The databases of a test process that wait for their next test."""

    server: TestPostgres
    administrator: AsyncConnection
    free: list[Kept] = field(default_factory=list)

    async def lend(self) -> Kept:
        """Return an empty one."""
        while self.free:
            kept = self.free.pop()
            if await kept.empty():
                break
            await self._drop(kept)
        else:
            kept = await self._make()
        LENT[kept.postgres.database] = kept
        return kept

    def take_back(self, kept: Kept) -> None:
        """Keep one for the next test."""
        del LENT[kept.postgres.database]
        self.free.append(kept)

    async def close(self) -> None:
        """Drop them all."""
        for kept in self.free:
            await self._drop(kept)

    async def _make(self) -> Kept:
        postgres = await self.server.create(f"test_{uuid4().hex}", by=self.administrator)
        url = postgres.superuser_url.replace("+asyncpg", "")
        session = await asyncpg.connect(url, ssl=False)  # type: ignore[no-untyped-call]  # asyncpg leaves it without
        kept = Kept(postgres, session, asyncio.get_running_loop())
        await kept.describe()
        return kept

    async def _drop(self, kept: Kept) -> None:
        await kept.end()
        await kept.postgres.drop(by=self.administrator)
