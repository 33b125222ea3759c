"""Runs the whole product on one machine: embedded servers, API and workers under one supervisor."""

import asyncio
import errno
import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.mmap_dict import MmapedDict, mmap_key
from pydantic import SecretStr

from deploy.api.plugin_address import ListenAddress, find_address, find_warning
from deploy.components.bootstrap import (
    API_KEY_FILE,
    HOST,
    OPERATOR_KEY_FILE,
    BootstrapKeys,
    bootstrap_database,
)
from deploy.components.indexing import keep_indexed
from deploy.local import Child, EmbeddedPostgres, EmbeddedValkey, ports, survivors
from deploy.local.errors import FolderUnusable, StartFailed
from deploy.local.folder_lock import FolderLock
from deploy.local.private_files import hide_from_git
from deploy.local.prometheus import describe_prometheus, find_prometheus
from deploy.local.services import Services, describe_api, describe_workers
from deploy.local.stack import FILE, Stack, StackProcess
from deploy.local.supervisor import RunningChild, Supervisor
from deploy.notices import Say
from deploy.observability.disk_space import guard_disk
from deploy.observability.samples import NO_SPACE, clear_samples, reserve_file
from deploy.settings import Settings

#: `Any`, because prometheus_client has no annotations for it.
FILE_OF_SAMPLES: Any = MmapedDict
METRIC = "afterturn_process_deaths"
HELP = "Processes of this stack that ended unasked, by name"


class DeathCounter:
    """Counts deaths by process name in the multi-process format of prometheus_client.

    prometheus_client's counters choose that format from the environment at import, which has already happened
    when a command reaches this point; so the file is written directly.
    """

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        """Create the counters in an existing folder, each at zero."""
        path = folder / f"counter_{os.getpid()}.db"
        reserve_file(path)
        self._file: Any = FILE_OF_SAMPLES(str(path))
        for name in names:
            self._file.read_value(self._key(name))

    def count(self, name: str) -> None:
        """Add one death."""
        key = self._key(name)
        value, _ = self._file.read_value(key)
        self._file.write_value(key, value + 1, 0.0)

    @staticmethod
    def _key(name: str) -> str:
        return str(mmap_key(METRIC, f"{METRIC}_total", ["process"], [name], HELP))


#: Connections of a process per `pool_size`: it has a pool of that size and one of half, and each may double.
CONNECTIONS_A_POOL_SIZE = 3
SPARE_CONNECTIONS = 50
LOAD_SECONDS = 60.0
LOAD_POLL_SECONDS = 0.1
#: Free ports that are tried: two servers start between the choice of a port and listening on it.
PORTS_TRIED = 5


class PortInUse(Exception):
    """The API cannot listen on its port, or the memory plugin not at its configured address."""


@dataclass(frozen=True, slots=True)
class StackFactories:
    """The functions that create what runs beside the servers; tests replace them."""

    api: Callable[[Services], Child] = describe_api
    workers: Callable[[Services, int], Sequence[Child]] = describe_workers
    bootstrap: Callable[..., BootstrapKeys] = bootstrap_database
    #: Background tasks that start when everything runs, and run until they are cancelled.
    chores: Sequence[Callable[..., Awaitable[None]]] = (keep_indexed, guard_disk)


