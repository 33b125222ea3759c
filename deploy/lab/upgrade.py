"""`afterturn check upgrade`: runs two versions of the code on one database, under load, in both orders of an upgrade.

The previous version is its wheel, unpacked and run with this environment's dependencies. Calls go round robin to the
APIs that are in rotation, as through a load balancer: a process joins when it is ready and leaves before it is stopped.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from deploy.lab.soak import PATIENCE_S, Calls, Load
from deploy.local import Child, EmbeddedPostgres, EmbeddedValkey, child
from deploy.local.errors import StartFailed
from deploy.local.ports import LOOPBACK, find_free_port
from deploy.local.private_folder import DATA, open_private_folder
from deploy.local.services import LIVE, READY
from deploy.notices import Say

#: How long a process may take until it is ready on a busy machine, in seconds.
READY_S = 240.0
#: How long the remaining work may take at the end, in seconds.
DRAIN_S = 300.0
LOOK_S = 0.5
#: Name of the load's call to the readiness check.
PROBE = "health"
ORDERS = ("migrate first", "code first")


class UpgradeBroken(Exception):
    """The run could not continue; the text names the step and ends with the last output."""


@dataclass(frozen=True, slots=True)
class Release:
    """A version of the code: its name, and the folder of its packages (None: the running ones)."""

    name: str
    packages: Path | None = None

    def environment(self, of: Mapping[str, str]) -> dict[str, str]:
        """Return an environment in which Python finds this version first."""
        return dict(of) if self.packages is None else {**of, "PYTHONPATH": str(self.packages)}


@dataclass(frozen=True, slots=True)
class LoadPace:
    """The duration of the load after each step in seconds, and its rounds of calls per second."""

    seconds: float
    per_second: float


@dataclass(frozen=True, slots=True)
class UpgradePhase:
    """The calls during one step of an upgrade and for some time after it."""

    name: str
    calls: Calls

    @property
    def well(self) -> int:
        """Return the number of successful calls."""
        return sum(self.calls.well.values())

    @property
    def failed(self) -> int:
        """Return the number of failed calls, without readiness checks, which only concern the load balancer."""
        return sum(many for name, many in self.calls.failed.items() if name != PROBE)

    def as_json(self) -> dict[str, Any]:
        """Return what `--json` prints of it."""
        return {"phase": self.name, "calls": self.well, "failed": self.failed, "reasons": dict(self.calls.reasons)}


@dataclass(slots=True)
class Upgrade:
    """An upgrade in one order: its phases and failures."""

    order: str
    phases: list[UpgradePhase] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    #: Why this version refused to start on the previous schema, so that the schema was migrated first.
    refused: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return what `--json` prints of it."""
        phases = [one.as_json() for one in self.phases]
        calls, failed = sum(one.well for one in self.phases), sum(one.failed for one in self.phases)
        return {"order": self.order, "calls": calls, "failed": failed, "refused": self.refused, "phases": phases}


def run_upgrades(
    wheel: Path, seconds: float, per_second: float, say: Say, new: Release = Release("new")
) -> list[Upgrade]:
    """Upgrade from the wheel's version to a new one in both orders, each on private servers; return both upgrades.

    `seconds`: duration of the load after each step; `per_second`: rounds of calls. Raises UpgradeBroken, EmbeddedError.
    """
    return [_run_upgrade(order, wheel, new, LoadPace(seconds, per_second), say) for order in ORDERS]


