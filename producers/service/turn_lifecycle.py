"""The life cycle of a turn: model input before it, storage after it, exactly once.

Items are stored unchanged beside their text, in the turn's own events; which items are stored depends on the request
and the session's history alone.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from afterturn_client.contract.freshness import Freshness
from afterturn_client.message_times import find_moment
from afterturn_client.prompt_questions import shorten_question

from embeddings.protocol import TokenCounter
from embeddings.token_counts import TokenCounts
from producers import fair_queue, metrics
from producers.mcp.bank_memory import BankMemory
from producers.mcp.settings import TurnMemorySettings
from producers.service.authorisation import require_write
from producers.service.banks import assign_author, resolve_speaker
from producers.service.bodies import parse_body
from producers.service.call_place import note_place
from producers.service.dependencies import ServiceDependencies
from producers.service.fields import NAME_BYTES
from producers.service.intake import Intake, time_call
from producers.service.recall_coordinator import MAX_QUERY_BYTES
from producers.service.redacting import Redactor
from producers.settings import ApiSettings
from producers.turns.history import choose_delta, choose_history, cut_history, find_awaited, keep_paired
from producers.turns.items import KEPT, Item, choose_role, count_tokens, measure_value, render_item
from producers.turns.recalled import (
    INSIGHT_KINDS,
    RecalledContext,
    build_rule,
    chunk_json,
    insight_json,
)
from producers.turns.requests import AfterTurnBody, BeforeTurnBody, TurnReference, read_after, read_before, read_place
from producers.turns.summaries import MOST_TOKENS, SHARE, EarlierMessages, choose_entries, frame_summary
from store.errors import StoreError
from store.memory.held_facts import HoldingFact
from store.memory.session_history import KeptMessage, RecentHistory, WantedFacts
from store.memory.turns import NewMessage, NewTurn
from store.off_loop import Steps, run_off_loop, run_steps_off_loop
from store.recall.query import RecallAnswer, Recalled, RecallQuery
from store.tenancy.keys import Grant

#: Stored items that are read to choose the shown ones: a call may be far before its output.
READ_ITEMS = 128
#: Characters of items that are compared in the time in which one character is cut into words.
COMPARED_CHARACTERS = 8
#: Tokens that are counted before other requests have their turn.
TOKENS_A_STEP = 2_048
RECALLED, RECALLED_TOKENS = 20, 2_000
#: How long a turn that another request is writing, or whose session is held, is waited for, in seconds.
BUSY_S = 5.0


class TurnLifecycle:
    """Prepares and stores turns."""

    def __init__(self, dependencies: ServiceDependencies, settings: ApiSettings, intake: Intake) -> None:
        self._dependencies = dependencies
        self._settings = settings
        self._memory = BankMemory(settings.mcp.memory)
        self._intake = intake
        counter = dependencies.recall_coordinator.counter
        self._counters = _Counters(counter, TokenCounts(counter.count_tokens))

    async def after_turn(self, grant: Grant, asked: Any) -> dict[str, Any]:
        """Store a completed turn as `keep_turn` does, and return its answer, with how fresh the bank is."""
        kept = await self.keep_turn(grant, asked)
        fresh = await self._dependencies.recall_coordinator.freshness(grant.host_id, kept.bank, None, 0)
        return {"ok": True, "project": kept.project, "position": kept.position, "freshness": asdict(fresh)}

    async def keep_turn(self, grant: Grant, asked: Any, offered_at: datetime | None = None) -> "KeptTurn":
        """Store a completed turn: durable and readable when this returns; the same request again changes nothing.

        `offered_at`: when the agent handed it to a queue; the time of items where nothing names one.

        Raises Invalid, TooLarge, PermissionDenied, TurnConflict; TurnBusy after five seconds of waiting.
        """
        with time_call(1):
            kept = await self._keep(grant, asked, offered_at)
        if isinstance(kept, StoreError):
            raise kept
        return kept

    async def _keep(self, grant: Grant, asked: Any, offered_at: datetime | None) -> "KeptTurn | StoreError":
        require_write(grant)
        body = await run_off_loop(measure_value(asked), parse_body, AfterTurnBody, asked)
        place = read_place(body)
        bank = await self._dependencies.reach(grant, place.project)
        note_place(grant.host_id, bank, place.session, place.turn)
        built = replace(await self._build_turn(grant, bank, place, body), offered_at=offered_at)
        turn = assign_author(grant, built, bank)
        appended = await self._intake.append_turn(grant, turn, BUSY_S)
        return appended if isinstance(appended, StoreError) else KeptTurn(place.project, bank, appended.position)

    async def before_turn(self, grant: Grant, asked: Any) -> dict[str, Any]:
        """Return the model's input: recalled memory, the history, and the current items last; writes nothing.

        Raises Invalid, TooLarge, PermissionDenied, PositionBeyondLog.
        """
        begun = time.perf_counter()
        with metrics.count_outcome(metrics.BEFORE_TURN):
            answer = await self._prepare(grant, asked)
        took = (time.perf_counter() - begun) * 1000
        metrics.BEFORE_TURN_MS.observe(max(0.0, took - answer["freshness"]["waited_ms"]))
        return answer

    async def _prepare(self, grant: Grant, asked: Any) -> dict[str, Any]:
        size = measure_value(asked)
        body = await run_off_loop(size, parse_body, BeforeTurnBody, asked)
        place = read_place(body)
        history, current = await run_off_loop(size, read_before, body, self._settings.max_message_bytes)
        bank = await self._dependencies.reach(grant, place.project)
        note_place(grant.host_id, bank, place.session, place.turn)
        query = await run_off_loop(size, lambda: "\n".join(render_item(item) for item in current))
        limits = self._memory.of(grant.host_id, bank)
        (found, fresh), session = await self._read_all(grant, bank, body, query)
        kept = session.kept

        def assemble() -> Steps[dict[str, Any]]:
            later = _LaterMessages.of(session)
            stored = cut_history(later.items, limits.recent_context_items)
            units = frozenset(one.unit_id for one in kept[len(kept) - len(stored) :])
            shown = _Shown(units, frozenset(render_item(item) for item in (*history, *current)))
            told = _choose_told(found.items, session.facts, shown, limits, asked=bool(query.strip()))
            told = replace(told, form=body.reference or limits.reference)
            yield
            chosen = choose_history(stored, [*history, *current])
            awaited = find_awaited(later.items, [*history, *current])
            yield
            # Who sends the history keeps it, and a bank that shows no history shows no summary of it.
            earlier = None if history or not limits.recent_context_items else later.without(stored, chosen)
            conversation = _Conversation(history, later.order(chosen, awaited), current, earlier, awaited)
            return (yield from _trim_to_budget(place, told, conversation, body.max_input_tok, self._counters))

        answer = await run_steps_off_loop(_estimate_effort(kept, [*history, *current]), assemble())
        return answer | {"position": fresh.position, "freshness": asdict(fresh)}

    async def _build_turn(self, grant: Grant, bank: str, place: TurnReference, body: AfterTurnBody) -> NewTurn:
        size = measure_value([body.conversation_items, body.input_items, body.output_items])
        said = await run_off_loop(size, read_after, body, self._settings.max_message_bytes)
        given = said.given
        # At least one item is new: a single item echoes no history.
        if said.echoes and len(given) > 1:
            # Redacted like the stored history, so that echoed items are recognised.
            redactor = Redactor.of(self._settings, grant)
            given = await run_off_loop(measure_value(given), redactor.redact_value, given)
            most_bytes = 2 * self._settings.max_request_bytes
            sessions = self._dependencies.turns.sessions
            kept = await sessions.recent(grant.host_id, bank, place.session, READ_ITEMS, most_bytes)
            _charge_history(kept)
            effort = _estimate_effort(kept, given)
            given = await run_off_loop(effort, lambda: choose_delta(given, [restore_item(one) for one in kept]))
        return NewTurn(
            bank=bank,
            session_name=place.session,
            turn_name=place.turn,
            messages=[_message_of(item) for item in (*given, *said.output)],
            user_id=body.user_id,
            occurred_at=body.occurred_at,
            gateway=True,
            request=said.request,
            expires_at=body.expires_at,
        )

    async def _read_all(
        self, grant: Grant, bank: str, body: BeforeTurnBody, query: str
    ) -> tuple[tuple[RecallAnswer, Freshness], RecentHistory]:
        """Return the recall's answer, and the session's history and facts, read in parallel.

        With `min_position` they are read one after the other, so that the history includes that position, too.
        """
        if body.min_position is not None:
            recalled = await self._recall(grant, bank, body, query)
            return recalled, await self._read_session(grant, bank, body, query)
        recall, read = self._recall(grant, bank, body, query), self._read_session(grant, bank, body, query)
        return await asyncio.gather(recall, read)

    async def _recall(
        self, grant: Grant, bank: str, body: BeforeTurnBody, query: str
    ) -> tuple[RecallAnswer, Freshness]:
        asked = RecallQuery(
            bank=bank,
            text=shorten_question(query) if query.strip() else body.turn_id,
            k=RECALLED,
            max_tokens=RECALLED_TOKENS,
            helpful=True,
            session_name=body.session_id,
            only_session=self._is_within_session(body),
        )
        return await self._dependencies.recall_coordinator.ask(grant.host_id, asked, body.min_position, body.wait_ms)

    async def _read_session(self, grant: Grant, bank: str, body: BeforeTurnBody, query: str) -> RecentHistory:
        user, limits = resolve_speaker(grant, body.user_id), self._memory.of(grant.host_id, bank)
        wanted = WantedFacts(limits.recall_facts_limit, user, query[:MAX_QUERY_BYTES])
        session = await self._dependencies.turns.sessions.recent_and_holding(
            grant.host_id,
            bank,
            body.session_id,
            READ_ITEMS,
            wanted,
            within=self._is_within_session(body),
        )
        _charge_history(session.kept)
        return session

    def _is_within_session(self, body: BeforeTurnBody) -> bool:
        return (body.scope or self._settings.mcp.memory.scope) == "session"


class _Conversation(NamedTuple):
    """The items of a prepared turn: the caller's history, the stored one, the current input.

    `earlier`: the messages of which a summary may tell; None: no summary is wanted. `awaited`: those of the stored
    items that stay, since the caller sends their outputs.
    """

    history: Sequence[Item]
    stored: Sequence[Item]
    current: Sequence[Item]
    earlier: "_LaterMessages | None" = None
    awaited: Sequence[Item] = ()

    def list_loose(self) -> list[Item]:
        """Return the stored items that a budget may drop."""
        held = {id(item) for item in self.awaited}
        return [item for item in self.stored if id(item) not in held]

    def order(self, shown: Sequence[Item]) -> list[Item]:
        """Return these stored items and those that stay, in their order."""
        return _select([*shown, *self.awaited], self.stored)


def _choose_told(
    found: Sequence[Recalled],
    facts: Sequence[HoldingFact],
    shown: "_Shown",
    limits: TurnMemorySettings,
    *,
    asked: bool,
) -> RecalledContext:
    """Return the recalled context, without units that the history shows already."""
    insights = [insight_json(one) for one in found if one.kind in INSIGHT_KINDS]
    chunks = [chunk_json(one) for one in found if one.kind not in INSIGHT_KINDS and not shown.has(one) and asked]
    return RecalledContext(
        facts,
        insights[: limits.insight_recall_limit],
        chunks[: limits.search_limit],
    )


class KeptTurn(NamedTuple):
    """A stored turn: the bank as the caller and as the store names it, and the position that shows the turn."""

    project: str
    bank: str
    position: int


@dataclass(frozen=True, slots=True)
class _LaterMessages:
    """The newest messages of a session that stand behind its summary, and the item of each."""

    session: RecentHistory
    kept: Sequence[KeptMessage]
    items: Sequence[Item]

    @classmethod
    def of(cls, session: RecentHistory) -> "_LaterMessages":
        """Restore the items of a session's messages."""
        first = session.summary.first_seq if session.summary is not None and session.summary.made else 0
        kept = [one for one in session.kept if one.seq >= first]
        return cls(session, kept, [restore_item(one) for one in kept])

    def without(self, stored: Sequence[Item], chosen: Sequence[Item]) -> "_LaterMessages":
        """Return the messages without those of `stored` that the caller sends, too, and so are not `chosen`."""
        sent = {id(item) for item in stored} - {id(item) for item in chosen}
        kept = [(one, item) for one, item in zip(self.kept, self.items, strict=True) if id(item) not in sent]
        return replace(self, kept=[one for one, _ in kept], items=[item for _, item in kept])

    def order(self, chosen: Sequence[Item], awaited: Sequence[Item]) -> Sequence[Item]:
        """Return these items in the order in which they were said."""
        return _select([*chosen, *awaited], self.items) if awaited else chosen

    def before(self, shown: Sequence[Item]) -> EarlierMessages:
        """Return what is told in a summary where these items are shown."""
        seen = {id(item) for item in shown}
        unshown = [one for one, item in zip(self.kept, self.items, strict=True) if id(item) not in seen]
        return EarlierMessages(self.session.summary, unshown)

    def is_cut(self, shown: Sequence[Item]) -> bool:
        """Return whether the session has messages besides these."""
        summary = self.session.summary
        return len(shown) < len(self.items) or (summary is not None and summary.made)


