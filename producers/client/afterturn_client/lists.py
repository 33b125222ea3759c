"""Calls of the service's lists and their pages. No repr shows a remembered text."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from afterturn_client.calls import ApiCall
from afterturn_client.contract.banks import ListedBank
from afterturn_client.contract.lists import ListedSession, ListedTurn
from afterturn_client.reading import Fields, read_shape
from afterturn_client.transport import Request

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Rows of a list in its order, and the cursor of the next page; None on the last."""

    rows: tuple[T, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class ListedUnit:
    """A unit; where `cut`, `text` is the beginning of its text. `raw` holds all fields of the list."""

    unit_id: str
    kind: str
    text: str = field(repr=False)
    cut: bool
    raw: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ListedUser:
    """A user by id, and by name where that is known."""

    user: str
    name: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class ListedDirective:
    """A standing instruction of a bank."""

    directive_id: str
    name: str = field(repr=False)
    content: str = field(repr=False)
    priority: int
    laid_down_by: str | None


@dataclass(frozen=True, slots=True)
class ListedReflection:
    """A reflection of a bank: a text derived from several of its facts."""

    reflection_id: str
    content: str = field(repr=False)
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ListKind(Generic[T]):
    """A kind of list: its path, the name of its rows, whether it is of one bank, and the parser of a row."""

    name: str
    of_bank: bool
    read: Callable[[Fields], T]

    def page(self, value: object) -> Page[T]:
        """Return the page that a reply holds."""
        fields = Fields.of(value, self.name)
        return Page(tuple(map(self.read, fields.objects(self.name))), fields.maybe_text("cursor"))


def call_list(
    kind: ListKind[T],
    cursor: str | None,
    limit: int,
    place: Mapping[str, str],
    timeout_s: float,
) -> ApiCall[Page[T]]:
    """GET /api/v1/banks, sessions, turns, units, users, directives or reflections: one page; `place` says of what."""
    params: dict[str, str | int] = {"limit": limit, **place, **({"cursor": cursor} if cursor else {})}
    return ApiCall(Request("GET", f"/api/v1/{kind.name}", params, timeout_s=timeout_s), kind.page)


def _read_unit(fields: Fields) -> ListedUnit:
    shown = fields.text("unit_id"), fields.text("kind"), fields.text("text")
    return ListedUnit(*shown, fields.flag("cut"), fields.values)


def _read_user(fields: Fields) -> ListedUser:
    return ListedUser(fields.text("user"), fields.maybe_text("name"))


def _read_directive(fields: Fields) -> ListedDirective:
    shown = fields.text("directive_id"), fields.text("name"), fields.text("content")
    return ListedDirective(*shown, fields.integer("priority"), fields.maybe_text("laid_down_by"))


def _read_reflection(fields: Fields) -> ListedReflection:
    return ListedReflection(fields.text("reflection_id"), fields.text("content"), fields.moment("updated_at"))


BANKS = ListKind("banks", False, lambda row: read_shape(ListedBank, row.values, row.what))
SESSIONS = ListKind("sessions", True, lambda row: read_shape(ListedSession, row.values, row.what))
TURNS = ListKind("turns", True, lambda row: read_shape(ListedTurn, row.values, row.what))
UNITS = ListKind("units", True, _read_unit)
USERS = ListKind("users", False, _read_user)
DIRECTIVES = ListKind("directives", True, _read_directive)
REFLECTIONS = ListKind("reflections", True, _read_reflection)
