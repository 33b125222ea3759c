"""Lists and reads entities, their mentions, pairs that occur together, and links of units.

What has ended, or is known from ended units alone, is in no answer. Each list begins after a place: the ids of the last
row before it (None: from the start).
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, get_args
from uuid import UUID

from afterturn_client.contract.graph import Cooccurrence, Entity, Mention, Neighbourhood, UnitLink
from afterturn_client.contract.shape import Shape
from afterturn_client.contract.units import Link
from sqlalchemy import (
    ARRAY,
    ColumnElement,
    FromClause,
    Integer,
    Select,
    Text,
    Uuid,
    and_,
    any_,
    bindparam,
    exists,
    func,
    literal,
    or_,
    select,
    true,
    tuple_,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.database import Database
from store.errors import NotFound
from store.expiry import bank_lasts, row_lasts
from store.log.event_data import LinkType
from store.schema import ENTITY, ENTITY_COOCCUR, ENTITY_PROFILE, LINK, UNIT, UNIT_ENTITY, in_bank, same_bank
from store.sql_constants import ZERO

S = TypeVar("S", bound=Shape)
#: The most pairs of one answer about the entities around one, and how many pairs are looked through for each entity.
MOST_PAIRS, SPARE = 1000, 4
LINK_TYPES = frozenset(get_args(LinkType))
#: The ids that order a row of a list.
Place = tuple[Any, ...]

_ENTITY, _MENTION, _PAIR, _LINK = ENTITY.c, UNIT_ENTITY.c, ENTITY_COOCCUR.c, LINK.c


def _living_unit(unit: FromClause, other: FromClause, name: str) -> ColumnElement[bool]:
    """Return the condition that the unit of a row is remembered."""
    same = unit.c.unit_id == other.c[name]
    return and_(same_bank(unit, other), same, unit.c.active, row_lasts(unit))


def _has_living_unit(other: FromClause, name: str) -> ColumnElement[bool]:
    unit = UNIT.alias(f"u_{name}")
    return exists().where(_living_unit(unit, other, name))


_OF_ENTITY = UNIT_ENTITY.alias("of_entity")
_NAMED_BY = and_(same_bank(_OF_ENTITY, ENTITY), _OF_ENTITY.c.entity_id == _ENTITY.entity_id)
# An entity that a command made has no mention; one whose mentions have all ended is not told any more.
_SHOWN = and_(
    in_bank(ENTITY),
    _ENTITY.active,
    bank_lasts(),
    or_(
        exists().where(_NAMED_BY, _OF_ENTITY.c.removed_at.is_(None), _has_living_unit(_OF_ENTITY, "unit_id")),
        ~exists().where(_NAMED_BY),
    ),
)
ENTITIES = (
    select(
        _ENTITY.entity_id,
        _ENTITY.canonical_name.label("name"),
        _ENTITY.mention_count.label("mentions"),
        _ENTITY["metadata"],
        _ENTITY.aggregate_version.label("version"),
        _ENTITY.update_ts.label("updated_at"),
    )
    .where(_SHOWN)
    .order_by(_ENTITY.entity_id)
)
MENTIONS = (
    select(
        _MENTION.unit_id,
        _MENTION.entity_id,
        _MENTION.name,
        _MENTION.mentions,
        _MENTION.aggregate_version.label("version"),
    )
    .where(
        in_bank(UNIT_ENTITY),
        _MENTION.removed_at.is_(None),
        bank_lasts(),
        _has_living_unit(UNIT_ENTITY, "unit_id"),
        exists().where(same_bank(ENTITY, UNIT_ENTITY, "entity_id"), _ENTITY.active),
    )
    .order_by(_MENTION.unit_id, _MENTION.entity_id)
)
_ONE, _OTHER = UNIT_ENTITY.alias("one"), UNIT_ENTITY.alias("other")
_TOGETHER = exists().where(
    same_bank(_ONE, ENTITY_COOCCUR),
    _ONE.c.entity_id == _PAIR.entity_id_1,
    _ONE.c.removed_at.is_(None),
    same_bank(_OTHER, _ONE, "unit_id"),
    _OTHER.c.entity_id == _PAIR.entity_id_2,
    _OTHER.c.removed_at.is_(None),
    _has_living_unit(_ONE, "unit_id"),
)
COOCCURRENCES = (
    select(
        _PAIR.entity_id_1,
        _PAIR.entity_id_2,
        _PAIR.cooccur_count.label("count"),
        _PAIR.last_cooccurred.label("last_at"),
    )
    .where(in_bank(ENTITY_COOCCUR), bank_lasts(), _TOGETHER)
    .order_by(_PAIR.entity_id_1, _PAIR.entity_id_2)
)
LINKS = (
    select(
        _LINK.from_unit_id,
        _LINK.to_unit_id,
        _LINK.link_type,
        _LINK.weight,
        _LINK.aggregate_version.label("version"),
        _LINK.update_ts.label("updated_at"),
    )
    .where(
        in_bank(LINK),
        _LINK.active,
        bank_lasts(),
        _has_living_unit(LINK, "from_unit_id"),
        _has_living_unit(LINK, "to_unit_id"),
    )
    .order_by(_LINK.from_unit_id, _LINK.to_unit_id, _LINK.link_type)
)


# The names of the same entity; the one that units mention most stands for them.
_NAMED, _ALIAS = ENTITY_PROFILE.alias("named"), ENTITY_PROFILE.alias("a")
_FOLDED = func.afterturn.folded(bindparam("name", type_=Text))
ENTITY_OF_NAME = (
    select(_ALIAS.c.entity_id)
    .join_from(_NAMED, _ALIAS, and_(same_bank(_ALIAS, _NAMED), _ALIAS.c.canonical_id == _NAMED.c.canonical_id))
    .where(in_bank(_NAMED), _NAMED.c.stem == func.split_part(_FOLDED, " ", 1), _NAMED.c.folded == _FOLDED)
    .order_by(_ALIAS.c.mentions.desc(), _ALIAS.c.entity_id)
    .limit(1)
)
_STRONGEST = (_PAIR.cooccur_count.desc(), _PAIR.entity_id_1, _PAIR.entity_id_2)
_ASKED: ColumnElement[UUID] = bindparam("entity")
# The strongest pairs are taken first: an entity may have tens of thousands, each looked up among living units.
_OF_ONE = (
    select(_PAIR.entity_id_1, _PAIR.entity_id_2)
    .where(in_bank(ENTITY_COOCCUR), or_(_PAIR.entity_id_1 == _ASKED, _PAIR.entity_id_2 == _ASKED))
    .order_by(*_STRONGEST)
    .limit(bindparam("most", type_=Integer))
    .subquery("of_one")
)
STRONGEST_PAIRS = (
    COOCCURRENCES.where(_PAIR.entity_id_1 == _OF_ONE.c.entity_id_1, _PAIR.entity_id_2 == _OF_ONE.c.entity_id_2)
    .order_by(None)
    .order_by(*_STRONGEST)
)
_AMONG = bindparam("ids", type_=ARRAY(Uuid))
ENTITIES_BY_ID = ENTITIES.where(_ENTITY.entity_id == any_(_AMONG))
PAIRS_AMONG = (
    COOCCURRENCES.where(_PAIR.entity_id_1 == any_(_AMONG), _PAIR.entity_id_2 == any_(_AMONG))
    .order_by(None)
    .order_by(*_STRONGEST)
    .limit(MOST_PAIRS)
)


class Graph:
    """Reads the entities and links of banks; the lists of an unknown bank are empty."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def entities(self, host: UUID, bank: str, after: Place | None, limit: int) -> list[Entity]:
        """Return the entities of a bank by id."""
        query = _begin_after(ENTITIES, after, _ENTITY.entity_id)
        return await self._read(Entity, query.limit(limit), host, bank)

    async def entity(self, host: UUID, bank: str, entity: UUID) -> Entity:
        """Return one entity. Raises NotFound."""
        query = ENTITIES.where(_ENTITY.entity_id == bindparam("entity"))
        return _take_one(await self._read(Entity, query, host, bank, entity=entity), "entity")

    async def mentions(
        self,
        host: UUID,
        bank: str,
        after: Place | None,
        limit: int,
        *,
        unit: UUID | None = None,
        entity: UUID | None = None,
    ) -> list[Mention]:
        """Return mentions of entities by unit and entity: of one unit, of one entity, or all."""
        query = _begin_after(MENTIONS, after, _MENTION.unit_id, _MENTION.entity_id)
        if unit is not None:
            query = query.where(_MENTION.unit_id == bindparam("unit"))
        if entity is not None:
            query = query.where(_MENTION.entity_id == bindparam("entity"))
        return await self._read(Mention, query.limit(limit), host, bank, unit=unit, entity=entity)

    async def cooccurrences(
        self, host: UUID, bank: str, after: Place | None, limit: int, *, entity: UUID | None = None
    ) -> list[Cooccurrence]:
        """Return pairs of entities that units mention together, by id: those of one entity, or all."""
        query = _begin_after(COOCCURRENCES, after, _PAIR.entity_id_1, _PAIR.entity_id_2)
        if entity is not None:
            asked: ColumnElement[UUID] = bindparam("entity")
            query = query.where(or_(_PAIR.entity_id_1 == asked, _PAIR.entity_id_2 == asked))
        return await self._read(Cooccurrence, query.limit(limit), host, bank, entity=entity)

    async def links(
        self, host: UUID, bank: str, after: Place | None, limit: int, *, unit: UUID | None = None
    ) -> list[UnitLink]:
        """Return links between units, by units and type: those from and to one unit, or all."""
        query = _begin_after(LINKS, after, _LINK.from_unit_id, _LINK.to_unit_id, _LINK.link_type)
        if unit is not None:
            asked: ColumnElement[UUID] = bindparam("unit")
            query = query.where(or_(_LINK.from_unit_id == asked, _LINK.to_unit_id == asked))
        return await self._read(UnitLink, query.limit(limit), host, bank, unit=unit)

    async def link(self, host: UUID, bank: str, first: UUID, second: UUID, kind: str) -> UnitLink:
        """Return one link. Raises NotFound."""
        if kind not in LINK_TYPES:
            raise NotFound("no such link")
        named = (("from_unit_id", first), ("to_unit_id", second), ("link_type", kind))
        query = LINKS.where(*(_LINK[name] == bindparam(name) for name, _ in named))
        return _take_one(await self._read(UnitLink, query, host, bank, **dict(named)), "link")

    async def around(
        self, host: UUID, bank: str, limit: int, *, entity: UUID | None = None, name: str = ""
    ) -> Neighbourhood:
        """Return an entity, given by id or name, with at most `limit` - 1 that occur with it most. Raises NotFound."""
        middle = entity or await self._find_entity(host, bank, name)
        if middle is None:
            raise NotFound("no such entity")
        # Pairs whose units have all ended are taken, too, and left out: more are asked for than are shown.
        pairs = await self._read(Cooccurrence, STRONGEST_PAIRS, host, bank, entity=middle, most=SPARE * limit)
        beside = [pair.entity_id_1 if pair.entity_id_2 == middle else pair.entity_id_2 for pair in pairs]
        ids = [middle, *beside[: limit - 1]]
        place = {one: n for n, one in enumerate(ids)}
        found = await self._read(Entity, ENTITIES_BY_ID, host, bank, ids=ids)
        shown = sorted(found, key=lambda one: place[one.entity_id])
        if not shown or shown[0].entity_id != middle:
            raise NotFound("no such entity")
        among = await self._read(Cooccurrence, PAIRS_AMONG, host, bank, ids=[one.entity_id for one in shown])
        whole = len(beside) < limit and len(pairs) < SPARE * limit
        return Neighbourhood(entity_id=middle, entities=tuple(shown), cooccurrences=tuple(among), whole=whole)

    async def _find_entity(self, host: UUID, bank: str, name: str) -> UUID | None:
        async with self._database.tenant(host) as connection:
            asked = {"host": host, "bank": identity.bank_id(host, bank), "now": self._clock(), "name": name}
            found: UUID | None = (await connection.execute(ENTITY_OF_NAME, asked)).scalar()
            return found

    async def _read(
        self, shape: type[S], query: Select[*tuple[Any, ...]], host: UUID, bank: str, **asked: object
    ) -> list[S]:
        place: Mapping[str, object] = {"host": host, "bank": identity.bank_id(host, bank), "now": self._clock()}
        given = {name: value for name, value in asked.items() if value is not None}
        async with self._database.tenant(host) as connection:
            rows = (await connection.execute(query, {**place, **given})).mappings().all()
        return [shape(**row) for row in rows]


