"""`--gateway self`: this service delivers to its own /memories/*, keeps no second copy, and erasure leaves nothing."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from pydantic import SecretStr

from deploy.components.gateways import TargetAccess
from producers.settings import ApiSettings
from store import identity
from store.erasure import Erasures, Kind
from store.erasure import ErasureTarget as Erased
from store.ledger.stages import Stage
from store.tenancy.gateway_targets import GatewayTarget, GatewayTargets, GatewayUser
from tests.producers.conftest import World as Api
from tests.producers.conftest import broker_of, build
from tests.servers import TestPostgres, TestValkey
from tests.store.erasure.dump import dump, lines_with
from tests.workers.conftest import HOST, World, dialogue, now, open_world
from tests.workers.stages import Crew
from tests.workers.targets import SETTINGS, Clients
from workers.settings import GatewayMode

SECRET = "Wintermoorbach"
BASE = "http://127.0.0.1:8300"


class Own(Clients):
    """Clients that call the application of this process, as the settings of `--gateway self` say."""

    def __init__(self, world: World, api: Api, key: str) -> None:
        super().__init__(world.database, transport=httpx.ASGITransport(api.app))
        told = {"mode": GatewayMode.SELF, "base_url": BASE, "user_id": "self", "user_key": SecretStr(key)}
        self._access = TargetAccess(SETTINGS.model_copy(update=told))


@dataclass
class Stack:
    """A host whose turns its own service gets once more."""

    world: World
    api: Api
    key: str
    target: GatewayTarget

    async def work(self) -> None:
        async with Crew(self.world, gateways=Own(self.world, self.api, self.key)) as crew:
            await crew.drain()

    async def units(self) -> int:
        rows = await self.world.sql("select count(*) as n from afterturn.agent_memory_unit_t where origin = 'message'")
        return int(rows[0].n)


@pytest_asyncio.fixture(loop_scope="session")
async def stack(fresh_database: TestPostgres, valkey: TestValkey) -> AsyncIterator[Stack]:
    world = await open_world(fresh_database)
    api = build(fresh_database, broker_of(valkey.url, f"self-{uuid4().hex}"), settings=ApiSettings())
    key = await api.keys.create("default", "self", gateway_user="self")
    whose = GatewayUser(None, "self")
    target = await GatewayTargets(world.database).follow_settings("default", whose, ("current_chat",), "settings")
    assert target is not None
    yield Stack(world, api, key, target)
    await api.close()
    await world.database.close()


async def said(stack: Stack, secret: str = SECRET) -> None:
    told = dialogue(f"My name is {secret}. I live in {secret}ville.", f"Welcome, {secret}!")
    await stack.world.append("s", "t", messages=told)
    await stack.work()


async def test_a_turn_is_delivered_to_the_service_itself_and_is_there_once(stack: Stack) -> None:
    await said(stack)
    assert await stack.world.statuses(Stage.GATEWAY) == ["flushed"]
    assert await stack.units() == 2
    banks = await stack.world.sql("select bank_name from afterturn.agent_memory_bank_t")
    assert [row.bank_name for row in banks] == ["default"]


@pytest.mark.law("L11")
@pytest.mark.parametrize("kind", [Kind.UNIT, Kind.SESSION, Kind.BANK, Kind.USER])
async def test_after_an_erasure_the_text_stands_nowhere_in_the_database(stack: Stack, kind: Kind) -> None:
    await said(stack)
    assert lines_with(await dump(stack.world.postgres), SECRET)
    erasures = Erasures(stack.world.database, now)
    names = {Kind.SESSION: "s", Kind.BANK: ""}
    units = await stack.world.sql("select unit_id from afterturn.agent_memory_unit_t where origin = 'message'")
    wanted = [str(unit.unit_id) for unit in units] if kind is Kind.UNIT else [names.get(kind, "")]
    for name in wanted:
        target = Erased(kind, None if kind is Kind.USER else "default", name)
        receipt = await erasures.run(HOST, await erasures.request(HOST, target))
        assert receipt.delivered == {}, "nothing has left this service"
    await stack.work()
    assert lines_with(await dump(stack.world.postgres), SECRET) == []


async def test_what_was_erased_while_it_was_on_its_way_is_not_stored_when_it_arrives(stack: Stack) -> None:
    await said(stack)
    [unit] = await stack.world.sql("select turn_id from afterturn.agent_memory_unit_t where role = 'user'")
    erasures = Erasures(stack.world.database, now)
    await erasures.run(HOST, await erasures.request(HOST, Erased(Kind.SESSION, "default", "s")))
    reply = await add(stack, turn_id=str(unit.turn_id))
    assert reply.status_code == 404
    assert lines_with(await dump(stack.world.postgres), SECRET) == []


@pytest.mark.law("L6")
async def test_nobody_learns_from_a_turns_id_whether_it_is_there(stack: Stack) -> None:
    """Ids follow from names: whoever guesses those of another user's turn gets the answer of one that never was."""
    await said(stack)
    bank = identity.bank_id(HOST, "~ann/diary")
    private = identity.turn_id(identity.session_id(bank, "s"), "t")
    await stack.world.append("s", "t", bank="~ann/diary")
    mallory = await stack.api.keys.create("default", "mallory", gateway_user="mallory")
    for key, who in ((stack.key, "self"), (mallory, "mallory")):
        answers = [
            await add(stack, key, who, turn_id=str(turn))
            for turn in (private, identity.turn_id(identity.session_id(bank, "s"), "never"))
        ]
        assert [one.status_code for one in answers] == [404, 404]
        assert len({one.json()["error"]["message"] for one in answers}) == 1


