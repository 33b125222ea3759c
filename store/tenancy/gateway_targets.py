"""Gateway targets: the Memory Gateway that receives a tenant's turns.

A target belongs to a tenant, or to one bank of it; the bank's takes precedence. The call that writes a turn looks it
up (store/sql/turns.sql) and the delivery keeps it. So a replaced target still gets the turns accepted for it, and no
delivery under way is ever sent elsewhere. A target that is unset gets nothing more.

A user of a gateway (of one application and project there) belongs to one tenant or bank for good, since the memory of
two would merge in it. A session's name there follows from the target, the bank and the session alone.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Protocol, Self
from uuid import UUID, uuid4

from sqlalchemy import Boolean, Select, Update, Uuid, and_, bindparam, case, func, insert, or_, select, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import ReturningUpdate

from store import identity
from store.database import Database
from store.errors import NotFound, TargetTaken
from store.log.locks import hold_lock
from store.schema import BANK, GATEWAY_TARGET, HOST, LEDGER
from store.tenancy.tenants import ADD_HOST, require_tenant_name

#: The prefix of every session's name at a gateway; searches leave it out.
CHAT = "chat:"
#: Most bytes of a session's name at a gateway.
MOST_BYTES = 128
#: Ledger rows that one transaction ends.
TOGETHER = 500
UNSET = "its gateway target was unset"

_DIGESTED = re.compile(r"~[0-9a-f]{32}\Z")

_TARGET = GATEWAY_TARGET.c
_IN_FORCE = and_(_TARGET.replaced_at.is_(None), _TARGET.unset_at.is_(None))
#: A bank's own, or the tenant's: the expression of an index.
_PLACE = func.coalesce(_TARGET.bank_id, _TARGET.host_id)
LOCK = select(hold_lock("gateway target", "host"))
_WAITING = (
    select(func.count())
    .select_from(LEDGER)
    .where(LEDGER.c.host_id == _TARGET.host_id, LEDGER.c.target_id == _TARGET.target_id, LEDGER.c.undone)
)
_OF_HOST = bindparam("host", type_=Uuid)
LIST = (
    select(GATEWAY_TARGET, HOST.c.name.label("host_name"), _WAITING.scalar_subquery().label("waiting"))
    .join_from(GATEWAY_TARGET, HOST, HOST.c.host_id == _TARGET.host_id)
    .where(
        or_(_OF_HOST.is_(None), _TARGET.host_id == _OF_HOST),
        or_(_TARGET.unset_at.is_(None), bindparam("unset", type_=Boolean)),
    )
    .order_by(HOST.c.name, _TARGET.bank_id.nulls_first(), _TARGET.set_at, _TARGET.target_id)
)
END_DELIVERIES = text("select afterturn.end_deliveries(:host, cast(:targets as uuid[]), :by, :reason, :limit)")


class NamedColumns(Protocol):
    """A row of either driver, read by the names of its columns."""

    def __getitem__(self, name: str, /) -> Any:
        """Return a column's value."""
        ...


@dataclass(frozen=True, slots=True)
class GatewayUser:
    """A user of a gateway's application and project. `base_url` None: this service itself is the gateway."""

    base_url: str | None
    user_id: str
    app_id: str = "default"
    project_id: str = "default"


