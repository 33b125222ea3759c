"""Runs chaos from the first process to the outcome, on private processes that are removed afterwards."""

import asyncio
import random
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import httpx
from sqlalchemy import text

from deploy.lab.bench.servers import open_private_database
from deploy.lab.chaos import counting, deliveries, tables, undisturbed
from deploy.lab.chaos.database_observer import DatabaseGone, DatabaseObserver, open_observer
from deploy.lab.chaos.faults import FAULTS, FaultTargets, plan_faults
from deploy.lab.chaos.feeder import TrafficSender
from deploy.lab.chaos.gateway import GatewayHandle, ProcessGone, run_gateway
from deploy.lab.chaos.interrupted import FaultEpisode, read_finishing_times
from deploy.lab.chaos.knowledge import KnowledgeWriter, plan_knowledge
from deploy.lab.chaos.moments import wait_until
from deploy.lab.chaos.outcome import ChaosOutcome, FaultEffect, KnowledgeCounts
from deploy.lab.chaos.sabotage import Sabotage, drop_a_row, drop_knowledge, place_before_gateway
from deploy.lab.chaos.talk import index_by_words, make_conversations
from deploy.lab.chaos.undisturbed import StagesUnfinished
from deploy.local import EmbeddedError, PostgresEndpoint
from deploy.local.private_folder import open_private_folder
from deploy.local.private_stack import PrivateStackError, run_private_stack
from deploy.local.services import LIVE
from deploy.local.stack import Stack, StackNotRunning
from deploy.notices import Say
from store import replay
from store.errors import ReplayError
from workers.settings import WorkerSettings

#: Turns per round of faults.
TURNS_A_ROUND = 1500
#: A worker's time-out for the gateway as a share of its lease, as in the defaults.
PATIENCE_SHARE = 1 / 3
#: Longest waits in seconds: for turns before a fault, for the stack after one, for all answers, for all stages.
SEGMENT_S, HEALING_S, ANSWERS_S, DRAIN_S = 60.0, 60.0, 180.0, 240.0
#: Longest wait for the workers' start in seconds: until then, nothing is left for a fault to interrupt.
START_S = 180.0
POLL_INTERVAL_S = 0.25
PROGRESS_S = 10.0

WORKING = text("select count(*)::int as working from public.afterturn_worker")
UNDONE = text("select count(*)::int as undone from afterturn.ledger_t where undone")
NOTHING = text("select 1")

