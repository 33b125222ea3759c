"""`afterturn up` on real servers, with stand-ins for the API and the workers."""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil
import pytest
import redis
from typer.testing import CliRunner

from deploy.cli.app import build_cli
from deploy.local.ports import find_free_port
from deploy.local.stack import StackNotRunning, StackProcess, find_stack
from deploy.local.survivors import is_alive
from tests.deploy.local.test_embedded_postgres import ask
from tests.deploy.upper import STAND_IN, Up, remove
from tests.patience import PATIENCE_S, wait_until
from tests.processes import dumps_no_core, spawned

pytestmark = pytest.mark.slow


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "data"
    yield folder
    remove(folder)


def test_it_says_ready_describes_itself_and_a_clean_stop_leaves_nothing(data: Path) -> None:
    with Up(data, "--port", "0", "--workers", "3") as up:
        ready = up.ready()
        assert set(ready) == {"api", "metrics", "docs", "api_key_file", "database_url", "redis_url"}
        assert ready["api_key_file"] == str(data / "api-key")
        assert ":***@127.0.0.1:" in ready["database_url"]
        assert ":***@127.0.0.1:" in ready["redis_url"]
        assert urllib.request.urlopen(ready["api"] + "/health/live", timeout=PATIENCE_S).status == 200

        stack = json.loads((data / "stack.json").read_text())
        assert stack["version"] == 1
        assert stack["pid"] == up.process.pid
        names = [process["name"] for process in stack["processes"]]
        assert names == ["postgres", "valkey", "api", "worker-1", "worker-2", "worker-3"]
        for name in ("stack.json", "api-key", "operator-key", "gateway-key"):
            assert stat.S_IMODE((data / name).stat().st_mode) == 0o600
        assert ask(stack["owner_url"], "SELECT count(*) FROM afterturn.api_key_t WHERE revoked_at IS NULL") == 2
        everyone = up.everyone()
        assert len(everyone) > 6
        for process in everyone:
            assert dumps_no_core(process.pid), process

        assert up.stop(signal.SIGINT) == 0
        assert not any(is_alive(process) for process in everyone)
        assert up.everyone() == []
        assert not (data / "stack.json").exists()
        with pytest.raises(StackNotRunning, match="afterturn up --data"):
            find_stack(data)


def test_no_password_and_no_key_is_printed(data: Path) -> None:
    with Up(data, "--port", "0", "--workers", "1") as up:
        up.ready()
        stack = up.stack
        secrets = [
            url.get_secret_value().split("@")[0].rsplit(":", 1)[1] for url in (stack.database_url, stack.redis_url)
        ]
        secrets.append(stack.api_key())
        printed = up.out.read_text() + up.said
        assert not any(secret in printed for secret in secrets)


def test_it_goes_on_when_nobody_reads_what_it_prints(data: Path) -> None:
    command = [sys.executable, "-P", str(STAND_IN), "--data", str(data), "--port", "0", "--workers", "1"]
    with spawned(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"READY ")
        process.stdout.close()
        process.stderr.close()
        worker = find_stack(data).processes[-1]
        os.kill(worker.pid, signal.SIGKILL)
        wait_until(lambda: _replaced(data, worker), "the worker is started again")
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


def _replaced(data: Path, killed: StackProcess) -> bool:
    return any(one.name == killed.name and one.pid != killed.pid for one in find_stack(data).processes)


def test_a_stop_during_the_start_is_a_clean_stop_too(data: Path) -> None:
    with Up(data, "--port", "0") as up:
        up.wait(lambda: any(data.glob("pg*")), "the database is being made")
        everyone = up.everyone()
        assert up.stop() == 0
        assert not any(is_alive(process) for process in everyone)
        assert up.everyone() == []


