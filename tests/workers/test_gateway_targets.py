"""Each tenant's, and each bank's, turns go to its own gateway, under names that never merge, and nowhere else."""

import hashlib
import logging
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import hypothesis.strategies as st
import pytest
from cryptography.fernet import Fernet
from hypothesis import example, given
from pydantic import SecretStr
from starlette.responses import Response

from deploy.components.gateways import TargetAccess, build_delivery_clients
from producers.service.gateway_clients import TargetUnusable, canonical_url
from store import identity
from store.errors import NotFound, SealBroken, TargetTaken
from store.ledger.deliveries import DeliveryWriter
from store.ledger.ledger import Claim
from store.ledger.stages import Stage
from store.memory.turns import Appended, NewTurn
from store.tenancy.gateway_targets import UNSET, GatewayTarget, GatewayTargets, GatewayUser
from store.tenancy.sealing import Sealer
from tests.client.loopback import closed_port
from tests.store.erasure.dump import dump
from tests.workers.conftest import BANK, HOST, World, dialogue
from tests.workers.gateways import KEY, USER, Gateway, gateway
from tests.workers.stages import Crew
from tests.workers.targets import SEALING, SETTINGS, Clients, hand_to
from workers.settings import GatewayMode

SECRET = "uk_Quetzalbrook-0815"


async def tenant(world: World, name: str) -> UUID:
    host = identity.host_id(name)
    await world.sql("insert into afterturn.host_t (host_id, name) values (:host, :name)", host=host, name=name)
    return host


async def say(world: World, host: UUID, text: str, *, bank: str = "default", session: str = "s") -> Appended:
    """Accept a turn of a host, named by what it says."""
    new = NewTurn(bank, session, text, dialogue(text), gateway=True)
    [answer] = await world.turns.append(host, [new])
    assert isinstance(answer, Appended)
    return answer


async def drain(world: World, **made: Any) -> None:
    async with Crew(world, **made) as crew:
        await crew.drain(Stage.GATEWAY)


async def deliveries(world: World) -> list[tuple[str, str | None, str | None]]:
    rows = await world.sql(
        "select status, error_category, error_reason from afterturn.ledger_t where stage = 'gateway' order by position"
    )
    return [tuple(row) for row in rows]


async def claimed(world: World) -> Claim:
    [claim] = await world.ledger.claim(
        Stage.GATEWAY, streams=1, rows=1, lease=timedelta(minutes=5), worker="w", max_attempts=5
    )
    return claim


def arrived(server: Gateway) -> dict[str, list[str]]:
    """What a user said at a gateway, by session."""
    return {session: [asked for asked, _ in turns] for session, turns in server.added.items()}


@pytest.mark.law("L6")
async def test_each_tenants_gateway_gets_its_own_turns_alone_and_a_third_tenants_reach_none(world: World) -> None:
    """Deliveries as workers make them, on kept connections; the third tenant opens no row for the gateway's stage."""
    acme, globex, other = [await tenant(world, name) for name in ("acme", "globex", "initech")]
    with gateway("user-a", "uk_a") as first, gateway("user-b", "uk_b") as second:
        await hand_to(world.database, acme, first.url, user="user-a", key="uk_a")
        await hand_to(world.database, globex, second.url, user="user-b", key="uk_b")
        for n in range(3):
            for host, name in ((acme, "acme"), (globex, "globex"), (other, "initech")):
                answer = await say(world, host, f"{name} {n}")
                assert answer.delivers is (host != other)
        await drain(world, gateways=build_delivery_clients(SETTINGS, world.database))
        assert arrived(first) == {"chat:default/s": ["acme 0", "acme 1", "acme 2"]}
        assert arrived(second) == {"chat:default/s": ["globex 0", "globex 1", "globex 2"]}
        assert (len(first.flushed), len(second.flushed)) == (3, 3)
    rows = await world.sql("select distinct host_id, status from afterturn.ledger_t where stage = 'gateway'")
    assert {tuple(row) for row in rows} == {(acme, "flushed"), (globex, "flushed")}


async def test_equal_session_names_of_two_banks_never_merge(world: World) -> None:
    with gateway() as server:
        await world.hand_to(server.url)
        for bank in ("plans", "notes"):
            await say(world, HOST, f"in {bank}", bank=bank)
        await drain(world)
        assert arrived(server) == {"chat:plans/s": ["in plans"], "chat:notes/s": ["in notes"]}