@dataclass(frozen=True, slots=True)
class GatewayTarget:
    """A stored gateway target.

    `bank_id` None: of the tenant. `sealed_key` None: the settings hold the key, or the target is unset. `scope`: the
    scopes in which a recall through it searches.
    """

    host_id: UUID
    target_id: UUID
    bank_id: UUID | None
    user: GatewayUser
    scope: tuple[str, ...]
    of_settings: bool
    set_at: datetime
    replaced_at: datetime | None
    unset_at: datetime | None
    sealed_key: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, row: NamedColumns) -> Self:
        """Return the target of a row."""
        user = GatewayUser(row["base_url"], row["user_id"], row["app_id"], row["project_id"])
        return cls(
            host_id=row["host_id"],
            target_id=row["target_id"],
            bank_id=row["bank_id"],
            user=user,
            scope=tuple(row["scope"]),
            of_settings=row["of_settings"],
            set_at=row["set_at"],
            replaced_at=row["replaced_at"],
            unset_at=row["unset_at"],
            sealed_key=row["sealed_key"],
        )

    @property
    def state(self) -> str:
        """The target's state: in force, replaced (it still gets the turns accepted for it) or unset."""
        return "unset" if self.unset_at else "replaced" if self.replaced_at else "in force"

    @property
    def seal_place(self) -> tuple[str, ...]:
        """The place its key is sealed for."""
        return seal_place(self.host_id, self.bank_id, self.user)

    def session(self, bank: str, session: str) -> str:
        """Return a session's name at the gateway; '' where the name of its bank or session was erased.

        `chat:<session>` for a target of one bank, `chat:<bank>/<session>` for one of a tenant: no session's name holds
        a slash. A name of more than 128 bytes, or one that looks shortened, is shortened to its first 64 bytes, `~` and
        32 hex of its sha256. No two sessions of a target have the same name.
        """
        if not session or not (bank or self.bank_id):
            return ""
        name = CHAT + (session if self.bank_id else f"{bank}/{session}")
        if len(name.encode()) <= MOST_BYTES and not _DIGESTED.search(name):
            return name
        return identity.digest_name(name)


@dataclass(frozen=True, slots=True)
class Destination:
    """The target of a delivery, and the session's name there ('' where a name it is made of was erased)."""

    target: GatewayTarget
    session: str


@dataclass(frozen=True, slots=True)
class ListedTarget:
    """A target as an operator sees it; `bank` is None where the bank does not exist (yet, or any more)."""

    target: GatewayTarget
    host: str
    bank: str | None
    waiting: int


def build_destination(row: NamedColumns) -> Destination:
    """Return the destination of a row that has a target's columns and the names of bank and session."""
    target = GatewayTarget.of(row)
    return Destination(target, target.session(row["bank_name"], row["session_name"]))


def seal_place(host: UUID, bank: UUID | None, user: GatewayUser) -> tuple[str, ...]:
    """Return the place for which a key is sealed: tenant, bank (None: all), and whose memory it opens, and where."""
    return str(host), str(bank or ""), user.base_url or "", user.user_id, user.app_id, user.project_id


