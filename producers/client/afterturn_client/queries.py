"""Reads of entities, mentions, pairs, links, and of single banks, directives and sessions."""

from collections.abc import Mapping
from functools import partial
from typing import TypeVar
from uuid import UUID

from afterturn_client.calls import ApiCall, path_segment
from afterturn_client.contract.banks import BankDetails, DirectiveDetails
from afterturn_client.contract.graph import CooccurrencePage, Entity, EntityPage, LinkPage, MentionPage, UnitLink
from afterturn_client.contract.sessions import SessionDetails
from afterturn_client.contract.shape import Shape
from afterturn_client.reading import read_shape
from afterturn_client.transport import Request

S = TypeVar("S", bound=Shape)
#: What a parameter may be; None is left out.
Parameter = str | int | UUID | None
Place = tuple[str, float]


def _get(shape: type[S], path: str, place: Place, **params: Parameter) -> ApiCall[S]:
    """Build a read of `/api/v1/{path}` in a bank: `place` is its name and the time-out in seconds."""
    bank, timeout_s = place
    told: Mapping[str, str | int] = {
        name: value if isinstance(value, int) else str(value)
        for name, value in {"bank": bank, **params}.items()
        if value is not None
    }
    return ApiCall(Request("GET", f"/api/v1/{path}", told, timeout_s=timeout_s), partial(read_shape, shape))


def list_entities(place: Place, cursor: str | None, limit: int) -> ApiCall[EntityPage]:
    """GET /api/v1/entities."""
    return _get(EntityPage, "entities", place, cursor=cursor, limit=limit)


def get_entity(place: Place, entity_id: str | UUID) -> ApiCall[Entity]:
    """GET /api/v1/entities/{entity_id}."""
    return _get(Entity, f"entities/{path_segment(entity_id)}", place)


def list_mentions(
    place: Place, unit_id: str | UUID | None, entity_id: str | UUID | None, cursor: str | None, limit: int
) -> ApiCall[MentionPage]:
    """GET /api/v1/mentions."""
    return _get(MentionPage, "mentions", place, unit_id=unit_id, entity_id=entity_id, cursor=cursor, limit=limit)


def list_cooccurrences(
    place: Place, entity_id: str | UUID | None, cursor: str | None, limit: int
) -> ApiCall[CooccurrencePage]:
    """GET /api/v1/cooccurrences."""
    return _get(CooccurrencePage, "cooccurrences", place, entity_id=entity_id, cursor=cursor, limit=limit)


def list_links(place: Place, unit_id: str | UUID | None, cursor: str | None, limit: int) -> ApiCall[LinkPage]:
    """GET /api/v1/links."""
    return _get(LinkPage, "links", place, unit_id=unit_id, cursor=cursor, limit=limit)


def get_link(place: Place, from_unit_id: str | UUID, to_unit_id: str | UUID, link_type: str) -> ApiCall[UnitLink]:
    """GET /api/v1/links/{from_unit_id}/{to_unit_id}/{link_type}."""
    path = "/".join(map(path_segment, (from_unit_id, to_unit_id, link_type)))
    return _get(UnitLink, f"links/{path}", place)


def get_bank(place: Place) -> ApiCall[BankDetails]:
    """GET /api/v1/bank."""
    return _get(BankDetails, "bank", place)


def get_directive(place: Place, directive_id: str | UUID) -> ApiCall[DirectiveDetails]:
    """GET /api/v1/directives/{directive_id}."""
    return _get(DirectiveDetails, f"directives/{path_segment(directive_id)}", place)


def get_session(place: Place, session_id: str, messages: int) -> ApiCall[SessionDetails]:
    """GET /api/v1/sessions/{session_id}."""
    return _get(SessionDetails, f"sessions/{path_segment(session_id)}", place, messages=messages)