def _begin_after(
    query: Select[*tuple[Any, ...]], after: Place | None, *columns: ColumnElement[Any]
) -> Select[*tuple[Any, ...]]:
    return query if after is None else query.where(tuple_(*columns) > tuple_(*after))


def _take_one(found: Sequence[S], what: str) -> S:
    if not found:
        raise NotFound(f"no such {what}")
    return found[0]


#: The most links of a unit that are returned, the strongest ones.
MOST_LINKS = 20
#: How many characters of the other unit's text are returned.
EXCERPT = 200


def _select_links(near: ColumnElement[UUID], far: ColumnElement[UUID], direction: str) -> Select[*tuple[Any, ...]]:
    way = literal(direction).label("direction")
    return select(far.label("unit_id"), _LINK.link_type.label("kind"), _LINK.weight, way).where(
        in_bank(LINK), near == bindparam("unit"), _LINK.active
    )


_LINKED = union_all(
    _select_links(_LINK.from_unit_id, _LINK.to_unit_id, "to"),
    _select_links(_LINK.to_unit_id, _LINK.from_unit_id, "from"),
).subquery("found")
_STRONGEST_LINKS = (
    select(_LINKED)
    .order_by(_LINKED.c.weight.desc(), _LINKED.c.kind, _LINKED.c.unit_id)
    .limit(MOST_LINKS)
    .cte("strongest")
    .prefix_with("materialized")
)
# Looked up one by one: as a plain join the planner would read all units of the bank.
_FAR = (
    select(UNIT.c.content)
    .where(in_bank(UNIT), UNIT.c.unit_id == _STRONGEST_LINKS.c.unit_id, UNIT.c.active, row_lasts(UNIT))
    .offset(ZERO)
    .lateral("other")
)
LINKS_OF_UNIT = (
    select(_STRONGEST_LINKS, func.left(_FAR.c.content, EXCERPT).label("excerpt"))
    .join(_FAR, true())
    .order_by(_STRONGEST_LINKS.c.weight.desc(), _STRONGEST_LINKS.c.kind, _STRONGEST_LINKS.c.unit_id)
)


async def read_links(connection: AsyncConnection, host: UUID, bank: UUID, unit: UUID, now: datetime) -> list[Link]:
    """Return a unit's strongest links, in both directions, to units that have not ended; in a tenant's transaction."""
    arguments = {"host": host, "bank": bank, "unit": unit, "now": now}
    return [Link(**row) for row in (await connection.execute(LINKS_OF_UNIT, arguments)).mappings()]