def test_each_kind_of_child_that_is_killed_is_started_again_where_it_was(data: Path) -> None:
    with Up(data, "--port", "0", "--workers", "2", "--log-format", "json") as up:
        ready = up.ready()
        before = up.stack
        database, broker = before.owner_url.get_secret_value(), before.redis_url.get_secret_value()
        ask(database, "CREATE TABLE afterturn.kept (n int)", "INSERT INTO afterturn.kept VALUES (7)")
        with redis.Redis.from_url(broker) as client:
            client.rpush("kept", 7)

        for name in ("worker-2", "api", "valkey", "postgres"):
            up.kill_child(name)
            up.wait(lambda name=name: f"{name} is back" in up.said, f"{name} is back")  # type: ignore[misc]  # a default binds it

        assert ask(database, "SELECT n FROM afterturn.kept") == 7
        with redis.Redis.from_url(broker) as client:
            assert client.lrange("kept", 0, -1) == [b"7"]
        assert urllib.request.urlopen(ready["api"] + "/health/live", timeout=PATIENCE_S).status == 200
        after = up.stack
        assert after.database_url == before.database_url
        assert [one.name for one in after.processes] == [one.name for one in before.processes]
        told = [json.loads(line)["event"] for line in up.said.splitlines()]
        assert [line.split()[0] for line in told if "was ended by signal 9" in line] == [
            "worker-2",
            "api",
            "valkey",
            "postgres",
        ]
        assert deaths(data) == {"api": 1, "postgres": 1, "valkey": 1, "worker-1": 0, "worker-2": 1}


def deaths(data: Path) -> dict[str, float]:
    """What the multi-process exposition of prometheus_client makes of the supervisor's samples."""
    program = (
        "import prometheus_client as p, prometheus_client.multiprocess as m; r = p.CollectorRegistry();"
        "m.MultiProcessCollector(r);"
        "import json; print(json.dumps({s.labels['process']: s.value for f in r.collect() for s in f.samples"
        " if s.name == 'afterturn_process_deaths_total'}))"
    )
    environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(data / "metrics")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
    return dict(json.loads(done.stdout))


def test_five_deaths_of_a_child_within_a_minute_end_it_with_status_1(data: Path) -> None:
    with Up(data, "--port", "0", "--workers", "1") as up:
        up.ready()
        everyone = up.everyone()
        for _ in range(4):
            up.kill_child("worker-1")
        os.kill(up.pid("worker-1"), signal.SIGKILL)
        assert up.process.wait(PATIENCE_S) == 1
        assert "5 deaths within a minute, giving up" in up.said
        assert not any(is_alive(process) for process in everyone)


def test_after_a_kill_nothing_survives_and_the_next_start_has_the_data_and_the_key(data: Path) -> None:
    with Up(data, "--port", "0", "--workers", "1") as up:
        up.ready()
        key = up.stack.api_key()
        ask(up.stack.owner_url.get_secret_value(), "CREATE TABLE afterturn.kept (n int)")
        everyone = up.everyone()
        up.process.kill()
        up.process.wait()
        with pytest.raises(StackNotRunning):
            find_stack(data)
    with Up(data, "--port", "0", "--workers", "1") as again:
        again.ready()
        assert not any(is_alive(process) for process in everyone)
        assert again.stack.api_key() == key
        assert ask(again.stack.owner_url.get_secret_value(), "SELECT count(*) FROM afterturn.kept") == 0


def test_data_that_an_earlier_version_wrote_is_refused_by_name_and_left_as_it_is(data: Path) -> None:
    with Up(data, "--port", "0", "--workers", "1") as up:
        up.ready()
        ask(up.stack.owner_url.get_secret_value(), "update public.afterturn_version set version_num = '0033'")
        up.process.terminate()
        assert up.process.wait(PATIENCE_S) == 0
    kept = {path.name: path.read_bytes() for path in data.iterdir() if path.name.endswith("-key")}
    with Up(data, "--port", "0", "--workers", "1") as again:
        assert again.process.wait(PATIENCE_S) == 1
        assert "written by a development version before 0.1.0 (schema revision 0033)" in again.said
        assert "--data DIR" in again.said
        assert "Traceback" not in again.said
    assert {path.name: path.read_bytes() for path in data.iterdir() if path.name.endswith("-key")} == kept