#: Errors that end a run before its outcome.
BROKE_OFF = (PrivateStackError, EmbeddedError, StackNotRunning, DatabaseGone, ProcessGone, StagesUnfinished)


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run; the same seed gives the same turns, and the same faults in the same order.

    `lease_s` is the lease of workers' claims. As in the defaults, their time-out for the gateway is a third of it, and
    they do not call a failing gateway for as long as a lease; a shorter lease therefore makes a shorter run.
    """

    turns: int
    workers: int
    seed: int = 0
    sabotage: Sabotage | None = None
    rounds: int = 1
    lease_s: float = WorkerSettings().lease_seconds

    @property
    def patience_s(self) -> float:
        """The time-out of workers for the gateway, in seconds."""
        return self.lease_s * PATIENCE_SHARE


def count_rounds(turns: int) -> int:
    """Return how many rounds of faults happen during this number of turns."""
    return max(1, round(turns / TURNS_A_ROUND))


def run_chaos(plan: Plan, say: Say) -> ChaosOutcome:
    """Run the plan and return the outcome; `say` is called with every fault. Raises an error in BROKE_OFF."""
    settings = {
        "AFTERTURN_GATEWAY_USER_ID": "chaos",
        "AFTERTURN_GATEWAY_USER_KEY": secrets.token_hex(16),
        "AFTERTURN_GATEWAY__TIMEOUT_SECONDS": str(plan.patience_s),
        "AFTERTURN_GATEWAY__BREAKER_SECONDS": str(plan.lease_s),
        "AFTERTURN_WORKER__LEASE_SECONDS": str(plan.lease_s),
    }
    with (
        open_private_folder("chaos-gateway") as folder,
        run_gateway(folder, plan.patience_s + 1) as gateway,
        place_before_gateway(gateway, plan.sabotage) as url,
        run_private_stack(plan.workers, name="chaos", gateway=url, environment=settings) as stack,
    ):
        run = _ChaosRun(plan, stack, gateway, say)
        episodes = asyncio.run(run.to_its_end())
        with open_private_database("undisturbed", durable=False) as endpoint:
            return asyncio.run(run.counted(episodes, endpoint))


class _ChaosRun:
    def __init__(self, plan: Plan, stack: Stack, gateway: GatewayHandle, say: Say) -> None:
        self._plan = plan
        self._stack = stack
        self._gateway = gateway
        self._say = say
        self._sessions = make_conversations(plan.turns, plan.seed)
        self._feeder = TrafficSender(self._sessions, plan.seed)
        self._keeper = KnowledgeWriter(plan_knowledge(plan.turns, plan.seed), self._feeder)
        self._chance = random.Random(f"faults/{plan.seed}")  # noqa: S311 - a seed, not a secret
        self._started, self._began = time.time(), time.monotonic()
        self._owner_url = stack.owner_url.get_secret_value()

    async def to_its_end(self) -> list[FaultEpisode]:
        """Send every turn while faults happen, wait until every stage has ended, and return the faults.

        Begins when all workers have started: `up` is ready before them, and a fault would seem to last until they work.
        """
        async with open_observer(self._owner_url) as observer:
            await self._wait_for_workers(observer)
            episodes = await self._send_and_hurt(observer)
            self._say(f"{self._format_elapsed()} every turn is sent; waiting for the stages")
            await wait_until(lambda: _is_all_done(observer), DRAIN_S, POLL_INTERVAL_S)
        return episodes

    async def _wait_for_workers(self, observer: DatabaseObserver) -> None:
        """Wait until every worker has registered. Raises StackNotRunning."""
        wanted = self._plan.workers
        if not await wait_until(lambda: _do_work(observer, wanted), START_S, POLL_INTERVAL_S):
            raise StackNotRunning(f"the workers did not start: less than {wanted} after {START_S:.0f} s")
        self._started, self._began = time.time(), time.monotonic()
        self._say(f"{wanted} workers and a gateway run; {self._plan.turns} turns are on their way")

    async def _send_and_hurt(self, observer: DatabaseObserver) -> list[FaultEpisode]:
        """Send everything while the faults, and requested sabotage, happen; return the faults."""
        feeding = [asyncio.create_task(one.run(self._stack)) for one in (self._feeder, self._keeper)]
        telling = asyncio.create_task(self._tell_progress(observer))
        dropping = [asyncio.create_task(drop_a_row(observer))] if self._plan.sabotage is Sabotage.DROP else []
        try:
            episodes = await self._inject_faults(observer)
            ended, _ = await asyncio.wait({*feeding, *dropping}, timeout=ANSWERS_S)
            for task in ended:
                task.result()
        finally:
            for task in (*feeding, telling, *dropping):
                task.cancel()
            await asyncio.gather(*feeding, telling, *dropping, return_exceptions=True)
        if dropping:
            await drop_knowledge(observer)
        return episodes

    async def _inject_faults(self, observer: DatabaseObserver) -> list[FaultEpisode]:
        """Inject the faults one after the other, each when half of its share of the turns has been accepted."""
        data = self._stack.api_key_file.parent
        scene = FaultTargets(data, self._plan.lease_s, observer, self._gateway, self._feeder, self._chance)
        order = plan_faults(self._plan.rounds, self._chance)
        share = self._plan.turns / max(1, len(order))
        episodes = []
        try:
            for nth, kind in enumerate(order):
                await self._feeder.allow(round(share * (nth + 2)))
                await self._feeder.accepted_reach(round(share * (nth + 0.5)), SEGMENT_S)
                episodes.append(episode := await FAULTS[kind](scene))
                self._report_episode(episode)
                await self._wait_recovered(observer)
        finally:
            for pid in tuple(scene.stopped):
                with suppress(ProcessLookupError):
                    scene.resume(pid)
        await self._feeder.allow(self._plan.turns)
        return episodes

    async def _wait_recovered(self, observer: DatabaseObserver) -> None:
        """Wait until database and API answer again, so that the next fault hits a working stack."""
        await observer.query(NOTHING, seconds=HEALING_S)
        async with httpx.AsyncClient(base_url=self._stack.api, timeout=2, trust_env=False) as client:
            await wait_until(lambda: _is_live(client), HEALING_S, POLL_INTERVAL_S)

    async def counted(self, episodes: Sequence[FaultEpisode], undisturbed_at: PostgresEndpoint) -> ChaosOutcome:
        """Count the results, and compare the tables with those of the same turns without faults."""
        self._say(f"{self._format_elapsed()} counting, and the same turns without faults")
        positions = self._feeder.accepted
        accepted = sorted(positions, key=lambda turn: positions[turn])
        kept = self._keeper
        papers = sorted(kept.papers, key=lambda paper: kept.papers[paper])
        await undisturbed.ingest_undisturbed(
            undisturbed_at.app_url, undisturbed_at.operator_url, accepted, papers, kept.rules
        )
        async with open_observer(self._owner_url) as observer, open_observer(undisturbed_at.owner_url) as other:
            ended = await counting.read_turn_outcomes(observer, [turn.id for turn in accepted])
            finished = await read_finishing_times(observer)
            calls = self._gateway.recorded()
            return ChaosOutcome(
                turns=self._plan.turns,
                unanswered=self._plan.turns - len(accepted),
                resent=self._feeder.resent,
                endings=ended,
                dead_as=await counting.count_dead_turns(observer),
                twice=await counting.count_duplicates(observer),
                extracted_out_of_order=await counting.count_misordered_extractions(observer),
                deliveries=deliveries.count_deliveries(
                    calls, index_by_words(self._sessions), positions, ended.delivered
                ),
                felt=[FaultEffect.of(episode, finished, self._started) for episode in episodes],
                tables=await tables.compare_tables(observer, other),
                replay_equal=await _is_replay_equal(self._owner_url),
                seconds=time.monotonic() - self._began,
                kept=KnowledgeCounts(
                    len(papers),
                    len(kept.rules),
                    kept.unanswered,
                    await counting.count_lost_documents(observer, kept.papers),
                    await counting.count_lost_directives(observer, kept.directives()),
                ),
                sabotage=self._plan.sabotage,
            )

    def _format_elapsed(self) -> str:
        return f"{time.monotonic() - self._began:6.1f} s "

    def _report_episode(self, episode: FaultEpisode) -> None:
        lasted = episode.ended - episode.began
        self._say(
            f"{self._format_elapsed()} {episode.kind} ({episode.target}, {lasted:.1f} s): {len(episode.rows)} rows hit"
        )

    async def _tell_progress(self, observer: DatabaseObserver) -> None:
        while True:
            await asyncio.sleep(PROGRESS_S)
            undone = await observer.try_query(UNDONE)
            left = "the database is away" if undone is None else f"{undone[0].undone} rows undone"
            self._say(f"{self._format_elapsed()} {len(self._feeder.accepted)} turns accepted, {left}")


async def _is_live(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get(LIVE)).is_success
    except httpx.HTTPError:
        return False


async def _do_work(observer: DatabaseObserver, workers: int) -> bool:
    """Return whether this number of workers has registered."""
    return bool((await observer.query(WORKING))[0].working >= workers)


async def _is_all_done(observer: DatabaseObserver) -> bool:
    return not (await observer.query(UNDONE))[0].undone


async def _is_replay_equal(owner_url: str) -> bool:
    """Return whether a replay of the log gives the same tables, and derived state matches them."""
    try:
        report = await replay.verify_log(owner_url)
    except ReplayError:
        return False
    return report.equal and all(one.equal for one in report.derived)
