"""Decides under which names a user speaks: a turn that a user hands in may hold what others said in a group.

A name is the user's own if the user states it, if the user's id is made of it, or if it is the only one under which
people speak alone in the user's turns. Facts under other names are other people's.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import CompoundSelect, Select, Text, Uuid, bindparam, cast, false, func, select, true
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.said_facts import SaidFact
from store.driver_rows import fetch_rows
from store.identity import user_id
from store.schema import FACT, UNIT
from store.sql_constants import ONE, inline
from store.text.normal_forms import normalise_text

#: The id of facts that state the speaker's own name.
OWN_NAME = "user_name"
#: The most facts of a user that are looked through for names, and the most turns of a name that are looked at.
FACTS, TURNS = 500, 8

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class SpokenName:
    """A folded name under which a person speaks in a user's turns; `alone`: one of them has no other speaker."""

    name: str = field(repr=False)
    alone: bool


async def read_own_subjects(
    connection: AsyncConnection,
    banks: Select[UUID, str],
    asked: Mapping[str, Any],
    user: str | None,
    said: Iterable[SaidFact],
) -> frozenset[str]:
    """Return the subjects of a user's own facts in these banks: the user's id in the store, and the user's names.

    `banks` is a query of `bank_id` and `bank_name` with the parameters `asked` (`host` among them), `said` are facts
    of waiting turns.
    """
    own = user_id(asked["host"], user)
    rows = await fetch_rows(connection, _select_spoken(banks), {**asked, "speaker": own})
    of_user = [one for one in said if one.user_id == own]
    stated = {row.subject for row in rows if row.states}
    stated |= {one.value for one in of_user if one.identity.fact_id == OWN_NAME and one.identity.subject == str(own)}
    spoken = [SpokenName(row.subject, row.alone) for row in rows if not row.states]
    spoken += [SpokenName(one.identity.subject, one.alone) for one in of_user if one.identity.subject != str(own)]
    return frozenset({str(own), *choose_own_names(user, stated, spoken)})


def choose_own_names(user: str | None, stated: Iterable[str], spoken: Sequence[SpokenName]) -> frozenset[str]:
    """Return those of the spoken names that are the user's own. Pure.

    All names are folded, `stated` are those that the user says to have.
    """
    names = {one.name for one in spoken}
    known = [*stated, *(() if user is None else (" ".join(_fold_words(user)),))]
    own = {name for name in names if any(_is_part(name, other) for other in known)}
    if own:
        return frozenset(name for name in names if any(_is_part(name, other) for other in own))
    alone = {one.name for one in spoken if one.alone}
    longest = max(alone, key=len, default="")
    return frozenset(alone) if all(_is_part(name, longest) for name in alone) else frozenset()


def _is_part(name: str, other: str) -> bool:
    """Return whether one of two names consists of words of the other."""
    mine, theirs = set(_fold_words(name)), set(_fold_words(other))
    return bool(mine and theirs) and (mine <= theirs or theirs <= mine)


def _fold_words(text: str) -> list[str]:
    """Return the words of a name or of an id without case, accents and marks."""
    plain = "".join(one for one in normalise_text("NFKD", text) if not unicodedata.combining(one))
    return _WORD.findall(plain.casefold())


@cache
def _select_spoken(banks: Select[UUID, str]) -> CompoundSelect[*tuple[Any, ...]]:
    """Return the query of the names that facts of a user's turns are told under, and of those that the user states."""
    seen = banks.cte("banks").prefix_with("materialized")
    unit, fact, speaker = UNIT.alias("u"), FACT.alias("f"), bindparam("speaker", type_=Uuid)
    newest = (
        select(unit.c.bank_id, unit.c.unit_id, unit.c.turn_id, unit.c.position)
        .where(
            unit.c.host_id == bindparam("host", type_=Uuid),
            unit.c.user_id == speaker,
            unit.c.origin == inline("extraction"),
            unit.c.active,
            unit.c.bank_id.in_(select(seen.c.bank_id)),
        )
        .limit(inline(FACTS))
        .cte("newest")
        .prefix_with("materialized")
    )
    told = (
        select(fact.c.subject, fact.c.fact_id, fact.c.value, fact.c.valid_to)
        .where(
            fact.c.host_id == bindparam("host", type_=Uuid),
            fact.c.bank_id == newest.c.bank_id,
            fact.c.unit_id == newest.c.unit_id,
        )
        .limit(ONE)
        .lateral("f")
    )
    found = select(newest, told).join_from(newest, told, true()).cte("found")
    is_own = found.c.subject == cast(speaker, Text)
    turns = func.array_agg(aggregate_order_by(found.c.turn_id, found.c.position.desc()))[ONE : inline(TURNS)]
    named = (
        select(found.c.bank_id, found.c.subject, turns.label("turns"))
        .where(~is_own)
        .group_by(found.c.bank_id, found.c.subject)
    ).cte("named")
    turn = func.unnest(named.c.turns).table_valued("turn_id", name="t").render_derived(name="t")
    said = UNIT.alias("m")
    name = func.afterturn.folded(func.coalesce(said.c.name, inline("")))
    alone = (
        select((func.bool_and(name == named.c.subject)).label("is_so"))
        .select_from(said)
        .where(
            said.c.host_id == bindparam("host", type_=Uuid),
            said.c.bank_id == named.c.bank_id,
            said.c.turn_id == turn.c.turn_id,
            said.c.origin != inline("extraction"),
            said.c.role == inline("user"),
        )
        .lateral("a")
    )
    spoken = (
        select(
            named.c.subject, func.coalesce(func.bool_or(alone.c.is_so), false()).label("alone"), false().label("states")
        )
        .join_from(named, turn, true())
        .join(alone, true())
        .group_by(named.c.subject)
    )
    stated = select(found.c.value, true(), true()).where(
        is_own, found.c.fact_id == inline(OWN_NAME), found.c.valid_to.is_(None)
    )
    return spoken.union_all(stated)
