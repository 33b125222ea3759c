"""What remains of a document, unit or directive with versions of several users when one of them is erased. Pure.

It belongs to the user who created it and is erased with that user as a whole. Of one that another user created, the
erased user's versions go; what the others changed, before and after, stays: a version is read as the fields by which it
differs from the one before it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: A field of a state; one of its metadata is a field of its own.
Field = tuple[str, ...]
METADATA = "metadata"
#: A user's pin says nothing: a version that carries it over is not one of theirs.
SILENT = frozenset({(METADATA, "pinned")})


@dataclass(frozen=True, slots=True)
class Version:
    """One event that changed a thing. `state`: every field of what it says from then on; None: it was erased before."""

    position: int
    begins: bool
    by_user: bool
    state: Mapping[str, Any] | None = field(repr=False)


@dataclass(slots=True)
class Remainder:
    """What is left without a user's words.

    `theirs`: the user began what the thing is now, so nothing is. `positions` are events that hold words of theirs.
    `state` is what it says instead of what it says now; None where that holds nothing of theirs. `spans` are the parts
    of the log (from, and up to which position, None: the end) in which it said what they made it say.
    """

    theirs: bool = False
    positions: list[int] = field(default_factory=list)
    state: Mapping[str, Any] | None = field(default=None, repr=False)
    spans: list[tuple[int, int | None]] = field(default_factory=list)


def without_user(versions: Sequence[Version]) -> Remainder:
    """Return what is left of a thing, given all that changed it in the order of its versions."""
    found = Remainder()
    for life in _divide_lives(versions):
        found.theirs, found.state = life[0].by_user, None
        if found.theirs:
            found.positions += [one.position for one in life if one.state is not None]
        else:
            _take_out(life, found)
    return found


def _divide_lives(versions: Sequence[Version]) -> list[list[Version]]:
    """Divide versions where the thing begins again."""
    lives: list[list[Version]] = []
    for one in versions:
        if one.begins or not lives:
            lives.append([])
        lives[-1].append(one)
    return lives


def _take_out(life: Sequence[Version], found: Remainder) -> None:
    """Add to what was found what one life holds of a user who did not begin it."""
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