class GatewayTargets:
    """Sets, unsets, lists and finds targets."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_bank(self, host: UUID, bank: UUID) -> GatewayTarget | None:
        """Return the target in force for a bank: its own, else the tenant's."""
        async with self._database.tenant(host) as connection:
            query = select(GATEWAY_TARGET).where(_TARGET.host_id == host, _PLACE.in_([bank, host]), _IN_FORCE)
            found = await connection.execute(query.order_by(_TARGET.bank_id.nulls_last()).limit(1))
            row = found.mappings().one_or_none()
        return None if row is None else GatewayTarget.of(row)

    async def set(
        self, host: UUID, bank: UUID | None, user: GatewayUser, scope: Sequence[str], key: str
    ) -> GatewayTarget:
        """Set the gateway user that gets the turns of a tenant, or of one bank; `key` is the user's, sealed.

        The same user again gets this key and scope, also for deliveries under way. Another user replaces the one
        before. Raises NotFound for an unknown host, TargetTaken.
        """
        async with self._database.operator() as connection:
            return await _set_target(connection, (host, bank), user, scope, key)

    async def unset(self, host: UUID, bank: UUID | None, by: str) -> tuple[list[UUID], int]:
        """Unset the targets of a tenant, or of one bank, replaced ones included, and delete their keys.

        Waiting deliveries to them end as skipped, recorded as done by `by`. Returns the targets, and how many
        deliveries that ended. A worker skips a delivery that is opened at the same moment.
        """
        async with self._database.operator() as connection:
            await connection.execute(LOCK, {"host": host})
            targets = list(await connection.scalars(_end_targets(host, bank)))
        return targets, await self.end_deliveries(host, targets, by)

    async def end_deliveries(self, host: UUID, targets: Sequence[UUID], by: str) -> int:
        """End waiting deliveries to unset targets as skipped; return how many that were."""
        ended, more = 0, bool(targets)
        arguments = {"host": host, "targets": list(targets), "by": by, "reason": UNSET, "limit": TOGETHER}
        while more:
            async with self._database.tenant(host) as connection:
                some = int((await connection.execute(END_DELIVERIES, arguments)).scalar_one())
            ended, more = ended + some, some > 0
        return ended

    async def follow_settings(
        self, host: str, user: GatewayUser | None, scope: Sequence[str], by: str
    ) -> GatewayTarget | None:
        """Set the target of the settings for this tenant (None: none), and unset other targets of settings.

        A target that an operator set for the tenant stays, and is returned. The host is created where it is missing.
        Raises TargetTaken; the settings' former target is unset then.
        """
        found: GatewayTarget | None = None
        async with self._database.operator() as connection:
            host_id = identity.host_id(host)
            if user is not None:
                require_tenant_name(host)
                await connection.execute(ADD_HOST, {"host_id": host_id, "name": host})
                found = await _read_current(connection, host_id, None)
            ours = found is not None and found.of_settings and found.user == user
            ended = await connection.execute(_end_targets_of_settings(found.target_id if found and ours else None))
            gone = [(row.host_id, row.target_id) for row in ended]
        for of, target in gone:
            await self.end_deliveries(of, [target], by)
        if user is None or (found is not None and not found.of_settings):
            return found
        async with self._database.operator() as connection:
            return await _set_target(connection, (host_id, None), user, scope, None)

    async def sealed(self) -> list[GatewayTarget]:
        """Return the targets of all hosts that have a sealed key."""
        async with self._database.operator() as connection:
            query = select(GATEWAY_TARGET).where(_TARGET.sealed_key.is_not(None)).order_by(_TARGET.target_id)
            return [GatewayTarget.of(row) for row in (await connection.execute(query)).mappings()]

    async def reseal(self, target: GatewayTarget, key: str) -> bool:
        """Store a target's key sealed anew; False: the target was set again meanwhile."""
        async with self._database.operator() as connection:
            done = await connection.execute(
                _update_target(target.host_id, target.target_id)
                .where(_TARGET.sealed_key == target.sealed_key)
                .values(sealed_key=key)
            )
            return bool(done.rowcount)

    async def list(self, host: UUID | None = None, *, unset: bool = False) -> list[ListedTarget]:
        """Return targets of all hosts or one, in force or replaced, and with `unset` also unset ones."""
        async with self._database.operator() as connection:
            found = await connection.execute(LIST, {"host": host, "unset": unset})
            rows = [(GatewayTarget.of(row), row["host_name"], row["waiting"]) for row in found.mappings()]
        banks: dict[UUID, str] = {}
        for of in {target.host_id for target, _, _ in rows if target.bank_id}:
            async with self._database.tenant(of) as connection:
                wanted = [target.bank_id for target, _, _ in rows if target.host_id == of and target.bank_id]
                named = await connection.execute(
                    select(BANK.c.bank_id, BANK.c.bank_name).where(BANK.c.host_id == of, BANK.c.bank_id.in_(wanted))
                )
                banks |= {row.bank_id: row.bank_name for row in named if row.bank_name}
        return [
            ListedTarget(t, name, banks.get(t.bank_id) if t.bank_id else None, waiting) for t, name, waiting in rows
        ]


