"""Finds the name of a user who is given as `afterturn users list` shows one: by name, or by id."""

from uuid import UUID

from afterturn_client import Afterturn

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
    user, cursor = parse_user_id(given), None
    while user is not None:
        page = client.list_users(cursor=cursor, limit=PAGE)
        if (found := next((one.name for one in page.rows if one.user == str(user)), None)) is not None:
            return found
        if (cursor := page.cursor) is None:
            break
    return given
