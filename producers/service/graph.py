"""Lists and single reads of entities, their mentions, pairs that occur together, and links between units."""

from functools import partial
from uuid import UUID

from afterturn_client.contract.graph import (
    Cooccurrence,
    CooccurrencePage,
    Entity,
    EntityPage,
    LinkPage,
    Mention,
    MentionPage,
    Neighbourhood,
    UnitLink,
)
from pydantic import Field

from producers.errors import FieldProblem, Invalid
from producers.service.dependencies import ServiceDependencies
from producers.service.fields import DefaultBank, Name
from producers.service.paging import BankPageParameters, ListOrder, read_name
from producers.service.wire import Parameters
from store.tenancy.keys import Grant


class MentionsParameters(BankPageParameters):
    """A bank, the unit or entity of the mentions, and the page of them."""

    unit_id: UUID | None = Field(None, description="id of a unit: its mentions alone")
    entity_id: UUID | None = Field(None, description="id of an entity: its mentions alone")


class CooccurrencesParameters(BankPageParameters):
    """A bank, an entity of the pairs, and the page of them."""

    entity_id: UUID | None = Field(None, description="id of an entity: the pairs with it alone")


class NeighbourhoodParameters(Parameters):
    """A bank, an entity of it by id or name, and how many entities are answered."""

    bank: DefaultBank = "default"

    entity_id: UUID | None = Field(None, description="id of the entity; left out: that of `name`")
    name: Name | None = Field(None, repr=False, description="name of the entity, as units say it")
    limit: int = Field(100, ge=1, le=300, description="entities that the answer holds at most, up to 300")


class LinksParameters(BankPageParameters):
    """A bank, a unit of the links, and the page of them."""

    unit_id: UUID | None = Field(None, description="id of a unit: the links from and to it alone")


ENTITIES: ListOrder[Entity] = ListOrder("entities", lambda one: (one.entity_id,), (UUID,))
MENTIONS: ListOrder[Mention] = ListOrder("mentions", lambda one: (one.unit_id, one.entity_id), (UUID, UUID))
COOCCURRENCES: ListOrder[Cooccurrence] = ListOrder(
    "cooccurrences", lambda one: (one.entity_id_1, one.entity_id_2), (UUID, UUID)
)
LINKS: ListOrder[UnitLink] = ListOrder(
    "links", lambda one: (one.from_unit_id, one.to_unit_id, one.link_type), (UUID, UUID, read_name)
)


class GraphLists:
    """Reads the entities and links of banks; every call takes the grant of a key."""

    def __init__(self, dependencies: ServiceDependencies) -> None:
        self._dependencies = dependencies
        self._graph = dependencies.turns.graph

    async def entities(self, grant: Grant, asked: BankPageParameters) -> EntityPage:
        """Return a page of a bank's entities. Raises Invalid, PermissionDenied."""
        bank = await self._dependencies.reach(grant, asked.bank)
        find = partial(self._graph.entities, grant.host_id, bank)
        return await ENTITIES.read_page(EntityPage, grant.host_id, bank, asked, find)

    async def entity(self, grant: Grant, bank: str, entity: UUID) -> Entity:
        """Return one entity. Raises NotFound, PermissionDenied."""
        return await self._graph.entity(grant.host_id, await self._dependencies.reach(grant, bank), entity)

    async def mentions(self, grant: Grant, asked: MentionsParameters) -> MentionPage:
        """Return a page of mentions. Raises Invalid, PermissionDenied."""
        bank = await self._dependencies.reach(grant, asked.bank)
        scope = f"{bank}\0{asked.unit_id}\0{asked.entity_id}"
        find = partial(self._graph.mentions, grant.host_id, bank, unit=asked.unit_id, entity=asked.entity_id)
        return await MENTIONS.read_page(MentionPage, grant.host_id, scope, asked, find)

    async def cooccurrences(self, grant: Grant, asked: CooccurrencesParameters) -> CooccurrencePage:
        """Return a page of pairs of entities. Raises Invalid, PermissionDenied."""
        bank = await self._dependencies.reach(grant, asked.bank)
        scope = f"{bank}\0{asked.entity_id}"
        find = partial(self._graph.cooccurrences, grant.host_id, bank, entity=asked.entity_id)
        return await COOCCURRENCES.read_page(CooccurrencePage, grant.host_id, scope, asked, find)

    async def neighbourhood(self, grant: Grant, asked: NeighbourhoodParameters) -> Neighbourhood:
        """Return an entity and those around it. Raises Invalid, NotFound, PermissionDenied."""
        if (asked.entity_id is None) == (asked.name is None):
            raise Invalid(FieldProblem("entity_id", "say which entity: entity_id or name, one of them"))
        bank = await self._dependencies.reach(grant, asked.bank)
        return await self._graph.around(grant.host_id, bank, asked.limit, entity=asked.entity_id, name=asked.name or "")

    async def links(self, grant: Grant, asked: LinksParameters) -> LinkPage:
        """Return a page of links between units. Raises Invalid, PermissionDenied."""
        bank = await self._dependencies.reach(grant, asked.bank)
        scope = f"{bank}\0{asked.unit_id}"
        find = partial(self._graph.links, grant.host_id, bank, unit=asked.unit_id)
        return await LINKS.read_page(LinkPage, grant.host_id, scope, asked, find)

    async def link(self, grant: Grant, bank: str, first: UUID, second: UUID, kind: str) -> UnitLink:
        """Return one link. Raises NotFound, PermissionDenied."""
        bank = await self._dependencies.reach(grant, bank)
        return await self._graph.link(grant.host_id, bank, first, second, kind)