async def test_the_target_of_a_bank_goes_before_the_tenants(world: World) -> None:
    with gateway() as tenants, gateway("user-b", "uk_b") as banks:
        await world.hand_to(tenants.url)
        await world.hand_to(banks.url, bank="plans", user="user-b", key="uk_b")
        await say(world, HOST, "in plans", bank="plans")
        await say(world, HOST, "in notes", bank="notes")
        await drain(world)
        assert (arrived(banks), arrived(tenants)) == ({"chat:s": ["in plans"]}, {"chat:notes/s": ["in notes"]})


@pytest.mark.law("L9")
async def test_what_was_accepted_for_a_target_goes_to_it_though_another_took_its_place(world: World) -> None:
    """A turn that waits, and one whose add is made: both end where they began, and later turns at the new gateway."""
    with gateway() as old, gateway("user-b", "uk_b") as new:
        await world.hand_to(old.url)
        await say(world, HOST, "added before", session="a")
        async with Crew(world, gateways=Clients(world.database)) as crew:
            claim = await claimed(world)
            for status in ("adding", "added"):
                await DeliveryWriter(world.database).step(claim, claim.rows[0].item_id, status)
            await world.expire_leases()
            await say(world, HOST, "waited before")
            await world.hand_to(new.url, user="user-b", key="uk_b")
            await say(world, HOST, "after")
            await crew.drain(Stage.GATEWAY)
        assert arrived(old) == {"chat:default/s": ["waited before"]}
        assert sorted(old.flushed) == ["chat:default/a", "chat:default/s"]
        assert arrived(new) == {"chat:default/s": ["after"]}
        assert new.flushed == ["chat:default/s"]
    states = {one.target.user.user_id: one.target.state for one in await GatewayTargets(world.database).list()}
    assert states == {USER: "replaced", "user-b": "in force"}


async def test_a_target_that_is_set_again_with_another_key_uses_that_for_what_waits(world: World) -> None:
    with gateway(key="uk_new") as server:
        before = await world.hand_to(server.url, key="uk_old")
        await say(world, HOST, "waits")
        after = await world.hand_to(server.url, key="uk_new")
        assert before.target_id == after.target_id
        await drain(world)
        assert arrived(server) == {"chat:default/s": ["waits"]}


async def test_unset_ends_what_waits_with_a_reason_and_sends_nothing_more(world: World) -> None:
    with gateway() as server:
        await world.hand_to(server.url)
        for n in range(3):
            await say(world, HOST, f"waits {n}", session=f"s{n}")
        claim = await claimed(world)
        targets, skipped = await GatewayTargets(world.database).unset(HOST, None, "ops")
        assert (len(targets), skipped) == (1, 3)
        async with Crew(world) as crew:
            await crew.runner(Stage.GATEWAY)._work_piece([claim])
            await crew.drain(Stage.GATEWAY)
        assert await deliveries(world) == [("skipped", "unset", UNSET)] * 3
        assert not (await say(world, HOST, "after")).delivers
        assert server.server.seen == []
    notes = await world.sql(
        "select payload->>'by' as by from afterturn.audit_event_t where event = 'operator_unset_gateway'"
    )
    assert [row.by for row in notes] == ["ops"] * 3
    [row] = await world.sql("select sealed_key from afterturn.gateway_target_t")
    assert row.sealed_key is None


async def test_what_is_accepted_while_a_target_is_unset_is_skipped_by_the_worker(world: World) -> None:
    """The row was opened by an append that did not see the end of the target yet."""
    with gateway() as server:
        await world.hand_to(server.url)
        await say(world, HOST, "late")
        await world.sql("update afterturn.gateway_target_t set unset_at = now(), sealed_key = null")
        await drain(world)
        assert server.server.seen == []
    assert await deliveries(world) == [("skipped", "unset", UNSET)]


@pytest.mark.law("L9")
async def test_a_delivery_that_may_have_begun_when_its_target_is_unset_ends_by_its_own_rules(world: World) -> None:
    with gateway() as server:
        await world.hand_to(server.url)
        for session, statuses in (("a", ["adding"]), ("b", ["adding", "added"])):
            await say(world, HOST, session, session=session)
            claim = await claimed(world)
            for status in statuses:
                await DeliveryWriter(world.database).step(claim, claim.rows[0].item_id, status)
        assert (await GatewayTargets(world.database).unset(HOST, None, "ops"))[1] == 0
        await world.expire_leases()
        await drain(world)
        assert server.server.seen == []
    assert await deliveries(world) == [
        ("add_unknown", "unknown", "outcome unknown: the gateway may have it"),
        ("flush_failed", "unset", UNSET),
    ]


