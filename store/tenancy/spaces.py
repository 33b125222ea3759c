"""Derives a bank's owner from its name. Pure.

Three scopes: a host's bank is shared by all of the host, an agent's by all users of that agent, a user's belongs to
one user. A key of a user or an agent creates banks in a name space of its own, so that two users can both have a bank
`notes` and neither can learn of the other's: `~ana/notes`, `@planner/notes`, `~ana@planner/notes`.
"""

from dataclasses import dataclass
from urllib.parse import quote, unquote


@dataclass(frozen=True, slots=True)
class Space:
    """A name space of banks: of a user, of an agent, of a user with an agent, or of the host.

    `granted`: whole names of banks of others that its holder's key names, and so reaches, too.
    """

    user: str | None = None
    agent: str | None = None
    granted: frozenset[str] = frozenset()

    @property
    def prefix(self) -> str:
        """The prefix of the names of this space; empty for the host's."""
        if self.user is None and self.agent is None:
            return ""
        user = "" if self.user is None else "~" + _escape_name(self.user)
        agent = "" if self.agent is None else "@" + _escape_name(self.agent)
        return f"{user}{agent}/"

    def name(self, bank: str) -> str:
        """Return the whole name of a bank of this space; a name that is whole already is returned as it is."""
        return bank if bank.startswith(self.prefix) else self.prefix + bank


def parse_space(bank: str) -> Space:
    """Return the space a whole name belongs to."""
    owner, slash, rest = bank.partition("/")
    if not slash or not rest or owner[:1] not in ("~", "@"):
        return Space()
    user, at, agent = owner.partition("@")
    space = Space(unquote(user[1:]) or None, unquote(agent) or None if at else None)
    # Only the form that this service writes; a name that merely looks similar is an ordinary bank name of the host.
    return space if space.prefix == f"{owner}/" else Space()


def has_owner(bank: str) -> bool:
    """Return whether this is the whole name of a bank of a user or an agent."""
    return parse_space(bank) != Space()


def _escape_name(name: str) -> str:
    return quote(name, safe=" .:,;+=!$()*'")
