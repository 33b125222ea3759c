"""Directives of a bank, links between its units, and its reflections."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from afterturn_client.contract.banks import DirectiveDetails
from afterturn_client.contract.knowledge import Directive, Reflection
from afterturn_client.contract.receipts import DirectiveReceipt
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
    Row,
    Select,
    bindparam,
    cast,
    literal,
    select,
    tuple_,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity, schema
from store.database import Database
from store.errors import NotFound
from store.expiry import bank_lasts
from store.log.append import append_events, read_versions
from store.log.catalog import EventType, aggregate_id
from store.log.envelope import Origin, build_command
from store.memory.commanded import Command, CommandDone, apply_command, lock_bank, require_units
from store.memory.reflections import STILL_DRAWN
from store.page_bytes import PageRows, build_page, cut_to_bytes
from store.tenancy.quotas import charge_quota, run_within_quota

#: The bytes that quotas are charged for a link, which holds no text: two ids, a type and a weight.
LINK_BYTES = 128

_DIRECTIVE, _LINK = schema.DIRECTIVE.c, schema.LINK.c
_RANK = -cast(_DIRECTIVE.priority, BigInteger)
_SAID = (_DIRECTIVE.directive_id, _DIRECTIVE.name, _DIRECTIVE.content, _DIRECTIVE.priority, _DIRECTIVE.laid_down_by)
_HOLDS = schema.in_bank(schema.DIRECTIVE), _DIRECTIVE.active, bank_lasts()
DIRECTIVES = select(*_SAID).where(*_HOLDS).order_by(_RANK, _DIRECTIVE.name, _DIRECTIVE.directive_id)
ONE_DIRECTIVE = select(
    *_SAID, _DIRECTIVE.aggregate_version.label("version"), _DIRECTIVE.update_ts.label("updated_at")
).where(*_HOLDS, _DIRECTIVE.directive_id == bindparam("directive"))
# A reflection one of whose sources has ended is left out, whether or not a stage has ended it yet.
_REFLECTION = schema.REFLECTION.c
REFLECTIONS = (
    select(_REFLECTION.reflection_id, _REFLECTION.content, _REFLECTION.update_ts.label("updated_at"))
    .where(schema.in_bank(schema.REFLECTION), _REFLECTION.active, bank_lasts(), STILL_DRAWN)
    .order_by(_REFLECTION.update_ts.desc(), _REFLECTION.reflection_id.desc())
)


@dataclass(frozen=True, slots=True)
class NewDirective:
    """A directive to write, and its author; its name identifies it within the bank."""

    name: str = field(repr=False)
    content: str = field(repr=False)
    priority: int = 0
    laid_down_by: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class NewLink:
    """A link between two units of a bank; `kind` is one of the seven link types."""

    first: UUID
    second: UUID
    kind: str
    weight: float = 1.0


class Curation:
    """Commands on an existing bank: directives and links; each is an event, except one that changes nothing."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def apply(self, host: UUID, bank: UUID, command: Command, user: str | None = None) -> CommandDone:
        """Append a command's event in a bank, as `user`, projected. Raises as `apply_command` does."""
        origin = Origin(host, bank, identity.user_id(host, user), self._clock())
        apply = partial(apply_command, self._database, origin, command)
        return await run_within_quota(self._database, host, origin.at, apply)

    async def lay_down(self, host: UUID, bank: str, new: NewDirective, user: str | None = None) -> DirectiveReceipt:
        """Write the directive of this name, as `user`.

        A directive that has this content already stays as it is, and keeps its author. Raises TurnEnded, QuotaExceeded.
        """
        origin = self._origin(host, bank, user)
        return await run_within_quota(self._database, host, origin.at, partial(self._lay_down, origin, new))

    async def _lay_down(self, origin: Origin, new: NewDirective) -> DirectiveReceipt:
        directive = Directive(directive_id=identity.directive_id(origin.bank, new.name), **asdict(new))
        size = len(new.name.encode()) + len(new.content.encode())
        async with self._database.tenant(origin.host) as connection:
            await lock_bank(connection, origin)
            known = (await connection.execute(_find_directive(origin, directive.directive_id))).one_or_none()
            alive = known is not None and known.active
            if known is not None and alive and tuple(known[1:4]) == (new.name, new.content, new.priority):
                return DirectiveReceipt(**asdict(_build_directive(known)), changed=False)
            data = {
                "directiveId": str(directive.directive_id),
                "name": new.name,
                "content": new.content,
                "priority": new.priority,
                **({"laidDownBy": new.laid_down_by} if new.laid_down_by else {}),
                "bytes": size + (known.bytes if known is not None and alive else 0),
            }
            kind = EventType.DIRECTIVE_UPDATED if alive else EventType.DIRECTIVE_CREATED
            await _append_next_version(connection, origin, kind, data, (directive.directive_id,))
            await charge_quota(connection, origin.host, origin.bank, size)
        return DirectiveReceipt(**asdict(directive), changed=True)

    async def directives(
        self, host: UUID, bank: str, limit: int, after: tuple[int, str, UUID] | None = None
    ) -> PageRows[Directive]:
        """Return a page of a bank's directives, the highest priority first, after one's (priority, name, id)."""
        place = {"host": host, "bank": identity.bank_id(host, bank), "now": self._clock()}
        query = DIRECTIVES.limit(limit + 1)
        if after is not None:
            priority, name, directive = after
            behind = tuple_(literal(-priority, BigInteger), name, directive)
            query = query.where(tuple_(_RANK, _DIRECTIVE.name, _DIRECTIVE.directive_id) > behind)
        async with self._database.tenant(host) as connection:
            rows = (await connection.execute(cut_to_bytes(query, _build_order, ("content",)), place)).all()
        return build_page(rows, limit, _build_directive)

    async def directive(self, host: UUID, bank: str, directive: UUID) -> DirectiveDetails:
        """Return one directive with its version. Raises NotFound."""
        place = {"host": host, "bank": identity.bank_id(host, bank), "directive": directive, "now": self._clock()}
        async with self._database.tenant(host) as connection:
            row = (await connection.execute(ONE_DIRECTIVE, place)).mappings().one_or_none()
        if row is None:
            raise NotFound("no such directive")
        return DirectiveDetails(**row)

    async def withdraw(self, host: UUID, bank: str, directive: UUID, user: str | None = None) -> None:
        """End a directive, as `user`. Raises NotFound, TurnEnded."""
        origin = self._origin(host, bank, user)
        async with self._database.tenant(host) as connection:
            await lock_bank(connection, origin)
            known = (await connection.execute(_find_directive(origin, directive))).one_or_none()
            if known is None or not known.active:
                raise NotFound("no such directive")
            data = {"directiveId": str(directive)}
            await _append_next_version(connection, origin, EventType.DIRECTIVE_DELETED, data, (directive,))

    async def link(self, host: UUID, bank: str, link: NewLink, user: str | None = None) -> bool:
        """Link two units of a bank, as `user`; returns whether anything changed.

        Raises NotFound for either unit, TurnEnded, QuotaExceeded.
        """
        origin = self._origin(host, bank, user)
        return await run_within_quota(self._database, host, origin.at, partial(self._link, origin, link))

    async def _link(self, origin: Origin, link: NewLink) -> bool:
        parts = (link.first, link.second, link.kind)
        async with self._database.tenant(origin.host) as connection:
            await lock_bank(connection, origin)
            await require_units(connection, origin, (link.first, link.second))
            known = (await connection.execute(_find_link(origin, link))).one_or_none()
            alive = known is not None and known.active
            if known is not None and alive and known.weight == link.weight:
                return False
            data = {
                "fromUnitId": str(link.first),
                "toUnitId": str(link.second),
                "linkType": link.kind,
                "weight": link.weight,
                "bytes": LINK_BYTES + (known.bytes if known is not None and alive else 0),
            }
            kind = EventType.LINK_UPDATED if alive else EventType.LINK_CREATED
            await _append_next_version(connection, origin, kind, data, parts)
            await charge_quota(connection, origin.host, origin.bank, LINK_BYTES)
        return True

    async def reflections(
        self, host: UUID, bank: str, limit: int, after: tuple[datetime, UUID] | None = None
    ) -> list[Reflection]:
        """Return a bank's reflections, the newest first, after one's (time, id)."""
        query = REFLECTIONS.limit(limit)
        if after is not None:
            query = query.where(tuple_(_REFLECTION.update_ts, _REFLECTION.reflection_id) < tuple_(*after))
        place = {"host": host, "bank": identity.bank_id(host, bank), "now": self._clock()}
        async with self._database.tenant(host) as connection:
            return [Reflection(**row._asdict()) for row in await connection.execute(query, place)]

    def _origin(self, host: UUID, bank: str, user: str | None) -> Origin:
        return Origin(host, identity.bank_id(host, bank), identity.user_id(host, user), self._clock())


