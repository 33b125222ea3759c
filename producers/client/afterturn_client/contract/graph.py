"""Entities of a bank, their mentions in units, the pairs of them that occur together, and links between units."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from afterturn_client.contract.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity(Shape):
    """A person or thing that units of the bank mention."""

    entity_id: UUID
    """id of the entity"""
    name: str = field(repr=False)
    """name of the entity"""
    mentions: int
    """number of units that mention it, as workers counted them last"""
    metadata: Mapping[str, Any] = field(repr=False)
    """metadata by name"""
    version: int
    """version of the entity, from 1"""
    updated_at: datetime
    """time of its last change"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityPage(Shape):
    """A page of a bank's entities, by id."""

    entities: tuple[Entity, ...]
    """entities, in the order of their ids"""
    cursor: str | None
    """asks for the next page of the same list; null on the last"""
    has_more: bool
    """whether there is a next page"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention(Shape):
    """A unit's mention of an entity."""

    unit_id: UUID
    """id of the unit"""
    entity_id: UUID
    """id of the entity"""
    name: str | None = field(repr=False)
    """name by which the unit calls it; null: none is known"""
    mentions: int
    """how often the unit mentions it"""
    version: int
    """version of the mention, from 1"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionPage(Shape):
    """A page of mentions, by unit and entity."""

    mentions: tuple[Mention, ...]
    """mentions, in the order of unit and entity"""
    cursor: str | None
    """asks for the next page of the same list; null on the last"""
    has_more: bool
    """whether there is a next page"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cooccurrence(Shape):
    """Two entities that units mention together."""

    entity_id_1: UUID
    """id of the entity that comes first by id"""
    entity_id_2: UUID
    """id of the other entity"""
    count: int
    """number of units that mention both, as workers counted them last"""
    last_at: datetime
    """time of the newest of these units"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CooccurrencePage(Shape):
    """A page of pairs of entities, by id."""

    cooccurrences: tuple[Cooccurrence, ...]
    """pairs, in the order of their ids"""
    cursor: str | None
    """asks for the next page of the same list; null on the last"""
    has_more: bool
    """whether there is a next page"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitLink(Shape):
    """A link from one unit to another."""

    from_unit_id: UUID
    """id of the unit that the link leads from"""
    to_unit_id: UUID
    """id of the unit that the link leads to"""
    link_type: str
    """kind of the link, one of seven types"""
    weight: float
    """weight of the link, 0 to 1"""
    version: int
    """version of the link, from 1"""
    updated_at: datetime
    """time of its last change"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPage(Shape):
    """A page of links, by units and type."""

    links: tuple[UnitLink, ...]
    """links, in the order of their units and types"""
    cursor: str | None
    """asks for the next page of the same list; null on the last"""
    has_more: bool
    """whether there is a next page"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood(Shape):
    """The entities that occur together with one, and how they occur with each other."""

    entity_id: UUID
    """id of the entity in the middle"""
    entities: tuple[Entity, ...]
    """that entity first, then the others, those that occur with it most often first"""
    cooccurrences: tuple[Cooccurrence, ...]
    """pairs of these entities, those that occur together most often first, up to 1000"""
    whole: bool
    """whether every entity that occurs with it is there"""
