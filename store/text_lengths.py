"""The condition that a stored text has at most a number of characters, for which a long text is not read.

The server knows the bytes of a stored text. Its characters it counts, for which it reads and unpacks the whole text.
"""

from sqlalchemy import ColumnElement, and_, func, or_

from store.sql_constants import inline

#: Most bytes of a character in UTF-8.
WIDEST = 4


def has_at_most(text: ColumnElement[str], characters: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that a text has at most this number of characters; null for a text that is null."""
    size = func.octet_length(text)
    counted = and_(size <= characters * inline(WIDEST), func.char_length(text) <= characters)
    return or_(size <= characters, counted)
