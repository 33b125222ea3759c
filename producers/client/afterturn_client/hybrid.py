"""Hybrid memory for an agent in a few lines: curated files, and an optional second layer.

    async with HybridMemory.open(config, home) as memory:
        result = await memory.run("session-1", "What did we decide?", think, instructions="You are a helper.")

`think` is the caller's own model and tool loop: it takes a `Run` (messages and tools, ready) and returns the final
text. The order of a run is that of seed 000: freeze the curated files, recall, build the messages, run, and only after
a normal end store the turn. A failure of the second layer is a hidden event and changes nothing else; a history that
cannot be written gives a warning, and affects neither the answer nor the second layer.
"""

import asyncio
import inspect
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any, Self

from afterturn_client.audit import AuditEvent
from afterturn_client.client import AsyncAfterturn
from afterturn_client.closing import AsyncClosing
from afterturn_client.curated import MemorySnapshot, MemoryStore, MemoryTool
from afterturn_client.errors import InvalidRequestError
from afterturn_client.layers import AfterturnLayer, FinishedTurn, Layer, MemoryGatewayService, Recall
from afterturn_client.prompt import Content, build_messages
from afterturn_client.reference import strip_frames
from afterturn_client.session_tool import SessionSearchTool
from afterturn_client.sessions import LocalSessions, RecalledSessions, Sessions, SessionSearch
from afterturn_client.settings import MemorySettings, Mode

_LOG = logging.getLogger(__name__)

Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class Run:
    """The input of one run of the caller's loop; it does not change while the loop runs.

    `messages` and `tools` are as chat completions take them. `call_tool` runs the tools that are in `tools`.
    """

    session_id: str
    turn_id: str
    messages: Sequence[Mapping[str, Any]] = field(repr=False)
    snapshot: MemorySnapshot
    memory: MemoryTool
    session_search: SessionSearchTool

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The schemas of `memory` and `session_search`; add your own beside them."""
        return [self.memory.schema, self.session_search.schema]

    def offers(self, name: str) -> bool:
        """Return whether `call_tool` knows a tool of this name."""
        return name in {self.memory.name, self.session_search.name}

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | str) -> str:
        """Run a tool with the model's arguments (object or JSON text) and return the answer for the model."""
        if name == self.memory.name:
            return await asyncio.to_thread(self.memory.call, arguments)
        if name == self.session_search.name:
            return await self.session_search.call(arguments, self.session_id)
        raise InvalidRequestError("no such tool here; ask offers() first")


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run, without the second layer."""

    text: str = field(repr=False)
    session_id: str
    turn_id: str
    asked_at: datetime
    answered_at: datetime


Loop = Callable[[Run], Awaitable[str]]
Listener = Callable[[AuditEvent], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class HybridMemory(AsyncClosing):
    """The memory of one agent for one profile.

    `layer` None is curated memory alone: no requests, and no rule in the prompt. `search` serves the session tool, for
    example `sessions` itself. `listener` is called with every hidden event, besides `sessions`.
    """

    store: MemoryStore
    sessions: Sessions
    search: SessionSearch
    layer: Layer | None = None
    listener: Listener | None = None
    clock: Clock = lambda: datetime.now(UTC)

    @classmethod
    def open(
        cls,
        config: Mapping[str, Any],
        home: Path,
        *,
        afterturn: AsyncAfterturn | None = None,
        listener: Listener | None = None,
    ) -> Self:
        """Build the memory from a configuration and the profile's folder (the two files, `sessions/`).

        With `afterturn`, hybrid mode goes through Afterturn, which needs no gateway credentials here; curated mode
        leaves it unused. Raises MemoryConfigError. A change of the configuration needs a new HybridMemory.
        """
        settings = MemorySettings.parse(config)
        sessions = LocalSessions(home / "sessions")
        search: SessionSearch = sessions
        layer: Layer | None = None
        if afterturn is not None and settings.mode is Mode.HYBRID:
            layer, search = AfterturnLayer(afterturn), RecalledSessions(afterturn, local=sessions)
        elif (gateway := settings.active_gateway()) is not None:
            layer = MemoryGatewayService.open(gateway)
        return cls(MemoryStore(home), sessions, search, layer, listener)

    async def run(
        self,
        session_id: str | None,
        prompt: str,
        loop: Loop,
        *,
        instructions: str = "",
        skills: Sequence[Mapping[str, Any]] = (),
        history: Sequence[Mapping[str, Any]] | None = None,
        shown: Content | None = None,
        turn_id: str | None = None,
    ) -> RunResult:
        """Run the loop once, with a recall before it and storage after it.

        `prompt` is the user's own text, which is the query and is stored. `shown` replaces it in the model's input, if
        it differs (decorated text, parts with images). `skills` are skill activation messages; `history` replaces the
        history of `sessions`. Without a session id a new session begins; with a `turn_id`, a repeated run is the same
        turn to Afterturn. Errors of the loop are raised, and then nothing is stored.
        """
        session, turn = session_id or uuid.uuid4().hex, turn_id or uuid.uuid4().hex
        asked_at = self.clock()
        snapshot = await asyncio.to_thread(MemorySnapshot.take, self.store)
        reference = await self._recalled(session, prompt)
        messages = build_messages(
            instructions,
            snapshot.text,
            with_rule=self.layer is not None,
            skills=skills,
            reference=reference,
            history=await self.sessions.history(session) if history is None else history,
            current=prompt if shown is None else shown,
        )
        run = Run(session, turn, messages, snapshot, MemoryTool(self.store), SessionSearchTool(self.search))
        text = await loop(run)
        if not isinstance(text, str):
            raise TypeError(f"the loop must return the final text, not {type(text).__name__}")
        # Recalled text is never stored again, not even when it was pasted or echoed.
        finished = FinishedTurn(session, turn, strip_frames(prompt), strip_frames(text), asked_at, self.clock())
        await self._recorded(finished)
        await self._persisted(finished)
        return RunResult(text, session, turn, asked_at, finished.answered_at)

    async def aclose(self) -> None:
        """Close the connections."""
        if self.layer is not None:
            await self.layer.aclose()

    async def _recalled(self, session_id: str, prompt: str) -> str | None:
        if self.layer is None:
            return None
        recall: Recall = await self.layer.recall_before_run(session_id, prompt)
        await self._note(recall.events)
        return recall.reference

    async def _recorded(self, turn: FinishedTurn) -> None:
        try:
            await self.sessions.record(turn)
        except Exception as error:  # noqa: BLE001 -- what was answered is answered, and the second layer can keep it
            _LOG.warning("the turn could not be written into its session's history (%s)", type(error).__name__)

    async def _persisted(self, turn: FinishedTurn) -> None:
        if self.layer is not None:
            await self._note(await self.layer.persist_after_run(turn))

    async def _note(self, events: Sequence[AuditEvent]) -> None:
        """Write hidden events and call the listener; a failure of one affects neither the other nor the answer."""
        told = (self.sessions.note,) if self.listener is None else (self.sessions.note, self.listener)
        for event, tell in product(events, told):
            try:
                heard = tell(event)
                if inspect.isawaitable(heard):
                    await heard
            except Exception as error:  # noqa: BLE001 -- an audit that fails changes no run
                _LOG.warning("the event %s could not be written (%s)", event.name.value, type(error).__name__)
