"""Single units: read one with its provenance, correct one, pin one, forget one."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import orjson
from afterturn_client.contract.receipts import CorrectionReceipt, ForgottenReceipt
from afterturn_client.contract.units import DrawnFact, FormerVersion, Link, Unit
from sqlalchemy import Row, Select, Text, Uuid, and_, any_, bindparam, case, cast, func, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.database import Database
from store.derived import bank_state
from store.derived.fact_states import ENDED_BY, ended_by, select_newest_statement, select_proposals, tell_state
from store.derived.facts import DENIED
from store.derived.said_facts import FACT_KIND, ONE_BANK, SaidFact, fact_metadata, read_said_facts
from store.errors import ConcurrencyError, NotFound, TurnBusy
from store.expiry import bank_lasts, row_lasts
from store.log.append import append_events, order_events
from store.log.catalog import Aggregate, EventType
from store.log.envelope import Origin, build_version
from store.memory import authorship, corrections, reflections
from store.memory.authorship import Author
from store.memory.corrections import correct_unit, end_unit, pin_unit
from store.memory.graph import read_links
from store.memory.reflections import ReflectionSources
from store.schema import DOC, ENTITY, EVENT_STORE, FACT, UNIT, UNIT_ENTITY, in_bank, same_bank
from store.sql_constants import inline
from store.tenancy.quotas import run_within_quota

_UNIT, _SOURCE, _EVENT = UNIT.c, UNIT.alias("s"), EVENT_STORE.c
_ENTITIES = (
    select(ENTITY.c.canonical_name)
    .join_from(UNIT_ENTITY, ENTITY, same_bank(UNIT_ENTITY, ENTITY, "entity_id"))
    .where(same_bank(UNIT_ENTITY, UNIT, "unit_id"), UNIT_ENTITY.c.removed_at.is_(None))
    .order_by(ENTITY.c.canonical_name)
)
_OF_DOC = func.coalesce(DOC.c["metadata"], inline("{}"), type_=JSONB)
GET: Select[*tuple[Any, ...]] = (
    select(
        *(_UNIT[name] for name in ("unit_id", "content", "fact_type", "origin", "session_id", "turn_id")),
        *(_UNIT[name] for name in ("session_name", "turn_name", "ordinal", "role", "name", "event_date")),
        _UNIT.position,
        _UNIT.aggregate_version,
        cast(_OF_DOC.concat(_UNIT["metadata"]), Text).label("metadata"),
        _UNIT.source_memory_ids,
        FACT.c.valid_from,
        FACT.c.valid_to,
        FACT.c.superseded_by,
        tell_state(FACT).label("state"),
        case((FACT.c.consolidated_by.is_not(None), select_newest_statement(FACT))).label("restated_by"),
        select_proposals(UNIT).label("deletion_proposed_by"),
        _UNIT.expires_at,
        func.array(_ENTITIES.scalar_subquery()).label("entities"),
    )
    .outerjoin_from(UNIT, FACT, same_bank(FACT, UNIT, "unit_id"))
    .outerjoin(ENDED_BY, ended_by(FACT))
    .outerjoin(DOC, same_bank(DOC, UNIT, "doc_id"))
    .where(in_bank(UNIT), _UNIT.unit_id == bindparam("unit"), _UNIT.active, row_lasts(UNIT), bank_lasts())
)
THERE: Select[*tuple[Any, ...]] = select(
    _UNIT.unit_id, _UNIT.session_id, _UNIT.turn_id, _UNIT.origin, _UNIT.aggregate_version, _UNIT.active
).where(in_bank(UNIT), _UNIT.unit_id == bindparam("unit"))
# The messages that are remembered which state a fact, and its value.
_FACT_UNIT = UNIT.alias("f")
STATED_BY: Select[*tuple[Any, ...]] = (
    select(_SOURCE.c.unit_id, _FACT_UNIT.c["metadata"]["value"].astext.label("value"))
    .join_from(_FACT_UNIT, _SOURCE, and_(in_bank(_SOURCE), _SOURCE.c.unit_id == any_(_FACT_UNIT.c.source_memory_ids)))
    .where(
        in_bank(_FACT_UNIT),
        _FACT_UNIT.c.unit_id == bindparam("unit"),
        _FACT_UNIT.c["metadata"][DENIED].astext.is_(None),
        _SOURCE.c.origin == inline("message"),
        _SOURCE.c.active,
    )
    .order_by(_SOURCE.c.unit_id)
)
# Facts belong to the turn of their sources; `living` are those of their sources that are remembered.
_LIVING = select(_SOURCE.c.unit_id).where(
    in_bank(_SOURCE), _SOURCE.c.unit_id == any_(_UNIT.source_memory_ids), _SOURCE.c.active
)
FACTS_OF_TURN = select(
    _UNIT.unit_id,
    _UNIT.aggregate_version,
    _UNIT.source_memory_ids.label("sources"),
    func.array(_LIVING.scalar_subquery()).label("living"),
).where(in_bank(UNIT), _UNIT.turn_id == bindparam("turn"), _UNIT.origin == "extraction", _UNIT.active)


#: Most former versions that a unit is shown with, the newest of them.
VERSIONS_SHOWN = 50
# Each change of a unit is an event that holds its whole state; an erased one holds none.
_VERSIONS = (
    select(
        _EVENT.aggregate_version,
        _EVENT.event_ts,
        _EVENT.data["content"].astext.label("content"),
        (_EVENT.data["metadata"]["pinned"].astext == "true").label("pinned"),
    )
    .where(
        in_bank(EVENT_STORE),
        _EVENT.aggregate_key == cast(bindparam("unit", type_=Uuid), Text),
        _EVENT.data.has_key("content"),
    )
    .order_by(_EVENT.aggregate_version.desc())
    .limit(inline(VERSIONS_SHOWN + 1))
)


class Units:
    """Reads, corrects, pins and forgets single units."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def get(self, host: UUID, bank: str, unit: UUID) -> Unit:
        """Return a unit or reflection of a bank; also a fact of its newest turns before a worker has written it.

        Raises NotFound for an unknown, forgotten or foreign id.
        """
        async with self._database.tenant(host) as connection:
            bank_id = identity.bank_id(host, bank)
            now = self._clock()
            asked = {"host": host, "bank": bank_id, "unit": unit, "now": now}
            found = (await connection.execute(GET, asked)).one_or_none()
            if found is None:
                said = await read_said_facts(connection, ONE_BANK, asked, self._database.retention)
                waiting = next((one for one in said if one.unit_id == unit), None)
                if waiting is not None:
                    return _unit_of_said_fact(waiting)
                return _unit_of_reflection(await reflections.read_reflection(connection, host, bank_id, unit, now))
            facts = await corrections.read_drawn_facts(connection, host, bank_id, found)
            lasting = [fact for fact in facts if fact.expires_at is None or fact.expires_at > now]
            former = await _read_former(connection, asked, found.aggregate_version)
            return _build_unit(found, lasting, await read_links(connection, host, bank_id, unit, now), former)

    async def authors(self, host: UUID, bank: str, units: Sequence[UUID]) -> set[Author]:
        """Return the authors of these units or reflections of a bank. Raises NotFound for an unknown one, TurnBusy."""
        async with self._writable(host, bank, units), self._database.tenant(host) as connection:
            return await authorship.find_unit_authors(connection, host, identity.bank_id(host, bank), units)

    async def correct(
        self, host: UUID, bank: str, unit: UUID, content: str, *, version: int | None = None, user: str | None = None
    ) -> CorrectionReceipt:
        """Change one unit's text to `content`, as `user`; for its effects see `corrections.correct_unit`.

        Raises NotFound, IsReflection, TurnBusy, ConcurrencyError when `version` is given and no longer the unit's.
        """
        return await self._change(host, bank, unit, user, partial(correct_unit, content=content, version=version))

    async def end(
        self,
        host: UUID,
        bank: str,
        unit: UUID,
        ends: datetime | None,
        *,
        version: int | None = None,
        user: str | None = None,
    ) -> CorrectionReceipt:
        """Set when one unit ends, or that it never does, as `user`; for its effects see `corrections.end_unit`.

        Raises as `correct`, and QuotaExceeded.
        """
        return await self._change(host, bank, unit, user, partial(end_unit, ends=ends, version=version))

    async def pin(
        self, host: UUID, bank: str, unit: UUID, *, pinned: bool, user: str | None = None
    ) -> CorrectionReceipt:
        """Pin one unit, so that every answer of its bank holds it, or unpin it, as `user`.

        Raises NotFound, IsReflection, TurnBusy, QuotaExceeded.
        """
        return await self._change(host, bank, unit, user, partial(pin_unit, pinned=pinned))

    async def _change(
        self,
        host: UUID,
        bank: str,
        unit: UUID,
        user: str | None,
        change: Callable[[AsyncConnection, Origin, UUID], Awaitable[CorrectionReceipt]],
    ) -> CorrectionReceipt:
        """Change one unit, as `user`, in a transaction of its own, within the quotas."""
        origin = Origin(host, identity.bank_id(host, bank), identity.user_id(host, user), self._clock())

        async def write() -> CorrectionReceipt:
            async with self._database.tenant(host) as connection:
                return await change(connection, origin, unit)

        async with self._writable(host, bank, [unit]):
            return await run_within_quota(self._database, host, origin.at, write)

    async def forget(
        self,
        host: UUID,
        bank: str,
        unit: UUID,
        user: str | None = None,
        *,
        with_facts: bool = True,
        version: int | None = None,
        only: Aggregate | None = None,
    ) -> ForgottenReceipt:
        """Forget one unit or reflection (`only`: one of the two), as `user`: gone from every read when this returns.

        Its words, vectors and mentions end with it, and so do the facts drawn from it that no other remembered unit
        states; those of a unit that was forgotten before end, too. With `with_facts=False` facts of a message stay.
        No answer holds a reflection of facts that ended, and it is derived anew. A message that states a forgotten fact
        stays, and is former where a recall asks for that fact. Raises NotFound, TurnEnded, TurnBusy, QuotaExceeded.
        """
        bank_id = identity.bank_id(host, bank)
        origin = Origin(host, bank_id, identity.user_id(host, user), self._clock())
        async with self._writable(host, bank, [unit]), self._database.tenant(host) as connection:
            seen = await _read_unit_row(connection, host, bank_id, unit)
            session = None if seen is None else seen.session_id
            await corrections.lock_session(connection, origin, session or unit)
            found = await _read_unit_row(connection, host, bank_id, unit)
            if (only is Aggregate.UNIT and found is None) or (only is Aggregate.REFLECTION and found is not None):
                raise NotFound("no such unit")
            if found is None:
                ended = await reflections.forget_reflection(connection, origin, unit, version)
                return ForgottenReceipt(unit_id=unit, position=ended, facts_forgotten=0)
            if version not in (None, found.aggregate_version):
                raise ConcurrencyError(Aggregate.UNIT.value, version, found.aggregate_version)
            with_facts = with_facts or found.origin == corrections.MEMORY
            facts = await _said_here_alone(connection, host, bank_id, found) if with_facts else {}
            ending = facts | ({unit: found.aggregate_version} if found.active else {})
            position = await append_events(connection, host, _end_events(origin, ending))
            if position is None:
                raise NotFound("no such unit")
            await bank_state.request_recount(connection, origin, position)
            if with_facts and found.turn_id:
                await connection.execute(corrections.TAKE_BACK, {"host": host, "turn": found.turn_id})
            if found.origin == "extraction":
                position = await _withdraw_fact(connection, origin, unit) or position
        return ForgottenReceipt(unit_id=unit, position=position, facts_forgotten=len(facts))

    @asynccontextmanager
    async def _writable(self, host: UUID, bank: str, units: Sequence[UUID]) -> AsyncIterator[None]:
        """Turn NotFound into TurnBusy where it concerns a readable fact that no worker has written yet."""
        try:
            yield
        except NotFound:
            place = {"host": host, "bank": identity.bank_id(host, bank), "now": self._clock()}
            async with self._database.tenant(host) as connection:
                said = await read_said_facts(connection, ONE_BANK, place, self._database.retention)
            if any(one.unit_id in units for one in said):
                raise TurnBusy("a worker has yet to write this fact; try again in a moment") from None
            raise


