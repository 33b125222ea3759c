"""Computes what remains of a document, unit or directive with versions of several users when one is erased. Pure.

An aggregate belongs to the user who created it and is erased with that user as a whole. Of another user's, the
erased user's versions go; what the others changed, before and after, stays: a version counts as the fields by which it
differs from the one before it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: The path of a field in a state; each entry of the metadata counts as a field.
Field = tuple[str, ...]
METADATA = "metadata"
#: Fields without words of the user: a version that carries on the user's pin holds nothing of theirs.
SILENT = frozenset({(METADATA, "pinned")})


@dataclass(frozen=True, slots=True)
class Version:
    """One event of an aggregate. `state`: all its fields from then on; None: the event was erased before."""

    position: int
    begins: bool
    by_user: bool
    state: Mapping[str, Any] | None = field(repr=False)


@dataclass(slots=True)
class Remainder:
    """What remains of an aggregate without a user's versions.

    `theirs`: the user began its current life, so nothing remains. `positions`: events that hold the user's words.
    `state`: the state to write in place of the current one; None where that holds nothing of the user's. `spans`: parts
    of the log (from, to which position; None: the end) in which its state held the user's words.
    """

    theirs: bool = False
    positions: list[int] = field(default_factory=list)
    state: Mapping[str, Any] | None = field(default=None, repr=False)
    spans: list[tuple[int, int | None]] = field(default_factory=list)


def strip_user(versions: Sequence[Version]) -> Remainder:
    """Return the remainder of an aggregate, given all its versions in order."""
    found = Remainder()
    for life in _divide_lives(versions):
        found.theirs, found.state = life[0].by_user, None
        if found.theirs:
            found.positions += [one.position for one in life if one.state is not None]
        else:
            _take_out(life, found)
    return found


def _divide_lives(versions: Sequence[Version]) -> list[list[Version]]:
    """Divide versions into lives, at each event that begins the aggregate again."""
    lives: list[list[Version]] = []
    for one in versions:
        if one.begins or not lives:
            lives.append([])
        lives[-1].append(one)
    return lives


def _take_out(life: Sequence[Version], found: Remainder) -> None:
    """Add one life, which another user began, to the remainder."""
    before: dict[Field, Any] = {}
    kept: dict[Field, Any] = {}
    theirs: set[Field] = set()
    since: int | None = None
    for one in life:
        if one.state is None:
            continue
        after = _flatten_state(one.state)
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        if one.by_user:
            theirs |= changed
        else:
            theirs -= changed
            kept = {name: value for name, value in kept.items() if name not in changed} | {
                name: after[name] for name in changed if name in after
            }
        before = after
        speaks = bool(theirs - SILENT)
        if one.by_user or speaks:
            found.positions.append(one.position)
        if speaks and since is None:
            since = one.position
        elif not speaks and since is not None:
            found.spans.append((since, one.position))
            since = None
    if since is not None:
        found.spans.append((since, None))
    if theirs:
        found.state = _nest_fields(kept)


def _flatten_state(state: Mapping[str, Any]) -> dict[Field, Any]:
    plain: dict[Field, Any] = {(name,): value for name, value in state.items() if name != METADATA}
    return {**plain, **{(METADATA, name): value for name, value in (state.get(METADATA) or {}).items()}}


def _nest_fields(fields: Mapping[Field, Any]) -> Mapping[str, Any]:
    metadata = {name[1]: value for name, value in fields.items() if len(name) > 1}
    plain = {name[0]: value for name, value in fields.items() if len(name) == 1}
    return {**plain, **({METADATA: metadata} if metadata else {})}
