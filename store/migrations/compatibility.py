"""Decides whether code and schema work together: the two differ while an upgrade rolls over a service's processes.

Code is identified by the newest revision it knows. It works with that schema, with newer ones as long as these only
added to it, and with older ones down to `OLDEST_SCHEMA`. CONTRIBUTING says how a schema is changed under this rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

#: The oldest schema on which this code starts: the newest revision of the previous release, if this code works with
#: it. None: only its own revision and newer ones. The first release has no previous one.
OLDEST_SCHEMA: str | None = None
#: The attribute of a revision that removes something. Its value is the newest revision known to the oldest code that
#: works without what is removed. A revision that only adds has no such attribute.
OLDEST_CODE = "oldest_code"


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """The version of a schema: its revision, and the newest revision known to the oldest code that it serves."""

    revision: str
    oldest_code: str


class SchemaRelation(StrEnum):
    """The relation of a schema to this code."""

    CURRENT = "current"
    #: Older, but usable; `afterturn db migrate` brings it to this code's revision.
    OLDER = "older"
    #: Migrated by newer code, and usable by this code.
    NEWER = "newer"
    TOO_OLD = "too old"
    TOO_NEW = "too new"


def compare_schema(
    found: SchemaVersion, known: Sequence[str], oldest_schema: str | None = OLDEST_SCHEMA
) -> SchemaRelation:
    """Return the relation of a schema to code that knows these revisions, in order."""
    if found.revision == known[-1]:
        return SchemaRelation.CURRENT
    if found.revision in known:
        oldest = known[-1] if oldest_schema is None else oldest_schema
        return SchemaRelation.OLDER if known.index(found.revision) >= known.index(oldest) else SchemaRelation.TOO_OLD
    return SchemaRelation.NEWER if found.oldest_code in known else SchemaRelation.TOO_NEW


def describe_problem(relation: SchemaRelation, found: SchemaVersion, newest: str) -> str | None:
    """Return why this code cannot start on a schema and what to do; None when it can."""
    seen = f"the schema is at revision {found.revision}, this version knows {newest}"
    if relation is SchemaRelation.TOO_OLD:
        return f"{seen} and needs {OLDEST_SCHEMA or newest} at least: run `afterturn db migrate` of this version"
    if relation is SchemaRelation.TOO_NEW:
        return f"{seen}; the oldest version that works with it knows {found.oldest_code}: run that, or a newer one"
    return None