@pytest.mark.law("L6")
async def test_a_user_of_a_gateway_belongs_to_one_tenant_or_bank_for_good(world: World) -> None:
    """Its memory would tell the second what the first said, whether the first is unset or not."""
    other = await tenant(world, "acme")
    await world.hand_to("https://Gateway.example.com:443/")
    await GatewayTargets(world.database).unset(HOST, None, "ops")
    for host, bank in ((other, None), (HOST, BANK)):
        with pytest.raises(TargetTaken, match="host 'default'"):
            await hand_to(world.database, host, "https://gateway.example.com", bank=bank)
    await hand_to(world.database, other, "https://gateway.example.com", project="acme")
    again = await world.hand_to("https://gateway.example.com")
    assert again.state == "in force"


async def test_a_host_that_is_not_there_gets_no_target(world: World) -> None:
    with pytest.raises(NotFound):
        await hand_to(world.database, uuid4(), closed_port())


async def test_a_target_whose_key_cannot_be_opened_fails_with_a_reason_and_is_retried_when_it_can(world: World) -> None:
    with gateway() as server:
        await world.hand_to(server.url)
        await say(world, HOST, "waits")
        blind = SETTINGS.model_copy(update={"sealing_keys": SecretStr(Fernet.generate_key().decode())})
        await drain(world, gateways=build_delivery_clients(blind, world.database), max_attempts=1)
        [(status, category, reason)] = await deliveries(world)
        assert (status, category) == ("add_failed", "unusable_target")
        assert reason == "the key of the gateway target cannot be opened: none of gateway.sealing_keys opens it"
        items = await world.sql("""
            select afterturn.retry_rows(host_id, stage, array[item_id], 'ops') from afterturn.ledger_t
             where stage = 'gateway'""")
        assert len(items) == 1
        await drain(world)
        assert arrived(server) == {"chat:default/s": ["waits"]}


async def test_the_settings_gateway_is_that_of_their_host_and_of_no_other(world: World) -> None:
    other, targets = await tenant(world, "acme"), GatewayTargets(world.database)
    with gateway() as server:
        whose = GatewayUser(canonical_url(server.url), USER)
        set_up = await targets.follow_settings("default", whose, ("current_chat",), "settings")
        assert set_up is not None
        assert (await say(world, HOST, "here")).delivers
        assert not (await say(world, other, "elsewhere")).delivers
        told = {"mode": GatewayMode.URL, "base_url": server.url, "user_id": USER, "user_key": SecretStr(KEY)}
        with pytest.raises(TargetUnusable, match="name another gateway"):
            TargetAccess(SETTINGS)(set_up)
        await drain(world, gateways=build_delivery_clients(SETTINGS.model_copy(update=told), world.database))
        assert arrived(server) == {"chat:default/s": ["here"]}
        assert await targets.follow_settings("default", None, (), "settings") is None
        assert not (await say(world, HOST, "off")).delivers


async def test_settings_that_name_another_gateway_end_what_waits_for_the_one_before(world: World) -> None:
    """Of that one nobody has the key any more, and the new one is told nothing that was accepted for it."""
    targets = GatewayTargets(world.database)
    await targets.follow_settings("default", GatewayUser(closed_port(), "before"), ("current_chat",), "settings")
    await say(world, HOST, "waits")
    await targets.follow_settings("default", GatewayUser(closed_port(), "now"), ("current_chat",), "settings")
    assert await deliveries(world) == [("skipped", "unset", UNSET)]
    assert (await say(world, HOST, "after")).delivers
    await targets.follow_settings("acme", GatewayUser(closed_port(), "acme"), ("current_chat",), "settings")
    [left] = await targets.list()
    assert (left.host, left.target.user.user_id) == ("acme", "acme")


async def test_a_target_that_an_operator_set_goes_before_the_settings(world: World) -> None:
    set_up = await world.hand_to(closed_port())
    found = await GatewayTargets(world.database).follow_settings(
        "default", GatewayUser(closed_port(), "of the settings"), ("current_chat",), "settings"
    )
    assert found is not None
    assert found.target_id == set_up.target_id


async def test_keys_are_sealed_anew_and_open_with_the_new_sealing_key_alone(world: World) -> None:
    target, targets, new = (
        await world.hand_to(closed_port()),
        GatewayTargets(world.database),
        Fernet.generate_key().decode(),
    )
    both = Sealer([new, SEALING])
    assert await targets.reseal(
        target, both.seal(both.open(target.sealed_key or "", target.seal_place), target.seal_place)
    )
    [again] = await targets.sealed()
    assert Sealer([new]).open(again.sealed_key or "", again.seal_place) == KEY
    with pytest.raises(SealBroken):
        Sealer([SEALING]).open(again.sealed_key or "", again.seal_place)


