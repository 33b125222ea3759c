"""Entities, their mentions, pairs that occur together, and links between units."""

from typing import Annotated
from uuid import UUID

from afterturn_client.contract.graph import (
    CooccurrencePage,
    Entity,
    EntityPage,
    LinkPage,
    MentionPage,
    Neighbourhood,
    UnitLink,
)
from fastapi import Path

from producers.http.authentication import TenantCall
from producers.http.operation_router import OperationRouter
from producers.http.requests import BankParameters, describe_id
from producers.service.graph import (
    CooccurrencesParameters,
    LinksParameters,
    MentionsParameters,
    NeighbourhoodParameters,
)
from producers.service.paging import BankPageParameters
from store.errors import NotFound

EntityId = Annotated[UUID, describe_id("the entity")]
FromUnit = Annotated[UUID, describe_id("the unit that the link leads from")]
ToUnit = Annotated[UUID, describe_id("the unit that the link leads to")]
LinkType = Annotated[str, Path(description="kind of the link, one of seven types")]

router = OperationRouter(prefix="/api/v1", tags=["graph"])


@router.operation(
    "GET /entities",
    "List entities",
    "People and things that remembered units mention, and those that commands made, in the order of their ids.",
    "a page",
)
async def list_entities(call: TenantCall, asked: BankPageParameters) -> EntityPage:
    return await call.memory.graph.entities(call.grant, asked)


@router.operation(
    "GET /entities/{entity_id}",
    "Get an entity",
    "Returns one entity with its version, which a command may expect.",
    "the entity",
    fails=(NotFound,),
)
async def get_entity(call: TenantCall, asked: BankParameters, entity_id: EntityId) -> Entity:
    return await call.memory.graph.entity(call.grant, asked.bank, entity_id)


@router.operation(
    "GET /mentions",
    "List which units mention which entities",
    "Mentions in remembered units, in the order of unit and entity; of one unit or entity where that is named.",
    "a page",
)
async def list_mentions(call: TenantCall, asked: MentionsParameters) -> MentionPage:
    return await call.memory.graph.mentions(call.grant, asked)


@router.operation(
    "GET /cooccurrences",
    "List entities that occur together",
    "Pairs of entities that a remembered unit mentions together, in the order of their ids. Workers count them.",
    "a page",
)
async def list_cooccurrences(call: TenantCall, asked: CooccurrencesParameters) -> CooccurrencePage:
    return await call.memory.graph.cooccurrences(call.grant, asked)


@router.operation(
    "GET /neighbourhood",
    "Get the entities around one",
    "An entity, those that occur with it most often, and the pairs among them. Workers count them.",
    "the entities and pairs",
    fails=(NotFound,),
)
async def get_neighbourhood(call: TenantCall, asked: NeighbourhoodParameters) -> Neighbourhood:
    return await call.memory.graph.neighbourhood(call.grant, asked)


@router.operation(
    "GET /links",
    "List links between units",
    "Links between remembered units, in the order of their units and types; from and to one unit where that is named.",
    "a page",
)
async def list_links(call: TenantCall, asked: LinksParameters) -> LinkPage:
    return await call.memory.graph.links(call.grant, asked)


@router.operation(
    "GET /links/{from_unit_id}/{to_unit_id}/{link_type}",
    "Get a link between units",
    "Returns one link with its version, which a command may expect.",
    "the link",
    fails=(NotFound,),
)
async def get_link(
    call: TenantCall, asked: BankParameters, from_unit_id: FromUnit, to_unit_id: ToUnit, link_type: LinkType
) -> UnitLink:
    units = from_unit_id, to_unit_id
    return await call.memory.graph.link(call.grant, asked.bank, *units, link_type)
