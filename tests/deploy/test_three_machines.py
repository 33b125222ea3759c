"""docs/three-machines.md, played line by line on loopback: nothing is lost or done twice while parts of it go."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from sqlalchemy import make_url

from deploy.local.ports import LOOPBACK, find_free_port
from tests.certificates import Authority, Certificate
from tests.deploy.sites import COMMAND, PASSWORD, Site, answers
from tests.patience import PATIENCE_S, wait_until
from tests.poolers import pgbouncer
from tests.processes import spawned
from tests.replicas import replicated
from tests.round_robin import RoundRobin, round_robin
from tests.servers import TestValkey
from tests.tls_servers import stunnel

PAGE = (Path(__file__).parents[2] / "docs" / "three-machines.md").read_text(encoding="utf-8")
#: How many turns come in, in so many files.
TURNS = int(os.environ.get("AFTERTURN_THREE_MACHINES_TURNS", "2000"))
FILES = 10
#: How long a start, a file, or the last stage of all turns may take on a slow machine.
LONG_S = PATIENCE_S + TURNS / 2
POOLS = 3
#: What each turn goes through where neither a gateway nor a model is set.
STAGES = ("embedding", "extraction", "projection")
ROLES = ("afterturn_owner", "afterturn_app", "afterturn_operator")


def read_lines(part: int, language: str = "sh") -> list[str]:
    """Return the commands of a numbered part of the page."""
    [section] = re.findall(rf"(?ms)^## {part}\. .*?(?=^## |\Z)", PAGE)
    blocks = re.findall(rf"(?ms)^```{language}\n(.*?)^```", section)
    return [line for block in blocks for line in block.splitlines()]


@dataclass
class Machines:
    """What stands for the three machines, and who has typed which line of the page."""

    site: Site
    names: dict[str, str]
    apis: list[int]
    balancer: RoundRobin
    processes: ExitStack
    folder: Path
    started: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def fill(self, line: str) -> str:
        """Put what stands here in place of the page's names."""
        for name, here in self.names.items():
            line = line.replace(name, here)
        return line

    def translate(self, line: str) -> list[str]:
        return shlex.split(self.fill(line))

    def play(self, part: int) -> list[str]:
        """Type the lines of a part that end by themselves; returns what they printed."""
        return [self.type(line) for line in read_lines(part)]

    def type(self, line: str) -> str:
        words = self.translate(line)
        if words[0] == "export":
            self.site.environment |= dict(word.split("=", 1) for word in words[1:])
            return ""
        assert words[0] == "afterturn", line
        done = self.site.run(*words[1:])
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def serve(self, machine: str, part: int, port: int) -> None:
        """Start the processes of a machine; its API has a port of its own, since all share one address here."""
        for line in read_lines(part):
            self.stay(f"{machine} {line}", line, AFTERTURN_API__PORT=str(port))

    def stay(self, name: str, line: str, **more: str) -> None:
        words = self.translate(line)
        begin = words.index("afterturn")
        own = dict(word.split("=", 1) for word in words[:begin])
        own["AFTERTURN_DATA"] = str(self.folder / name.split(maxsplit=1)[0])  # what a machine's processes share
        output = self.processes.enter_context((self.folder / f"{len(self.started)}.log").open("ab"))
        self.started[name] = self.processes.enter_context(
            spawned(
                [*COMMAND, *words[begin + 1 :]],
                env=self.site.environment | own | more,
                stdout=output,
                stderr=output,
            )
        )

    def end(self, name: str) -> None:
        self.started[name].terminate()
        assert self.started.pop(name).wait(PATIENCE_S) == 0, name

    def ask(self, *arguments: str) -> dict[str, Any]:
        done = self.site.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def worker(self, stages: str) -> str:
        """Return the name of the pool's only worker."""
        [name] = [one["worker"] for one in self.ask("workers", "list")["workers"] if ", ".join(one["stages"]) == stages]
        return str(name)

    def count(self, statement: str) -> int:
        return int(self.site.administer(statement)[0])


@pytest.fixture
def machines(tmp_path: Path, valkey: TestValkey) -> Iterator[Machines]:
    authority = Authority(tmp_path)
    shown = authority.sign("db", "localhost")
    broker = urlsplit(valkey.url)
    assert broker.port
    with ExitStack() as stack:
        servers = stack.enter_context(replicated(tmp_path / "servers", bare=True))
        behind = {"db": servers.primary.port, "app-2": servers.replica.port}
        tls = {
            name: stack.enter_context(encrypted(tmp_path / f"tls-{name}", port, shown)) for name, port in behind.items()
        }
        cache = stack.enter_context(encrypted(tmp_path / "cache", broker.port, shown, "tls"))
        superuser = make_url(servers.primary.superuser_url)
        urls = [
            superuser.set(username=name, password=PASSWORD).render_as_string(hide_password=False) for name in ROLES[1:]
        ]
        pooled, *_ = stack.enter_context(pgbouncer(urls, sessions=8, shown=shown))
        apis = [find_free_port(), find_free_port()]
        balancer = stack.enter_context(round_robin(apis))
        names = {
            "db.example:5432": f"localhost:{tls['db']}",
            "db.example:6432": f"localhost:{make_url(pooled).port}",
            "app-2.example:5432": f"localhost:{tls['app-2']}",
            "db.example:6380/0": f"localhost:{cache}{broker.path}",
            "https://memory.example": balancer.url,
            "VALKEY_PASSWORD": broker.password or "",
            **dict.fromkeys(("OWNER_PASSWORD", "APP_PASSWORD", "OPERATOR_PASSWORD"), PASSWORD),
            "/etc/afterturn/ca.pem": str(authority.certificate),
            "0.0.0.0": LOOPBACK,
        }
        plain = {name: value for name, value in os.environ.items() if not name.startswith("AFTERTURN_")}
        environment = plain | {
            "AFTERTURN_DATA": str(tmp_path / "data"),
            "AFTERTURN_BROKER__NAMESPACE": "three",
            "AFTERTURN_EMBEDDING__VARIANT": "weights",
        }
        site = Site(superuser.render_as_string(hide_password=False), environment)
        yield Machines(site, names, apis, balancer, stack.enter_context(ExitStack()), tmp_path)


