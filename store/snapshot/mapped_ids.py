"""The ids that an import gave to what another tenant, or another name, had: `imported_id_t`.

A later import of the same tenant under the same rules goes on with them, and so does an erasure that it brings. So they
stay as long as the tenant, also those of what was erased: an id that follows from a mark of a masked snapshot follows
from no later snapshot, and without it what was erased would come back under another. Those of dry runs alone go.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import and_, any_, bindparam, delete, exists, or_, select, text
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import Uuid

from store.database import Database
from store.log.locks import hold_lock
from store.off_loop import run_off_loop
from store.schema import IMPORTED_ID, SNAPSHOT
from store.snapshot.events import ReadEvent
from store.snapshot.replacements import Replaced, Replacements
from store.snapshot.rewriting import MESSAGES, PEOPLE, THINGS, UNITS, Learned, Rewriting, StatedFact
from store.snapshot.rows import DONE, SnapshotRow

#: How long a dry run that was interrupted finds the ids that it was given.
DRY_RUN_GOES_ON = timedelta(days=1)
_ID, _RUN = IMPORTED_ID.c, SNAPSHOT.c
_OF = (_ID.host_id == bindparam("host"), _ID.mapping_id == bindparam("mapping"))
_IDS = any_(bindparam("ids", type_=ARRAY(Uuid)))
KNOWN = select(_ID.old_id, _ID.new_id).where(*_OF, _ID.old_id == _IDS)
TAKEN = select(_ID.old_id, _ID.new_id).where(*_OF, _ID.new_id == _IDS)
SAVE = insert(IMPORTED_ID).on_conflict_do_nothing()
LOCK = select(hold_lock("mapping", "mapping"))
_IS_USED = exists().where(
    _RUN.host_id == bindparam("host"),
    _RUN.mapping_id == bindparam("mapping"),
    or_(~_RUN.dry_run, and_(_RUN.status != DONE, _RUN.updated_at > bindparam("since"))),
)
FORGET = delete(IMPORTED_ID).where(*_OF, ~_IS_USED)
# A mapping that another transaction has locked is used.
INTERRUPTED = text("""
    select m.mapping_id from (
        select r.mapping_id from afterturn.snapshot_t r
         where r.host_id = :host and r.mapping_id is not null
           and exists (select from afterturn.imported_id_t i
                        where i.host_id = r.host_id and i.mapping_id = r.mapping_id)
         group by r.mapping_id
        having bool_and(r.dry_run and (r.status = 'done' or r.updated_at <= :since)) offset 0) m
     where pg_try_advisory_xact_lock(afterturn.lock_key('mapping', m.mapping_id))""")
FOLD = text("""
    select afterturn.folded(o.subject) as subject, afterturn.folded(o.key) as key
      from unnest(cast(:subjects as text[]), cast(:keys as text[])) with ordinality as o(subject, key, nth)
     order by o.nth""")


class MappedIds:
    """The ids of one import by those of its source."""

    def __init__(self, database: Database, row: SnapshotRow, rules: Replacements) -> None:
        """Use the import's row, which names source and mapping."""
        self._database = database
        self._host, self._source, self._mapping = row.host, row.source_host or row.host, row.mapping
        self._rules = rules

    async def learn_people(self, connection: AsyncConnection, names: Iterable[str]) -> None:
        """Keep the ids of users and agents of these names, and of those that the rules name."""
        named = (one for of in (Replaced.USER, Replaced.AGENT) for one in self._rules.list_named(of))
        rewriting = Rewriting(self._source, self._host, self._rules, {})
        rewriting.learn_people([*names, *named])
        await self._save(connection, rewriting.learned)

    async def prepare(self, events: Sequence[ReadEvent]) -> Rewriting:
        """Return the rewriting of these events of the source; ids that they name are kept for later events."""
        old = await run_off_loop(len(events) * 20, list_ids, events)
        place = {"host": self._host, "mapping": self._mapping}
        async with self._database.tenant(self._host) as connection:
            known = {row.old_id: row.new_id for row in await connection.execute(KNOWN, {**place, "ids": list(old)})}
            rewriting = Rewriting(self._source, self._host, self._rules, known)
            await run_off_loop(len(events) * 500, rewriting.learn, events)
            rewriting.learn_identities(await _fold_identities(connection, rewriting.list_facts(events)))
            rewriting.clashes = await self._find_clashes(connection, rewriting.learned)
            await self._save(connection, rewriting.learned, rewriting.clashes)
        return rewriting

    async def _find_clashes(self, connection: AsyncConnection, learned: Learned) -> frozenset[UUID]:
        """Return the source's ids that would get an id here that another one of the source has."""
        asked = {"host": self._host, "mapping": self._mapping, "ids": list(set(learned.things.values()))}
        owners = {row.new_id: row.old_id for row in await connection.execute(TAKEN, asked)}
        return frozenset(old for old, new in learned.things.items() if owners.setdefault(new, old) != old)

    async def _save(self, connection: AsyncConnection, learned: Learned, clashes: Collection[UUID] = ()) -> None:
        place = {"host_id": self._host, "mapping_id": self._mapping}
        ids = {old: new for old, new in learned.things.items() if old not in clashes} | learned.people
        if ids:
            await connection.execute(SAVE, [{**place, "old_id": old, "new_id": new} for old, new in ids.items()])


async def lock_mapping(connection: AsyncConnection, mapping: UUID) -> None:
    """Lock a mapping against a dry run of it that ends."""
    await connection.execute(LOCK, {"mapping": mapping})


async def forget_dry_run(connection: AsyncConnection, row: SnapshotRow, now: datetime) -> None:
    """Delete the ids that dry runs alone were given, once none of them goes on; `row`: one that is done."""
    if row.dry_run and row.mapping is not None:
        await lock_mapping(connection, row.mapping)
        place = {"host": row.host, "mapping": row.mapping}
        await connection.execute(FORGET, {**place, "since": now - DRY_RUN_GOES_ON})


async def forget_interrupted(connection: AsyncConnection, host: UUID, now: datetime) -> None:
    """Delete the ids that a tenant's dry runs were given which were interrupted and go on no more."""
    since = now - DRY_RUN_GOES_ON
    for mapping in (await connection.execute(INTERRUPTED, {"host": host, "since": since})).scalars().all():
        # By another statement than the lock, it sees an import that began meanwhile.
        await connection.execute(FORGET, {"host": host, "mapping": mapping, "since": since})


def list_ids(events: Iterable[ReadEvent]) -> set[UUID]:
    """Return every id that these events hold."""
    found = set[UUID]()
    for event in events:
        found |= {event.bank, event.user}
        found.update(UUID(str(event.data[name])) for name in (*THINGS, *PEOPLE) if event.data.get(name))
        found.update(UUID(str(one)) for one in event.data.get(UNITS) or ())
        found.update(UUID(str(one["unitId"])) for one in event.data.get(MESSAGES) or () if one.get("unitId"))
    return found


async def _fold_identities(connection: AsyncConnection, facts: Sequence[StatedFact]) -> list[StatedFact]:
    """Return facts with subject and key as their identities have them."""
    if not facts:
        return []
    asked: Mapping[str, list[str]] = {"subjects": [one.subject for one in facts], "keys": [one.key for one in facts]}
    folded = (await connection.execute(FOLD, asked)).all()
    return [replace(one, subject=row.subject, key=row.key) for one, row in zip(facts, folded, strict=True)]
