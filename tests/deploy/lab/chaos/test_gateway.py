"""The gateway of a chaos run, and the saboteur before it, as the service's own gateway client meets them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from afterturn_client.errors import GatewayError
from afterturn_client.gateway import GatewayClient, GatewayMessage

from deploy.lab.chaos.gateway import GatewayHandle, ProcessGone, run_gateway
from deploy.lab.chaos.gateway_process import AnswerMode
from deploy.lab.chaos.sabotage import ADDS_BEFORE, Sabotage, place_before_gateway

PATIENCE_S = 1.5


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayHandle]:
    with run_gateway(tmp_path_factory.mktemp("gateway"), slow_seconds=2 * PATIENCE_S) as gateway:
        yield gateway


async def add(url: str, session: str, word: str) -> GatewayError | None:
    messages = [GatewayMessage("chaos", "user", 1, word), GatewayMessage("beaver", "assistant", 1, word)]
    async with GatewayClient(url, "chaos", "a-secret", timeout_seconds=PATIENCE_S) as client:
        try:
            await client.add(session, messages)
        except GatewayError as error:
            return error
    return None


def words(gateway: GatewayHandle, session: str) -> list[str]:
    calls = [call.body for call in gateway.recorded() if call.body["session_id"] == f"chat:{session}"]
    return [body["messages"][0]["content"] for body in calls]


@pytest.mark.parametrize(
    "mode, status, unknown",
    [
        (AnswerMode.SLOW, None, True),
        (AnswerMode.HANG, None, True),
        (AnswerMode.LIMITED, 429, False),
        (AnswerMode.BROKEN, 503, False),
    ],
)
async def test_a_call_is_on_disk_whatever_its_answer_is(
    gateway: GatewayHandle, mode: AnswerMode, status: int | None, *, unknown: bool
) -> None:
    gateway.order(mode, 1)
    error = await add(gateway.url, mode, "spoiled")
    assert error is not None
    assert (error.status, error.unknown) == (status, unknown)
    assert await add(gateway.url, mode, "well") is None
    assert words(gateway, mode) == ["spoiled", "well"]


async def test_garbage_is_no_json_or_no_http(gateway: GatewayHandle) -> None:
    gateway.order(AnswerMode.GARBAGE, 2)
    errors = [await add(gateway.url, "garbage", "spoiled") for _ in range(2)]
    assert {error.category for error in errors if error} == {"invalid_json", "connection"}
    assert words(gateway, "garbage") == ["spoiled", "spoiled"]


async def test_a_door_that_is_shut_lets_nothing_in_and_opens_again(gateway: GatewayHandle) -> None:
    gateway.order(AnswerMode.REFUSE)
    error = await add(gateway.url, "refuse", "unsent")
    assert error is not None
    assert error.unsent
    gateway.order(AnswerMode.OK)
    assert await add(gateway.url, "refuse", "well") is None
    assert words(gateway, "refuse") == ["well"]


def test_the_file_keeps_no_secret(gateway: GatewayHandle) -> None:
    assert all("user_key" not in call.body for call in gateway.recorded())


def test_a_gateway_that_is_gone_is_told(tmp_path: Path) -> None:
    with run_gateway(tmp_path, 1.0) as gone:
        pass
    with pytest.raises((ProcessGone, ValueError)):
        gone.left()


@pytest.mark.parametrize(
    "sabotage, seen",
    [
        (Sabotage.DOUBLE_SEND, ["one", "one", "two", "three"]),
        (Sabotage.REORDER, ["two", "one", "three"]),
        (Sabotage.DROP, ["one", "two", "three"]),
    ],
)
async def test_the_saboteur_tampers_with_one_add(gateway: GatewayHandle, sabotage: Sabotage, seen: list[str]) -> None:
    with place_before_gateway(gateway, sabotage) as url:
        for nth in range(ADDS_BEFORE):
            assert await add(url, f"before-{sabotage}", str(nth)) is None
        for word in ("one", "two", "three"):
            assert await add(url, f"session-{sabotage}", word) is None
    assert words(gateway, f"before-{sabotage}") == [str(nth) for nth in range(ADDS_BEFORE)]
    assert words(gateway, f"session-{sabotage}") == seen


@pytest.mark.parametrize(
    "sabotage, refused, seen",
    [(Sabotage.DOUBLE_SEND, "one", ["two", "two", "three"]), (Sabotage.REORDER, "two", ["three", "one"])],
)
async def test_a_saboteur_whom_the_gateway_refused_tries_again(
    gateway: GatewayHandle, sabotage: Sabotage, refused: str, seen: list[str]
) -> None:
    with place_before_gateway(gateway, sabotage) as url:
        for nth in range(ADDS_BEFORE):
            assert await add(url, f"first-{sabotage}", str(nth)) is None
        for word in ("one", "two", "three"):
            gateway.order(AnswerMode.REFUSE if word == refused else AnswerMode.OK)
            assert bool(await add(url, f"again-{sabotage}", word)) == (word == refused)
    assert words(gateway, f"again-{sabotage}") == seen