async def test_a_sealed_key_opens_at_no_other_address(world: World) -> None:
    """Who can write to the database cannot have the key sent elsewhere."""
    await world.hand_to("https://gateway.example.com")
    await world.sql("update afterturn.gateway_target_t set base_url = 'https://evil.example.com'")
    [moved] = await GatewayTargets(world.database).sealed()
    with pytest.raises(TargetUnusable, match="sealed for another gateway target"):
        TargetAccess(SETTINGS)(moved)


@pytest.mark.law("L6")
@pytest.mark.parametrize(
    "change", ["app_id = 'other'", "project_id = 'other'", "bank_id = gen_random_uuid()", "user_id = 'other'"]
)
async def test_a_sealed_key_opens_for_no_other_memory_than_it_was_sealed_for(world: World, change: str) -> None:
    await world.hand_to("https://gateway.example.com")
    await world.sql(f"update afterturn.gateway_target_t set {change}")
    [moved] = await GatewayTargets(world.database).sealed()
    with pytest.raises(TargetUnusable, match="sealed for another gateway target"):
        TargetAccess(SETTINGS)(moved)


@pytest.mark.law("L7")
async def test_a_key_stands_in_no_log_repr_exception_audit_or_table(
    world: World, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with gateway(key=SECRET) as server:
        server.fault = lambda _operation, body: Response(f"echo {body}", status_code=401)
        target = await world.hand_to(server.url, key=SECRET)
        await say(world, HOST, "one")
        await drain(world)
        access = TargetAccess(SETTINGS)(target)
        shown = [repr(target), repr(access), repr(Clients(world.database).client(target)), repr(target.user)]
        with pytest.raises(SealBroken) as broken:
            Sealer([Fernet.generate_key().decode()]).open(target.sealed_key or "", target.seal_place)
        assert access.user_key == SECRET
        shown += [repr(broken.value), repr(broken.value.__context__), repr(await GatewayTargets(world.database).list())]
        with pytest.raises(TargetTaken) as taken:
            await hand_to(world.database, HOST, server.url, bank=BANK, key=SECRET)
    shown += [repr(taken.value), caplog.text, *capsys.readouterr()]
    written = "\n".join(shown) + await dump(world.postgres)
    assert "unauthorized" in written
    assert SECRET not in written


def target_of(bank: UUID | None) -> GatewayTarget:
    row: dict[str, Any] = {"host_id": HOST, "target_id": uuid4(), "bank_id": bank, "scope": [], "of_settings": False}
    names = {"base_url": None, "user_id": "u", "app_id": "a", "project_id": "p", "sealed_key": None}
    return GatewayTarget.of(row | names | dict.fromkeys(("set_at", "replaced_at", "unset_at")))


TENANTS, BANKS = target_of(None), target_of(BANK)
LONG = "chat:" + "b" * 100 + "/" + "s" * 100
SHORTENED = LONG[:64] + "~" + hashlib.sha256(LONG.encode()).hexdigest()[:32]
PLACES = st.tuples(
    st.text("ab/~0é", min_size=1, max_size=256).filter(lambda name: len(name.encode()) <= 256),
    st.text("ab~0é", min_size=1, max_size=128).filter(lambda name: len(name.encode()) <= 128),
)


@given(one=PLACES, other=PLACES)
@example(one=("a/b", "c"), other=("a", "b"))
@example(one=("b" * 100, "s" * 100), other=(SHORTENED[5:].partition("/")[0], SHORTENED.partition("/")[2] or "x"))
def test_no_two_sessions_are_called_the_same_at_a_tenants_gateway(one: tuple[str, str], other: tuple[str, str]) -> None:
    names = [TENANTS.session(*place) for place in (one, other)]
    assert (names[0] == names[1]) is (one == other)
    assert all(name.startswith("chat:") and len(name.encode()) <= 128 for name in names)


def test_a_session_that_is_called_as_a_long_one_is_shortened_is_another() -> None:
    long = "s" * 128
    called = BANKS.session("b", long)
    assert called == ("chat:" + long)[:64] + "~" + hashlib.sha256(("chat:" + long).encode()).hexdigest()[:32]
    assert BANKS.session("b", called.removeprefix("chat:")) != called
    assert BANKS.session("b", "s" * 123) == "chat:" + "s" * 123


def test_a_session_whose_names_were_erased_is_called_nothing() -> None:
    assert [TENANTS.session("", "s"), TENANTS.session("b", ""), BANKS.session("", "")] == ["", "", ""]
    assert BANKS.session("", "s") == "chat:s"