class LocalStack:
    """A local stack in a data folder; `say` prints messages, `ready` is called once with the running stack."""

    def __init__(
        self,
        settings: Settings,
        *,
        worker_count: int,
        say: Say,
        ready: Callable[[Stack], None],
        config: Path | None = None,
        parts: StackFactories | None = None,
        dashboards: bool = False,
    ) -> None:
        """Prepare a stack with `worker_count` workers; with `dashboards`, also a Prometheus that scrapes it.

        Raises StartFailed when `dashboards` is set and Prometheus is not installed.
        """
        self._settings = settings
        self._data = settings.data
        self._worker_count = worker_count
        self._say = say
        self._ready = ready
        self._config = config
        self._parts = parts or StackFactories()
        self._prometheus = find_prometheus() if dashboards else None
        self._dashboards = ""
        self._stack: Stack | None = None
        self._locks: list[FolderLock] = []

    def run(self) -> int:
        """Run the stack and return the exit status: 0 after a signal, 1 when a child died too often.

        No process is left running. Raises FolderInUse, FolderUnusable, PortInUse or StartFailed when it cannot start.
        """
        try:
            return self._run()
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            raise FolderUnusable(f"{self._data} has no space left: free some, or choose another --data") from error

    def _run(self) -> int:
        _make_folder(self._data)
        self._lock_folder(self._data)
        try:
            self._end_survivors()
            self._port = self._free_port()
            self._plugin = self._find_plugin()
            deaths = self._count_deaths()
            self._supervisor = Supervisor(say=self._say, on_death=deaths.count, on_change=self._save_description)
            return asyncio.run(self._supervisor.run(self._start_all))
        finally:
            (self._data / FILE).unlink(missing_ok=True)
            for lock in self._locks:
                lock.release()

    async def _start_all(self) -> None:
        await asyncio.to_thread(self._make_servers)
        await self._supervisor.start(self._postgres.child(), self._valkey.child())
        await asyncio.to_thread(self._postgres.create_database)
        gateway_host = self._settings.gateway.host
        credentials = await asyncio.to_thread(self._parts.bootstrap, self._data, self._postgres.endpoint, gateway_host)
        services = await self._start_api(credentials)
        await self._supervisor.start(*self._parts.workers(services, self._worker_count))
        await self._wait_for_model(services)
        if self._prometheus is not None:
            watching, self._dashboards = await asyncio.to_thread(describe_prometheus, services, self._prometheus)
            await self._supervisor.start(watching)
        self._stack = self._describe(services)
        self._save_description(self._supervisor.running)
        self._ready(self._stack)
        async with asyncio.TaskGroup() as group:
            for chore in self._parts.chores:
                group.create_task(_run_chore(chore, self._settings, self._postgres.endpoint))

    async def _start_api(self, credentials: BootstrapKeys) -> Services:
        """Start the API; when another process has taken the chosen free port, choose another."""
        for _ in range(PORTS_TRIED):
            services = self._build_services(credentials)
            try:
                await self._supervisor.start(self._parts.api(services))
            except StartFailed:
                if self._settings.api.port != 0 or ports.is_free(self._port, self._settings.api.host):
                    raise
                self._port = self._free_port()
            else:
                return services
        raise PortInUse(f"{PORTS_TRIED} free ports were taken one after the other: choose one with --port N")

    async def _wait_for_model(self, services: Services) -> None:
        """Wait up to LOAD_SECONDS until the model is loaded; without it, the API still searches by words."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LOAD_SECONDS):
                while await asyncio.to_thread(services.is_loading):  # noqa: ASYNC110 - another process sets no event
                    await asyncio.sleep(LOAD_POLL_SECONDS)

    def _make_servers(self) -> None:
        """Create both servers' data; lock a cluster outside the data folder: a copied folder may link to one in use."""
        pools = CONNECTIONS_A_POOL_SIZE * self._settings.database.pool_size * (self._worker_count + 1)
        self._postgres = EmbeddedPostgres(self._data, connections=SPARE_CONNECTIONS + pools)
        if self._postgres.cluster.folder.parent != self._data:
            self._lock_folder(self._postgres.cluster.folder.parent)
            self._say(f"root cannot own a database: it lies in {self._postgres.cluster.folder}, not below {self._data}")
        self._valkey = EmbeddedValkey(self._data)
        self._postgres.create()
        self._valkey.create()

    def _lock_folder(self, folder: Path) -> None:
        self._locks.append(FolderLock(folder))

    def _find_plugin(self) -> ListenAddress | None:
        """Return the address where the memory plugin will listen. Raises PortInUse when it cannot listen there."""
        settings = self._settings.plugin
        try:
            address = find_address(settings.model_copy(update={"tenant": settings.tenant or HOST}))
        except ValueError as error:
            raise PortInUse(str(error)) from None
        if address is not None and (warning := find_warning(settings, address)):
            self._say(warning)
        return address

    def _build_services(self, credentials: BootstrapKeys) -> Services:
        return Services(
            settings=self._settings,
            plugin=self._plugin,
            port=self._port,
            database=self._postgres.endpoint,
            broker_url=self._valkey.url,
            credentials=credentials,
            config=self._config,
        )

    def _describe(self, services: Services) -> Stack:
        endpoint = self._postgres.endpoint
        return Stack(
            pid=os.getpid(),
            api=services.api_url,
            plugin=self._plugin and self._plugin.url,
            metrics=f"{services.api_url}/metrics",
            docs=f"{services.api_url}/docs",
            prometheus=self._dashboards,
            api_key_file=self._data / API_KEY_FILE,
            operator_key_file=self._data / OPERATOR_KEY_FILE,
            database_url=SecretStr(endpoint.app_url),
            operator_url=SecretStr(endpoint.operator_url),
            owner_url=SecretStr(endpoint.owner_url),
            redis_url=SecretStr(self._valkey.url),
            postgres_dir=self._postgres.cluster.folder,
            recall=self._settings.recall,
            embedding=self._settings.embedding,
            enrichment=self._settings.enrichment,
            gateway_sealing_keys=SecretStr(services.sealing_keys),
        )

    def _save_description(self, running: tuple[RunningChild, ...]) -> None:
        """Write stack.json with the running processes, if the stack has started."""
        if self._stack is not None:
            processes = tuple(StackProcess(name=one.name, pid=one.pid) for one in running)
            self._stack.model_copy(update={"processes": processes}).save(self._data)

    def _end_survivors(self) -> None:
        """End the API and workers that an earlier `up` left behind; each server ends its own survivors."""
        (self._data / FILE).unlink(missing_ok=True)
        left = survivors.find_marked_processes(self._data)
        if left:
            self._say(f"ending {len(left)} processes an earlier run left behind")
            survivors.end_processes(left, [process.pid for process in left], signal.SIGTERM)

    def _free_port(self) -> int:
        host, port = self._settings.api.host, self._settings.api.port
        if error := ports.find_bind_error(port, host):
            raise PortInUse(_describe_bind_error(error, host, port))
        return port or ports.find_free_port()

    def _count_deaths(self) -> DeathCounter:
        folder = self._settings.metrics_dir
        try:
            clear_samples(folder)
        except OSError as error:
            if error.errno in NO_SPACE:
                raise
            raise FolderUnusable(f"{folder} (metrics_dir) cannot be written: {error.strerror}") from error
        names = ["postgres", "valkey", "api", *(f"worker-{n}" for n in range(1, self._worker_count + 1))]
        return DeathCounter(folder, names)


def _describe_bind_error(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        user = ports.describe_port_user(port)
        return f"port {port} is taken{user}: choose another with --port N, or --port 0 for a free one"
    if error.errno == errno.EACCES:
        return f"port {port} is for root alone: choose one from 1024 on with --port N"
    return f"{host} (api.host) is no address of this machine ({error.strerror}): set it to one, as 127.0.0.1 or 0.0.0.0"


async def _run_chore(chore: Callable[..., Awaitable[None]], *arguments: object) -> None:
    await chore(*arguments)


def _make_folder(data: Path) -> None:
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FolderUnusable(f"{data} cannot be made: {error.strerror}; choose another with --data") from error
    if not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        raise FolderUnusable(f"{data} cannot be written by you: choose another with --data")
    hide_from_git(data)
