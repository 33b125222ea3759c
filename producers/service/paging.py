"""Pages of lists: a cursor names the row after which the next page begins, and is valid for its list alone. Pure."""

import base64
import binascii
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

import orjson
from afterturn_client.contract.shape import Shape
from pydantic import Field

from producers.errors import FieldProblem, Invalid
from producers.service.fields import POSITION_MAX, DefaultBank
from producers.service.wire import Parameters
from store.log.storable import check_text
from store.page_bytes import PageRows

T = TypeVar("T")
S = TypeVar("S", bound=Shape)
#: Reads the rows after a place, of which it takes a number at most.
FindRows = Callable[[tuple[Any, ...] | None, int], Awaitable[Sequence[T]]]

MAX_LISTED = 1000
#: Most characters of a cursor: one that contains a name of 256 bytes.
CURSOR_CHARACTERS = 2_000

Limit = Annotated[int, Field(ge=1, le=MAX_LISTED, description=f"rows that an answer holds at most, up to {MAX_LISTED}")]
Cursor = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=CURSOR_CHARACTERS,
        description="the `cursor` of the page before, of the same list and filter; left out: the first page",
    ),
]


class PageParameters(Parameters):
    """The size of a page, and where it begins."""

    limit: Limit = 200
    cursor: Cursor = None


class BankPageParameters(PageParameters):
    """A bank, the size of a page, and where it begins."""

    bank: DefaultBank = "default"


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Rows of a list in its order, and the cursor of the next page; None on the last."""

    rows: Sequence[T]
    cursor: str | None

    def describe_end(self) -> dict[str, Any]:
        """Return the fields by which the shape of a page tells whether there is a next one."""
        return {"cursor": self.cursor, "has_more": self.cursor is not None}


@dataclass(frozen=True, slots=True)
class ListOrder(Generic[T]):
    """The order of a list: `place` returns the values that order a row, `read` parses each from text."""

    name: str
    place: Callable[[T], tuple[object, ...]]
    read: tuple[Callable[[str], Any], ...]

    def open(self, host: UUID, scope: str, cursor: str | None) -> tuple[Any, ...] | None:
        """Return the place that a cursor names, None without one.

        Raises Invalid for a cursor that is not of this list, tenant and scope.
        """
        if cursor is None:
            return None
        try:
            mark, *values = orjson.loads(base64.urlsafe_b64decode(cursor.encode("ascii")))
            if mark != self._sign_scope(host, scope):
                raise ValueError("another list's")  # noqa: TRY301 - one answer to all of them
            return tuple(read(value) for read, value in zip(self.read, values, strict=True))
        except (ValueError, TypeError, AttributeError, binascii.Error):
            raise Invalid(FieldProblem("cursor", "must be a cursor that a page of this list gave")) from None

    def close(self, host: UUID, scope: str, found: Sequence[T], limit: int) -> Page[T]:
        """Return the page of the rows found, which are one more than `limit` where there is a next page."""
        return self.end(host, scope, PageRows(found[:limit], more=len(found) > limit))

    def end(self, host: UUID, scope: str, found: PageRows[T]) -> Page[T]:
        """Return the page of these rows."""
        if not found.more:
            return Page(found.rows, None)
        values = [self._sign_scope(host, scope), *map(str, self.place(found.rows[-1]))]
        return Page(found.rows, base64.urlsafe_b64encode(orjson.dumps(values)).decode("ascii"))

    async def read_page(self, shape: type[S], host: UUID, scope: str, asked: PageParameters, find: FindRows[T]) -> S:
        """Return the page that is asked for as its shape, whose field of the rows has the list's name. Raises Invalid.

        `find` takes the place after which the page begins, None at the beginning, and how many rows to read at most.
        """
        found = await find(self.open(host, scope, asked.cursor), asked.limit + 1)
        page = self.close(host, scope, found, asked.limit)
        return shape(**{self.name: tuple(page.rows)}, **page.describe_end())

    def _sign_scope(self, host: UUID, scope: str) -> str:
        return hashlib.sha256(f"{host}\0{self.name}\0{scope}".encode()).hexdigest()[:16]


def read_position(value: str) -> int:
    """Return a position that a column can hold. Raises ValueError."""
    number = int(value)
    if not -1 <= number <= POSITION_MAX:
        raise ValueError("no position")
    return number


def read_priority(value: str) -> int:
    """Return a number of 32 bits. Raises ValueError."""
    number = int(value)
    if not -(2**31) <= number < 2**31:
        raise ValueError("no priority")
    return number


def read_name(value: str) -> str:
    """Return a text that a column can hold. Raises ValueError."""
    check_text(value)
    return value