async def _set_target(
    connection: AsyncConnection,
    place: tuple[UUID, UUID | None],
    user: GatewayUser,
    scope: Sequence[str],
    key: str | None,
) -> GatewayTarget:
    host, bank = place
    if await connection.scalar(_name_of(host)) is None:
        raise NotFound("there is no such tenant: make a key for it first")
    await connection.execute(LOCK, {"host": host})
    same = (await connection.execute(_target_of_user(host, user))).one_or_none()
    if same is not None and (same.host_id, same.bank_id) != place:
        raise await _describe_taken(connection, same.host_id, of_bank=same.bank_id is not None)
    current = await _read_current(connection, host, bank)
    if current is not None and (same is None or current.target_id != same.target_id):
        # The settings held this target's key and now hold another one, so nothing more can be sent to it.
        unset_at = case((_TARGET.of_settings, func.now()))
        replaced = _update_target(host, current.target_id).values(replaced_at=func.now(), unset_at=unset_at)
        await connection.execute(replaced)
    how = {"scope": list(scope), "sealed_key": key, "of_settings": key is None}
    try:
        if same is not None:
            again = {"set_at": func.now(), "replaced_at": None, "unset_at": None}
            renewed = _update_target(host, same.target_id).values(**how, **again)
            found = await connection.execute(renewed.returning(GATEWAY_TARGET))
        else:
            new = {"host_id": host, "target_id": uuid4(), "bank_id": bank, **asdict(user), **how}
            found = await connection.execute(insert(GATEWAY_TARGET).values(new).returning(GATEWAY_TARGET))
    except IntegrityError:
        raise TargetTaken("another tenant was just given this user of the gateway") from None
    return GatewayTarget.of(found.mappings().one())


async def _read_current(connection: AsyncConnection, host: UUID, bank: UUID | None) -> GatewayTarget | None:
    query = select(GATEWAY_TARGET).where(_TARGET.host_id == host, _PLACE.in_([bank or host]), _IN_FORCE)
    row = (await connection.execute(query)).mappings().one_or_none()
    return None if row is None else GatewayTarget.of(row)


def _name_of(host: UUID) -> Select[str]:
    return select(HOST.c.name).where(HOST.c.host_id == host)


def _target_of_user(host: UUID, user: GatewayUser) -> Select[UUID, UUID, UUID | None]:
    """Return the query of the tenant and bank that own a gateway user; at this service itself, within the tenant."""
    here = _TARGET.base_url == user.base_url
    if user.base_url is None:
        here = and_(_TARGET.base_url.is_(None), _TARGET.host_id == host)
    return select(_TARGET.host_id, _TARGET.target_id, _TARGET.bank_id).where(
        _TARGET.user_id == user.user_id, _TARGET.app_id == user.app_id, _TARGET.project_id == user.project_id, here
    )


def _update_target(host: UUID, target: UUID) -> Update:
    return update(GATEWAY_TARGET).where(_TARGET.host_id == host, _TARGET.target_id == target)


def _end_targets(host: UUID, bank: UUID | None) -> ReturningUpdate[UUID]:
    return (
        update(GATEWAY_TARGET)
        .where(_TARGET.host_id == host, _PLACE.in_([bank or host]), _TARGET.unset_at.is_(None))
        .values(unset_at=func.now(), sealed_key=None)
        .returning(_TARGET.target_id)
    )


def _end_targets_of_settings(but: UUID | None) -> ReturningUpdate[UUID, UUID]:
    return (
        update(GATEWAY_TARGET)
        .where(_TARGET.of_settings, _TARGET.unset_at.is_(None), _TARGET.target_id.is_distinct_from(but))
        .values(unset_at=func.now())
        .returning(_TARGET.host_id, _TARGET.target_id)
    )


async def _describe_taken(connection: AsyncConnection, host: UUID, *, of_bank: bool) -> TargetTaken:
    name = await connection.scalar(_name_of(host))
    owner = f"a bank of host {name!r}" if of_bank else f"host {name!r}"
    return TargetTaken(
        f"this user of the gateway belongs to {owner}, whose memory it holds: "
        "take another user, application or project there"
    )
