"""Stacks without an API, for operators' commands; a server on loopback, for those that ask the API."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.client.loopback import Loopback, loopback
from tests.deploy.operated import Busy, Operated, busy_stack, laid_out
from tests.servers import TestPostgres, TestValkey


@pytest.fixture
def operated(tmp_path: Path, fresh_database: TestPostgres, valkey: TestValkey) -> Iterator[Operated]:
    """A stack that nobody has used yet."""
    folder = tmp_path / "data"
    with laid_out(folder, fresh_database, valkey.url):
        (folder / "api-key").write_text("at_some-key")
        (folder / "api-key").chmod(0o600)
        yield Operated(folder, fresh_database)


@pytest.fixture
async def busy(tmp_path: Path, fresh_database: TestPostgres, valkey: TestValkey) -> AsyncIterator[Busy]:
    """A stack with a host and nothing in it."""
    async with busy_stack(tmp_path / "data", fresh_database, valkey) as made:
        yield made


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    with loopback() as running:
        yield running
