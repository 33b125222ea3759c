"""Sends turns of many sessions concurrently over HTTP, each repeatedly until it is answered."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack

from afterturn_client import AfterturnError, ApiError, AsyncAfterturn
from afterturn_client.retry import NEVER

from deploy.lab.chaos.moments import wait_until
from deploy.lab.chaos.talk import ChaosTurn
from deploy.local.stack import Stack

#: One turn in this many is sent once more after it was answered.
AGAIN_EVERY = 20
#: Sessions that share one connection pool.
SESSIONS_A_CLIENT = 8
#: Seconds before a turn without an answer is sent again.
PAUSE_S = 0.5


class TrafficSender:
    """Sends the turns of all sessions, up to the allowed number, and records the accepted ones with their positions.

    A turn with no answer or a retryable error is sent again under the same name, because it may be stored already.
    """

    def __init__(self, sessions: Sequence[Sequence[ChaosTurn]], seed: int) -> None:
        self._sessions = sessions
        self._chance = random.Random(f"feeder/{seed}")  # noqa: S311 - a seed, not a secret
        self._allowed, self._begun = 0, 0
        self._more = asyncio.Condition()
        #: Log position by accepted turn.
        self.accepted: dict[ChaosTurn, int] = {}
        #: Turns that are being sent now.
        self.sending: set[ChaosTurn] = set()
        #: Number of repeated sends.
        self.resent = 0
        #: Turns with a final refusal.
        self.refused: set[ChaosTurn] = set()

    async def allow(self, turns: int) -> None:
        """Allow sending up to this number of turns in all."""
        async with self._more:
            self._allowed = max(self._allowed, turns)
            self._more.notify_all()

    async def begun(self, turns: int) -> None:
        """Wait until sending of more than this number of turns has started."""
        async with self._more:
            await self._more.wait_for(lambda: self._begun > turns)

    async def accepted_reach(self, turns: int, seconds: float) -> bool:
        """Wait until this number of turns has a final answer; return False after `seconds`."""
        return await wait_until(lambda: len(self.accepted) + len(self.refused) >= turns, seconds)

    async def run(self, stack: Stack) -> None:
        """Send all turns, as far as allowed; return when the last one has a final answer."""
        async with AsyncExitStack() as clients, asyncio.TaskGroup() as tasks:
            for start in range(0, len(self._sessions), SESSIONS_A_CLIENT):
                own = AsyncAfterturn(stack.api, stack.api_key(), retry=NEVER, allow_http=True)
                client = await clients.enter_async_context(own)
                for session in self._sessions[start : start + SESSIONS_A_CLIENT]:
                    tasks.create_task(self._converse(client, session))

    async def _converse(self, client: AsyncAfterturn, session: Sequence[ChaosTurn]) -> None:
        for turn in session:
            await self._leave()
            position = await self._handed_in(client, turn)
            if position is None:
                self.refused.add(turn)
                continue
            self.accepted[turn] = position
            if self._chance.randrange(AGAIN_EVERY) == 0:
                await self._handed_in(client, turn)

    async def _leave(self) -> None:
        """Wait until one more turn may be sent."""
        async with self._more:
            await self._more.wait_for(lambda: self._begun < self._allowed)
            self._begun += 1
            self._more.notify_all()

    async def _handed_in(self, client: AsyncAfterturn, turn: ChaosTurn) -> int | None:
        """Send a turn until it is answered, and return its position; None after a final refusal."""
        self.sending.add(turn)
        try:
            while True:
                try:
                    return await _send_turn(client, turn)
                except AfterturnError as error:
                    if isinstance(error, ApiError) and not error.retryable:
                        return None
                    self.resent += 1
                    await asyncio.sleep(max(PAUSE_S, getattr(error, "retry_after", None) or 0.0))
        finally:
            self.sending.discard(turn)


async def _send_turn(client: AsyncAfterturn, turn: ChaosTurn) -> int:
    messages = [{"role": "user", "content": turn.asked}, {"role": "assistant", "content": turn.answered}]
    receipt = await client.add_turn(
        turn.session, messages, turn_id=turn.name, bank=turn.bank, user_id=turn.user, occurred_at=turn.at
    )
    return receipt.position
