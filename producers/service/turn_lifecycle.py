"""The life cycle of a turn: model input before it, storage after it, exactly once.

Items are stored unchanged beside their text, in the turn's own events; which items are stored depends on the request
and the session's history alone.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from afterturn_client.contract.freshness import Freshness
from afterturn_client.message_times import find_moment
from afterturn_client.prompt_questions import shorten_question

from embeddings.token_counts import TokenCounts
from producers import fair_queue, metrics
from producers.mcp.bank_memory import BankMemory
from producers.service.authorisation import require_write
from producers.service.banks import assign_author, resolve_speaker
from producers.service.bodies import parse_body
from producers.service.call_place import note_place
from producers.service.dependencies import ServiceDependencies
from producers.service.fields import NAME_BYTES
from producers.service.intake import Intake, time_call
from producers.service.prepared_turns import (
    READ_ITEMS,
    Conversation,
    LaterMessages,
    ShownMessages,
    TurnCounters,
    choose_context,
    estimate_effort,
    restore_item,
    trim_to_budget,
)
from producers.service.recall_coordinator import MAX_QUERY_BYTES
from producers.service.redacting import Redactor
from producers.settings import ApiSettings
from producers.turns.history import choose_delta, choose_history, cut_history, find_awaited
from producers.turns.items import KEPT, Item, choose_role, measure_value, render_item
from producers.turns.recalled import OTHER_USER
from producers.turns.requests import (
    AfterTurnBody,
    BeforeTurnBody,
    TurnReference,
    limit_items,
    read_after,
    read_before,
    read_place,
)
from store.errors import StoreError
from store.identity import user_id
from store.memory.held_facts import HoldingFact
from store.memory.session_history import KeptMessage, RecentHistory, WantedFacts
from store.memory.turns import NewMessage, NewTurn
from store.off_loop import Steps, run_off_loop, run_steps_off_loop
from store.recall.query import RecallAnswer, Recalled, RecallQuery
from store.tenancy.keys import Grant

RECALLED, RECALLED_TOKENS = 20, 2_000
#: How long a turn that another request is writing, or whose session is held, is waited for, in seconds.
BUSY_S = 5.0


class KeptTurn(NamedTuple):
    """A stored turn: the bank as the caller and as the store names it, and the position that shows the turn."""

    project: str
    bank: str
    position: int


class TurnLifecycle:
    """Prepares and stores turns."""

    def __init__(self, dependencies: ServiceDependencies, settings: ApiSettings, intake: Intake) -> None:
        self._dependencies = dependencies
        self._settings = settings
        self._memory = BankMemory(settings.mcp.memory)
        self._intake = intake
        counter = dependencies.recall_coordinator.counter
        self._counters = TurnCounters(counter, TokenCounts(counter.count_tokens))

    async def after_turn(self, grant: Grant, asked: Any) -> dict[str, Any]:
        """Store a completed turn as `keep_turn` does, and return its answer, with how fresh the bank is."""
        kept = await self.keep_turn(grant, asked)
        fresh = await self._dependencies.recall_coordinator.freshness(grant.host_id, kept.bank, None, 0)
        return {"ok": True, "project": kept.project, "position": kept.position, "freshness": asdict(fresh)}

    async def keep_turn(self, grant: Grant, asked: Any, offered_at: datetime | None = None) -> KeptTurn:
        """Store a completed turn: durable and readable when this returns; the same request again changes nothing.

        `offered_at`: when the agent handed it to a queue; the time of items where nothing names one.

        Raises Invalid, TooLarge, PermissionDenied, TurnConflict; TurnBusy after five seconds of waiting.
        """
        with time_call(1):
            kept = await self._keep(grant, asked, offered_at)
        if isinstance(kept, StoreError):
            raise kept
        return kept

    async def _keep(self, grant: Grant, asked: Any, offered_at: datetime | None) -> KeptTurn | StoreError:
        require_write(grant)
        limit_items(asked)
        size = measure_value(asked)
        body = await run_off_loop(size, parse_body, AfterTurnBody, asked)
        place = read_place(body)
        bank = await self._dependencies.reach(grant, place.project)
        note_place(grant.host_id, bank, place.session, place.turn)
        built = replace(await self._build_turn(grant, bank, place, body, size), offered_at=offered_at)
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
        limit_items(asked)
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
        others = await self._name_others(grant, bank, body, found.items, session.facts)

        def assemble() -> Steps[dict[str, Any]]:
            later = LaterMessages.of(session)
            stored = cut_history(later.items, limits.recent_context_items)
            units = frozenset(one.unit_id for one in kept[len(kept) - len(stored) :])
            shown = ShownMessages(units, frozenset(render_item(item) for item in (*history, *current)))
            told = choose_context(found.items, session.facts, shown, limits, others, asked=bool(query.strip()))
            told = replace(told, form=body.reference or limits.reference)
            yield
            chosen = choose_history(stored, [*history, *current])
            awaited = find_awaited(later.items, [*history, *current])
            yield
            # Who sends the history keeps it, and a bank that shows no history shows no summary of it.
            earlier = None if history or not limits.recent_context_items else later.without(stored, chosen)
            conversation = Conversation(history, later.order(chosen, awaited), current, earlier, awaited)
            return (yield from trim_to_budget(place, told, conversation, body.max_input_tok, self._counters))

        answer = await run_steps_off_loop(estimate_effort(kept, [*history, *current]), assemble())
        return answer | {"position": fresh.position, "freshness": asdict(fresh)}

    async def _build_turn(
        self, grant: Grant, bank: str, place: TurnReference, body: AfterTurnBody, size: int
    ) -> NewTurn:
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
            effort = estimate_effort(kept, given)
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
            asker=resolve_speaker(grant, body.user_id),
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

    async def _name_others(
        self,
        grant: Grant,
        bank: str,
        body: BeforeTurnBody,
        found: Sequence[Recalled],
        facts: Sequence[HoldingFact],
    ) -> Mapping[UUID, str]:
        """Return what other users than the speaker are called whose turns hold some of these units."""
        host, speaker = grant.host_id, resolve_speaker(grant, body.user_id)
        known = {user_id(host, None), user_id(host, speaker)}
        others = {one.user_id for one in found if one.user_id is not None and one.user_id not in known}
        if not others:
            return {}
        told = {one.owner: one.subject for one in facts if one.subject}
        names = {other: told[str(other)] for other in others if str(other) in told}
        if unknown := sorted(others - names.keys()):
            names |= await self._dependencies.turns.sessions.names_of(host, bank, unknown)
        return names if speaker is None else {other: names.get(other, OTHER_USER) for other in others}

    def _is_within_session(self, body: BeforeTurnBody) -> bool:
        return (body.scope or self._settings.mcp.memory.scope) == "session"


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
