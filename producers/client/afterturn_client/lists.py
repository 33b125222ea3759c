"""Calls of the service's lists and their pages. No repr shows a remembered text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from afterturn_client.calls import ApiCall
from afterturn_client.contract.banks import ListedBank
from afterturn_client.contract.knowledge import Directive, Reflection
from afterturn_client.contract.lists import ListedSession, ListedTurn, ListedUnit, ListedUser
from afterturn_client.contract.shape import Shape
from afterturn_client.reading import read_object, read_shape, read_value
from afterturn_client.transport import Request

S = TypeVar("S", bound=Shape)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Rows of a list in its order, and the cursor of the next page; None on the last."""

    rows: tuple[T, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class ListKind(Generic[S]):
    """A kind of list: its path, the name of its rows, whether it is of one bank, and the shape of a row."""

    name: str
    of_bank: bool
    row: type[S]

    def page(self, value: object) -> Page[S]:
        """Return the page that a reply holds."""
        told = read_object(value, self.name)
        listed = read_value(list, told.get(self.name), f"{self.name}: {self.name}")
        rows = tuple(read_shape(self.row, one, f"{self.name}.{self.name}") for one in listed)
        cursor = told.get("cursor")
        return Page(rows, None if cursor is None else read_value(str, cursor, f"{self.name}: cursor"))


def call_list(
    kind: ListKind[S],
    cursor: str | None,
    limit: int,
    place: Mapping[str, str],
    timeout_s: float,
) -> ApiCall[Page[S]]:
    """GET /api/v1/banks, sessions, turns, units, users, directives or reflections: one page; `place` says of what."""
    params: dict[str, str | int] = {"limit": limit, **place, **({"cursor": cursor} if cursor else {})}
    return ApiCall(Request("GET", f"/api/v1/{kind.name}", params, timeout_s=timeout_s), kind.page)


BANKS = ListKind("banks", False, ListedBank)
SESSIONS = ListKind("sessions", True, ListedSession)
TURNS = ListKind("turns", True, ListedTurn)
UNITS = ListKind("units", True, ListedUnit)
USERS = ListKind("users", False, ListedUser)
DIRECTIVES = ListKind("directives", True, Directive)
REFLECTIONS = ListKind("reflections", True, Reflection)
