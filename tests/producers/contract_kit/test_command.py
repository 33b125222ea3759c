"""`afterturn contract-test` as a person and a CI server meet it: what it prints, writes and exits with."""

import ast
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from afterturn_client.errors import InvalidRequestError
from afterturn_client.plugin_target import parse_target
from typer.testing import CliRunner, Result

import producers.contract_kit as kit
from deploy.cli.app import build_cli
from producers.contract_kit.client import Plugin
from producers.contract_kit.errors import NoAnswerError
from producers.contract_kit.flat_plugin import Body, FlatHandler, FlatServer, FlatStore, PluginError
from tests.certificates import Authority
from tests.patience import PATIENCE_S, wait_until
from tests.processes import spawned
from tests.producers.contract_kit.judging import list_cases, running, served
from tests.tables import each_row

FOLDER = Path(kit.__file__).parent
#: Two quick cases.
TWO = ("-k", "wrong_methods or kinds_and_sources")
TOKEN = "a-token-that-no-report-shows"


def contract_test(*arguments: str | Path, **environment: str) -> Result:
    quiet = {"MEMORY_PLUGIN_URL": "", "MEMORY_PLUGIN_TOKEN": ""} | environment
    return CliRunner().invoke(build_cli("contract-test"), ["contract-test", *map(str, arguments)], env=quiet)


def as_json(*arguments: str | Path, **environment: str) -> tuple[int, dict[str, Any]]:
    result = contract_test(*arguments, "--json", **environment)
    return result.exit_code, json.loads(result.stdout)


def read_suite(junit: Path) -> ET.Element:
    suite = ET.parse(junit).getroot().find("testsuite")
    assert suite is not None
    return suite


class FlatUnixServer(FlatServer):
    """The flat plugin behind a unix socket."""

    address_family = socket.AF_UNIX

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        super().__init__(
            ("localhost", 0), FlatStore(), type("Unix", (FlatHandler,), {"disable_nagle_algorithm": False})
        )

    def server_bind(self) -> None:
        self.socket.bind(self.path)


class MissingIsInternal(FlatHandler):
    """Falls into one trap, in words that no terminal and no XML may see raw."""

    def answer(self, status: int, value: Body | None) -> None:
        if status == 404 and self.path.endswith("/memories"):
            status, value = 500, {"code": "internal", "message": "\x1b[31m<b>\x00 ]]> no such table"}
        super().answer(status, value)


class WithToken(FlatHandler):
    """Wants a bearer token, below a path prefix, and repeats the token in its errors."""

    def route(self) -> tuple[int, Body | None]:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.read_body()
            raise PluginError(401, "forbidden", "a token is needed")
        try:
            return super().route()
        except PluginError as error:
            raise PluginError(error.status, error.code, f"{error} for {self.headers['Authorization']}") from None

    def segments(self) -> list[str]:
        before, *rest = super().segments()
        return rest if before == "memory" else ["elsewhere"]


# -- the flat plugin, and what may be imported


