from collections.abc import Iterator

import pytest

from tests.client.loopback import Loopback, loopback


@pytest.fixture
def server() -> Iterator[Loopback]:
    with loopback() as running:
        yield running
