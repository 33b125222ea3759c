from collections.abc import Iterator

import pytest

from tests.client.loopback import Loopback, loopback


@pytest.fixture(scope="module")
def running() -> Iterator[Loopback]:
    with loopback() as server:
        yield server


@pytest.fixture
def server(running: Loopback) -> Loopback:
    running.reset()
    return running
