"""Authorises changes of stored memories, for every interface.

A key without a user and an agent may change everything that it reaches. A key of a user or an agent may change
everything in banks of its own. In a bank that others share it may change units and documents that its user or agent
began (by the first event of each), and nothing that concerns every reader, unless it has the scope `curate`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from producers.errors import PermissionDenied
from store import identity
from store.memory.authorship import Author
from store.memory.documents import Documents
from store.memory.units import Units
from store.tenancy.banks import Banks, space_ids
from store.tenancy.keys import Grant

KEEPERS_KEY = "a key without a user and an agent"
READ_ONLY = "this key may only read: to write, use one that was made without `--read-only`"


class Action(Enum):
    """An action on an existing bank; the value is its name in a refusal's message."""

    DIRECT = "lay down or withdraw directives"
    PIN = "pin or unpin units, for all who recall from it"
    CORRECT = "correct units that others began"
    FORGET = "forget units or documents that others began, or in which others' words stand"
    LINK = "link units that others began"
    ERASE = "erase what others began"
    ERASE_SHARED = "erase whole sessions or the bank"
    CHANGE_BANK = "change its language or its end"
    ENTITIES = "change its entities"


#: Actions that decide what every reader of a bank gets first.
CURATION = frozenset({Action.DIRECT, Action.PIN})


@dataclass(frozen=True, slots=True)
class Authorisation:
    """Checks the rights of a key."""

    banks: Banks
    units: Units
    documents: Documents

    async def require(
        self, grant: Grant, action: Action, bank: str, *, units: Sequence[UUID] = (), document: UUID | None = None
    ) -> None:
        """Check that a key may do this action in the bank of this whole name; `units`, `document`: its targets.

        Raises PermissionDenied; NotFound for an unknown unit or document.
        """
        require_write(grant)
        if grant.user is None and grant.agent is None:
            return
        if grant.curate and action in CURATION:
            return
        if await self._owns_bank(grant, bank):
            return
        if units and all(_is_author(grant, one) for one in await self.units.authors(grant.host_id, bank, units)):
            return
        if document and all(
            _is_author(grant, one) for one in await self.documents.authors(grant.host_id, bank, document)
        ):
            return
        scope = " or one made with --curate" if action in CURATION else ""
        raise PermissionDenied(
            f"in a bank that others share, this key may not {action.value}: use {KEEPERS_KEY}{scope}"
        )

    async def _owns_bank(self, grant: Grant, bank: str) -> bool:
        """Return whether a bank is the key's own: of its user (with any agent it may use), or of its agent alone."""
        user, agent = await self.banks.owners(grant.host_id, bank)
        own_user, own_agent = space_ids(grant.host_id, grant.space)
        if own_user is None:
            return user is None and agent == own_agent
        return user == own_user and (own_agent is None or agent in (None, own_agent))


def require_write(grant: Grant) -> None:
    """Raise PermissionDenied for a key that may only read."""
    if not grant.write:
        raise PermissionDenied(READ_ONLY)


def require_user_erasure(grant: Grant, user: str) -> None:
    """Check that a key may erase this user from all banks: its own user, or any by a key of the whole host.

    Raises PermissionDenied.
    """
    require_write(grant)
    if grant.banks is not None or grant.agent is not None:
        raise PermissionDenied("a user is erased from all banks, and this key does not reach them")
    if grant.user not in (None, user):
        raise PermissionDenied("this key erases its own user only")


def _is_author(grant: Grant, author: Author) -> bool:
    if grant.user is not None:
        return author.user == identity.user_id(grant.host_id, grant.user)
    return grant.agent is not None and author.agent == identity.agent_id(grant.host_id, grant.agent)
