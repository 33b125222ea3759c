"""Rules by which an import replaces names and ids. They touch fields of names and ids alone, and never content.

A rule is `{"field": ..., "from": ..., "to": ...}`; the seed's spellings `fieldName`, `fromValue`, `toValue` are read,
too. A pair of UUIDs without a field stands for a user or an agent, wherever its id stands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from uuid import UUID, uuid5

import orjson

from store.errors import SnapshotRefused
from store.tenancy.spaces import Space, parse_space

#: The most rules of one import.
MOST_RULES = 1000
#: Characters of a name that a rule replaces, or replaces it by.
NAME_LENGTH = 256
_SPELLINGS = (("field", "fieldName"), ("from", "fromValue"), ("to", "toValue"))


class Replaced(StrEnum):
    """The fields that a rule may replace."""

    BANK = "bankName"
    SESSION = "sessionName"
    TURN = "turnName"
    USER = "userName"
    AGENT = "agentName"
    USER_ID = "userId"
    AGENT_ID = "agentDefId"


_IDS = frozenset({Replaced.USER_ID, Replaced.AGENT_ID})


@dataclass(frozen=True, slots=True)
class Replacements:
    """The rules of one import: names by their fields, and ids of users and agents."""

    names: Mapping[tuple[Replaced, str], str] = field(default_factory=dict, repr=False)
    ids: Mapping[UUID, UUID] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Return whether there are rules."""
        return bool(self.names or self.ids)

    def rename(self, field_: Replaced, name: str) -> str:
        """Return the name that stands for one; rules are applied once, so that two names can change places."""
        return self.names.get((field_, name), name)

    def rename_bank(self, name: str) -> str:
        """Return the whole name of a bank: by its own rule, else with its user and agent renamed."""
        if (Replaced.BANK, name) in self.names:
            return self.names[Replaced.BANK, name]
        space = parse_space(name)
        if not space.prefix:
            return name
        user = None if space.user is None else self.rename(Replaced.USER, space.user)
        agent = None if space.agent is None else self.rename(Replaced.AGENT, space.agent)
        return Space(user, agent).prefix + name.removeprefix(space.prefix)

    def list_named(self, field_: Replaced) -> list[str]:
        """Return the names that the rules of a field replace."""
        return [name for of, name in self.names if of is field_]

    def identify(self, source: UUID) -> UUID:
        """Return the id of the mapping that these rules make of a tenant's ids; no rule follows from it."""
        told = [sorted([*key, to] for key, to in self.names.items()), sorted(map(str, self.ids.items()))]
        return uuid5(source, orjson.dumps(told).decode())


def parse_replacements(rules: Sequence[Any]) -> Replacements:
    """Return the rules of an import. Raises SnapshotRefused, which names the rule by its number."""
    if len(rules) > MOST_RULES:
        raise SnapshotRefused(f"an import has at most {MOST_RULES} replacement rules")
    names, ids = dict[tuple[Replaced, str], str](), dict[UUID, UUID]()
    for nth, rule in enumerate(rules, 1):
        of, replaced, by = _read_rule(rule, nth)
        if of is None or of in _IDS:
            old, new = _read_id(replaced, nth), _read_id(by, nth)
            if ids.setdefault(old, new) != new:
                raise _build_refusal(nth, "replaces an id that another rule replaces by another")
        else:
            if not 0 < len(by) <= NAME_LENGTH:
                raise _build_refusal(nth, f"to: is a name of 1 to {NAME_LENGTH} characters")
            if names.setdefault((of, replaced), by) != by:
                raise _build_refusal(nth, "replaces a name that another rule replaces by another")
    return Replacements(names, ids)


def _read_rule(rule: Any, nth: int) -> tuple[Replaced | None, str, str]:
    known = {name for both in _SPELLINGS for name in both}
    if not isinstance(rule, Mapping) or set(rule) - known:
        raise _build_refusal(nth, 'is no object {"field": ..., "from": ..., "to": ...}')
    told, replaced, by = (next((rule[name] for name in both if name in rule), None) for both in _SPELLINGS)
    if not isinstance(replaced, str) or not isinstance(by, str):
        raise _build_refusal(nth, "needs `from` and `to`, both texts")
    try:
        return None if told is None else Replaced(told), replaced, by
    except ValueError:
        raise _build_refusal(nth, f"field: is one of {', '.join(Replaced)}; content is never replaced") from None


def _read_id(text: str, nth: int) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise _build_refusal(nth, "from, to: are two UUIDs where no name is replaced") from None


def _build_refusal(nth: int, why: str) -> SnapshotRefused:
    return SnapshotRefused(f"replacement rule {nth} {why}")
