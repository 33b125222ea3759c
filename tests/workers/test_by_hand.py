"""What operators decide by hand, with real workers at work: once more, no more, or settled; every time on record."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx
import orjson
import pytest
import pytest_asyncio
from afterturn_client.gateway import GatewayClient
from sqlalchemy import text
from starlette.responses import Response

from store.derived import bank_state
from store.errors import NotSettled
from store.ledger.ledger import Claim, Outcome, close_claim
from store.ledger.listing import ROWS_OF_A_TURN, Backlog, LedgerEntry, Selection
from store.ledger.quarantine import UNSETTLED, ChangeCount, DeliveryFinding, NextStep, Quarantine
from store.ledger.stages import TURN_STAGES, Stage
from store.memory.turns import NewMessage
from store.tenancy.gateway_targets import GatewayTarget, seal_place
from store.tenancy.sealing import Sealer
from tests.client.loopback import closed_port, silent_server
from tests.patience import PATIENCE_S
from tests.store.derived_rows import read_contents
from tests.workers.conftest import BANK, HOST, World, turn_uuid
from tests.workers.gateways import KEY, Gateway, gateway
from tests.workers.stages import Crew
from tests.workers.targets import SEALING, SETTINGS, Clients
from workers.settings import GatewayRetry

LEASE = timedelta(seconds=30)
RECOUNTS = """
    insert into afterturn.ledger_t (host_id, stage, item_id, stream_id, bank_id, session_id, turn_id, position, status,
                                    accepted_at)
    select host_id, stage, gen_random_uuid(), bank_id, bank_id, bank_id, bank_id, n, 'dead', now() + n * interval '1 ms'
      from afterturn.ledger_t, generate_series(1, cast(:rows as int)) n where stage = 'projection'"""
FACT = [NewMessage("user", "I moved to Lisbon."), NewMessage("assistant", "Noted.")]


@pytest.fixture
def server() -> Iterator[Gateway]:
    with gateway() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def target(world: World) -> GatewayTarget:
    """The default bank's gateway; nobody listens there yet."""
    return await world.hand_to(closed_port(), bank="default")


@pytest_asyncio.fixture(loop_scope="session")
async def crew(world: World, server: Gateway) -> AsyncIterator[Crew]:
    async with Crew(world, gateways=At(world, server.url)) as working:
        yield working