@contextmanager
def encrypted(folder: Path, port: int, shown: Certificate, protocol: str = "pgsql") -> Iterator[int]:
    """Put TLS before a server, with a folder of its own."""
    folder.mkdir()
    with stunnel(folder, port, shown, protocol=protocol) as own:
        yield own


def write_talk(path: Path, first: int, number: int) -> None:
    """Write turns as agents hand them in: a question and its answer."""
    path.write_text("".join(json.dumps(make_turn(nth)) + "\n" for nth in range(first, first + number)))


def make_turn(nth: int) -> dict[str, Any]:
    said = [
        {"role": "user", "content": f"Ann lives in house {nth} of Split since last week."},
        {"role": "assistant", "content": f"I noted house {nth}."},
    ]
    return {"session_id": f"s{nth % 7}", "turn_id": f"t{nth}", "user_id": "ann", "messages": said}


def await_api(port: int) -> None:
    wait_until(lambda: answers(f"http://{LOOPBACK}:{port}/health/ready"), "the API is ready", LONG_S, pause_s=0.5)


def make_database(machines: Machines) -> None:
    *first, extension = [machines.fill(line) for line in read_lines(1, "sql")]
    machines.site.administer(*first, database="postgres")
    machines.site.administer(extension)
    machines.play(2)


def lose_a_worker(machines: Machines) -> None:
    machines.started.pop("app-1 afterturn worker --stages gateway,extraction,enrichment,projection,recall").kill()


def drain_a_worker(machines: Machines) -> None:
    _, line = read_lines(6)
    machines.names["app-1:4711:0b7c11aa"] = machines.worker("embedding")
    machines.type(line)
    machines.end("app-1 afterturn worker --stages embedding")


def restart_the_apis(machines: Machines) -> None:
    for machine, port in zip(("app-1", "app-2"), machines.apis, strict=True):
        line = read_lines(3)[0]
        machines.end(f"{machine} {line}")
        machines.stay(f"{machine} {line}", line, AFTERTURN_API__PORT=str(port))
        await_api(port)


#: What happens while which file comes in.
MISHAPS: dict[int, Callable[[Machines], None]] = {2: lose_a_worker, 5: drain_a_worker, 7: restart_the_apis}


