"""Finds, lists and creates banks: their owners, and which of them a caller may see."""

from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal
from uuid import UUID, uuid4

import orjson
from afterturn_client.contract.banks import BankDetails, ListedBank
from sqlalchemy import Row, Text, Uuid, and_, any_, bindparam, func, or_, select, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.database import Database
from store.errors import BankInUse, ConcurrencyError, KeyReused, NotFound, TurnEnded
from store.expiry import BEFORE_ALL, HAS_EXPIRED, NOW, row_lasts
from store.log.append import append_events
from store.log.catalog import EventType
from store.log.envelope import Origin, build_offer
from store.log.locks import HOLD_BANK
from store.log.refusals import translate_refusals
from store.schema import BANK, BANK_LANGUAGE, DIRECTIVE, DOC, EVENT_STORE, REFLECTION, SESSION_HISTORY, UNIT, in_bank
from store.sql_constants import inline
from store.tenancy import languages
from store.tenancy.spaces import Space, parse_space

#: The most banks of one user that are listed, and how many of the user's events are read to find them.
MOST_OF_USER = 16
EVENTS_OF_USER = 5000

_BANK = BANK.c
_LASTS = row_lasts(BANK)
_NAMED = and_(_BANK.host_id == bindparam("host"), _BANK.bank_id == bindparam("bank"))
_NAME = _BANK.bank_name.collate("C")
# Runs under the policy of scopes, which hides what a user or an agent must not see.
VISIBLE = select(_BANK.bank_id).where(
    _BANK.host_id == bindparam("host"),
    _BANK.bank_id == any_(bindparam("banks", type_=ARRAY(Uuid))),
    _BANK.active,
    _LASTS,
)
_SHOWN = (
    select(
        _BANK.bank_name.label("bank"),
        _BANK.user_id.label("user"),
        _BANK.agent_def_id.label("agent"),
        func.coalesce(BANK_LANGUAGE.c.language, "auto").label("language"),
        BANK_LANGUAGE.c.former.is_(None).label("settled"),
        _BANK.expires_at,
    )
    .outerjoin_from(
        BANK,
        BANK_LANGUAGE,
        and_(BANK_LANGUAGE.c.host_id == _BANK.host_id, BANK_LANGUAGE.c.bank_id == _BANK.bank_id),
    )
    .where(_BANK.active, _LASTS)
)
LIST = (
    _SHOWN.where(_BANK.host_id == bindparam("host"), bindparam("after") < _NAME)
    .order_by(_NAME)
    .limit(bindparam("limit"))
)
ONE = _SHOWN.where(_NAMED)
#: The trait of a bank that an agent's runtime made for one session: lists of banks leave it out.
RUNTIME = "runtime"
#: The traits of a bank for which none were told, as its projection has them.
TRAITS: Mapping[str, Any] = MappingProxyType({"skepticism": 3, "literalism": 3, "empathy": 3})
_OWNED_BY_RUNTIME = _BANK.disposition.has_key(inline(RUNTIME))
DETAILS = select(
    _BANK.bank_name.label("bank"),
    _BANK.bank_id,
    _BANK.user_id.label("user"),
    _BANK.agent_def_id.label("agent"),
    _OWNED_BY_RUNTIME.label("runtime"),
    _BANK.background,
    _BANK.disposition,
    _BANK.expires_at,
    _BANK.aggregate_version.label("version"),
    _BANK.update_ts.label("updated_at"),
).where(_NAMED, _BANK.active, _LASTS)
# The banks of a user's newest events, which are at the end of an index.
_EVENT = EVENT_STORE.c
_RECENT = (
    select(_EVENT.bank_id, _EVENT.position)
    .where(_EVENT.host_id == bindparam("host"), _EVENT.user_id == bindparam("user"))
    .order_by(_EVENT.position.desc())
    .limit(bindparam("events"))
    .subquery("recent")
)
_WRITTEN = select(_RECENT.c.bank_id, func.max(_RECENT.c.position).label("last")).group_by(_RECENT.c.bank_id).subquery()
_NAMES = bindparam("names", type_=ARRAY(Text))
OF_USER = (
    select(_BANK.bank_name)
    .join_from(_WRITTEN, BANK, and_(_BANK.host_id == bindparam("host"), _BANK.bank_id == _WRITTEN.c.bank_id))
    .where(_BANK.active, _LASTS, or_(_NAMES.is_(None), _BANK.bank_name == any_(_NAMES)))
    .order_by(_WRITTEN.c.last.desc(), _BANK.bank_name)
    .limit(bindparam("limit"))
)
OWNERS = select(_BANK.user_id, _BANK.agent_def_id).where(_NAMED, _BANK.active)
ENDED = select(_BANK.bank_id).where(_NAMED, _BANK.active, _BANK.expires_at <= NOW)
KNOWN = select(_BANK.bank_id).where(_NAMED)
NAME = select(_BANK.bank_name).where(_NAMED, _BANK.active, _LASTS)
NO_CHANGES: Mapping[str, Any] = MappingProxyType({})
DONE = select(EVENT_STORE.c.aggregate_version, EVENT_STORE.c.data).where(
    EVENT_STORE.c.host_id == bindparam("host"), EVENT_STORE.c.id == bindparam("identity")
)
#: What lives in a bank, by its name in a refusal. Entities that nothing mentions end with the bank.
LIVING = select(
    *(
        select(func.count()).select_from(table).where(in_bank(table), table.c.active).scalar_subquery().label(name)
        for name, table in (
            ("documents", DOC),
            ("units", UNIT),
            ("directives", DIRECTIVE),
            ("reflections", REFLECTION),
            ("sessions", SESSION_HISTORY),
        )
    )
)
CREATE = text("select afterturn.create_bank(:host, :bank, cast(:event as jsonb), :now)")


