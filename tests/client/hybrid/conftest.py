from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.client.hybrid.worlds import ANSWER, World, config, gateway_answers, model_answers, says, world
from tests.client.loopback import Loopback, loopback


@pytest.fixture(scope="module")
def two_servers() -> Iterator[tuple[Loopback, Loopback]]:
    with loopback() as gateway, loopback() as model:
        yield gateway, model


@pytest.fixture
def gateway(two_servers: tuple[Loopback, Loopback]) -> Loopback:
    two_servers[0].reset()
    gateway_answers(two_servers[0])
    return two_servers[0]


@pytest.fixture
def model(two_servers: tuple[Loopback, Loopback]) -> Loopback:
    two_servers[1].reset()
    model_answers(two_servers[1], says(ANSWER))
    return two_servers[1]


@pytest.fixture
async def hybrid(tmp_path: Path, gateway: Loopback, model: Loopback) -> AsyncIterator[World]:
    """An agent in explicit hybrid mode."""
    async with world(config(gateway), tmp_path, gateway, model) as made:
        yield made