def test_the_flat_plugin_alone_passes_every_case_it_claims(tmp_path: Path) -> None:
    junit = tmp_path / "report.xml"
    argv = [sys.executable, "-P", str(FOLDER / "flat_plugin.py"), "--listen", "127.0.0.1:0"]
    with spawned(argv, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        status, report = as_json(url, f"--junitxml={junit}")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert (status, report["exit_status"], report["failed"], report["claimed"]) == (0, 0, 0, [])
    assert report["skipped"] == sum(bool(case.needs) for case in list_cases())
    assert {case["status"] for case in report["cases"] if not case["needs"]} == {"passed"}
    assert report["left_behind"] == []
    suite = read_suite(junit)
    assert (int(suite.attrib["tests"]), int(suite.attrib["skipped"])) == (len(list_cases()), report["skipped"])


def imported(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_the_flat_plugin_needs_the_standard_library_alone() -> None:
    roots = {name.partition(".")[0] for name in imported(FOLDER / "flat_plugin.py")}
    assert roots <= sys.stdlib_module_names


def test_the_kit_imports_nothing_of_ours_but_the_client() -> None:
    allowed = {*sys.stdlib_module_names, "afterturn_client", "httpx", "pytest"}
    files = list(FOLDER.rglob("*.py"))
    foreign = {
        name
        for file in files
        for name in imported(file)
        if name.partition(".")[0] not in allowed and not f"{name}.".startswith("producers.contract_kit.")
    }
    assert len(files) > 20
    assert not foreign


# -- what it says


def test_a_failure_tells_what_was_done_expected_and_seen_and_what_to_mend(tmp_path: Path) -> None:
    junit = tmp_path / "report.xml"
    only = ("-k", "unknown_namespace_is_404 or wrong_methods or order_is_stable")
    with served(MissingIsInternal) as url:
        shown = contract_test(url, *only, f"--junitxml={junit}")
        status, report = as_json(url, *only)
    assert shown.exit_code == status == 1
    failed = next(case for case in report["cases"] if case["id"] == "writes.unknown_namespace_is_404")
    first, _ = failed["deviations"]
    assert first["did"].startswith("POST /v1/namespaces/custom:contract-kit-")
    assert first["expected"] == "404 with code not_found"
    assert first["saw"].startswith("500 ")
    assert first["saw"] in shown.stdout
    assert failed["mend"] in shown.stdout
    assert "1 failed, 2 passed, 1 skipped" in shown.stdout
    assert "the plugin does not claim fts" in shown.stdout
    assert "\x1b[31m" not in shown.stdout
    suite = read_suite(junit)
    failure = suite.find(".//failure")
    assert failure is not None
    assert "no such table" in failure.attrib["message"]
    assert "to mend" in (failure.text or "")
    assert [suite.attrib[name] for name in ("tests", "failures", "skipped", "errors")] == ["4", "1", "1", "0"]


def test_the_list_of_cases_needs_no_plugin() -> None:
    assert all(case.promise.endswith(".") and case.clause[:2] == "1." for case in list_cases())
    shown = contract_test("--collect-only", "-k", "fts").stdout
    assert "test_order_is_stable" in shown
    assert "finds the memory that has it as a word" in shown


def test_ids_of_cases_are_unique_and_every_case_says_what_to_mend() -> None:
    cases = list_cases()
    assert len({case.id for case in cases}) == len(cases) > 80
    assert cases[-1].id.startswith("outage.")
    assert all(case.promise and case.mend for case in cases)


def test_fail_fast_ends_at_the_first_failure() -> None:
    with served(MissingIsInternal) as url:
        status, report = as_json(url, "-k", "writes and unknown_ or wire", "-x")
    assert status == 1
    assert [case["status"] for case in report["cases"]].index("failed") == len(report["cases"]) - 1


# -- where it reaches


def test_it_reaches_a_plugin_over_https_below_a_prefix_with_a_token(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    signed = authority.sign("localhost", "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed.certificate, signed.key)
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    with served(WithToken, secured=context) as url:
        there = (f"{url}/memory/", "--ca-file", authority.certificate, *TWO)
        assert as_json(*there, "--token-file", file)[0] == 0
        assert as_json(*there, MEMORY_PLUGIN_TOKEN=TOKEN)[0] == 0
        without = contract_test(*there)
        untrusted = contract_test(f"{url}/memory", *TWO, "--token-file", file)
    assert without.exit_code == untrusted.exit_code == 2
    assert "--token-file" in without.stdout
    assert "certificate" in untrusted.stdout


def test_it_reaches_a_plugin_behind_a_unix_socket(tmp_path: Path) -> None:
    with FlatUnixServer(tmp_path / "plugin.sock") as server, running(server):
        for url in (f"unix:{tmp_path}/plugin.sock", f"unix://{tmp_path}/plugin.sock"):
            status, report = as_json(url, *TWO)
            assert (status, report["unusable"]) == (0, None)


@each_row(
    "url, base, path",
    [
        ("http://127.0.0.1:9100", "http://127.0.0.1:9100", None),
        ("https://memory.example/v/", "https://memory.example/v", None),
        ("unix:/run/plugin.sock", "http://localhost", "/run/plugin.sock"),
        ("unix:///run/plugin.sock:/memory/", "http://localhost/memory", "/run/plugin.sock"),
    ],
)
def test_a_url_says_where_a_plugin_listens(url: str, base: str, path: str | None) -> None:
    target = parse_target(url)
    assert (target.base, target.socket) == (base, path)


@each_row("url", ["127.0.0.1:9100", "ftp://x", "http://", "http://h/?a=1", "unix:relative", "http://ann:pw@h"])
def test_a_url_that_names_no_plugin_is_refused_with_what_to_give(url: str) -> None:
    with pytest.raises(InvalidRequestError, match="give") as caught:
        parse_target(url)
    assert "pw" not in str(caught.value)


def test_a_token_is_in_no_report(tmp_path: Path) -> None:
    junit = tmp_path / "report.xml"
    only = ("-k", "minimal or errors_have", f"--junitxml={junit}")

    class WrongStatus(WithToken):
        def answer(self, status: int, value: Body | None) -> None:
            super().answer(418 if status >= 400 or self.command == "PUT" else status, value)

    with served(WrongStatus) as url:
        shown = contract_test(f"{url}/memory", *only, MEMORY_PLUGIN_TOKEN=TOKEN)
        written = contract_test(f"{url}/memory", *only, "--json", MEMORY_PLUGIN_TOKEN=TOKEN)
    assert shown.exit_code == written.exit_code == 1
    assert "418" in written.stdout
    assert TOKEN not in shown.output + written.output + junit.read_text()


# -- what cannot be judged


def unused_url() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_where_nothing_listens_it_exits_2_and_says_so_in_every_report(tmp_path: Path) -> None:
    url, junit = unused_url(), tmp_path / "report.xml"
    result = contract_test(url, "--json", f"--junitxml={junit}")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["exit_status"], report["cases"]) == (2, 2, [])
    assert url in report["unusable"]
    assert "Is the plugin running" in result.stderr
    assert read_suite(junit).attrib["tests"] == "0"


@each_row(
    "status, value, hint",
    [
        (404, {"code": "not_found", "message": "no such path"}, "path prefix"),
        (200, ["no", "health"], "path prefix"),
        (503, {"status": "degraded", "version": "1.0.0", "capabilities": []}, "degraded"),
        (403, {"code": "forbidden", "message": "no"}, "--token-file"),
    ],
)
def test_a_plugin_without_a_health_to_go_by_cannot_be_judged(status: int, value: Any, hint: str) -> None:
    class Answering(FlatHandler):
        def answer(self, _status: int, _value: Body | None) -> None:
            super().answer(status, value)

    with served(Answering) as url:
        result = contract_test(url)
    assert result.exit_code == 2
    assert hint in result.stdout


@each_row(
    "arguments, hint",
    [
        ((), "name the plugin"),
        (("http://127.0.0.1:1", "-k", "nothing_of_the_kind"), "deselected"),
        (("http://127.0.0.1:1", "--namespace-prefix", "Kit"), "custom:kit"),
        (("http://127.0.0.1:1", "--stop-store", "true"), "belong together"),
        (("http://127.0.0.1:1", "--token-file", "/nowhere/token"), "cannot be read"),
        (("http://127.0.0.1:1", "--dimension", "1"), "must be 2 to 4096"),
        (("https://127.0.0.1:1", "--ca-file", "/nowhere/ca.pem"), "PEM"),
    ],
)
def test_wrong_usage_exits_2_with_the_next_step(arguments: Sequence[str], hint: str) -> None:
    result = contract_test(*arguments)
    assert result.exit_code == 2
    assert hint in result.output


# -- what goes wrong on the way


class Script(FlatHandler):
    """Does something else from some request on, and counts them."""

    requests = 0
    misbehave: Callable[["Script"], bool]

    def respond(self) -> None:
        type(self).requests += 1
        if not type(self).misbehave(self):
            super().respond()

    do_GET = do_PUT = do_PATCH = do_DELETE = do_POST = respond  # noqa: N815 - http.server looks for these names


def scripted(misbehave: Callable[[Script], bool]) -> type[Script]:
    return type("Scripted", (Script,), {"requests": 0, "misbehave": misbehave})


def test_a_plugin_that_dies_fails_the_case_and_ends_the_run(tmp_path: Path) -> None:
    def die(handler: Script) -> bool:
        if type(handler).requests > 4:
            handler.close_connection = True
        return handler.close_connection

    junit = tmp_path / "report.xml"
    with served(scripted(die)) as url:
        status, report = as_json(url, f"--junitxml={junit}")
    assert status == 1
    assert report["failed"] == 1
    assert report["cases"][-1]["id"] in report["stopped"]
    assert len(report["cases"]) < len(list_cases())
    assert read_suite(junit).attrib["failures"] == "1"


async def test_an_answer_that_trickles_is_cut_off_as_a_whole() -> None:
    ended = threading.Event()

    def trickle(handler: Script) -> bool:
        handler.read_body()
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
        while not ended.wait(0.02):
            try:
                handler.wfile.write(b" ")
                handler.wfile.flush()
            except OSError:
                break
        handler.close_connection = True
        return True

    with served(scripted(trickle)) as url:
        async with aclosing(Plugin(parse_target(url), timeout_s=0.3)) as plugin:
            with pytest.raises(NoAnswerError, match="no whole answer within"):
                await plugin.send("POST", "/v1/search", {})
        ended.set()


def test_a_busy_plugin_is_asked_again_when_it_says() -> None:
    def busy(handler: Script) -> bool:
        if type(handler).requests % 2:
            return False
        handler.read_body()
        handler.send_response(429)
        handler.send_header("Retry-After", "0")
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return True

    with served(scripted(busy)) as url:
        assert as_json(url, *TWO)[0] == 0


def test_what_cannot_be_deleted_is_named() -> None:
    class KeepsEverything(FlatHandler):
        def answer(self, status: int, value: Body | None) -> None:
            super().answer(500 if self.command == "DELETE" else status, value or {})

    with served(KeepsEverything) as url:
        status, report = as_json(url, "-k", "kinds_and_sources", "--namespace-prefix", "team:mine")
    assert status == 0
    assert [name.rpartition("-")[0] for name in report["left_behind"]] == [report["namespaces"].removesuffix("-*")]
    assert report["left_behind"][0].startswith("team:mine-")


def test_memories_of_others_are_left_alone_and_in_no_report() -> None:
    store = FlatStore()
    store.upsert_namespace("custom:contract-kit", {"kind": "custom"})
    store.write("custom:contract-kit", {"content": "somebody's secret", "kind": "fact", "source": "user"})

    class Leaks(FlatHandler):
        def answer(self, status: int, value: Body | None) -> None:
            if value is not None and "memories" in value:
                value["memories"] = [
                    *value["memories"],
                    *self.store.search({"namespaces": ["custom:contract-kit"]})["memories"],
                ]
            super().answer(status, value)

    with served(store=store) as url:
        assert as_json(url, "-k", "test_search")[0] == 0
    assert len(store.memories) == 1
    with served(Leaks, store) as url:
        result = contract_test(url, "-k", "search and only_ or minimal", "--json")
    assert result.exit_code == 1
    assert "memories of 1 other namespaces" in result.stdout
    assert "secret" not in result.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_reports_what_ran_and_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    store, hangs, ended = FlatStore(), threading.Event(), threading.Event()

    def hang(handler: Script) -> bool:
        if handler.command == "PATCH":
            handler.read_body()
            hangs.set()
            ended.wait(PATIENCE_S)
            handler.close_connection = True
        return handler.command == "PATCH"

    junit = tmp_path / "report.xml"
    argv = [sys.executable, "-m", "producers.contract_kit"]
    options = ["--json", f"--junitxml={junit}", "--timeout", "120", "-k", "test_health or patch_must_ or test_search"]
    with served(scripted(hang), store) as url:
        with spawned([*argv, url, *options], stdout=subprocess.PIPE, text=True) as process:
            assert hangs.wait(PATIENCE_S)
            process.send_signal(number)
            out, _ = process.communicate(timeout=PATIENCE_S)
        ended.set()
        assert process.returncode == 130
        wait_until(lambda: not store.namespaces, "the namespaces are deleted")
    report = json.loads(out)
    assert report["exit_status"] == 130
    assert [case["id"] for case in report["cases"]] == ["health.answers", "health.tolerates_what_it_does_not_claim"]
    assert read_suite(junit).attrib["failures"] == "0"


def test_the_store_is_brought_back_when_a_case_of_an_outage_fails(tmp_path: Path) -> None:
    away = tmp_path / "away"
    commands = ("--stop-store", f"touch {away}", "--start-store", f"rm {away}")
    with served() as url:
        status, report = as_json(url, "-k", "health_is_503", *commands)
        failing = as_json(url, "-k", "health_is_503", "--stop-store", "false", "--start-store", "true")
    assert status == failing[0] == 1
    assert "200" in report["cases"][0]["deviations"][0]["saw"]
    assert "exit status 1" in failing[1]["cases"][0]["deviations"][0]["saw"]
    assert not away.exists()
