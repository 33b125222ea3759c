"""The client that blocks. Made of `client.py` by `python -m tests.client.blocking_client`: change it there."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, Unpack
from uuid import UUID

import httpx

from afterturn_client import answers, calls, lifecycle, lists, memories
from afterturn_client.attempts import make_attempts_blocking
from afterturn_client.calls import ApiCall, DocumentOptions, ProfileOptions, RecallOptions
from afterturn_client.closing import Closing
from afterturn_client.commands import run_command
from afterturn_client.contract.banks import BankDetails, ChangedBank, DirectiveDetails, ListedBank
from afterturn_client.contract.commands import CommandReceipt
from afterturn_client.contract.facts import Profile
from afterturn_client.contract.freshness import Freshness
from afterturn_client.contract.graph import CooccurrencePage, Entity, EntityPage, LinkPage, MentionPage, UnitLink
from afterturn_client.contract.knowledge import Directive, DocumentPage, Reflection
from afterturn_client.contract.lists import ListedSession, ListedTurn, ListedUnit, ListedUser
from afterturn_client.contract.recall import RecallJob
from afterturn_client.contract.receipts import CorrectionReceipt, DocumentReceipt, MemoryReceipt
from afterturn_client.contract.sessions import SessionDetails
from afterturn_client.contract.turns import KeptTurn, PreparedTurn, TurnStatus
from afterturn_client.contract.units import Unit
from afterturn_client.errors import InvalidRequestError
from afterturn_client.lifecycle import AfterTurnOptions, BeforeTurnOptions, Item
from afterturn_client.retry import RetryPolicy, plan_attempts
from afterturn_client.target import ServiceTarget
from afterturn_client.transport import open_client
from afterturn_client.turns import Messages, NewTurn, TurnOptions

T = TypeVar("T")


class Afterturn(Closing):
    """The native API of one Afterturn service, for one key. Use it in one thread at a time, and close it.

    `bank` is meant where a call names none. Each wait on the network ends after `timeout_s`. A call is
    repeated as `retry` says, where that is safe: a turn has its name before it is first sent, so it is
    written once however often it is sent. With `read_your_writes` (the default) a recall carries the
    position of this client's last write as `min_position`: a replica that is behind waits for it instead
    of answering without it; a server alone pays one more short query for it. To another machine the service is spoken
    to over https: plain http would show the key on the way, and is refused unless `allow_http` says otherwise.

    Every method raises subclasses of AfterturnError, none of which holds the key or a text.
    """

    def __init__(
        self,
        base_url: str,
        key: str,
        *,
        bank: str = "default",
        timeout_s: float = 10.0,
        retry: RetryPolicy | None = None,
        read_your_writes: bool = True,
        allow_http: bool = False,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        patience = retry or RetryPolicy()
        self._target = ServiceTarget(base_url, key, bank, timeout_s, patience, read_your_writes, allow_http)
        self._http = open_client(httpx.Client, transport=transport, **self._target.http_options())

    def __repr__(self) -> str:
        return f"Afterturn({self._target})"

    @property
    def position(self) -> int | None:
        """The position of this client's last acknowledged write; None before the first."""
        return self._target.position

    def add_turn(self, session_id: str, messages: Messages, **options: Unpack[TurnOptions]) -> answers.TurnReceipt:
        """Store one completed turn; when this returns, it is durable and can be recalled.

        Without a `turn_id` one is made, and the receipt names it. Raises TurnConflictError when a turn of
        that name has another body.
        """
        return self._run(calls.add_turn(NewTurn(session_id, messages, **options), *self._target.place()))

    def add_turns(self, turns: Sequence[NewTurn]) -> tuple[answers.TurnReceipt | answers.RefusedTurn, ...]:
        """Store up to 500 turns in one transaction; one result a turn, in order."""
        return self._run(calls.add_turns(turns, *self._target.place()))

    def before_turn(
        self, session_id: str, turn_id: str, current_input: Sequence[Item] = (), **options: Unpack[BeforeTurnOptions]
    ) -> PreparedTurn:
        """Return the model's input for a turn: recalled reference, history, and the current input last.

        It writes nothing. `turn_id` names the turn that begins; `after_turn` is called with the same name.
        """
        full = self._target.complete_preparation(options)
        return self._run(lifecycle.before_turn(session_id, turn_id, current_input, full, self._target.timeout_s))

    def after_turn(
        self,
        session_id: str,
        turn_id: str,
        input_items: Sequence[Item] = (),
        output_items: Sequence[Item] = (),
        **options: Unpack[AfterTurnOptions],
    ) -> KeptTurn:
        """Store a completed turn with its items unchanged; when this returns, it is durable and can be recalled.

        Sent again under its name it changes nothing. Raises TurnConflictError when a turn of that name has another
        body, ResourceBusyError when another call is writing it still.
        """
        full: AfterTurnOptions = {"bank": self._target.bank, **options}
        given = (input_items, output_items)
        return self._run(lifecycle.after_turn(session_id, turn_id, given, full, self._target.timeout_s))

    def add_document(
        self,
        content: str | None = None,
        *,
        content_hash: str | None = None,
        bank: str | None = None,
        **options: Unpack[DocumentOptions],
    ) -> DocumentReceipt:
        """Store a document: its text, or the sha256 of a file whose turns carry its `doc_id`."""
        return self._run(calls.add_document(content, content_hash, options, *self._target.place(bank)))

    def keep_memory(
        self, content: str, *, bank: str | None = None, **options: Unpack[memories.MemoryOptions]
    ) -> MemoryReceipt:
        """Store a single memory; one with the same `memory_id` is replaced in every field. Idempotent."""
        return self._run(memories.keep_memory(content, options, *self._target.place(bank)))

    def end_memory(self, memory_id: str, *, bank: str | None = None) -> None:
        """Delete a memory, and facts derived from it alone. Raises NotFoundError."""
        return self._run(memories.end_memory(memory_id, *self._target.place(bank)))

    def list_documents(self, *, cursor: str | None = None, limit: int = 200, bank: str | None = None) -> DocumentPage:
        """List a bank's documents, those written last first; `cursor` is that of the previous page."""
        return self._run(
            self._target.read(DocumentPage, ("docs",), bank, "documents", limit=limit, cursor=cursor or None)
        )

    def list_banks(self, *, cursor: str | None = None, limit: int = 200) -> lists.Page[ListedBank]:
        """List the banks that the key can read, by name; `cursor` is that of the previous page."""
        return self._run(self._target.list_rows(lists.BANKS, cursor, limit, None))

    def list_sessions(
        self, *, cursor: str | None = None, limit: int = 200, bank: str | None = None
    ) -> lists.Page[ListedSession]:
        """List a bank's sessions, the one with the newest turn first; `cursor` is that of the previous page."""
        return self._run(self._target.list_rows(lists.SESSIONS, cursor, limit, bank))

    def list_turns(
        self, session_id: str, *, cursor: str | None = None, limit: int = 200, bank: str | None = None
    ) -> lists.Page[ListedTurn]:
        """List a session's turns in their order; `cursor` is that of the previous page."""
        return self._run(self._target.list_rows(lists.TURNS, cursor, limit, bank, session_id=session_id))

    def list_units(
        self,
        *,
        cursor: str | None = None,
        limit: int = 200,
        bank: str | None = None,
        origin: str | None = None,
        doc_id: str | UUID | None = None,
        user_id: str | None = None,
    ) -> lists.Page[ListedUnit]:
        """List a bank's units in the order of their ids; `cursor` is that of the previous page.

        `origin` chooses those that are a `message`, an `extraction` (a fact), a `document` (a chunk) or a `memory`;
        `doc_id` those of one document; `user_id` those of one user.
        """
        chosen = {"origin": origin, "doc_id": doc_id, "user_id": user_id}
        return self._run(self._target.list_rows(lists.UNITS, cursor, limit, bank, **chosen))

    def list_users(self, *, cursor: str | None = None, limit: int = 200) -> lists.Page[ListedUser]:
        """List the users that the key can read; `cursor` is that of the previous page."""
        return self._run(self._target.list_rows(lists.USERS, cursor, limit, None))

    def list_directives(
        self, *, cursor: str | None = None, limit: int = 200, bank: str | None = None
    ) -> lists.Page[Directive]:
        """List a bank's directives, the most important first; `cursor` is that of the previous page."""
        return self._run(self._target.list_rows(lists.DIRECTIVES, cursor, limit, bank))

    def list_reflections(
        self, *, cursor: str | None = None, limit: int = 200, bank: str | None = None
    ) -> lists.Page[Reflection]:
        """List a bank's reflections, the newest first; `cursor` is that of the previous page."""
        return self._run(self._target.list_rows(lists.REFLECTIONS, cursor, limit, bank))

    def list_entities(self, *, cursor: str | None = None, limit: int = 200, bank: str | None = None) -> EntityPage:
        """List a bank's entities by id; `cursor` is that of the previous page."""
        return self._run(self._target.read(EntityPage, ("entities",), bank, cursor=cursor, limit=limit))

    def get_entity(self, entity_id: str | UUID, *, bank: str | None = None) -> Entity:
        """Return one entity with its version. Raises NotFoundError."""
        return self._run(self._target.read(Entity, ("entities", entity_id), bank))

    def list_mentions(
        self,
        *,
        unit_id: str | UUID | None = None,
        entity_id: str | UUID | None = None,
        cursor: str | None = None,
        limit: int = 200,
        bank: str | None = None,
    ) -> MentionPage:
        """List which units mention which entities, those of one unit or entity where it is named."""
        return self._run(
            self._target.read(
                MentionPage, ("mentions",), bank, unit_id=unit_id, entity_id=entity_id, cursor=cursor, limit=limit
            )
        )

    def list_cooccurrences(
        self,
        *,
        entity_id: str | UUID | None = None,
        cursor: str | None = None,
        limit: int = 200,
        bank: str | None = None,
    ) -> CooccurrencePage:
        """List pairs of entities that units mention together, those with one entity where it is named."""
        return self._run(
            self._target.read(
                CooccurrencePage, ("cooccurrences",), bank, entity_id=entity_id, cursor=cursor, limit=limit
            )
        )

    def list_links(
        self,
        *,
        unit_id: str | UUID | None = None,
        cursor: str | None = None,
        limit: int = 200,
        bank: str | None = None,
    ) -> LinkPage:
        """List links between units, those from and to one unit where it is named."""
        return self._run(self._target.read(LinkPage, ("links",), bank, unit_id=unit_id, cursor=cursor, limit=limit))

    def get_link(
        self, from_unit_id: str | UUID, to_unit_id: str | UUID, link_type: str, *, bank: str | None = None
    ) -> UnitLink:
        """Return one link with its version. Raises NotFoundError."""
        return self._run(self._target.read(UnitLink, ("links", from_unit_id, to_unit_id, link_type), bank))

    def get_bank(self, *, bank: str | None = None) -> BankDetails:
        """Return a bank with its id, settings and version. Raises NotFoundError."""
        return self._run(self._target.read(BankDetails, ("bank",), bank))

    def get_directive(self, directive_id: str | UUID, *, bank: str | None = None) -> DirectiveDetails:
        """Return one directive with its version. Raises NotFoundError."""
        return self._run(self._target.read(DirectiveDetails, ("directives", directive_id), bank))

    def get_session(self, session_id: str, *, messages: int = 40, bank: str | None = None) -> SessionDetails:
        """Return a session with its newest messages, the oldest of them first, masked. Raises NotFoundError."""
        return self._run(self._target.read(SessionDetails, ("sessions", session_id), bank, messages=messages))

    def run_command(self, action: str, data: Mapping[str, Any], *, key: str | None = None) -> CommandReceipt:
        """Do a command of a portal (`retainAgentMemoryUnit`, ...); when this returns, reads show what it did.

        The same `key` of the same caller is one command; without one, each call is a command of its own, done once.
        Raises EventRefusedError for another version than expected, NotFoundError, InvalidArgumentError.
        """
        return self._run(run_command(action, data, key, self._target.timeout_s))

    def turn_status(self, session_id: str, turn_id: str, *, bank: str | None = None) -> TurnStatus:
        """Return a turn's status in each stage. Raises NotFoundError."""
        return self._run(self._target.read(TurnStatus, ("turns", session_id, turn_id), bank, "turn status"))

    def recall(self, query: str, **options: Unpack[RecallOptions]) -> answers.RecallAnswer:
        """Search the bank's memory for the query, best results first."""
        return self._run(calls.recall(query, self._target.complete_recall(options), self._target.timeout_s))

    def start_recall(self, query: str, *, ttl_s: int | None = None, **options: Unpack[RecallOptions]) -> RecallJob:
        """Start a recall job; its answer is kept for `ttl_s` seconds (the service's default: 300)."""
        full = self._target.complete_recall(options)
        return self._run(calls.start_recall(query, full, ttl_s, self._target.timeout_s))

    def recall_job(self, job_id: str | UUID, *, wait_ms: int = 0) -> answers.RecallJobState:
        """Return a job's state, waiting for its answer at most `wait_ms`. Raises NotFoundError."""
        return self._run(calls.recall_job(job_id, wait_ms, self._target.timeout_s))

    def cancel_recall(self, job_id: str | UUID) -> None:
        """Delete a job and its answer. Raises NotFoundError."""
        self._run(calls.cancel_recall(job_id, self._target.timeout_s))

    def freshness(self, *, bank: str | None = None, position: int | None = None, wait_ms: int = 0) -> Freshness:
        """Return the bank's freshness; with `position`, wait until all stages have passed it, at most `wait_ms`."""
        return self._run(calls.freshness(position, wait_ms, *self._target.place(bank)))

    def get_unit(self, unit_id: str | UUID, *, bank: str | None = None) -> Unit:
        """Return one unit with its provenance. Raises NotFoundError."""
        return self._run(self._target.read(Unit, ("units", unit_id), bank))

    def correct_unit(
        self, unit_id: str | UUID, content: str, *, version: int | None = None, bank: str | None = None
    ) -> CorrectionReceipt:
        """Replace a unit's text, if it is still at `version`. Raises NotFoundError, EventRefusedError."""
        return self._run(calls.correct_unit(unit_id, content, version, *self._target.place(bank)))

    def end_unit(
        self, unit_id: str | UUID, ends: datetime | None, *, version: int | None = None, bank: str | None = None
    ) -> CorrectionReceipt:
        """Set when a unit ends (None: never), if it is at `version`. Raises NotFoundError, EventRefusedError."""
        return self._run(calls.end_unit(unit_id, ends, version, *self._target.place(bank)))

    def pin_unit(self, unit_id: str | UUID, *, pinned: bool, bank: str | None = None) -> CorrectionReceipt:
        """Pin or unpin a unit: every answer of its bank contains a pinned unit. Raises NotFoundError."""
        return self._run(calls.pin_unit(unit_id, pinned, *self._target.place(bank)))

    def delete_unit(self, unit_id: str | UUID, *, bank: str | None = None, with_facts: bool = True) -> int:
        """Forget a unit and the facts drawn from it that have no other source: no read shows them any more.

        Returns how many facts; `with_facts=False` keeps them. Raises NotFoundError.
        """
        return self._run(calls.delete_unit(unit_id, with_facts, *self._target.place(bank)))

    def profile(self, **options: Unpack[ProfileOptions]) -> Profile:
        """Return a person's profile: current facts, since when, and their source turns."""
        return self._run(calls.profile(options, self._target.timeout_s))

    def set_language(self, language: str, *, bank: str | None = None) -> ChangedBank:
        """Set a bank's language: a code such as `de`, or `auto`. Raises NotFoundError, ResourceBusyError."""
        return self._run(calls.set_language(language, *self._target.place(bank)))

    def health(self) -> answers.Health:
        """Return whether the service is ready; needs no key."""
        return self._run(calls.health(self._target.timeout_s))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _run(self, call: ApiCall[T]) -> T:
        if self._http.is_closed:
            raise InvalidRequestError("the client is closed: make a new one, or close this one later")
        steps = plan_attempts(call, self._target.retry, self._target.key, self._target.base_url)
        return self._target.note_write(make_attempts_blocking(self._http, steps))
