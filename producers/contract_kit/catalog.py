"""Every case of the contract, in the order in which they run."""

from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from producers.contract_kit.cases import (
    embedding,
    forget,
    fts,
    health,
    ids,
    namespaces,
    outage,
    pin,
    propagation,
    search,
    ttl,
    wire,
    writes,
)
from producers.contract_kit.errors import UnusableError
from producers.contract_kit.registry import Case

#: The store is taken away last, when every other case has had an answer.
_MODULES = (health, wire, namespaces, writes, ids, search, forget, ttl, pin, propagation, fts, embedding, outage)
CASES: tuple[Case, ...] = tuple(one for module in _MODULES for one in vars(module).values() if isinstance(one, Case))


def select_cases(patterns: Sequence[str]) -> tuple[Case, ...]:
    """Return the cases whose ids match one of the patterns (`fts.*`), all for none.

    Raises UnusableError for a pattern that matches no case.
    """
    for pattern in patterns:
        if not any(fnmatchcase(one.id, pattern) for one in CASES):
            alike = get_close_matches(pattern, [one.id for one in CASES], 3, 0.4)
            hint = f"; did you mean {', '.join(alike)}?" if alike else ""
            raise UnusableError(f"--only {pattern!r} matches no case{hint} (--list shows them all)")
    return tuple(one for one in CASES if not patterns or any(fnmatchcase(one.id, each) for each in patterns))
