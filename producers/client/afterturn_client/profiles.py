"""Answers of profiles as frozen values. Their repr shows no fact."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypedDict

from afterturn_client.contract.facts import EndedFacts
from afterturn_client.reading import Fields, read_shape, show_line


class ProfileOptions(TypedDict, total=False):
    """Options of a profile: the person and the bank; without a person, a user's key asks about its own user.

    `user_id`: the user whose turns the facts come from, in all banks the key reaches or in `bank`; `name`: a person's
    name in a bank; `history`: also superseded facts; `limit`: the most facts (1..1000); `cursor`: that of the page
    before.
    """

    user_id: str
    name: str
    bank: str
    history: bool
    limit: int
    cursor: str


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact: valid from `since` to `until` (None: still), and stated in `stated` turns.

    `state` is active, superseded or contradicted; None: the service is older and does not say. `deletion_proposed_by`
    are the messages because of which a model proposes to delete it.
    `unit_id`, session, turn and `said_at` are those of its newest statement; `history`: the facts it superseded, newest
    first.
    """

    fact_id: str
    key: str
    value: str = field(repr=False)
    text: str = field(repr=False)
    bank: str
    unit_id: str
    session_id: str | None
    turn_id: str | None
    said_at: datetime
    since: datetime
    until: datetime | None
    stated: int
    state: str | None
    history: tuple["Fact", ...] = field(repr=False)
    deletion_proposed_by: tuple[str, ...] = ()

    def __str__(self) -> str:
        until = f" until {self.until:%Y-%m-%d}" if self.until else ""
        return f"{show_line(self.text)} (since {self.since:%Y-%m-%d}{until})"


@dataclass(frozen=True, slots=True)
class Profile:
    """A page of a person's facts, and co-occurring entities; `raw` is the service's answer unchanged.

    `cursor` asks for the next page; None on the last. `ended`: with `history`, how many facts no answer shows any more.
    """

    names: tuple[str, ...] = field(repr=False)
    facts: tuple[Fact, ...]
    beside: tuple[str, ...] = field(repr=False)
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    cursor: str | None = None
    ended: tuple[EndedFacts, ...] = ()

    def __str__(self) -> str:
        """Return the facts to be read, a line each; `repr` shows none of them."""
        name = show_line(", ".join(self.names)) or "nobody named"
        return "\n".join([f"{name}: {len(self.facts)} facts", *(f"  {fact}" for fact in self.facts)])


def read_profile(value: object) -> Profile:
    """Read the answer of GET /api/v1/profile."""
    fields = Fields.of(value, "profile")
    return Profile(
        fields.texts("names"),
        tuple(_parse_fact(one) for one in fields.objects("facts")),
        tuple(one.text("name") for one in fields.objects("beside")),
        fields.values,
        fields.maybe_text("cursor"),
        tuple(read_shape(EndedFacts, one) for one in fields.values.get("ended") or ()),
    )


def _parse_fact(fields: Fields) -> Fact:
    return Fact(
        fact_id=fields.text("fact_id"),
        key=fields.text("key"),
        value=fields.text("value"),
        text=fields.text("text"),
        bank=fields.text("bank"),
        unit_id=fields.text("unit_id"),
        session_id=fields.maybe_text("session_id"),
        turn_id=fields.maybe_text("turn_id"),
        said_at=fields.moment("said_at"),
        since=fields.moment("since"),
        until=fields.maybe_moment("until"),
        stated=fields.integer("stated"),
        state=fields.maybe_text("state"),
        history=tuple(_parse_fact(one) for one in fields.objects("history")),
        deletion_proposed_by=fields.texts("deletion_proposed_by"),
    )
