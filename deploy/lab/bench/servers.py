"""What a benchmark runs on: the running stack, else a private stack, or a private PostgreSQL, removed afterwards."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from deploy.local import EmbeddedPostgres, PostgresEndpoint
from deploy.local.private_folder import DATA, open_private_folder
from deploy.local.private_stack import run_private_stack
from deploy.local.stack import Stack, StackNotRunning, find_stack
from store import migrations


@dataclass(frozen=True, slots=True)
class BenchServers:
    """The URLs of a database, one per role; `shared` when workers of a running stack use it too."""

    app_url: SecretStr
    operator_url: SecretStr
    owner_url: SecretStr
    shared: bool

    def __str__(self) -> str:
        return "the running stack" if self.shared else "a private PostgreSQL"


@dataclass(frozen=True, slots=True)
class BenchStack:
    """A stack; a `private` one belongs to the benchmark, so it may be put under load."""

    stack: Stack
    private: bool = True

    def __str__(self) -> str:
        return "a private stack" if self.private else "the running stack"


@contextmanager
def open_bench_stack(data: Path | None, workers: int | None = None) -> Iterator[BenchStack]:
    """Yield the stack that runs in a data folder (None: the default one), else a private one."""
    try:
        stack = find_stack(data)
    except StackNotRunning:
        with open_private_stack("bench", workers) as private:
            yield private
    else:
        yield BenchStack(stack, private=False)


@contextmanager
def open_private_stack(
    name: str, workers: int | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[BenchStack]:
    """Yield a private stack without a gateway; other stacks on the machine are not touched."""
    with run_private_stack(workers, name=name, gateway="off", environment=environment) as stack:
        yield BenchStack(stack)


@contextmanager
def open_bench_servers(data: Path | None) -> Iterator[BenchServers]:
    """Yield the servers of the stack that runs in a data folder (None: the default one), else private ones."""
    try:
        stack = find_stack(data)
    except StackNotRunning:
        with open_private_database("bench") as private:
            app, operator, owner = map(SecretStr, (private.app_url, private.operator_url, private.owner_url))
            yield BenchServers(app, operator, owner, shared=False)
    else:
        yield find_stack_servers(stack)


def find_stack_servers(stack: Stack) -> BenchServers:
    """Return the database URLs of a running stack."""
    return BenchServers(stack.database_url, stack.operator_url, stack.owner_url, shared=True)


@contextmanager
def open_private_database(name: str, *, durable: bool = True) -> Iterator[PostgresEndpoint]:
    """Yield a private PostgreSQL with our empty schema, started as `afterturn up` would."""
    with open_private_folder(name) as folder:
        postgres = EmbeddedPostgres(folder / DATA, durable=durable)
        try:
            endpoint = postgres.start()
            migrations.upgrade_schema(endpoint.owner_url)
            yield endpoint
        finally:
            postgres.stop()