def ingest(machines: Machines, nth: int) -> None:
    """Type the page's command for one file, and let a mishap happen while it runs."""
    file, (_, _, line, *_) = machines.folder / f"{nth}.jsonl", read_lines(5)
    write_talk(file, nth * TURNS // FILES, (nth + 1) * TURNS // FILES - nth * TURNS // FILES)
    command = [*COMMAND, *machines.translate(line.replace("conversation.jsonl", str(file)))[1:]]
    with spawned(command, env=machines.site.environment, stdout=subprocess.DEVNULL) as process:
        if nth in MISHAPS:
            MISHAPS[nth](machines)
        assert process.wait(LONG_S) == 0, nth


def set_up(machines: Machines) -> None:
    make_database(machines)
    machines.serve("app-1", 3, machines.apis[0])
    machines.serve("app-2", 4, machines.apis[1])
    for port in machines.apis:
        await_api(port)
    wait_until(lambda: len(machines.ask("workers", "list")["workers"]) == POOLS, "all pools work", LONG_S, pause_s=0.5)
    made, setting, *_ = read_lines(5)
    [machines.names["at_..."]] = re.findall(r"at_\S+", machines.type(made))
    machines.type(setting)


def has_ended(machines: Machines) -> bool:
    return bool(machines.ask("status")["undone"] == 0)


def count_replica_recalls(machines: Machines) -> list[str]:
    """Return both APIs' samples of recalls that were meant for the replica."""
    told = [httpx.get(f"http://{LOOPBACK}:{port}/metrics").text for port in machines.apis]
    return re.findall(r"(?m)^afterturn_replica_recalls_total.*", "\n".join(told))


@pytest.mark.nightly
def test_nothing_is_lost_or_done_twice_on_three_machines_set_up_by_the_page(machines: Machines) -> None:
    set_up(machines)
    for nth in range(FILES):
        ingest(machines, nth)
    wait_until(lambda: has_ended(machines), "every stage has ended", pause_s=1.0, patience_s=LONG_S)

    numbers = "select count(*) from afterturn."
    assert machines.count(numbers + "turn_t") == TURNS
    assert machines.count(numbers + "agent_memory_unit_t where origin = 'message'") == 2 * TURNS
    ended = "select stage, count(*) filter (where status in ('done', 'skipped')) n from afterturn.ledger_t"
    of_turns = f"{ended} where item_id = turn_id group by stage"
    told = machines.site.administer(f"select stage || ' ' || n from ({of_turns}) o order by stage")
    assert told == [f"{stage} {TURNS}" for stage in STAGES]
    assert machines.count(numbers + "ledger_t where status in ('dead', 'unknown')") == 0

    _, _, _, recall, status = read_lines(5)
    assert "Split" in machines.type(recall)
    machines.type(status)
    asked = {"query": "Where does Ann live?", "min_position": 0}
    key = {"Authorization": f"Bearer {machines.names['at_...']}"}
    url = f"{machines.names['https://memory.example']}/api/v1/recall"
    httpx.post(url, json=asked, headers=key, timeout=PATIENCE_S).raise_for_status()
    samples = count_replica_recalls(machines)
    assert any(re.search(r'"answered"} [1-9]', sample) for sample in samples), samples
    machines.play(7)
    assert set(machines.balancer.given) == set(machines.apis)
    for name in list(machines.started):
        machines.end(name)


def read_log(machines: Machines) -> str:
    """Return what the processes of the machines logged."""
    return "\n".join(log.read_text() for log in sorted(machines.folder.glob("*.log")))


@pytest.mark.nightly
def test_a_wrong_password_is_named_by_its_setting_behind_the_pooler_too(machines: Machines) -> None:
    make_database(machines)
    environment = machines.site.environment
    wrong = (
        make_url(environment["AFTERTURN_DATABASE__URL"]).set(password="zq81zq").render_as_string(hide_password=False)
    )
    [port, _] = machines.apis
    machines.stay("app-1 api", read_lines(3)[0], AFTERTURN_API__PORT=str(port), AFTERTURN_DATABASE__URL=wrong)
    wait_until(lambda: "database_unusable" in read_log(machines), "it is logged", LONG_S, pause_s=0.5)
    [line] = [line for line in read_log(machines).splitlines() if "database_unusable" in line]
    assert "database.url" in line
    assert "it refuses the login" in line
    refused = machines.site.run("doctor", AFTERTURN_DATABASE__URL=wrong)
    assert refused.returncode == 1
    said = " ".join((refused.stdout + refused.stderr).split())
    assert "it refuses the login" in said
    assert "database.url" in said
    assert "zq81zq" not in said + read_log(machines)
    assert not answers(f"http://{LOOPBACK}:{port}/health/ready")
    machines.end("app-1 api")


@pytest.mark.nightly
def test_a_pooler_older_than_db_init_is_named_and_workers_share_an_environment(machines: Machines) -> None:
    make_database(machines)
    port = find_free_port()
    machines.site.environment["AFTERTURN_WORKER__METRICS_PORT"] = str(port)
    # What a pooler has whose sessions began before `db init` gave the roles their defaults.
    logins = ROLES[1:]
    machines.site.administer(*(f"alter role {role} in database afterturn reset all" for role in logins))
    cut_sessions(machines, logins)
    assert "RECONNECT" in machines.site.run("doctor").stdout
    made = machines.site.run("db", "init")
    assert made.returncode == 0, made.stderr
    old = machines.site.run("doctor")
    assert old.returncode == 1
    assert "its sessions lack the service's defaults" in " ".join(old.stdout.split())
    lines = read_lines(3)[1:]
    for line in lines:
        machines.stay(f"app-1 {line}", line)
    probe = f"http://{LOOPBACK}:{port}/health"
    wait_until(lambda: answers(f"{probe}/live"), "a worker serves the machine's port", LONG_S, pause_s=0.5)
    assert "its sessions lack" in httpx.get(f"{probe}/ready", timeout=PATIENCE_S).text
    cut_sessions(machines, logins)  # as RECONNECT does
    wait_until(lambda: answers(f"{probe}/ready"), "the worker is ready", LONG_S, pause_s=0.5)
    assert "RECONNECT" not in machines.site.run("doctor").stdout
    wait_until(lambda: len(machines.ask("workers", "list")["workers"]) == len(lines), "both work", LONG_S, pause_s=0.5)
    machines.end(f"app-1 {lines[0]}")
    wait_until(lambda: answers(f"{probe}/ready"), "the other worker serves the port", LONG_S, pause_s=0.5)
    machines.end(f"app-1 {lines[1]}")


def cut_sessions(machines: Machines, logins: Sequence[str]) -> None:
    """End the sessions that the pooler holds."""
    names = ", ".join(f"'{name}'" for name in logins)
    machines.site.administer(f"select pg_terminate_backend(pid) from pg_stat_activity where usename in ({names})")
