"""The private stack of `afterturn bench pipeline`: a worker per core, a gateway process, and their processor times."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from deploy.lab.bench import gateway_process
from deploy.lab.bench.servers import BenchServers, find_stack_servers
from deploy.lab.bench.usage import read_cpu_seconds, read_family_seconds
from deploy.local import Child, child, ports, survivors
from deploy.local.child import LOGS
from deploy.local.private_stack import run_private_stack
from deploy.local.stack import Stack, StackProcess
from producers.service.gateway_clients import canonical_url
from store.database import Database
from store.tenancy.gateway_targets import GatewayTargets, GatewayUser, seal_place
from store.tenancy.sealing import Sealer
from workers.settings import sealing_keys

GATEWAY_USER, GATEWAY_KEY = "bench", "uk_of_the_bench"
IDLE = "deploy.lab.bench.idle_worker"
#: Text in a worker's log when it starts to claim work.
READY = "embedding_model_loaded"


@dataclass(frozen=True, slots=True)
class PipelineStack:
    """The private stack of this benchmark, and the gateway it delivers to."""

    stack: Stack
    gateway_url: str
    gateway_pid: int
    workers: int

    def __str__(self) -> str:
        return f"a private stack with {self.workers} workers"

    @property
    def servers(self) -> BenchServers:
        """The database servers, which no other stack's workers use."""
        return replace(find_stack_servers(self.stack), shared=False)

    @property
    def data(self) -> Path:
        """The stack's data folder."""
        return self.stack.api_key_file.parent

    async def hand_over(self, database: Database, host: UUID) -> None:
        """Deliver the turns of a host to the gateway, with the host as a project of its own there."""
        user = GatewayUser(canonical_url(self.gateway_url), GATEWAY_USER, project_id=str(host))
        sealer = Sealer(sealing_keys(self.stack.gateway_sealing_keys))
        sealed = sealer.seal(GATEWAY_KEY, seal_place(host, None, user))
        await GatewayTargets(database).set(host, None, user, ("current_chat",), sealed)

    def cpu_seconds(self) -> dict[str, float]:
        """Return the processor seconds that each part has used so far: workers, postgres, valkey, api, gateway."""
        spent = {"workers": 0.0, "gateway": read_cpu_seconds(self.gateway_pid)}
        for one in self.stack.processes:
            part = "workers" if one.name.startswith("worker") else one.name
            spent[part] = spent.get(part, 0.0) + read_family_seconds(one.pid)
        return spent

    @contextmanager
    def idle_workers(self) -> Iterator[Stack]:
        """Run as many more workers with idle stages, in a broker namespace of their own.

        Yields the stack as if these were its only processes.
        """
        with ExitStack() as running:
            names = [f"worker-idle-{nth}" for nth in range(1, self.workers + 1)]
            pids = [running.enter_context(_run_child(self._spawn_idle_worker(name))) for name in names]
            processes = tuple(StackProcess(name=name, pid=pid) for name, pid in zip(names, pids, strict=True))
            yield self.stack.model_copy(update={"processes": processes})

    def _spawn_idle_worker(self, name: str) -> Child:
        log = self.data / LOGS / f"{name}.log"
        return Child(
            name=name,
            argv=(sys.executable, "-P", "-m", IDLE),
            environment=self._build_environment(),
            ready=lambda _pid: READY in log.read_text(encoding="utf-8"),
            log=log,
        )

    def _build_environment(self) -> Mapping[str, str]:
        return {
            **os.environ,
            survivors.MARK: str(self.data),
            "AFTERTURN_DATA": str(self.data),
            "AFTERTURN_METRICS_DIR": str(self.data / "metrics-of-idle-workers"),
            "AFTERTURN_DATABASE__URL": self.stack.database_url.get_secret_value(),
            "AFTERTURN_DATABASE__OPERATOR_URL": self.stack.operator_url.get_secret_value(),
            "AFTERTURN_BROKER__URL": self.stack.redis_url.get_secret_value(),
            "AFTERTURN_BROKER__NAMESPACE": "idle",
        }


@contextmanager
def open_pipeline_stack(_data: Path | None = None) -> Iterator[PipelineStack]:
    """Yield a private stack with a gateway, both removed afterwards; other stacks on the machine are not touched."""
    cores = len(os.sched_getaffinity(0))
    port = ports.find_free_port()
    url = f"http://{ports.LOOPBACK}:{port}"
    told = {"AFTERTURN_GATEWAY__USER_ID": GATEWAY_USER, "AFTERTURN_GATEWAY__USER_KEY": GATEWAY_KEY}
    with (
        _run_child(gateway_process.describe_gateway(port)) as gateway,
        run_private_stack(cores, name="bench", gateway=url, environment=told) as stack,
    ):
        yield PipelineStack(stack, url, gateway, cores)


@contextmanager
def _run_child(described: Child) -> Iterator[int]:
    """Run a child while the block runs, and yield its process id."""
    process = child.start_child(described)
    try:
        yield process.pid
    finally:
        child.stop_child(described, process)
