"""Tells whose a unit is in a bank that several users share, by the names that these state as their own."""

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from store.database import ONE_PLAN, Database
from store.memory.held_facts import read_names
from store.recall.printing import is_fact
from store.recall.query import Recalled
from store.recall.state import RecallState

#: Kinds of recalled units that are drawn from several others.
INSIGHT_KINDS = frozenset({"observation", "mental_model"})
#: How the sentence of a fact begins where its speaker has no name.
NAMELESS = "The user"


async def name_users(database: Database, state: RecallState, items: list[Recalled]) -> list[Recalled]:
    """Return an answer's units, where they are of several users with the names that these state as their own.

    Nothing is read where all units are of one user.
    """
    users = {item.user_id for item in items if item.user_id is not None}
    if not state.query.tells_users or len(users) <= 1:
        return items
    place = {**state.place, "now": state.now}
    async with database.tenant(state.host, ONE_PLAN) as connection:
        names = await read_names(connection, place, sorted(users))
    return [name_speaker(item, names) for item in items]


def name_speaker(unit: Recalled, others: Mapping[UUID, str]) -> Recalled:
    """Return a unit that says whose it is, where it is another user's; `others`: what these are called.

    Without it, a message of another user would read as the present one's, and so would "The user" of a fact.
    """
    called = None if unit.user_id is None else others.get(unit.user_id)
    if called is None or unit.name is not None:
        return unit
    if unit.role is not None:
        return replace(unit, name=called) if unit.role == "user" else unit
    is_told = unit.kind in INSIGHT_KINDS or is_fact(unit)
    return replace(unit, text=_name_subject(unit.text, called)) if is_told else unit


def _name_subject(text: str, called: str) -> str:
    """Return a text whose last sentence that begins with "The user" names the person."""
    before, nameless, after = text.rpartition(NAMELESS)
    begins = nameless and (not before or before.endswith(". "))
    return f"{before}{called[:1].upper()}{called[1:]}{after}" if begins else text
