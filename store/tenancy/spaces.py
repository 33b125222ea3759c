"""Derives a bank's owner from its name. Pure.

Three scopes: a host's bank belongs to everybody of the host, an agent's to one agent and all its users, a user's to
one user. A key of a user or an agent makes banks in a space of its own, so that two users can both call a bank
`notes` and neither can learn that the other did: `~ana/notes`, `@planner/notes`, `~ana@planner/notes`.
"""

from dataclasses import dataclass
from urllib.parse import quote, unquote

#: Bytes of a bank's name.
NAME_BYTES = 256


@dataclass(frozen=True, slots=True)
class Space:
    """Whose names: a user's, an agent's, or those of a user with an agent; neither: the host's."""

    user: str | None = None
    agent: str | None = None

    @property
    def prefix(self) -> str:
        """What the names of this space begin with; empty for the host's."""
        if self.user is None and self.agent is None:
            return ""
        user = "" if self.user is None else "~" + _escape_name(self.user)
        agent = "" if self.agent is None else "@" + _escape_name(self.agent)
        return f"{user}{agent}/"

    def name(self, bank: str) -> str:
        """Return the whole name of a bank of this space; a name that is whole already is returned as it is."""
        return bank if bank.startswith(self.prefix) else self.prefix + bank


def space_of(bank: str) -> Space:
    """Return the space a whole name belongs to."""
    owner, slash, rest = bank.partition("/")
    if not slash or not rest or owner[:1] not in ("~", "@"):
        return Space()
    user, at, agent = owner.partition("@")
    space = Space(unquote(user[1:]) or None, unquote(agent) or None if at else None)
    # Only what we would write ourselves: a name that merely looks alike is a host's.
    return space if space.prefix == f"{owner}/" else Space()


def _escape_name(name: str) -> str:
    return quote(name, safe=" .:,;+=!$()*'")
