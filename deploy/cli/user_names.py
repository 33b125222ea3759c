"""Finds the name of a user who is given as `afterturn users list` shows one: by name, or by id."""

from collections.abc import Iterator
from uuid import UUID

from afterturn_client import Afterturn, ListedUser

#: Users of a page that is searched for an id.
PAGE = 1000


def parse_user_id(given: str) -> UUID | None:
    """Return the id that a text is; None for a name."""
    try:
        return UUID(given)
    except ValueError:
        return None


def resolve_user(client: Afterturn, given: str) -> str:
    """Return the name of a user of this id, where the key reads it, else the text itself: a name may be a uuid, too."""
    user = parse_user_id(given)
    listed = () if user is None else _list_users(client)
    return next((one.name for one in listed if one.user == user and one.name is not None), given)


def is_known_user(client: Afterturn, name: str) -> bool:
    """Return whether the key reaches a user of this name, or names of users are not for it to read."""
    return any(one.name in (name, None) for one in _list_users(client))


def _list_users(client: Afterturn) -> Iterator[ListedUser]:
    cursor = None
    while True:
        page = client.list_users(cursor=cursor, limit=PAGE)
        yield from page.rows
        if (cursor := page.cursor) is None:
            return