class Banks:
    """Finds, lists and creates the banks of a host, as a caller may see them."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def resolve(self, host: UUID, space: Space, bank: str) -> str:
        """Return the whole name of the bank that a caller of `space` means by a name.

        The caller's own bank of that name comes first, then the host's, if the caller may see it. Where there is
        neither, it is the whole name of a bank of the caller's own: foreign and absent banks look the same. A bank
        that the caller's key names by its whole name is that bank.
        """
        if not space.prefix or bank in space.granted:
            return bank
        own = space.name(bank)
        if own == bank:
            return bank
        ids = {identity.bank_id(host, name): name for name in (own, bank)}
        async with self._database.scoped(host, *scope_of(host, space)) as connection:
            rows = await connection.execute(VISIBLE, {"host": host, "banks": list(ids), "now": self._clock()})
            seen = {ids[row.bank_id] for row in rows}
        return bank if bank in seen and own not in seen else own

    async def create(
        self,
        host: UUID,
        user: str | None,
        name: str,
        expires_at: datetime | None = None,
        *,
        runtime: bool = False,
    ) -> tuple[ListedBank, bool]:
        """Create a bank of this whole name, as `user`; return it and whether it is new. Raises QuotaExceeded.

        A new bank expires at `expires_at`, if given; so does one that had expired already, which lives again.
        `runtime`: a new one is of an agent's runtime, which made it for one session.
        """
        more: dict[str, Any] = {"expiresAt": expires_at.isoformat()} if expires_at else {}
        more |= {"disposition": {**TRAITS, RUNTIME: True}} if runtime else {}
        outcome = await self._offer(host, user, name, more)
        if outcome == "known" and await self._has_ended(host, identity.bank_id(host, name)):
            return await self.set_end(host, name, expires_at, user), False
        return await self.get(host, name), outcome == "created"

    async def _offer(self, host: UUID, user: str | None, name: str, more: Mapping[str, Any] = NO_CHANGES) -> str:
        """Create a bank with these fields where there is none; return `created` or `known`. Raises QuotaExceeded."""
        bank, now = identity.bank_id(host, name), self._clock()
        origin = Origin(host, bank, identity.user_id(host, user), now)
        event = build_offer(origin, EventType.BANK_CREATED, (), {**bank_created_fields(host, name), **more})
        arguments = {"host": host, "bank": bank, "event": orjson.dumps(event).decode(), "now": now}
        with translate_refusals():
            return await self._create(host, arguments)

    async def begin(self, host: UUID, user: str | None, name: str) -> None:
        """Create the bank of this whole name where there is none, as `user`. Raises TurnEnded where it has expired.

        Raises QuotaExceeded.
        """
        if await self._offer(host, user, name) == "known" and await self._has_ended(host, identity.bank_id(host, name)):
            raise TurnEnded(HAS_EXPIRED)

    async def get(self, host: UUID, name: str) -> ListedBank:
        """Return the bank of this whole name. Raises NotFound."""
        return await self._read(host, name, self._clock())

    async def details(self, host: UUID, name: str) -> BankDetails:
        """Return the bank of this whole name with its settings. Raises NotFound."""
        asked = {"host": host, "bank": identity.bank_id(host, name), "now": self._clock()}
        async with self._database.tenant(host) as connection:
            row = (await connection.execute(DETAILS, asked)).mappings().one_or_none()
        if row is None:
            raise NotFound("no such bank")
        return BankDetails(scope=_name_scope(row["user"], row["agent"]), **row)

    async def _read(self, host: UUID, name: str, now: datetime) -> ListedBank:
        async with self._database.tenant(host) as connection:
            asked = {"host": host, "bank": identity.bank_id(host, name), "now": now}
            row = (await connection.execute(ONE, asked)).one_or_none()
        if row is None:
            raise NotFound("no such bank")
        return _build_bank(row)

    async def set_end(self, host: UUID, name: str, expires_at: datetime | None, user: str | None = None) -> ListedBank:
        """Set when a bank expires (None: never), as `user`; one that had expired lives again. Raises NotFound."""
        origin = Origin(host, identity.bank_id(host, name), identity.user_id(host, user), self._clock())
        place = {"host": host, "bank": origin.bank}
        async with self._database.tenant(host) as connection:
            await connection.execute(HOLD_BANK, place)
            found = (await connection.execute(languages.BANK, place)).one_or_none()
            if found is None:
                raise NotFound("no such bank")
            if found.expires_at != expires_at:
                await append_events(
                    connection, host, [languages.build_updated_event(origin, found, expiresAt=expires_at)]
                )
        return await self._read(host, name, BEFORE_ALL)

    async def update(
        self,
        host: UUID,
        name: str,
        changes: Mapping[str, Any],
        *,
        version: int | None = None,
        identity_: UUID | None = None,
        user: str | None = None,
    ) -> int:
        """Change background and disposition of a bank, as `user`; return its version. `version`: the one expected.

        Raises NotFound, TurnEnded, ConcurrencyError.
        """
        origin = Origin(host, identity.bank_id(host, name), identity.user_id(host, user), self._clock())
        async with self._database.tenant(host) as connection:
            found = await self._lock_living(connection, origin, version, identity_, changes)
            if isinstance(found, int):
                return found
            disposition = changes.get("disposition")
            others = {name: value for name, value in changes.items() if name != "disposition"}
            event = languages.build_updated_event(origin, found, disposition=disposition, **others)
            await append_events(connection, host, [event | ({"id": str(identity_)} if identity_ else {})])
        return int(found.aggregate_version) + 1

    async def delete(
        self,
        host: UUID,
        name: str,
        *,
        version: int | None = None,
        identity_: UUID | None = None,
        user: str | None = None,
    ) -> int:
        """End an empty bank, as `user`; return its version. `version`: the one expected.

        Raises NotFound, TurnEnded, ConcurrencyError; BankInUse while documents, units, directives, reflections or
        sessions live.
        """
        origin = Origin(host, identity.bank_id(host, name), identity.user_id(host, user), self._clock())
        async with self._database.tenant(host) as connection:
            found = await self._lock_living(connection, origin, version, identity_)
            if isinstance(found, int):
                return found
            counts = (await connection.execute(LIVING, {"host": host, "bank": origin.bank})).mappings().one()
            if living := {name: count for name, count in counts.items() if count}:
                raise BankInUse(living)
            ended = int(found.aggregate_version) + 1
            event = build_offer(origin, EventType.BANK_DELETED, (), {}, nth=str(ended), identity=identity_ or uuid4())
            await append_events(connection, host, [event])
        return ended

    async def _lock_living(
        self,
        connection: AsyncConnection,
        origin: Origin,
        version: int | None,
        identity_: UUID | None,
        changes: Mapping[str, Any] = NO_CHANGES,
    ) -> Row[Any] | int:
        """Lock a bank alone; return its row, or the version that the event of this id, with these changes, gave it."""
        place = {"host": origin.host, "bank": origin.bank}
        await connection.execute(HOLD_BANK, place)
        if identity_ is not None:
            done = (await connection.execute(DONE, {"host": origin.host, "identity": identity_})).one_or_none()
            if done is not None and not _has_changes(done.data, changes):
                raise KeyReused("this idempotency key was used for another command")
            if done is not None:
                return int(done.aggregate_version)
        found = (await connection.execute(languages.BANK, place)).one_or_none()
        if found is None:
            raise NotFound("no such bank")
        if found.expires_at is not None and found.expires_at <= origin.at:
            raise TurnEnded(HAS_EXPIRED)
        if version not in (None, found.aggregate_version):
            raise ConcurrencyError("AgentMemoryBank", version, found.aggregate_version)
        return found

    async def name_of(self, host: UUID, space: Space, bank: UUID) -> str | None:
        """Return the whole name of the bank of this id, where a caller of `space` may see it."""
        async with self._database.scoped(host, *scope_of(host, space)) as connection:
            found: str | None = await connection.scalar(NAME, {"host": host, "bank": bank, "now": self._clock()})
        return found

    async def _has_ended(self, host: UUID, bank: UUID) -> bool:
        place = {"host": host, "bank": bank, "now": self._clock()}
        async with self._database.tenant(host) as connection:
            return (await connection.execute(ENDED, place)).scalar() is not None

    async def owners(self, host: UUID, name: str) -> tuple[UUID | None, UUID | None]:
        """Return the ids of user and agent that own the bank of this whole name, or would own a new one."""
        async with self._database.tenant(host) as connection:
            found = await connection.execute(OWNERS, {"host": host, "bank": identity.bank_id(host, name)})
            row = found.one_or_none()
        return space_ids(host, parse_space(name)) if row is None else (row.user_id, row.agent_def_id)

    async def known(self, host: UUID, name: str) -> bool:
        """Return whether the host has or had a bank of this whole name."""
        async with self._database.tenant(host) as connection:
            found = await connection.execute(KNOWN, {"host": host, "bank": identity.bank_id(host, name)})
            return found.scalar() is not None

    async def of_user(self, host: UUID, space: Space, user: str, *, names: list[str] | None = None) -> list[str]:
        """Return the names of banks that a user wrote to, the last one first, as a caller of `space` may see them."""
        arguments = {
            "host": host,
            "user": identity.user_id(host, user),
            "names": names,
            "limit": MOST_OF_USER,
            "now": self._clock(),
        }
        async with self._database.scoped(host, *scope_of(host, space)) as connection:
            found = await connection.execute(OF_USER, {**arguments, "events": EVENTS_OF_USER})
            return list(found.scalars())

    async def set_language(self, host: UUID, name: str, language: str, user: str | None = None) -> ListedBank:
        """Set the language of a bank, as `user`; return the bank. Raises like languages.change_language."""
        origin = Origin(host, identity.bank_id(host, name), identity.user_id(host, user), self._clock())
        async with self._database.tenant(host) as connection:
            await languages.change_language(connection, origin, language)
        return await self.get(host, name)

    async def list(
        self,
        host: UUID,
        space: Space,
        *,
        names: list[str] | None = None,
        after: str = "",
        limit: int = 200,
        runtime: bool = True,
    ) -> list[ListedBank]:
        """Return the banks that a caller of `space` may see, by name, after `after`; of `names` alone where given.

        `runtime`: those that agents' runtimes made for single sessions are among them.
        """
        arguments = {"host": host, "after": after, "limit": limit, "now": self._clock()}
        query = LIST if names is None else LIST.where(_BANK.bank_name.in_(names))
        query = query if runtime else query.where(~_OWNED_BY_RUNTIME)
        async with self._database.scoped(host, *scope_of(host, space)) as connection:
            return [_build_bank(row) for row in await connection.execute(query, arguments)]

    async def _create(self, host: UUID, arguments: dict[str, object]) -> str:
        async with self._database.tenant(host) as connection:
            return str((await connection.execute(CREATE, arguments)).scalar_one())


def _build_bank(row: Row[Any]) -> ListedBank:
    return ListedBank(scope=_name_scope(row.user, row.agent), **row._mapping)  # noqa: SLF001 - public, says SQLAlchemy


def _name_scope(user: UUID | None, agent: UUID | None) -> Literal["host", "agent", "user"]:
    return "user" if user else "agent" if agent else "host"


def bank_created_fields(host: UUID, name: str, private_to: str | None = None) -> dict[str, str]:
    """Return the data of the event that creates a bank of this whole name: its name and its owners."""
    space = parse_space(name)
    user, agent = space_ids(host, Space(space.user or private_to, space.agent))
    return {
        "bankName": name,
        **({"userId": str(user)} if user else {}),
        **({"agentDefId": str(agent)} if agent else {}),
    }


def _has_changes(data: Mapping[str, Any], changes: Mapping[str, Any]) -> bool:
    """Return whether a bank's state in the log has these changes; of its disposition, those that are named."""
    return all(
        _has_changes(data.get(name) or {}, value) if isinstance(value, dict) else data.get(name) == value
        for name, value in changes.items()
    )


def space_ids(host: UUID, space: Space) -> tuple[UUID | None, UUID | None]:
    """Return the ids of a space's user and agent."""
    user = None if space.user is None else identity.user_id(host, space.user)
    return user, None if space.agent is None else identity.agent_id(host, space.agent)


def scope_of(host: UUID, space: Space) -> tuple[UUID | None, UUID | None, list[UUID]]:
    """Return what a transaction of a space's holder may see (`Database.scoped`): user, agent, and banks granted."""
    return *space_ids(host, space), [identity.bank_id(host, name) for name in sorted(space.granted)]
