"""The tests that contracts/gateway.md (4.6) asks for, as far as they concern the service's own deliveries.

What concerns the run in an agent's process (reference order, rule text, curated layer) stands in tests/client/hybrid;
recall through the gateway in tests/producers/service/test_gateway_recall.py; the state machine in test_gateway.py.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from typing import Any

import pytest
import pytest_asyncio
from pydantic import ValidationError
from starlette.responses import Response

from deploy.components.gateways import TargetAccess, read_gateway_user
from store.ledger.stages import Stage
from store.tenancy.gateway_targets import GatewayTarget
from tests.tables import each_row
from tests.workers.conftest import START, World, dialogue
from tests.workers.gateways import KEY, USER, Gateway, gateway
from tests.workers.stages import Crew
from workers.settings import DeliverySettings, GatewayMode

WHOLE = {"mode": "url", "base_url": "https://gateway.example.com/", "user_id": USER, "user_key": KEY}
AT_MS = int(START.timestamp() * 1000)


@pytest.fixture
def server() -> Iterator[Gateway]:
    with gateway() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def crew(world: World, server: Gateway) -> AsyncIterator[Crew]:
    await world.hand_to(server.url + "/", bank="default", project="project")
    async with Crew(world) as working:
        yield working


def settings(**changed: Any) -> DeliverySettings:
    return DeliverySettings(**{**WHOLE, **changed})


def test_config_no_gateway_is_the_default_and_makes_no_client() -> None:
    assert DeliverySettings().mode is GatewayMode.OFF
    assert read_gateway_user(DeliverySettings()) is None


def test_config_a_gateway_that_is_off_ignores_the_rest_of_its_block() -> None:
    assert read_gateway_user(settings(mode="off", base_url="nonsense")) is None


def test_config_a_full_block_is_taken_as_it_is() -> None:
    whole = settings(app_id="a", project_id="p", scope=["all_user_memory"], timeout_seconds=2.5)
    assert (whole.app_id, whole.project_id, whole.scope, whole.timeout_seconds) == ("a", "p", ("all_user_memory",), 2.5)
    assert (settings().app_id, settings().scope) == ("default", ("current_chat", "resources"))


def test_config_a_scope_that_is_named_twice_is_looked_in_once() -> None:
    scope = ["resources", "current_chat", "resources", "current_chat"]
    assert settings(scope=scope).scope == ("resources", "current_chat")


def test_config_an_address_that_is_no_url_is_refused() -> None:
    with pytest.raises(ValidationError, match="base_url must look like"):
        settings(base_url="gateway.example.com")


@each_row("missing", ["base_url", "user_id", "user_key"])
@each_row("blank", ["", "   "])
def test_config_an_explicit_gateway_without_a_field_is_refused_by_that_name(missing: str, blank: str) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(**{missing: blank})
    (error,) = caught.value.errors()
    assert error["msg"].endswith(f"missing: {missing}")
    assert KEY not in error["msg"]


@each_row(
    "wrong",
    [
        {"mode": "hybrid"},
        {"scope": []},
        {"scope": ["everything"]},
        {"timeout_seconds": 0},
        {"timeout_seconds": -1},
        {"timeout_seconds": float("nan")},
        {"timeout_seconds": float("inf")},
        {"timeout_seconds": True},
        {"recall_seconds": float("nan")},
        {"app_id": ""},
        {"app_id": " "},
        {"project_id": "\t "},
    ],
)
def test_config_a_value_out_of_range_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(**wrong)
    assert {error["loc"][0] for error in caught.value.errors()} == set(wrong)


def test_config_no_repr_shows_the_key() -> None:
    whose = read_gateway_user(settings())
    assert whose is not None
    row = {**asdict(whose), "scope": [], "of_settings": True, "sealed_key": None, "bank_id": None}
    target = GatewayTarget.of(row | dict.fromkeys(("host_id", "target_id", "set_at", "replaced_at", "unset_at")))
    access = TargetAccess(settings())(target)
    assert access.user_key == KEY
    assert KEY not in f"{settings()!r}{settings()}{access!r}{whose!r}"


async def test_http_add_and_flush_have_exactly_the_contracts_paths_and_bodies(
    world: World, server: Gateway, crew: Crew
) -> None:
    await world.append(messages=dialogue("Where is Anna?", "In Kyoto."))
    await crew.drain(Stage.GATEWAY)
    add, flush = server.server.seen
    who = {"user_id": USER, "user_key": KEY, "session_id": "chat:s", "app_id": "default", "project_id": "project"}
    assert (add.raw_path, flush.raw_path) == ("/memories/add", "/memories/flush")
    assert flush.json == who
    assert add.json == {
        **who,
        "messages": [
            {"sender_id": USER, "role": "user", "timestamp": AT_MS, "content": "Where is Anna?"},
            {"sender_id": "beaver", "role": "assistant", "timestamp": AT_MS + 2000, "content": "In Kyoto."},
        ],
    }


@pytest.mark.law("L7")
async def test_service_no_failure_writes_the_key_or_a_text_anywhere(
    world: World, server: Gateway, crew: Crew, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    server.fault = lambda _operation, body: Response(f"echo {body}", status_code=401)
    await world.append(messages=dialogue("Distinctiveria?", "Indistinctive."))
    await crew.drain(Stage.GATEWAY)
    rows = await world.sql("select * from afterturn.ledger_t where stage = 'gateway'")
    noted = await world.sql("select * from afterturn.audit_event_t")
    written = f"{rows}{noted}{caplog.text}{''.join(capsys.readouterr())}"
    assert "unauthorized" in written
    assert KEY not in written
    assert "istinctiv" not in written


async def test_loop_a_failing_gateway_changes_nothing_of_the_turn_elsewhere(
    world: World, server: Gateway, crew: Crew
) -> None:
    server.fault = lambda _operation, _body: Response(status_code=500)
    accepted = await world.append(messages=dialogue("My name is Ana.", "Hello Ana."))
    await crew.drain()
    assert not accepted.duplicate
    for stage in (Stage.EXTRACTION, Stage.EMBEDDING, Stage.PROJECTION):
        assert set(await world.statuses(stage)) == {"done"}
    said = await world.sql("select content from afterturn.agent_memory_unit_t where origin = 'message' order by seq")
    assert [row.content for row in said] == ["My name is Ana.", "Hello Ana."]


async def test_loop_hidden_events_are_no_part_of_the_session(world: World, server: Gateway, crew: Crew) -> None:
    await world.append()
    before = await world.sql("select count(*) as n from afterturn.agent_memory_unit_t")
    await crew.drain(Stage.GATEWAY)
    assert len(await world.sql("select 1 from afterturn.audit_event_t")) == 2
    assert await world.sql("select count(*) as n from afterturn.agent_memory_unit_t") == before
    history = await world.sql("select message_count from afterturn.agent_session_history_t")
    assert [row.message_count for row in history] == [2]
    assert server.flushed == ["chat:s"]


async def test_loop_a_turn_that_asks_for_no_gateway_makes_no_call(world: World, server: Gateway, crew: Crew) -> None:
    await world.append(gateway=False)
    await crew.drain()
    assert server.server.seen == []
