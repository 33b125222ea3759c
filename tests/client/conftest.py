from collections.abc import Iterator

import pytest

from tests.client.loopback import Loopback, loopback
from tests.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose a project's name is, each test finds out anew; and a busy machine has its time."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    monkeypatch.setenv("AFTERTURN_HOOK_SECONDS", str(PATIENCE_S))


@pytest.fixture(scope="module")
def running() -> Iterator[Loopback]:
    with loopback() as server:
        yield server


@pytest.fixture
def server(running: Loopback) -> Loopback:
    running.reset()
    return running
