"""The target of a client: URL, key, and the newest position it has written. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import httpx

from afterturn_client import answers, calls, lifecycle, memories
from afterturn_client.arguments import check_name, check_seconds, check_text
from afterturn_client.calls import ApiCall, DocumentOptions, RecallOptions
from afterturn_client.contract.freshness import Freshness
from afterturn_client.errors import InvalidRequestError
from afterturn_client.lists import ListKind, Page, call_list
from afterturn_client.retry import RetryPolicy
from afterturn_client.transport import check_base_url, check_way, key_options
from afterturn_client.turns import Messages, NewTurn, TurnOptions

T = TypeVar("T")

#: The answers that contain the position of a write.
WRITTEN = (
    answers.TurnReceipt,
    answers.DocumentReceipt,
    answers.CorrectionReceipt,
    lifecycle.KeptTurn,
    memories.MemoryReceipt,
)

#: How long a recall waits for the client's own last write, in milliseconds, unless it says otherwise.
OWN_WRITE_WAIT_MS = 1000

#: How long an idle connection is kept, in seconds: shorter than servers keep theirs (the service: 10), so that none
#: is cut while a request is on its way.
KEEPALIVE_S = 4.0
#: Calls at a time: as many as the service takes from one address. Further ones wait here, and are not refused there.
MAX_CONNECTIONS = 64


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

    def add_turn(self, session_id: str, messages: Messages, options: TurnOptions) -> ApiCall[answers.TurnReceipt]:
        """Build the call that stores one turn and remembers its position."""
        call = calls.add_turn(NewTurn(session_id, messages, **options), self.bank, self.timeout_s)
        return replace(call, read=lambda value: self._wrote(call.read(value)))

    def add_turns(self, turns: Sequence[NewTurn]) -> ApiCall[tuple[answers.TurnReceipt | answers.RefusedTurn, ...]]:
        """Build the call that stores many turns and remembers the last position."""
        if isinstance(turns, str | bytes | NewTurn) or not isinstance(turns, Sequence):
            raise InvalidRequestError(f"turns must be a list, each a NewTurn; not {type(turns).__name__}")
        call = calls.add_turns(turns, self.bank, self.timeout_s)
        return replace(call, read=lambda value: tuple(map(self._wrote, call.read(value))))

    def add_document(
        self, content: str | None, content_hash: str | None, options: DocumentOptions, bank: str | None
    ) -> ApiCall[answers.DocumentReceipt]:
        """Build the call that stores a document and remembers its position."""
        call = calls.add_document(content, content_hash, options, self.name_bank(bank), self.timeout_s)
        return replace(call, read=lambda value: self._wrote(call.read(value)))

    def keep_memory(
        self, content: str, options: memories.MemoryOptions, bank: str | None
    ) -> ApiCall[memories.MemoryReceipt]:
        """Build the call that writes a memory and remembers its position."""
        call = memories.keep_memory(content, options, self.name_bank(bank), self.timeout_s)
        return replace(call, read=lambda value: self._wrote(call.read(value)))

    def end_memory(self, memory_id: str, bank: str | None) -> ApiCall[None]:
        """Build the call that ends a memory."""
        return memories.end_memory(memory_id, self.name_bank(bank), self.timeout_s)

    def list_documents(self, cursor: str | None, limit: int, bank: str | None) -> ApiCall[answers.DocumentPage]:
        """Build the call that lists a page of documents."""
        return calls.list_documents(cursor, limit, self.name_bank(bank), self.timeout_s)

    def name_bank(self, bank: str | None) -> str:
        """Return the bank that is meant: the client's own where a call names none. Raises InvalidRequestError."""
        return self.bank if bank is None else check_name("bank", bank)

    def place(self, bank: str | None) -> tuple[str, float]:
        """Return the bank that is meant, and the time-out in seconds."""
        return self.name_bank(bank), self.timeout_s

    def list_rows(
        self, kind: ListKind[T], cursor: str | None, limit: int, bank: str | None, **chosen: str | UUID | None
    ) -> ApiCall[Page[T]]:
        """Build the call that reads a page of a list; `chosen` says by which fields its rows are chosen."""
        place = {"bank": self.name_bank(bank)} if kind.of_bank else {}
        place |= {name: str(value) for name, value in chosen.items() if value is not None}
        return call_list(kind, cursor, limit, place, self.timeout_s)

    def correct_unit(
        self, unit_id: str | UUID, content: str, version: int | None, bank: str | None
    ) -> ApiCall[answers.CorrectionReceipt]:
        """Build the call that corrects a unit and remembers its position."""
        call = calls.correct_unit(unit_id, content, version, self.name_bank(bank), self.timeout_s)
        return replace(call, read=lambda value: self._wrote(call.read(value)))

    def end_unit(
        self, unit_id: str | UUID, ends: datetime | None, version: int | None, bank: str | None
    ) -> ApiCall[answers.CorrectionReceipt]:
        """Build the call that sets a unit's end and remembers its position."""
        call = calls.end_unit(unit_id, ends, version, bank or self.bank, self.timeout_s)
        return replace(call, read=lambda value: self._wrote(call.read(value)))

    def pin_unit(self, unit_id: str | UUID, pinned: bool, bank: str | None) -> ApiCall[answers.CorrectionReceipt]:  # noqa: FBT001 - as sent
        """Build the call that pins or unpins a unit, and remembers its position."""
        call = calls.pin_unit(unit_id, pinned, self.name_bank(bank), self.timeout_s)
        return replace(call, read=lambda value: self._wrote(call.read(value)))

    def before_turn(
        self,
        session_id: str,
        turn_id: str,
        current_input: Sequence[lifecycle.Item],
        options: lifecycle.BeforeTurnOptions,
    ) -> ApiCall[lifecycle.PreparedTurn]:
        """Build the call that prepares a turn; like a recall, it waits for this client's last write."""
        full: lifecycle.BeforeTurnOptions = {"bank": self.bank, **options}
        if self.read_your_writes and self.position is not None and "min_position" not in full:
            full["min_position"] = self.position
            full.setdefault("wait_ms", OWN_WRITE_WAIT_MS)
        return lifecycle.before_turn(session_id, turn_id, current_input, full, self.timeout_s)

    def after_turn(
        self,
        session_id: str,
        turn_id: str,
        given: tuple[Sequence[lifecycle.Item], Sequence[lifecycle.Item]],
        options: lifecycle.AfterTurnOptions,
    ) -> ApiCall[lifecycle.KeptTurn]:
        """Build the call that stores a completed turn and remembers its position."""
        full: lifecycle.AfterTurnOptions = {"bank": self.bank, **options}
        call = lifecycle.after_turn(session_id, turn_id, given, full, self.timeout_s)
        return replace(call, read=lambda value: self._wrote(call.read(value)))

    def turn_status(self, session_id: str, turn_id: str, bank: str | None) -> ApiCall[answers.TurnStatus]:
        """Build the call that reads a turn's status."""
        return calls.turn_status(session_id, turn_id, self.name_bank(bank), self.timeout_s)

    def recall(self, query: str, options: RecallOptions) -> ApiCall[answers.RecallAnswer]:
        """Build a recall."""
        return calls.recall(query, self._completed(options), self.timeout_s)

    def start_recall(self, query: str, ttl_s: int | None, options: RecallOptions) -> ApiCall[answers.RecallJob]:
        """Build the call that starts a recall job."""
        return calls.start_recall(query, self._completed(options), ttl_s, self.timeout_s)

    def freshness(self, bank: str | None, position: int | None, wait_ms: int) -> ApiCall[Freshness]:
        """Build the call that reads a bank's freshness."""
        return calls.freshness(self.name_bank(bank), position, wait_ms, self.timeout_s)

    def _wrote(self, result: T) -> T:
        if isinstance(result, WRITTEN):
            self.position = max(result.position, self.position or 0)
        return result

    def _completed(self, options: RecallOptions) -> RecallOptions:
        """Return the options with the bank, and with this client's last write as `min_position`."""
        given: Mapping[str, Any] = {name: value for name, value in options.items() if value is not None}
        full: RecallOptions = {"bank": self.bank, **given}  # type: ignore[typeddict-item]  # a subset of options
        if self.read_your_writes and self.position is not None and "min_position" not in full:
            full["min_position"] = self.position
            full.setdefault("wait_ms", OWN_WRITE_WAIT_MS)
        return full
