"""A chaos run from its first process to its verdict: everything it starts is its own, and gone afterwards."""

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import httpx
from sqlalchemy import text

from deploy.lab.chaos import counting, deliveries, tables, undisturbed
from deploy.lab.chaos.eye import DatabaseGone, Eye, eye_on
from deploy.lab.chaos.faults import FAULTS, Scene, planned
from deploy.lab.chaos.feeder import Feeder
from deploy.lab.chaos.gateway import Gateway, ProcessGone, running_gateway
from deploy.lab.chaos.interrupted import Episode, finishing_times
from deploy.lab.chaos.knowledge import Keeper, knowledge
from deploy.lab.chaos.moments import moment
from deploy.lab.chaos.outcome import Felt, Kept, Outcome
from deploy.lab.chaos.sabotage import Sabotage, before_gateway, drop_a_row, drop_knowledge
from deploy.lab.chaos.talk import by_words, conversations
from deploy.lab.chaos.undisturbed import Unfinished
from deploy.local import EmbeddedError, PostgresEndpoint
from deploy.local.private_folder import private_folder
from deploy.local.private_stack import PrivateStackError, running
from deploy.local.services import LIVE
from deploy.local.stack import NoStack, Stack
from store import replay
from store.errors import ReplayError
from workers.settings import WorkerSettings

#: Every kind of fault happens once for so many turns.
TURNS_A_ROUND = 1500
#: A worker's patience with the gateway, as a share of its lease: that of the defaults.
PATIENCE_SHARE = 1 / 3
#: Time for what must come: turns before a fault, the stack after one, all answers, all stages; in seconds.
SEGMENT_S, HEALING_S, ANSWERS_S, DRAIN_S = 60.0, 60.0, 180.0, 240.0
LOOK_AGAIN_S = 0.25
PROGRESS_S = 10.0

UNDONE = text("select count(*)::int as undone from afterturn.ledger_t where undone")
NOTHING = text("select 1")