@dataclass(frozen=True, slots=True)
class _Shown:
    """What the model sees without recall: units of the history, and texts that the caller sent."""

    units: frozenset[UUID]
    texts: frozenset[str]

    def has(self, one: Recalled) -> bool:
        """Return whether the model sees this recalled unit already."""
        return one.unit_id in self.units or one.text in self.texts


def restore_item(kept: KeptMessage) -> Item:
    """Return a stored message as an item: the original one, unless its text was corrected since."""
    if len(kept.parts) == 1 and kept.parts[0].get("type") == KEPT:
        item = kept.parts[0].get("item")
        if isinstance(item, dict) and render_item(item) == kept.content:
            return item
    assistant = kept.role in ("assistant", "tool")
    part = {"type": "output_text" if assistant else "input_text", "text": kept.content}
    return {"type": "message", "role": "assistant" if assistant else kept.role, "content": [part]}


def _select(wanted: Sequence[Item], items: Sequence[Item]) -> list[Item]:
    """Return the wanted ones of these items, in their order."""
    ids = {id(item) for item in wanted}
    return [item for item in items if id(item) in ids]


def _estimate_effort(kept: Sequence[KeptMessage], items: Sequence[Item]) -> int:
    """Return the effort of comparing stored messages with items, in characters of text to analyse."""
    return (sum(one.size for one in kept) + measure_value(list(items))) // COMPARED_CHARACTERS