def test_services_an_earlier_run_left_behind_are_ended_at_the_next_start(data: Path) -> None:
    environment = os.environ | {"_AFTERTURN_STACK": str(data)}
    with (
        spawned(["sleep", "600"], env=environment) as left,
        Up(data, "--port", "0", "--workers", "1") as up,
    ):
        up.ready()
        assert left.wait(PATIENCE_S) == -signal.SIGTERM
        assert "ending 1 processes an earlier run left behind" in up.said


def test_a_taken_data_folder_is_said_clearly_with_the_process_that_holds_it(data: Path) -> None:
    with Up(data, "--port", "0", "--workers", "1") as up:
        up.ready()
        done = subprocess.run(
            [sys.executable, "-P", str(STAND_IN), "--data", str(data), "--port", "0"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert f"is in use by process {up.process.pid}" in done.stderr
        assert done.stdout == ""
        assert up.process.poll() is None
        assert find_stack(data).pid == up.process.pid


def test_a_taken_port_is_said_clearly_with_the_process_that_holds_it(data: Path) -> None:
    port = find_free_port()
    with socket.create_server(("127.0.0.1", port)), Up(data, "--port", str(port)) as up:
        assert up.process.wait(PATIENCE_S) == 1
        assert f"port {port} is taken (process {os.getpid()}, " in up.said
        assert "--port" in up.said


def test_a_free_port_that_somebody_takes_first_is_given_up_for_another(data: Path) -> None:
    with Up(data, "--port", "0", FIRST_COME="1") as up:
        assert up.ready()["api"] == up.stack.api
        with urllib.request.urlopen(up.stack.api) as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    "options", [("--gateway", "http://127.0.0.1:9"), ("--port", "70000"), ("--workers", "0"), ("--log-format", "xml")]
)
def test_a_wrong_option_is_wrong_usage(data: Path, options: tuple[str, ...]) -> None:
    assert CliRunner().invoke(build_cli("up"), ["up", "--data", str(data), *options]).exit_code == 2
    assert not data.exists()


DROP = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
#: To read, not to write: so that a Python under root's private home can be run by somebody else.
READ_ALL = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")


@cache
def ordinary_user() -> tuple[str, ...]:
    """Return a command line that runs this Python as an ordinary user, or nothing if that cannot be."""
    if os.geteuid() != 0:
        return (sys.executable,)
    same = f"import sys; sys.exit(sys.version != {sys.version!r})"
    for prefix in (DROP, (*DROP, *READ_ALL)):
        command = (*prefix, sys.executable)
        with suppress(OSError):
            if subprocess.run([*command, "-IS", "-c", same], check=False, capture_output=True).returncode == 0:
                return command
    return ()


if ordinary_user():

    def test_it_runs_as_an_ordinary_user_with_its_database_in_the_data_folder() -> None:
        home = Path(tempfile.mkdtemp(prefix="afterturn-ordinary-"))  # tmp_path lies under a private folder
        home.chmod(0o755)
        data = home / "data"
        data.mkdir()
        if os.geteuid() == 0:
            shutil.chown(data, 65534, 65534)
        try:
            with Up(data, "--port", "0", prefix=ordinary_user(), HOME=str(home)) as up:
                up.ready()
                stack = json.loads((data / "stack.json").read_text())
                assert stack["postgres_dir"] == str(data / "pg")
                owners = {psutil.Process(process["pid"]).uids().real for process in stack["processes"]}
                assert owners == {os.geteuid() or 65534}
                assert up.stop() == 0
            assert up.everyone() == []
        finally:
            shutil.rmtree(home)


@pytest.mark.skipif(os.geteuid() != 0, reason="the database of anybody but root lies in the data folder")
def test_root_is_told_where_the_database_lies(data: Path) -> None:
    with Up(data, "--port", "0") as up:
        up.ready()
        folder = (data / "pg").resolve()
        assert f"it lies in {folder}" in up.said