#: Why a run may end before its verdict.
BROKE_OFF = (PrivateStackError, EmbeddedError, NoStack, DatabaseGone, ProcessGone, Unfinished)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is made of: the same seed is the same turns and the same faults in the same order.

    `lease_s` is how long workers hold on to what they claimed. Their patience with the gateway is a third of it, and as
    long they leave a gateway alone that fails: so it is by default, and so a shorter lease is a shorter run.
    """

    turns: int
    workers: int
    seed: int = 0
    sabotage: Sabotage | None = None
    rounds: int = 1
    lease_s: float = WorkerSettings().lease_seconds

    @property
    def patience_s(self) -> float:
        """Seconds a worker waits for the gateway."""
        return self.lease_s * PATIENCE_SHARE


def rounds_for(turns: int) -> int:
    """Return how often every kind of fault happens during so many turns."""
    return max(1, round(turns / TURNS_A_ROUND))


def unleash(plan: Plan, say: Say) -> Outcome:
    """Run it; `say` hears of every fault. Raises what is in BROKE_OFF."""
    settings = {
        "AFTERTURN_GATEWAY_USER_ID": "chaos",
        "AFTERTURN_GATEWAY_USER_KEY": secrets.token_hex(16),
        "AFTERTURN_GATEWAY__TIMEOUT_SECONDS": str(plan.patience_s),
        "AFTERTURN_GATEWAY__BREAKER_SECONDS": str(plan.lease_s),
        "AFTERTURN_WORKER__LEASE_SECONDS": str(plan.lease_s),
        # What is earlier depends on who came first, and faults change that.
        "AFTERTURN_MAINTENANCE__SEMANTIC_LINKS__ENABLED": "false",
    }
    with (
        private_folder("chaos-gateway") as folder,
        running_gateway(folder, plan.patience_s + 1) as gateway,
        before_gateway(gateway, plan.sabotage) as url,
        running(plan.workers, name="chaos", gateway=url, environment=settings) as stack,
    ):
        say(f"{plan.workers} workers and a gateway run; {plan.turns} turns are on their way")
        run = _Run(plan, stack, gateway, say)
        episodes = asyncio.run(run.to_its_end())
        with undisturbed.second_database() as endpoint:
            return asyncio.run(run.counted(episodes, endpoint))


class _Run:
    def __init__(self, plan: Plan, stack: Stack, gateway: Gateway, say: Say) -> None:
        self._plan = plan
        self._stack = stack
        self._gateway = gateway
        self._say = say
        self._sessions = conversations(plan.turns, plan.seed)
        self._feeder = Feeder(self._sessions, plan.seed)
        self._keeper = Keeper(knowledge(plan.turns, plan.seed), self._feeder)
        self._chance = random.Random(f"faults/{plan.seed}")  # noqa: S311 - a seed, not a secret
        self._started, self._began = time.time(), time.monotonic()
        self._owner_url = stack.owner_url.get_secret_value()

    async def to_its_end(self) -> list[Episode]:
        """Send every turn while faults happen, and wait until every stage of every turn ended."""
        async with eye_on(self._owner_url) as eye:
            episodes = await self._send_and_hurt(eye)
            self._say(f"{self._now()} every turn is sent; waiting for the stages")
            await moment(lambda: _nothing_undone(eye), DRAIN_S, LOOK_AGAIN_S)
        return episodes

    async def _send_and_hurt(self, eye: Eye) -> list[Episode]:
        """Send everything, and let the faults, and the losses that are wanted, happen meanwhile."""
        feeding = [asyncio.create_task(one.run(self._stack)) for one in (self._feeder, self._keeper)]
        telling = asyncio.create_task(self._tell_progress(eye))
        dropping = [asyncio.create_task(drop_a_row(eye))] if self._plan.sabotage is Sabotage.DROP else []
        try:
            episodes = await self._hurt(eye)
            ended, _ = await asyncio.wait({*feeding, *dropping}, timeout=ANSWERS_S)
            for task in ended:
                task.result()
        finally:
            for task in (*feeding, telling, *dropping):
                task.cancel()
            await asyncio.gather(*feeding, telling, *dropping, return_exceptions=True)
        if dropping:
            await drop_knowledge(eye)
        return episodes

    async def _hurt(self, eye: Eye) -> list[Episode]:
        """Let one fault after the other happen, each when its share of the turns came in, while the next share does."""
        data = self._stack.api_key_file.parent
        scene = Scene(data, self._plan.lease_s, eye, self._gateway, self._feeder, self._chance)
        order = planned(self._plan.rounds, self._chance)
        share = self._plan.turns / max(1, len(order))
        episodes = []
        try:
            for nth, kind in enumerate(order):
                await self._feeder.allow(round(share * (nth + 2)))
                await self._feeder.accepted_reach(round(share * (nth + 0.5)), SEGMENT_S)
                episodes.append(episode := await FAULTS[kind](scene))
                self._tell(episode)
                await self._healed(eye)
        finally:
            for pid in tuple(scene.stopped):
                with suppress(ProcessLookupError):
                    scene.let_go(pid)
        await self._feeder.allow(self._plan.turns)
        return episodes

    async def _healed(self, eye: Eye) -> None:
        """Wait until database and API answer again: the next fault is to hit something that works."""
        await eye.see(NOTHING, seconds=HEALING_S)
        async with httpx.AsyncClient(base_url=self._stack.api, timeout=2) as client:
            await moment(lambda: _answers(client), HEALING_S, LOOK_AGAIN_S)

    async def counted(self, episodes: Sequence[Episode], undisturbed_at: PostgresEndpoint) -> Outcome:
        """Count what is there, and compare it with what the same turns are without faults."""
        self._say(f"{self._now()} counting, and the same turns without faults")
        positions = self._feeder.accepted
        accepted = sorted(positions, key=lambda turn: positions[turn])
        kept = self._keeper
        papers = sorted(kept.papers, key=lambda paper: kept.papers[paper])
        await undisturbed.ingest(undisturbed_at.app_url, undisturbed_at.operator_url, accepted, papers, kept.rules)
        async with eye_on(self._owner_url) as eye, eye_on(undisturbed_at.owner_url) as other:
            ended = await counting.endings(eye, [turn.id for turn in accepted])
            finished = await finishing_times(eye)
            calls = self._gateway.recorded()
            return Outcome(
                turns=self._plan.turns,
                unanswered=self._plan.turns - len(accepted),
                resent=self._feeder.resent,
                endings=ended,
                dead_as=await counting.dead_as(eye),
                twice=await counting.applied_twice(eye),
                extracted_out_of_order=await counting.extracted_out_of_order(eye),
                deliveries=deliveries.count(calls, by_words(self._sessions), positions, ended.delivered),
                felt=[Felt.of(episode, finished, self._started) for episode in episodes],
                tables=await tables.compare(eye, other),
                replay_equal=await _replayed_equal(self._owner_url),
                seconds=time.monotonic() - self._began,
                kept=Kept(
                    len(papers),
                    len(kept.rules),
                    kept.unanswered,
                    await counting.documents_lost(eye, kept.papers),
                    await counting.directives_lost(eye, kept.directives()),
                ),
                sabotage=self._plan.sabotage,
            )

    def _now(self) -> str:
        return f"{time.monotonic() - self._began:6.1f} s "

    def _tell(self, episode: Episode) -> None:
        lasted = episode.ended - episode.began
        self._say(f"{self._now()} {episode.kind} ({episode.target}, {lasted:.1f} s): {len(episode.rows)} rows hit")

    async def _tell_progress(self, eye: Eye) -> None:
        while True:
            await asyncio.sleep(PROGRESS_S)
            undone = await eye.glance(UNDONE)
            left = "the database is away" if undone is None else f"{undone[0].undone} rows undone"
            self._say(f"{self._now()} {len(self._feeder.accepted)} turns accepted, {left}")


async def _answers(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get(LIVE)).is_success
    except httpx.HTTPError:
        return False


async def _nothing_undone(eye: Eye) -> bool:
    return not (await eye.see(UNDONE))[0].undone


async def _replayed_equal(owner_url: str) -> bool:
    """Say whether the log, replayed, gives the tables that are there, and what was derived belongs to them."""
    try:
        report = await replay.verify(owner_url)
    except ReplayError:
        return False
    return report.equal and all(one.equal for one in report.derived)