@pytest.mark.law("L11")
async def test_no_name_of_a_session_or_bank_outlives_its_erasure(stack: Stack) -> None:
    """The operator's role reads the audit of deliveries: it names a session by its id."""
    named, erasures = f"session of {SECRET}", Erasures(stack.world.database, now)
    await stack.world.append(named, "t", bank=f"bank-{SECRET}")
    await stack.world.append(named, "t")
    await stack.work()
    audit = await stack.world.sql("select event, cast(a as text) as line from afterturn.audit_event_t a")
    assert {row.event for row in audit} >= {"memory_gateway_add_succeeded", "memory_gateway_flush_succeeded"}
    assert not [row.line for row in audit if SECRET in row.line]
    for target in (Erased(Kind.SESSION, "default", named), Erased(Kind.BANK, f"bank-{SECRET}")):
        assert (await erasures.run(HOST, await erasures.request(HOST, target))).done
    await stack.work()
    assert lines_with(await dump(stack.world.postgres), SECRET) == []


async def test_messages_of_a_turn_nobody_knows_are_refused_and_those_of_others_are_stored(stack: Stack) -> None:
    other = identity.turn_id(HOST, "elsewhere")
    reply = await add(stack, turn_id=str(other))
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "NOT_FOUND")
    assert await stack.units() == 0
    assert (await add(stack)).json()["data"]["message_count"] == 1
    assert await stack.units() == 1


async def test_another_tenants_turn_is_no_reason_to_keep_nothing(stack: Stack) -> None:
    await said(stack)
    [unit] = await stack.world.sql("select turn_id from afterturn.agent_memory_unit_t where role = 'user'")
    key = await stack.api.keys.create("acme", "self", gateway_user="self")
    reply = await add(stack, turn_id=str(unit.turn_id), key=key)
    assert reply.status_code == 404


async def test_a_foreign_gateway_is_never_told_which_turn_it_gets(stack: Stack) -> None:
    sent: list[dict[str, Any]] = []

    def note(request: httpx.Request) -> httpx.Response:
        sent.append(dict(httpx.Response(200, content=request.content).json()))
        return httpx.Response(200, json={})

    await GatewayTargets(stack.world.database).unset(HOST, None, "ops")
    await stack.world.hand_to("https://gateway.example.com")
    await stack.world.append("s", "t")
    clients = Clients(stack.world.database, transport=httpx.MockTransport(note))
    async with Crew(stack.world, gateways=clients) as crew:
        await crew.drain(Stage.GATEWAY)
    assert [set(body) for body in sent] == [
        {"user_id", "user_key", "session_id", "app_id", "project_id", "messages"},
        {"user_id", "user_key", "session_id", "app_id", "project_id"},
    ]


async def add(stack: Stack, key: str | None = None, user: str = "self", **more: str) -> httpx.Response:
    """Add one message as the service itself does; `turn_id` says of which turn."""
    fields = {f"afterturn_{name}": value for name, value in more.items()}
    message = {"sender_id": "self", "role": "user", "timestamp": 1, "content": f"I am {SECRET}"}
    who = {"user_id": user, "user_key": key or stack.key, "session_id": "chat:default/s"}
    async with stack.api.client() as client:
        return await client.post("/memories/add", json={**who, "messages": [message], **fields})
