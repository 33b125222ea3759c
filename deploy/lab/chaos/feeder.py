"""Hands turns in over HTTP from many sessions at once, again and again until each is answered."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack

from afterturn_client import AfterturnError, ApiError, AsyncAfterturn
from afterturn_client.retry import NEVER

from deploy.lab.chaos.moments import wait_until
from deploy.lab.chaos.talk import ChaosTurn
from deploy.local.stack import Stack

#: One turn of this number is handed in once more after it was answered.
AGAIN_EVERY = 20
#: Sessions that share one connection pool.
SESSIONS_A_CLIENT = 8
#: Seconds before a turn without an answer is sent again.
PAUSE_S = 0.5


class TrafficSender:
    """Sends the turns of all sessions, as far as it is allowed to; knows what was answered `ok`, and where it stands.

    A turn without an answer, or told to come again, is sent again under its name: it may be there already.
    """

    def __init__(self, sessions: Sequence[Sequence[ChaosTurn]], seed: int) -> None:
        self._sessions = sessions
        self._chance = random.Random(f"feeder/{seed}")  # noqa: S311 - a seed, not a secret
        self._allowed, self._begun = 0, 0
        self._more = asyncio.Condition()
        #: Position in the log by turn, as it was answered.
        self.accepted: dict[ChaosTurn, int] = {}
        #: Turns that are being sent at this moment.
        self.sending: set[ChaosTurn] = set()
        #: How often a turn had to be sent again.
        self.resent = 0
        #: Turns that were turned down for good.
        self.refused: set[ChaosTurn] = set()

    async def allow(self, turns: int) -> None:
        """Let the first turns be sent, up to this number."""
        async with self._more:
            self._allowed = max(self._allowed, turns)
            self._more.notify_all()

    async def begun(self, turns: int) -> None:
        """Wait until the sending of more than this number of turns has begun."""
        async with self._more:
            await self._more.wait_for(lambda: self._begun > turns)

    async def accepted_reach(self, turns: int, seconds: float) -> bool:
        """Wait until this number of turns was answered; False when it took longer."""
        return await wait_until(lambda: len(self.accepted) + len(self.refused) >= turns, seconds)

    async def run(self, stack: Stack) -> None:
        """Send everything that is allowed; ends when the last turn was answered."""
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
        """Wait for the leave to send one more turn."""
        async with self._more:
            await self._more.wait_for(lambda: self._begun < self._allowed)
            self._begun += 1
            self._more.notify_all()

    async def _handed_in(self, client: AsyncAfterturn, turn: ChaosTurn) -> int | None:
        """Send a turn until it is answered; None when it was turned down for good."""
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