class At(Clients):
    """Clients to whom every target is at one address, whatever its row says."""

    def __init__(self, world: World, url: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        super().__init__(world.database, PATIENCE_S, transport=transport)
        self.url = url

    def client(self, target: GatewayTarget) -> GatewayClient:
        user = replace(target.user, base_url=self.url)
        key = Sealer([SEALING]).seal(KEY, seal_place(target.host_id, target.bank_id, user))
        return super().client(replace(target, user=user, sealed_key=key))


class ByHand:
    """An operator at a world's ledger."""

    def __init__(self, world: World) -> None:
        self.world, self.backlog = world, Backlog(world.database)
        self.quarantine = Quarantine(world.database, "ops")

    async def rows(self, **selected: Any) -> list[LedgerEntry]:
        return (await self.backlog.rows(Selection(**selected), 100))[0]

    async def retry(self, **selected: Any) -> ChangeCount:
        return await self.quarantine.retry(await self.rows(**selected))

    async def drop(self, **selected: Any) -> ChangeCount:
        return await self.quarantine.drop(await self.rows(**selected), "no use")

    async def resolve(self, found: DeliveryFinding, then: NextStep) -> str:
        [delivery] = await self.rows(states=UNSETTLED)
        return await self.quarantine.resolve(delivery, found, then)

    async def noted(self) -> list[tuple[str, dict[str, Any]]]:
        turn = turn_uuid("s", "t")
        notes = await self.backlog.history(HOST, turn)
        return [(note.event, orjson.loads(note.payload)) for note in notes if note.event.startswith("operator_")]

    async def kill(self, stage: Stage, category: str = "internal") -> None:
        """Have the stage's rows end in quarantine, as a worker ends them."""
        for claim in await self.claim(stage):
            await self.world.ledger.end([claim], [Outcome(r.item_id, "dead", category, "Broken") for r in claim.rows])

    async def claim(self, stage: Stage) -> list[Claim]:
        return await self.world.ledger.claim(stage, streams=8, rows=16, lease=LEASE, worker="w", max_attempts=5)


@pytest.fixture
def hand(world: World) -> ByHand:
    return ByHand(world)


async def contents(world: World) -> dict[str, Any]:
    async with world.database.tenant(HOST) as connection:
        return await read_contents(connection, HOST, BANK)


async def test_a_dead_row_starts_again_with_all_its_attempts_and_is_on_record(world: World, hand: ByHand) -> None:
    await world.append("s", "t")
    await hand.kill(Stage.EMBEDDING, "embedding")
    assert await world.statuses(Stage.EMBEDDING) == ["dead"]
    assert await hand.retry(statuses=("dead",)) == ChangeCount(1, 1)
    [row] = await hand.rows(stages=(Stage.EMBEDDING,))
    assert (row.state, row.attempts, row.category, row.reason) == ("pending", 0, None, None)
    await Crew(world).drain(Stage.EMBEDDING)
    assert await world.statuses(Stage.EMBEDDING) == ["done"]
    [(event, told)] = await hand.noted()
    assert event == "operator_retried"
    assert told == {
        "by": "ops",
        "stage": "embedding",
        "item": str(row.item_id),
        "was": "dead",
        "attempts": 1,
        "category": "embedding",
        "reason": "Broken",
    }


async def test_what_a_retried_extraction_finds_is_projected(world: World, hand: ByHand) -> None:
    """The bank becomes what it would have been had the extraction never failed."""
    await world.append("s", "t", messages=FACT)
    await world.append("s", "t", messages=FACT, bank="other")
    crew = Crew(world)
    await hand.kill(Stage.EXTRACTION)
    await crew.drain()
    assert await world.statuses(Stage.PROJECTION) == ["done", "done"]
    assert (await contents(world))["fact_t"] == []
    assert await hand.retry(stages=(Stage.EXTRACTION,), bank=BANK) == ChangeCount(1, 1)
    [projection] = await hand.rows(stages=(Stage.PROJECTION,), bank=BANK)
    assert projection.waits_for is Stage.EXTRACTION
    await crew.drain()
    assert set(await world.statuses(Stage.PROJECTION)) == {"done"}
    stepwise = await contents(world)
    assert stepwise["fact_t"]
    async with world.database.tenant(HOST) as connection:
        await bank_state.rebuild_bank(connection, HOST, BANK)
    assert await contents(world) == stepwise


@pytest.mark.law("L2")
async def test_a_projection_under_way_does_not_end_before_its_retried_extraction(world: World, hand: ByHand) -> None:
    await world.append("s", "t", messages=FACT)
    await hand.kill(Stage.EXTRACTION)
    [late] = await hand.claim(Stage.PROJECTION)
    assert await hand.retry(stages=(Stage.EXTRACTION,), statuses=("dead",)) == ChangeCount(1, 1)
    assert not await world.ledger.end([late], [Outcome(late.rows[0].item_id)]), "its claim was taken back"
    [projection] = await hand.rows(stages=(Stage.PROJECTION,))
    assert (projection.state, projection.attempts, projection.waits_for) == ("pending", 0, Stage.EXTRACTION)
    await Crew(world).drain()
    assert (await contents(world))["fact_t"]


@pytest.mark.law("L2")
async def test_work_under_way_on_a_dropped_row_leaves_no_trace_and_its_neighbours_are_ready(
    world: World, hand: ByHand
) -> None:
    for n in range(3):
        await world.append("s", f"t{n}")
    [claim] = await hand.claim(Stage.EXTRACTION)
    first = (await hand.rows(stages=(Stage.EXTRACTION,)))[0]
    assert (first.status, first.worker) == ("running", "w")
    assert await hand.quarantine.drop([first], "no use") == ChangeCount(1, 1)
    async with world.database.tenant(HOST) as connection:
        with pytest.raises(Exception, match="lease expired"):
            await close_claim(connection, claim, [Outcome(row.item_id) for row in claim.rows])
    rows = await hand.rows(stages=(Stage.EXTRACTION,))
    assert [(row.state, row.attempts) for row in rows] == [("pending", 0), ("pending", 0)]
    assert await world.statuses(Stage.EXTRACTION) == ["skipped", "pending", "pending"]
    await Crew(world).drain()
    assert await world.statuses(Stage.PROJECTION) == ["done"] * 3, "whatever way extraction ended"


async def test_a_dropped_row_says_who_ended_it_and_why(world: World, hand: ByHand) -> None:
    await world.append("s", "t")
    assert await hand.drop(stages=(Stage.EMBEDDING,)) == ChangeCount(1, 1)
    rows = await world.sql("select error_category, error_reason from afterturn.ledger_t where status = 'skipped'")
    assert ("dropped", "no use") in [tuple(row) for row in rows]
    [(event, told)] = await hand.noted()
    assert (event, told["by"], told["why"], told["was"]) == ("operator_dropped", "ops", "no use", "pending")


async def deliver(world: World, url: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
    settings = SETTINGS.model_copy(update={"retry": GatewayRetry.NEVER})
    async with Crew(world, gateways=At(world, url, transport), settings=settings) as working:
        await working.drain(Stage.GATEWAY)


async def unknown(world: World) -> None:
    """Leave one delivery whose outcome nobody knows."""
    await world.append("s", "t")
    with silent_server() as (url, _received):
        await deliver(world, url)
    assert await world.statuses(Stage.GATEWAY) == ["add_unknown"]


@pytest.mark.law("L9")
@pytest.mark.parametrize("status,certain", [(401, True), (429, True), (403, True), (500, False), (503, False)])
async def test_a_refused_add_is_retried_by_hand_only_where_nothing_was_done(
    world: World, server: Gateway, crew: Crew, hand: ByHand, status: int, *, certain: bool
) -> None:
    server.fault = lambda _operation, _body: Response(status_code=status)
    await world.append("s", "t")
    await crew.drain(Stage.GATEWAY)
    server.fault = lambda _operation, _body: None
    assert await hand.retry(stages=(Stage.GATEWAY,)) == ChangeCount(1, int(certain))
    await crew.drain(Stage.GATEWAY)
    assert await world.statuses(Stage.GATEWAY) == (["flushed"] if certain else ["add_failed"])
    assert len(server.added["chat:s"]) == 1 + certain


class Unreached(httpx.AsyncBaseTransport):
    """A gateway behind a wall that swallows whoever wants to connect."""

    async def handle_async_request(self, _request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectTimeout("nobody answered")


@pytest.mark.law("L9")
@pytest.mark.parametrize("transport", [None, Unreached()], ids=["refused", "swallowed"])
async def test_an_add_that_never_left_is_retried_by_hand(
    world: World, server: Gateway, crew: Crew, hand: ByHand, transport: httpx.AsyncBaseTransport | None
) -> None:
    await world.append("s", "t")
    await deliver(world, closed_port(), transport)
    assert await world.statuses(Stage.GATEWAY) == ["add_failed"]
    assert await hand.retry(stages=(Stage.GATEWAY,)) == ChangeCount(1, 1)
    await crew.drain(Stage.GATEWAY)
    assert await world.statuses(Stage.GATEWAY) == ["flushed"]
    assert len(server.added["chat:s"]) == 1


@pytest.mark.law("L9")
async def test_an_unknown_add_is_never_retried(world: World, hand: ByHand) -> None:
    await unknown(world)
    assert await hand.retry(stages=(Stage.GATEWAY,)) == ChangeCount(1, 0)
    assert await world.statuses(Stage.GATEWAY) == ["add_unknown"]
    assert await hand.noted() == []


@pytest.mark.law("L9")
async def test_a_flush_that_was_turned_away_is_repeated_without_its_add(
    world: World, server: Gateway, crew: Crew, hand: ByHand
) -> None:
    server.fault = lambda operation, _body: Response(status_code=401) if operation == "flush" else None
    await world.append("s", "t")
    await crew.drain(Stage.GATEWAY)
    server.fault = lambda _operation, _body: None
    assert await hand.retry(stages=(Stage.GATEWAY,)) == ChangeCount(1, 1)
    await crew.drain(Stage.GATEWAY)
    assert await world.statuses(Stage.GATEWAY) == ["flushed"]
    assert (len(server.added["chat:s"]), server.flushed) == (1, ["chat:s"] * 2)


@pytest.mark.law("L9")
@pytest.mark.parametrize(
    "settled,becomes",
    [
        ((DeliveryFinding.DELIVERED, NextStep.FLUSH), ("flushed", 0, 1)),
        ((DeliveryFinding.DELIVERED, NextStep.DONE), ("flushed", 0, 0)),
        ((DeliveryFinding.NOT_DELIVERED, NextStep.RETRY), ("flushed", 1, 1)),
        ((DeliveryFinding.NOT_DELIVERED, NextStep.SKIP), ("skipped", 0, 0)),
    ],
)
async def test_an_unknown_add_goes_on_as_a_person_found_it(
    crew: Crew, server: Gateway, hand: ByHand, settled: tuple[DeliveryFinding, NextStep], becomes: tuple[str, int, int]
) -> None:
    await unknown(hand.world)
    await hand.resolve(*settled)
    await crew.drain(Stage.GATEWAY)
    [status] = await hand.world.statuses(Stage.GATEWAY)
    assert (status, len(server.added["chat:s"]), len(server.flushed)) == becomes
    [(event, told)] = await hand.noted()
    assert (event, told["by"], told["as"], told["then"]) == ("operator_resolved", "ops", *(s.value for s in settled))
    assert (told["was"], told["category"]) == ("add_unknown", "timeout")


async def test_a_failed_flush_was_delivered_or_is_flushed_again_and_never_added(
    world: World, server: Gateway, crew: Crew, hand: ByHand
) -> None:
    server.fault = lambda operation, _body: Response(status_code=500) if operation == "flush" else None
    await world.append("s", "t")
    await crew.drain(Stage.GATEWAY)
    assert await hand.retry(stages=(Stage.GATEWAY,)) == ChangeCount(1, 0)
    with pytest.raises(NotSettled, match="its state must be one of add_unknown, add_failed;"):
        await hand.resolve(DeliveryFinding.DELIVERED, NextStep.FLUSH)
    assert await hand.resolve(DeliveryFinding.NOT_DELIVERED, NextStep.RETRY) == "added"
    await crew.drain(Stage.GATEWAY)
    assert await hand.resolve(DeliveryFinding.DELIVERED, NextStep.DONE) == "flushed"
    assert len(server.added["chat:s"]) == 1


async def test_two_operators_settle_a_delivery_once(world: World, hand: ByHand) -> None:
    await unknown(world)
    [delivery] = await hand.rows(states=UNSETTLED)
    attempts = [hand.quarantine.resolve(delivery, DeliveryFinding.NOT_DELIVERED, NextStep.SKIP) for _ in range(2)]
    ended = await asyncio.gather(*attempts, return_exceptions=True)
    assert sorted(type(end).__name__ for end in ended) == ["NotSettled", "str"]
    assert len(await hand.noted()) == 1


@pytest.mark.law("L9")
@pytest.mark.parametrize("state", ["adding", "added", "flushing"])
async def test_a_delivery_that_may_be_under_way_is_neither_dropped_nor_disturbed(
    world: World, hand: ByHand, state: str
) -> None:
    await world.append("s", "t")
    [claim] = await hand.claim(Stage.GATEWAY)
    await world.sql("update afterturn.ledger_t set status = :state where stage = 'gateway'", state=state)
    assert await hand.drop(stages=(Stage.GATEWAY,)) == ChangeCount(1, 0)
    assert await world.statuses(Stage.GATEWAY) == [state]
    assert await world.ledger.renew([claim], LEASE) == {claim.epoch}


@pytest.mark.law("L9")
async def test_a_delivery_that_begins_while_it_is_dropped_ends_by_its_own_rules(world: World, hand: ByHand) -> None:
    """The worker writes `adding` while the operator's statement waits for its claim."""
    await world.append("s", "t")
    [claim] = await hand.claim(Stage.GATEWAY)
    rows = await hand.rows(stages=(Stage.GATEWAY,))
    async with world.database.tenant(HOST) as connection:
        await connection.execute(text("select from afterturn.claim_t where stage = 'gateway' for update"))
        dropping = asyncio.ensure_future(hand.quarantine.drop(rows, "no use"))
        await world.blocked()
        await connection.execute(text("update afterturn.ledger_t set status = 'adding' where stage = 'gateway'"))
    assert await dropping == ChangeCount(1, 0)
    assert await world.ledger.renew([claim], LEASE) == {claim.epoch}
    assert await world.statuses(Stage.GATEWAY) == ["adding"]


async def test_a_selection_is_paged_without_a_row_twice_or_left_out(world: World, hand: ByHand) -> None:
    for n in range(7):
        await world.append(f"s{n}", "t")
    selection = Selection(stages=(Stage.EMBEDDING,))
    seen, more = list[UUID](), True
    while more:
        page, more = await hand.backlog.rows(selection, 3)
        seen += [row.item_id for row in page]
        await hand.quarantine.drop(page, "no use")
        selection = replace(selection, after=page[-1].place)
    assert len(seen) == len(set(seen)) == 7
    assert await hand.backlog.count(selection) == 0


async def test_the_list_is_filtered_by_stage_status_bank_age_and_category(world: World, hand: ByHand) -> None:
    await world.append("s", "t")
    await world.append("s", "t", bank="other")
    await world.append("s2", "t")
    await hand.kill(Stage.EMBEDDING, "embedding")
    assert len(await hand.rows(stages=(Stage.EMBEDDING,), statuses=("dead",))) == 3
    assert len(await hand.rows(stages=(Stage.EMBEDDING,), statuses=("pending",))) == 0
    assert len(await hand.rows(bank=BANK, statuses=("dead",))) == 2
    assert len(await hand.rows(category="embedding")) == 3
    assert await hand.rows(category="timeout") == []
    assert await hand.rows(older_than=timedelta(hours=1)) == []
    page, more = await hand.backlog.rows(Selection(), 4)
    assert (len(page), more) == (4, True)
    assert set((await hand.backlog.bank_names(page)).values()) <= {"default", "other"}


async def test_one_turn_is_shown_with_every_stage_and_its_follow_ups(world: World, hand: ByHand) -> None:
    await world.append("s", "t", messages=FACT)
    await Crew(world).drain()
    turn = turn_uuid("s", "t")
    rows = await hand.backlog.of_turn(turn)
    assert [row.stage for row in rows if not row.is_follow_up] == list(TURN_STAGES)
    [follow_up] = [row for row in rows if row.is_follow_up]
    assert [row.item_id for row in await hand.backlog.of_turn(follow_up.item_id)] == [row.item_id for row in rows]
    assert await hand.backlog.of_turn(HOST) == []


async def test_a_row_among_very_many_of_one_turn_is_found_by_its_id(world: World, hand: ByHand) -> None:
    """Rows that erasures and changes opened all have their bank as turn."""
    await world.append("s", "t")
    await world.sql(RECOUNTS, rows=ROWS_OF_A_TURN + 1)
    [last] = await world.sql(
        "select item_id from afterturn.ledger_t where turn_id = bank_id order by position desc limit 1"
    )
    assert last.item_id in {row.item_id for row in await hand.backlog.of_turn(last.item_id)}
    [found] = await hand.backlog.with_ids(HOST, Stage.PROJECTION, [last.item_id, HOST])
    assert await hand.quarantine.retry([found]) == ChangeCount(1, 1)


async def test_a_turn_that_left_the_ledger_is_still_shown_as_it_ended(world: World, hand: ByHand) -> None:
    await world.append("s", "t", gateway=False)
    await Crew(world).drain()
    before = [(r.stage, r.status, r.attempts) for r in await hand.backlog.of_turn(turn_uuid("s", "t"))]
    await world.sql(
        "select afterturn.prune_ledger(:host, '00000000-0000-0000-0000-000000000000', now() + interval '1 hour', 100)",
        host=HOST,
    )
    assert await world.sql("select 1 from afterturn.ledger_t") == []
    after = await hand.backlog.of_turn(turn_uuid("s", "t"))
    assert [(row.stage, row.status, row.attempts) for row in after] == before
    assert await hand.retry() == ChangeCount(0, 0)
