"""Entities, their mentions, pairs that occur together, and links between units."""

from typing import Annotated

from afterturn_client.contract.graph import (
    CooccurrencePage,
    Entity,
    EntityPage,
    LinkPage,
    MentionPage,
    Neighbourhood,
    UnitLink,
)
from fastapi import APIRouter, Path, Request, Response

from producers.http.authentication import TenantCall
from producers.http.openapi import CallerClass, DescribedAnswer, describe_route
from producers.http.requests import BankParameters, describe_id, json_response, parse_identifier, read_parameters
from producers.service.graph import (
    CooccurrencesParameters,
    LinksParameters,
    MentionsParameters,
    NeighbourhoodParameters,
)
from producers.service.paging import BankPageParameters
from store.errors import NotFound

EntityId = Annotated[str, describe_id("the entity")]
FromUnit = Annotated[str, describe_id("the unit that the link leads from")]
ToUnit = Annotated[str, describe_id("the unit that the link leads to")]
LinkType = Annotated[str, Path(description="kind of the link, one of seven types")]

router = APIRouter(prefix="/api/v1", tags=["graph"])


@router.get(
    "/entities",
    **describe_route(
        "List entities",
        "People and things that remembered units mention, and those that commands made, in the order of their ids.",
        CallerClass.READER,
        {200: DescribedAnswer("a page", (EntityPage,))},
        query=BankPageParameters,
    ),
)
async def list_entities(request: Request, call: TenantCall) -> Response:
    return json_response(await call.memory.graph.entities(call.grant, read_parameters(request, BankPageParameters)))


@router.get(
    "/entities/{entity_id}",
    **describe_route(
        "Get an entity",
        "Returns one entity with its version, which a command may expect.",
        CallerClass.READER,
        {200: DescribedAnswer("the entity", (Entity,))},
        query=BankParameters,
        fails=(NotFound,),
    ),
)
async def get_entity(request: Request, call: TenantCall, entity_id: EntityId) -> Response:
    bank = read_parameters(request, BankParameters).bank
    return json_response(await call.memory.graph.entity(call.grant, bank, parse_identifier(entity_id)))


@router.get(
    "/mentions",
    **describe_route(
        "List which units mention which entities",
        "Mentions in remembered units, in the order of unit and entity; of one unit or entity where that is named.",
        CallerClass.READER,
        {200: DescribedAnswer("a page", (MentionPage,))},
        query=MentionsParameters,
    ),
)
async def list_mentions(request: Request, call: TenantCall) -> Response:
    return json_response(await call.memory.graph.mentions(call.grant, read_parameters(request, MentionsParameters)))


@router.get(
    "/cooccurrences",
    **describe_route(
        "List entities that occur together",
        "Pairs of entities that a remembered unit mentions together, in the order of their ids. Workers count them.",
        CallerClass.READER,
        {200: DescribedAnswer("a page", (CooccurrencePage,))},
        query=CooccurrencesParameters,
    ),
)
async def list_cooccurrences(request: Request, call: TenantCall) -> Response:
    asked = read_parameters(request, CooccurrencesParameters)
    return json_response(await call.memory.graph.cooccurrences(call.grant, asked))


@router.get(
    "/neighbourhood",
    **describe_route(
        "Get the entities around one",
        "An entity, those that occur with it most often, and the pairs among them. Workers count them.",
        CallerClass.READER,
        {200: DescribedAnswer("the entities and pairs", (Neighbourhood,))},
        query=NeighbourhoodParameters,
        fails=(NotFound,),
    ),
)
async def get_neighbourhood(request: Request, call: TenantCall) -> Response:
    asked = read_parameters(request, NeighbourhoodParameters)
    return json_response(await call.memory.graph.neighbourhood(call.grant, asked))


@router.get(
    "/links",
    **describe_route(
        "List links between units",
        "Links between remembered units, in the order of their units and types; from and to one unit where that is "
        "named.",
        CallerClass.READER,
        {200: DescribedAnswer("a page", (LinkPage,))},
        query=LinksParameters,
    ),
)
async def list_links(request: Request, call: TenantCall) -> Response:
    return json_response(await call.memory.graph.links(call.grant, read_parameters(request, LinksParameters)))


@router.get(
    "/links/{from_unit_id}/{to_unit_id}/{link_type}",
    **describe_route(
        "Get a link between units",
        "Returns one link with its version, which a command may expect.",
        CallerClass.READER,
        {200: DescribedAnswer("the link", (UnitLink,))},
        query=BankParameters,
        fails=(NotFound,),
    ),
)
async def get_link(
    request: Request, call: TenantCall, from_unit_id: FromUnit, to_unit_id: ToUnit, link_type: LinkType
) -> Response:
    bank = read_parameters(request, BankParameters).bank
    units = parse_identifier(from_unit_id), parse_identifier(to_unit_id)
    return json_response(await call.memory.graph.link(call.grant, bank, *units, link_type))
