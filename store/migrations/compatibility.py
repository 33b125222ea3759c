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
#: The last of the 31 revisions of 0.1.0's development, which became one. Its number is not used again.
LAST_FORMER = "0.1.0_0031"
#: The last of them made this table: a schema without it is at a former revision, even where 0001 and its successors
#: bear the same name.
TABLE_OF_LAST_FORMER = "public.afterturn_console_session"
#: It makes a database of the last one the database of 0001.
KEEP_DATA = "update public.afterturn_version set version_num = '0.1.0_0001'"


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """The version of a schema: its revision, and the newest revision known to the oldest code that it serves."""

    revision: str
    oldest_code: str
    #: One of the revisions that became 0001 (`LAST_FORMER`).
    is_former: bool = False


class SchemaRelation(StrEnum):
    """The relation of a schema to this code."""

    CURRENT = "current"
    #: Older, but usable; `afterturn db migrate` brings it to this code's revision.
    OLDER = "older"
    #: Migrated by newer code, and usable by this code.
    NEWER = "newer"
    TOO_OLD = "too old"
    TOO_NEW = "too new"
    #: At a revision of 0.1.0's development: no version of today migrates it.
    FORMER = "former"


def compare_schema(
    found: SchemaVersion, known: Sequence[str], oldest_schema: str | None = OLDEST_SCHEMA
) -> SchemaRelation:
    """Return the relation of a schema to code that knows these revisions, in order."""
    if found.is_former:
        return SchemaRelation.FORMER
    if found.revision == known[-1]:
        return SchemaRelation.CURRENT
    if found.revision in known:
        oldest = known[-1] if oldest_schema is None else oldest_schema
        return SchemaRelation.OLDER if known.index(found.revision) >= known.index(oldest) else SchemaRelation.TOO_OLD
    return SchemaRelation.NEWER if found.oldest_code in known else SchemaRelation.TOO_NEW


def describe_problem(relation: SchemaRelation, found: SchemaVersion, newest: str) -> str | None:
    """Return why this code cannot start on a schema and what to do; None when it can."""
    if relation is SchemaRelation.FORMER:
        return describe_former(found.revision)
    seen = f"the schema is at revision {found.revision}, this version knows {newest}"
    if relation is SchemaRelation.TOO_OLD:
        return f"{seen} and needs {OLDEST_SCHEMA or newest} at least: run `afterturn db migrate` of this version"
    if relation is SchemaRelation.TOO_NEW:
        return f"{seen}; the oldest version that works with it knows {found.oldest_code}: run that, or a newer one"
    return None


def describe_former(revision: str) -> str:
    """Return why a schema of a former revision is not migrated, and how its data is kept."""
    steps = "" if revision == LAST_FORMER else f"bring it to {LAST_FORMER} by the last version that has it, then "
    return (
        f"the schema is at revision {revision} of 0.1.0's development, whose revisions up to {LAST_FORMER} became one; "
        f"this version migrates none of them. Nothing was changed. To keep the data, {steps}run as database.owner_url "
        f"`{KEEP_DATA}` and migrate: the schemas are equal. "
        "Or use an empty database: another data folder (`--data DIR`) or another database.owner_url"
    )
