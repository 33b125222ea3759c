"""The target of a client: URL, key, and the newest position it has written. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict, TypeVar
from uuid import UUID

import httpx

from afterturn_client import answers, lifecycle
from afterturn_client.arguments import check_name, check_seconds, check_text
from afterturn_client.calls import ApiCall, RecallOptions, read
from afterturn_client.contract.receipts import CorrectionReceipt, DocumentReceipt, MemoryReceipt
from afterturn_client.contract.shape import Shape
from afterturn_client.contract.turns import KeptTurn
from afterturn_client.errors import InvalidRequestError
from afterturn_client.lists import ListKind, Page, call_list
from afterturn_client.retry import RetryPolicy
from afterturn_client.transport import check_base_url, check_way, key_options

S = TypeVar("S", bound=Shape)
T = TypeVar("T")

#: The answers that contain the position of a write.
WRITTEN = (
    answers.TurnReceipt,
    DocumentReceipt,
    CorrectionReceipt,
    KeptTurn,
    MemoryReceipt,
)

#: How long a recall waits for the client's own last write, in milliseconds, unless it says otherwise.
OWN_WRITE_WAIT_MS = 1000

#: How long an idle connection is kept, in seconds: shorter than servers keep theirs (the service: 10), so that none
#: is cut while a request is on its way.
KEEPALIVE_S = 4.0
#: Calls at a time: as many as the service takes from one address. Further ones wait here, and are not refused there.
MAX_CONNECTIONS = 64


class OwnWrite(TypedDict, total=False):
    """The options that let a call wait for this client's last write."""

    min_position: int
    wait_ms: int


@dataclass
class ServiceTarget:
    """A service with a key and a default bank; `position` is that of the last acknowledged write."""

    base_url: str
    key: str = field(repr=False)
    bank: str
    timeout_s: float
    retry: RetryPolicy
    read_your_writes: bool
    allow_http: bool = False
    position: int | None = None

    def __post_init__(self) -> None:
        self.base_url = check_base_url(self.base_url)
        check_way(self.base_url, allow_http=self.allow_http)
        check_name("bank", self.bank)
        check_seconds("timeout_s", self.timeout_s)
        if not isinstance(self.retry, RetryPolicy):
            raise InvalidRequestError(f"retry must be a RetryPolicy, not {type(self.retry).__name__}")
        key = check_text("key", self.key)
        if not key.isascii() or not key.isprintable() or " " in key or not key:
            raise InvalidRequestError(
                "the key must be one word of printable ASCII (what was read from a file may have a line end: .strip())"
            )

    def __str__(self) -> str:
        return f"{self.base_url!r}, bank={self.bank!r}"

    def http_options(self) -> dict[str, Any]:
        """Return the arguments of either httpx client."""
        limits = httpx.Limits(
            max_connections=MAX_CONNECTIONS, max_keepalive_connections=20, keepalive_expiry=KEEPALIVE_S
        )
        return {**key_options(self.base_url, self.key), "limits": limits}

    def name_bank(self, bank: str | None) -> str:
        """Return the bank that is meant: the client's own where a call names none. Raises InvalidRequestError."""
        return self.bank if bank is None else check_name("bank", bank)

    def place(self, bank: str | None = None) -> tuple[str, float]:
        """Return the bank that is meant, and the time-out in seconds."""
        return self.name_bank(bank), self.timeout_s

    def read(
        self,
        shape: type[S],
        path: Sequence[str | UUID],
        bank: str | None,
        what: str = "",
        **params: str | int | UUID | None,
    ) -> ApiCall[S]:
        """Build the call that reads something of a bank; see `calls.read`."""
        return read(shape, path, self.place(bank), what, **params)

    def list_rows(
        self, kind: ListKind[S], cursor: str | None, limit: int, bank: str | None, **chosen: str | UUID | None
    ) -> ApiCall[Page[S]]:
        """Build the call that reads a page of a list; `chosen` says by which fields its rows are chosen."""
        place = {"bank": self.name_bank(bank)} if kind.of_bank else {}
        place |= {name: str(value) for name, value in chosen.items() if value is not None}
        return call_list(kind, cursor, limit, place, self.timeout_s)

    def complete_preparation(self, options: lifecycle.BeforeTurnOptions) -> lifecycle.BeforeTurnOptions:
        """Return the options with the bank, and with this client's last write as `min_position`."""
        return {"bank": self.bank, **self._wait_for_own_write(options), **options}

    def complete_recall(self, options: RecallOptions) -> RecallOptions:
        """Do the same for a recall, without the options that are None."""
        given: Mapping[str, Any] = {name: value for name, value in options.items() if value is not None}
        full: RecallOptions = {"bank": self.bank, **self._wait_for_own_write(given), **given}  # type: ignore[typeddict-item]  # a subset of options
        return full

    def note_write(self, result: T) -> T:
        """Remember the position of an answer to a write, or of several, and return the answer."""
        for one in result if isinstance(result, tuple) else (result,):
            if isinstance(one, WRITTEN):
                self.position = max(one.position, self.position or 0)
        return result

    def _wait_for_own_write(self, options: Mapping[str, Any]) -> OwnWrite:
        if not self.read_your_writes or self.position is None or "min_position" in options:
            return {}
        return {"min_position": self.position, "wait_ms": OWN_WRITE_WAIT_MS}
