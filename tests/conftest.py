"""Fixtures of every room: a real PostgreSQL with pgvector and a real Valkey, one of each for the run."""

import gc
import os
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any
from uuid import uuid4

import hypothesis
import pytest
import pytest_asyncio
import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import SESSION_DEFAULTS
from tests.emptied import Lender
from tests.examples import SEARCH, examples
from tests.figures import shown
from tests.groups import group_by_fixtures
from tests.left_behind import look_at_process, name_changes
from tests.live import mark_live
from tests.servers import Servers, TestPostgres, TestValkey, connected

# How fast examples are made says how busy the machine is, and nothing of the code. Every run draws the same examples,
# so that what was green stays green; with AFTERTURN_EXAMPLES=1000 it draws so many new ones: that is how to search.
hypothesis.settings.register_profile(
    "any machine",
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    deadline=None,
    derandomize=SEARCH is None,
    max_examples=examples(40),
)
hypothesis.settings.load_profile("any machine")

SERVERS = pytest.StashKey[Servers]()
PROCESS = pytest.StashKey[Mapping[str, object]]()


def pytest_configure(config: pytest.Config) -> None:
    # A run in the background is born deaf to Ctrl-C, and so would be every command that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # pytest 9.1 loses the fixtures of a folder where a file of the folder above is named between two of its files.
    config.args.sort()
    # What is collected stays: a look for garbage among thousands of tests finds none, and costs a fifth of collecting.
    gc.disable()
    # A transaction of a test idles as long as a busy or stopped machine has it wait.
    SESSION_DEFAULTS["idle_in_transaction_session_timeout"] = "2min"
    if not hasattr(config, "workerinput"):
        config.stash[SERVERS] = Servers()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hand the controller's servers to an xdist worker; they start before the first worker does."""
    node.workerinput["servers"] = node.config.stash[SERVERS].urls()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make test` leaves out, before `-m` chooses, and what one process of it runs."""
    mark_live(items)
    group_by_fixtures(items)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Exempt what was collected from garbage collection, which works for the tests themselves from here on."""
    gc.freeze()
    # A full pass walks through all that stays with the process, caches above all: a tenth of the passes do.
    gc.set_threshold(700, 10, 100)
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Look at the process before any fixture of a test is made."""
    item.stash[PROCESS] = look_at_process()
    yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail where a test, or a fixture that stays after it, has changed the process for those after it."""
    yield
    if changed := name_changes(item.stash[PROCESS], look_at_process()):
        pytest.fail(f"the process is not as it was before this test: {', '.join(changed)}", pytrace=False)


@pytest.fixture(autouse=True)
def _logging_is_put_back() -> Iterator[None]:
    """Undo what a command that runs in the test's process says of its log: a process of its own would end with it."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show figures however many processes ran the tests."""
    ended = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    if figures := shown(report for report in ended if isinstance(report, pytest.TestReport)):
        terminalreporter.section("figures")
        for figure in figures:
            terminalreporter.write_line(figure)


def pytest_unconfigure(config: pytest.Config) -> None:
    servers = config.stash.get(SERVERS, None)
    if servers is not None:
        servers.stop()


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest) -> tuple[TestPostgres, TestValkey]:
    """The run's two servers as this test process may use them."""
    worker = getattr(request.config, "workerinput", None)
    if worker is None:
        return connected(request.config.stash[SERVERS].urls())
    number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    return connected(worker["servers"], number)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def postgres(servers: tuple[TestPostgres, TestValkey]) -> TestPostgres:
    """A migrated database of this test process alone, kept for the run."""
    server, _ = servers
    return await server.create(f"run_{uuid4().hex}")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def administrator(servers: tuple[TestPostgres, TestValkey]) -> AsyncIterator[AsyncConnection]:
    """Who makes and drops the databases of single tests."""
    async with servers[0].administrator() as connection:
        yield connection


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def lender(servers: tuple[TestPostgres, TestValkey], administrator: AsyncConnection) -> AsyncIterator[Lender]:
    """The databases of this test process that serve one test after another."""
    lender = Lender(servers[0], administrator)
    yield lender
    await lender.close()


@pytest_asyncio.fixture(loop_scope="session")
async def fresh_database(request: pytest.FixtureRequest, lender: Lender) -> AsyncIterator[TestPostgres]:
    """A migrated, empty database of one test alone: of one marked `untouched`, made for it and dropped afterwards."""
    if request.node.get_closest_marker("untouched"):
        database = await lender.server.create(f"test_{uuid4().hex}", by=lender.administrator)
        yield database
        await database.drop(by=lender.administrator)
    else:
        kept = await lender.lend()
        yield kept.postgres
        lender.take_back(kept)


@pytest.fixture(scope="session")
def valkey(servers: tuple[TestPostgres, TestValkey]) -> TestValkey:
    """A numbered database of the run's Valkey that no other test process uses."""
    return servers[1]