async def _read_unit_row(connection: AsyncConnection, host: UUID, bank: UUID, unit: UUID) -> Row[Any] | None:
    return (await connection.execute(THERE, {"host": host, "bank": bank, "unit": unit})).one_or_none()


async def _withdraw_fact(connection: AsyncConnection, origin: Origin, fact: UUID) -> int | None:
    """Mark the messages that state a forgotten fact; return the position of the last mark, None without any."""
    place = {"host": origin.host, "bank": origin.bank, "unit": fact}
    position = None
    for source in (await connection.execute(STATED_BY, place)).all():
        if source.value is not None:
            position = await corrections.withdraw_fact(connection, origin, source.unit_id, source.value) or position
    return position


async def _said_here_alone(connection: AsyncConnection, host: UUID, bank: UUID, unit: Row[Any]) -> dict[UUID, int]:
    """Return the facts, with their versions, whose remembered sources are this unit and facts drawn from it alone."""
    place = {"host": host, "bank": bank, "turn": unit.turn_id}
    rows = (await connection.execute(FACTS_OF_TURN, place)).all() if unit.turn_id else []
    gone = {unit.unit_id}
    while more := {
        row.unit_id
        for row in rows
        if row.unit_id not in gone and gone.intersection(row.sources) and gone.issuperset(row.living)
    }:
        gone |= more
    return {row.unit_id: row.aggregate_version for row in rows if row.unit_id in gone - {unit.unit_id}}


