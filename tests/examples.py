"""How many examples hypothesis draws: a few, the same at each run; or as many new ones as somebody asks for."""

import os

_ASKED = os.environ.get("AFTERTURN_EXAMPLES")
#: How many examples to search with; None when nobody asked for a search.
SEARCH = int(_ASKED) if _ASKED else None


def examples(usual: int) -> int:
    """Return the number of examples of a test whose usual number is this."""
    return usual if SEARCH is None else SEARCH