def _charge_history(kept: Sequence[KeptMessage]) -> None:
    """Add the messages that were read to the tenant's demand: of a short answer they may be most of the work."""
    fair_queue.charge_tenant(sum(one.size for one in kept))


def _message_of(item: Item) -> NewMessage:
    role = choose_role(item)
    # The name of a call or of its output is the tool's.
    name = item.get("name") if role in ("user", "assistant") and "call_id" not in item else None
    return NewMessage(
        role,
        render_item(item),
        name if isinstance(name, str) and 0 < len(name.encode()) <= NAME_BYTES else None,
        find_moment(item),
        [{"type": KEPT, "item": item}],
    )


class _Counters(NamedTuple):
    """The counter of the recalled context, and that of the conversation, whose items come back with each turn."""

    recalled: TokenCounter
    conversation: TokenCounter


def _trim_to_budget(
    place: TurnReference,
    told: RecalledContext,
    conversation: _Conversation,
    most: int,
    counters: _Counters,
) -> Steps[dict[str, Any]]:
    """Return the answer within `most` tokens: the oldest stored history is dropped first, then recalled context.

    What is dropped of the history, or stands before it, is told in a summary. Items of the caller stay, even beyond the
    budget.
    """
    history, _, current, earlier, awaited = conversation
    stored, around = conversation.list_loose(), [*history, *awaited, *current]
    recalled = told.items()
    of_recalled = sum((yield from _count_fitting(recalled, None, counters.recalled)))
    tokens = of_recalled + sum((yield from _count_fitting(around, None, counters.conversation)))
    sizes = yield from _count_fitting(reversed(stored), most - tokens if most else None, counters.conversation)
    share = 0
    if earlier is not None and earlier.is_cut([*awaited, *stored[len(stored) - len(sizes) :]]):
        share = min(MOST_TOKENS, max(0, most - tokens) // SHARE) if most else MOST_TOKENS
    while most and share and sizes and sum(sizes) > most - tokens - share:
        sizes.pop()
    if len(sizes) < len(stored):
        metrics.COMPACTION.inc()
        shown = keep_paired(cut_history(stored, len(sizes)), around)
    else:
        shown = list(stored)
    tokens += sum(sizes[: len(shown)])
    shown = conversation.order(shown)
    summary = list[Item]()
    if earlier is not None and share:
        yield
        summary = _tell_earlier(earlier.before(shown), told, share, counters.recalled)
        tokens += sum(count_tokens(summary, counters.recalled))
    while 0 < most < tokens and (less := told.shorter()) is not None:
        told, recalled, tokens = less, less.items(), tokens - of_recalled
        of_recalled = sum(count_tokens(recalled, counters.recalled))
        tokens += of_recalled
        yield
    return {
        "project": place.project,
        "input_items": [*recalled, *history, *summary, *shown, *current],
        "recall_fact_ids": list(dict.fromkeys(one.fact_id for one in told.facts)),
        "recall_insight_ids": [str(one["id"]) for one in told.insights],
        "context_token_count": tokens,
    }


def _tell_earlier(earlier: EarlierMessages, told: RecalledContext, most: int, counter: TokenCounter) -> list[Item]:
    """Return the summary of what is not shown, with the rule where nothing else brings it, within `most` tokens."""
    rule = [build_rule()] if told.is_empty else []
    room = most - sum(count_tokens(rule, counter))
    entries = choose_entries(earlier.digest(), room, counter)
    while entries:
        summary = frame_summary(entries, told.form)
        if sum(count_tokens(summary, counter)) <= room:
            return [*rule, *summary]
        entries = entries[1:]
    return []


def _count_fitting(items: Iterable[Item], most: int | None, counter: TokenCounter) -> Steps[list[int]]:
    """Return the tokens of the first items, up to the one with which they would be more than `most`."""
    sizes, total, paused_at = list[int](), 0, 0
    for tokens in count_tokens(items, counter):
        total += tokens
        if most is not None and total > most:
            break
        sizes.append(tokens)
        if total > paused_at + TOKENS_A_STEP:
            paused_at = total
            yield
    return sizes