def _build_order(found: FromClause) -> tuple[ColumnElement[Any], ...]:
    return (-cast(found.c.priority, BigInteger), found.c.name, found.c.directive_id)


def _build_directive(row: Row[Any]) -> Directive:
    return Directive(
        directive_id=row.directive_id,
        name=row.name,
        content=row.content,
        priority=row.priority,
        laid_down_by=row.laid_down_by,
    )


def _find_directive(origin: Origin, directive: UUID) -> Select[*tuple[Any, ...]]:
    return select(*_SAID, _DIRECTIVE.active, _DIRECTIVE.bytes).where(
        _DIRECTIVE.host_id == origin.host, _DIRECTIVE.bank_id == origin.bank, _DIRECTIVE.directive_id == directive
    )


def _find_link(origin: Origin, link: NewLink) -> Select[*tuple[Any, ...]]:
    return select(_LINK.weight, _LINK.active, _LINK.bytes).where(
        _LINK.host_id == origin.host,
        _LINK.bank_id == origin.bank,
        _LINK.from_unit_id == link.first,
        _LINK.to_unit_id == link.second,
        _LINK.link_type == link.kind,
    )


async def _append_next_version(
    connection: AsyncConnection, origin: Origin, kind: EventType, data: dict[str, Any], parts: tuple[object, ...]
) -> None:
    subject = aggregate_id(origin.host, origin.bank, *parts)
    version = (await read_versions(connection, origin.host, [subject]))[subject] + 1
    await append_events(connection, origin.host, [build_command(origin, kind, data, version=version)])