def _run_upgrade(order: str, wheel: Path, new: Release, pace: LoadPace, say: Say) -> Upgrade:
    with open_private_folder("upgrade") as folder, ExitStack() as servers:
        packages = folder / "previous"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
        data = folder / DATA
        postgres, valkey = EmbeddedPostgres(data), EmbeddedValkey(data)
        for server in (postgres, valkey):
            servers.callback(server.stop)
            server.start()
        there = postgres.endpoint
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AFTERTURN_")} | {
            "AFTERTURN_DATA": str(data),
            "AFTERTURN_DATABASE__URL": there.app_url,
            "AFTERTURN_DATABASE__OPERATOR_URL": there.operator_url,
            "AFTERTURN_BROKER__URL": valkey.url,
            "AFTERTURN_WORKER__SWEEP_SECONDS": "1",
            # With a lower priority, workers would hardly start beside two APIs.
            "AFTERTURN_WORKER__NICE": "0",
        }
        place = UpgradeFolder(folder, environment, there.owner_url)
        return asyncio.run(Upgrader(place, (Release("previous", packages), new), pace, say).run(order))


@dataclass(frozen=True, slots=True)
class UpgradeFolder:
    """The folder of an upgrade, and the settings of all its processes."""

    folder: Path
    environment: Mapping[str, str] = field(repr=False)
    owner_url: str = field(repr=False)

    def run(self, release: Release, *arguments: str) -> str:
        """Run a command of a version as the database's owner and return its output; raises UpgradeBroken."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "deploy.cli", *arguments],
            env=release.environment({**self.environment, "AFTERTURN_DATABASE__OWNER_URL": self.owner_url}),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=READY_S,
            check=False,
        )
        if done.returncode:
            said = (done.stdout + done.stderr)[-2000:]
            raise UpgradeBroken(f"`afterturn {' '.join(arguments)}` of the {release.name} version failed:\n{said}")
        return done.stdout

    @contextmanager
    def running(self, release: Release, command: str, port: int) -> Iterator[None]:
        """Run an API or a worker of a version during the block, which begins when it is ready; raises StartFailed."""
        name = f"{command}-{release.name}"
        data = self.folder / name
        told = {
            "AFTERTURN_DATA": str(data),
            "AFTERTURN_METRICS_DIR": str(data / "metrics"),
            ("AFTERTURN_API__PORT" if command == "api" else "AFTERTURN_WORKER__METRICS_PORT"): str(port),
        }
        one = Child(
            name=name,
            argv=(sys.executable, "-P", "-m", "deploy.cli", command),
            environment=release.environment({**self.environment, **told}),
            log=self.folder / f"{name}.log",
            ready=lambda _pid: is_answering(f"http://{LOOPBACK}:{port}{READY if command == 'api' else LIVE}"),
            ready_seconds=READY_S,
            stop_signals=(signal.SIGTERM,),
        )
        process = child.start_child(one)
        try:
            yield
        finally:
            child.stop_child(one, process)


class Upgrader:
    """Upgrades a service under load from the previous version to the new one."""

    def __init__(self, place: UpgradeFolder, releases: tuple[Release, Release], pace: LoadPace, say: Say) -> None:
        self._place = place
        self._previous, self._new = releases
        self._pace = pace
        self._say = say
        self._balancer = RoundRobin()

    async def run(self, order: str) -> Upgrade:
        """Upgrade in this order, check the remaining state, and return the result."""
        upgrade = Upgrade(order)
        await asyncio.to_thread(self._place.run, self._previous, "db", "migrate")
        made = await asyncio.to_thread(self._place.run, self._previous, "keys", "create", "--label", "load", "--json")
        key = json.loads(made)["key"]
        headers = {"authorization": f"Bearer {key}", "accept": "application/json"}
        with ExitStack() as old, ExitStack() as new:
            await self._start(old, self._previous)
            async with httpx.AsyncClient(
                transport=self._balancer,
                base_url=f"http://{LOOPBACK}",
                headers=headers,
                timeout=PATIENCE_S,
                trust_env=False,
            ) as http:
                self._load = Load(http, Calls())
                await self._observe(upgrade, "previous code, previous schema", _do_nothing)
                steps = self._migrate_first if order == ORDERS[0] else self._roll_first
                await steps(upgrade, old, new)
            await self._check_rest(upgrade)
        return upgrade

    async def _migrate_first(self, upgrade: Upgrade, old: ExitStack, new: ExitStack) -> None:
        await self._observe(upgrade, "migrated: previous code, new schema", self._migrate)
        await self._observe(upgrade, "both versions, new schema", lambda: self._start(new, self._new))
        await self._observe(upgrade, "new code, new schema", lambda: self._stop_processes(old))

    async def _roll_first(self, upgrade: Upgrade, old: ExitStack, new: ExitStack) -> None:
        async def start_or_wait() -> None:
            try:
                await self._start(new, self._new)
            except StartFailed as error:
                upgrade.refused = str(error).rpartition("\n")[2]

        await self._observe(upgrade, "both versions, previous schema", start_or_wait)
        if upgrade.refused:
            await self._migrate_first(upgrade, old, new)
            return
        await self._observe(upgrade, "new code, previous schema", lambda: self._stop_processes(old))
        await self._observe(upgrade, "migrated: new code, new schema", self._migrate)

    async def _observe(self, upgrade: Upgrade, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do one step under load, continue the load for a while, and record the phase."""
        calls = self._load.calls = Calls()
        done = asyncio.Event()

        async def keep_loading() -> None:
            while not done.is_set():
                await self._load.run(1.0, self._pace.per_second)

        load = asyncio.create_task(keep_loading())
        try:
            await work()
            await asyncio.sleep(self._pace.seconds)
        finally:
            done.set()
            await load
        upgrade.phases.append(UpgradePhase(name, calls))
        self._say(f"{upgrade.order}: {name}: {upgrade.phases[-1].well} calls, {upgrade.phases[-1].failed} failed")

    async def _start(self, running: ExitStack, release: Release) -> None:
        """Start an API and a worker of a version, and add the API to the rotation."""
        for command in ("api", "worker"):
            port = find_free_port()
            await asyncio.to_thread(running.enter_context, self._place.running(release, command, port))
            if command == "api":
                self._balancer.ports.append(port)
                running.callback(self._balancer.ports.remove, port)

    async def _stop_processes(self, running: ExitStack) -> None:
        """Take the APIs of a version out of the rotation, then stop its processes."""
        await asyncio.to_thread(running.close)

    async def _migrate(self) -> None:
        await asyncio.to_thread(self._place.run, self._new, "db", "migrate")

    async def _check_rest(self, upgrade: Upgrade) -> None:
        """Wait until the remaining work is done, and compare the tables with the log."""
        upgrade.failures += [f"{one.name}: {one.failed} calls failed" for one in upgrade.phases if one.failed]
        deadline = time.monotonic() + DRAIN_S
        while True:
            status = json.loads(await asyncio.to_thread(self._place.run, self._new, "status", "--json"))
            if not status["undone"] or time.monotonic() > deadline:
                break
            await asyncio.sleep(LOOK_S)
        upgrade.failures += [f"{name}: {status[name]} rows" for name in ("undone", "dead") if status[name]]
        said = sum(one.calls.well["turns"] for one in upgrade.phases)
        if status["turns"] < said:
            upgrade.failures.append(f"{said} turns were acknowledged, {status['turns']} are there")
        try:
            await asyncio.to_thread(self._place.run, self._new, "replay", "--verify")
        except UpgradeBroken as error:
            upgrade.failures.append(str(error))


async def _do_nothing() -> None:
    """Change nothing."""


class RoundRobin(httpx.AsyncHTTPTransport):
    """A transport that sends each call to the next port in the rotation, on this machine."""

    def __init__(self) -> None:
        super().__init__()
        self.ports: list[int] = []
        self._nth = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a call to the next port."""
        self._nth += 1
        request.url = request.url.copy_with(port=self.ports[self._nth % len(self.ports)])
        return await super().handle_async_request(request)


def is_answering(url: str) -> bool:
    """Return whether a URL is answered with success."""
    try:
        return httpx.get(url, timeout=PATIENCE_S, trust_env=False).is_success
    except httpx.TransportError:
        return False