def _end_events(origin: Origin, units: Mapping[UUID, int]) -> list[Mapping[str, Any]]:
    ends = [build_version(origin, EventType.UNIT_DELETED, (unit,), version + 1) for unit, version in units.items()]
    return order_events(ends)


async def _read_former(
    connection: AsyncConnection, asked: Mapping[str, Any], version: int
) -> tuple[FormerVersion, ...]:
    if version == 1:
        return ()
    rows = (await connection.execute(_VERSIONS, asked)).all()
    return tuple(
        FormerVersion(
            version=row.aggregate_version, text=row.content, pinned=bool(row.pinned), recorded_at=row.event_ts
        )
        for row in rows
        if row.aggregate_version < version
    )


def _unit_of_reflection(found: ReflectionSources) -> Unit:
    return Unit(
        unit_id=found.reflection_id,
        kind=reflections.KIND,
        text=found.content,
        origin=reflections.ORIGIN,
        occurred_at=found.updated_at,
        position=found.position,
        metadata={},
        sources=found.sources,
        version=found.version,
    )


def _unit_of_said_fact(said: SaidFact) -> Unit:
    return Unit(
        unit_id=said.unit_id,
        kind=FACT_KIND,
        text=said.fact.statement,
        origin="extraction",
        session_id=said.session_name,
        turn_id=said.turn_name,
        occurred_at=said.said_at,
        position=said.said,
        metadata=fact_metadata(said.fact),
        sources=(said.source,),
        expires_at=said.expires_at,
    )


def _build_unit(
    row: Row[Any], facts: Sequence[Row[Any]], links: Sequence[Link], former: tuple[FormerVersion, ...]
) -> Unit:
    metadata = orjson.loads(row.metadata)
    return Unit(
        unit_id=row.unit_id,
        kind=row.fact_type,
        text=row.content,
        origin=row.origin,
        session_id=row.session_name,
        turn_id=row.turn_name,
        ordinal=row.ordinal,
        role=row.role,
        name=row.name,
        occurred_at=row.event_date,
        position=row.position,
        metadata=metadata,
        sources=tuple(row.source_memory_ids),
        entities=tuple(row.entities),
        valid_from=row.valid_from,
        valid_to=row.valid_to,
        superseded_by=row.superseded_by,
        state=row.state,
        state_by=row.superseded_by or row.restated_by,
        deletion_proposed_by=tuple(row.deletion_proposed_by),
        version=row.aggregate_version,
        expires_at=row.expires_at,
        facts=tuple(DrawnFact(unit_id=fact.unit_id, text=fact.content) for fact in facts),
        links=tuple(links),
        pinned=metadata.get(corrections.PINNED) == "true",
        former=former,
    )
