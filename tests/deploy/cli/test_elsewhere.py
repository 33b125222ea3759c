"""Operators' commands on a service elsewhere: contexts in a file, `--url`, and an operator's key without a database."""

import json
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse
from typer.testing import CliRunner, Result

from deploy.cli.app import build_cli
from store.ledger.stages import TURN_STAGES
from tests.client.loopback import Loopback, closed_port
from tests.deploy.operated import Operated
from tests.patience import PATIENCE_S
from tests.processes import spawned

OPERATOR = "op_distinctive"
SECRET = "at_Grimpenmire"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without a stack, settings or contexts."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("AFTERTURN_DATA", "AFTERTURN_CLIENT__URL", "AFTERTURN_CLIENT__KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def service(server: Loopback) -> Iterator[Loopback]:
    server.reset()
    yield server
    server.reset()


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(build_cli(), list(arguments), input=stdin)


def test_contexts_are_kept_for_their_owner_used_listed_and_removed(home: Path) -> None:
    assert run("context", "add", "prod", "--url", "https://memory.example/", stdin=SECRET).exit_code == 0
    assert run("context", "add", "eu", "--url", "https://eu.memory.example", stdin=SECRET).exit_code == 0
    [kept] = home.rglob("contexts.json")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    listed = run("context", "list", "--json")
    assert SECRET not in listed.stdout + run("context", "list").stdout
    assert [(one["name"], one["current"]) for one in json.loads(listed.stdout)["contexts"]] == [
        ("prod", True),
        ("eu", False),
    ]
    assert run("context", "use", "eu").exit_code == 0
    assert run("context", "use", "nowhere").exit_code == 2
    assert run("context", "remove", "eu").exit_code == 0
    assert [one["current"] for one in json.loads(run("context", "list", "--json").stdout)["contexts"]] == [False]
    assert run("--context", "eu", "status").exit_code == 2


@pytest.mark.parametrize("said", ["", "two words", "one\ntwo", SECRET + "\n" * 5000])
def test_the_key_of_a_context_is_one_word_of_a_file_that_is_not_read_for_ever(home: Path, said: str) -> None:
    (home / "key").write_text(said)
    refused = run("context", "add", "prod", "--url", "https://memory.example", "--key-file", str(home / "key"))
    assert (refused.exit_code, "the key must be one" in refused.stderr) == (2, True)
    assert list(home.rglob("contexts.json")) == []


@pytest.mark.usefixtures("home")
def test_plain_http_to_another_machine_is_refused_with_the_setting_that_allows_it() -> None:
    refused = run("--url", "http://memory.example", "--key", "at_x", "recall", "x")
    assert (refused.exit_code, "(in settings: client.allow_http)" in refused.stderr) == (2, True)


def test_a_file_without_a_key_is_named_itself(home: Path) -> None:
    (home / "key").write_text("\n")
    refused = run("--url", "https://memory.example", "--key-file", str(home / "key"), "recall", "x")
    assert (refused.exit_code, refused.stderr) == (
        2,
        f"afterturn: {home / 'key'} is empty: it must hold the key for --url\n",
    )


COUNTS = {"pending": 1, "running": 0, "done": 3, "skipped": 0, "unknown": 0, "dead": 0}
ID = "0b7c1f5e-52a7-4a3e-8d51-3f6a1c9b7e20"
#: What the service answers, which the command prints as it is.
STATUS: dict[str, Any] = {
    "turns": 4,
    "stages": {stage.value: COUNTS for stage in TURN_STAGES},
    "rows": {stage.value: {**COUNTS, "done": 0} for stage in TURN_STAGES},
    "oldest_undone_s": 2.5,
    "oldest_by_stage_s": dict.fromkeys(map(str, TURN_STAGES), 2.5),
    "dead": 0,
    "undone": len(TURN_STAGES),
}


def test_status_is_watched_with_an_operators_key_until_it_is_interrupted(home: Path, service: Loopback) -> None:
    assert home
    run("context", "add", "here", "--url", service.url, stdin=OPERATOR)
    service.answers(JSONResponse(STATUS))
    command = [sys.executable, "-m", "deploy.cli", "status", "--watch", "--every", "0s", "--json"]
    with spawned(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        told = [json.loads(watching.stdout.readline()) for _ in range(3)]
        watching.send_signal(signal.SIGINT)
        _, said = watching.communicate(timeout=PATIENCE_S)
    assert [(one["turns"], one["undone"]) for one in told] == [(4, len(TURN_STAGES))] * 3
    assert (watching.returncode, said) == (0, "")


def test_an_audit_is_filtered_by_the_service_as_the_command_line_says(home: Path, service: Loopback) -> None:
    assert home
    run("context", "add", "here", "--url", service.url, stdin=OPERATOR)
    service.answers(JSONResponse({"calls": [], "has_more": False}))
    words = ["--key", ID, "--operation", "POST /api/v1/turns", "--since", "2h", "--door", "http"]
    assert run("audit", "list", *words, "--json").exit_code == 0
    assert service.seen[-1].params == {
        "key_id": ID,
        "operation": "POST /api/v1/turns",
        "since_s": "7200.0",
        "door": "http",
        "limit": "50",
    }


def test_an_operators_key_serves_commands_without_a_database(home: Path, service: Loopback) -> None:
    assert home
    assert run("context", "add", "here", "--url", service.url, stdin=OPERATOR).exit_code == 0
    answers: dict[str, Any] = {
        "status": STATUS,
        "tenants list": {"tenants": [], "cursor": None, "has_more": False},
        "jobs list --status dead": {"jobs": [], "has_more": False},
        "keys list --host acme": {"keys": []},
        "quota show --host acme": {"quotas": []},
        "quota set --host acme --max-turns 5": {"quotas": []},
        "audit list --refused": {"calls": [], "has_more": False},
        "gateway list-targets": {"targets": []},
        "keys create --host acme --expires 1h": {"key_id": ID, "key": "at_x", "expires_at": None},
    }
    for command, answer in answers.items():
        service.answers(JSONResponse(answer))
        result = run(*command.split(), "--json")
        assert (result.exit_code, json.loads(result.stdout)) == (0, answer), (command, result.stderr)
        seen = service.seen[-1]
        assert seen.path.startswith("/api/v1/operator/")
        assert seen.headers["authorization"] == f"Bearer {OPERATOR}"
    assert service.seen[-1].json == {
        "tenant": "acme",
        "label": "",
        "banks": None,
        "user": None,
        "agent": None,
        "gateway_user": None,
        "curate": False,
        "write": True,
        "expires_s": 3600,
    }
    needs = run("replay", "--verify")
    assert needs.exit_code == 2
    assert "database" in needs.stderr
    refusal = {"error": {"code": "UNAUTHENTICATED", "message": "no"}, "request_id": "r"}
    service.answers(JSONResponse(refusal, 401))
    assert run("status").exit_code == 2


@pytest.mark.parametrize(
    "command",
    ["status", "tenants list", "jobs list", "keys list --host acme", "quota show --host acme", "audit list",
     "gateway list-targets", "banks list"],
)  # fmt: skip
@pytest.mark.parametrize("proxy", ["http://", "socks5://"])
def test_no_proxy_of_the_environment_sees_a_key_that_goes_to_this_machine(
    home: Path, service: Loopback, monkeypatch: pytest.MonkeyPatch, command: str, proxy: str
) -> None:
    assert home
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, closed_port().replace("http://", proxy))
    answer: dict[str, list[str]] = {
        "tenants": [],
        "jobs": [],
        "keys": [],
        "quotas": [],
        "calls": [],
        "targets": [],
        "banks": [],
    }
    service.answers(JSONResponse({**STATUS, **answer, "cursor": None, "has_more": False}))
    result = run("--url", service.url, "--key", SECRET if command == "banks list" else OPERATOR, *command.split())
    assert result.exit_code == 0, result.stderr
    assert len(service.seen) == 1


@pytest.mark.parametrize("key", [OPERATOR, SECRET])
def test_a_proxy_that_cannot_be_used_is_said_in_a_line(home: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    assert home
    for name in ("ALL_PROXY", "all_proxy", "https_proxy"):
        monkeypatch.setenv(name, "socks5://127.0.0.1:9")
    for command in ("status", "banks list") if key == OPERATOR else ("banks list", "recall x"):
        refused = run("--url", "https://192.0.2.1", "--key", key, *command.split())
        assert refused.exit_code == 2, refused.stderr
        assert "SOCKS proxy" in " ".join(refused.stderr.split())
        assert "Traceback" not in refused.stderr


def test_a_service_that_is_away_is_named_whatever_is_asked_of_it(home: Path) -> None:
    assert home
    url = closed_port()
    for command in ("status", "jobs list", "quota show --host 0b7c1f5e-52a7-4a3e-8d51-3f6a1c9b7e20"):
        away = run("--url", url, "--key", OPERATOR, *command.split())
        assert (away.exit_code, f"{url} does not answer" in away.stderr) == (1, True), away.stderr


@pytest.mark.parametrize(
    "url", ["http://memory.example", "http://10.0.0.7:8300", "memory.example", f"https://u:{SECRET}@h"]
)
def test_a_context_to_which_no_key_may_be_sent_is_not_kept(home: Path, url: str) -> None:
    refused = run("context", "add", "prod", "--url", url, stdin=OPERATOR)
    assert refused.exit_code == 2
    assert SECRET not in refused.stderr
    assert list(home.rglob("contexts.json")) == []
    assert run("context", "add", "p", "--url", "http://10.0.0.7:8300", "--allow-http", stdin=OPERATOR).exit_code == 0


@pytest.mark.parametrize(
    "named",
    [
        ("--key", SECRET),
        ("--key-file", "key"),
        ("--url", "http://127.0.0.1:9", "--context", "prod"),
        ("--url", "http://127.0.0.1:9", "--key", SECRET, "--key-file", "key"),
    ],
)
@pytest.mark.usefixtures("home")
def test_options_of_a_service_that_do_not_go_together_are_refused(named: tuple[str, ...]) -> None:
    refused = run(*named, "banks", "list")
    assert refused.exit_code == 2
    assert "--url" in refused.stderr
    assert SECRET not in refused.stderr


def test_a_command_line_names_a_service_before_everything_else(home: Path, service: Loopback) -> None:
    key = home / "key"
    key.write_text(f"{SECRET}\n")
    run("context", "add", "elsewhere", "--url", "https://memory.example", stdin=OPERATOR)
    service.answers(JSONResponse({"banks": [], "cursor": None, "has_more": False}))
    result = run("--url", service.url, "--key-file", str(key), "banks", "list", "--json")
    assert result.exit_code == 0, result.stderr
    assert service.seen[-1].headers["authorization"] == f"Bearer {SECRET}"
    assert run("--url", service.url, "--key", OPERATOR, "banks", "list", "--json").exit_code == 0


async def test_an_operators_key_is_made_listed_and_revoked(operated: Operated) -> None:
    made = await operated.answer("keys", "create", "--operator", "--label", "on call")
    assert made["key"].startswith("op_")
    listed = await operated.answer("keys", "list-operators")
    about = [(one["key_id"], one["label"], one["state"]) for one in listed["keys"]]
    assert about == [(made["key_id"], "on call", "active")]
    assert made["key"] not in str(listed)
    done = await operated.run("keys", "revoke-operator", listed["keys"][0]["key_id"])
    assert done.exit_code == 0, done.stderr
    assert (await operated.answer("keys", "list-operators"))["keys"][0]["state"] == "revoked"
    assert (await operated.run("keys", "create", "--operator", "--read-only")).exit_code == 2
    audited = await operated.answer("audit", "list", "--door", "operator")
    assert {call["operation"] for call in audited["calls"]} == {"keys create --operator", "keys revoke-operator"}


ROW = {
    "id": "3f6a1c9b-7e20-4a3e-8d51-0b7c1f5e52a7",
    "turn_id": "3f6a1c9b-7e20-4a3e-8d51-0b7c1f5e52a7",
    "stage": "extraction",
    "status": "dead",
    "state": "dead",
    "follow_up": False,
    "tenant": "acme",
    "bank_id": "0d5f6f2d-9c11-5c5b-9a55-6d3c5f0e8a41",
    "session_id": "0d5f6f2d-9c11-5c5b-9a55-6d3c5f0e8a42",
    "position": 1,
    "attempts": 5,
    "category": "timeout",
    "reason": None,
    "age_s": 12.5,
    "accepted_at": "2026-03-02T09:30:00+00:00",
    "updated_at": "2026-03-02T09:30:00+00:00",
    "next_attempt_at": None,
    "waits_for": None,
    "worker": None,
}
AT = "2026-03-02T09:30:00+00:00"
COUNTED = {"pending": 0, "running": 0, "unknown": 0, "dead": 3, "counted_at": AT}
WORKER = {
    "worker": "app-1:1:2",
    "version": "0.1.0",
    "stages": ["embedding"],
    "started_at": "2026-03-02T09:30:00+00:00",
    "seen_at": "2026-03-02T09:30:00+00:00",
    "state": "drained",
    "claims": 0,
}
LISTED = {"jobs": [ROW], "cursor": None, "has_more": False}
#: A command, what the service answers in turn, what it was last asked, and what the command says.
COMMANDS: dict[str, tuple[list[Any], tuple[str, Any], dict[str, Any]]] = {
    "worker drain app-1:1:2 --wait 1m": (
        [{"ok": True, "draining": ["app-1:1:2"]}, {"workers": [WORKER]}],
        ("GET /workers", None),
        {"workers": {"app-1:1:2": "drained"}},
    ),
    "jobs list --stage extraction --host acme --bank b --older-than 10m": (
        [LISTED],
        ("GET /jobs", None),
        {"jobs": [ROW], "has_more": False},
    ),
    "jobs retry --host acme --yes": (
        # The service works at them for some seconds a call.
        [COUNTED, {"changed": 2, "left": 0, "cursor": "on"}, {"changed": 1, "left": 0, "cursor": None}],
        (
            "POST /jobs/matching",
            {"action": "retry", "where": {"tenant": "acme", "status": "dead"}, "counted_at": AT, "cursor": "on"},
        ),
        {"dry_run": False, "selected": 3, "retried": 3, "left": 0},
    ),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_work_is_changed_over_the_operators_interface(home: Path, service: Loopback, command: str) -> None:
    assert home
    answers, (last, body), said = COMMANDS[command]
    run("context", "add", "here", "--url", service.url, stdin=OPERATOR)
    service.answers(*map(JSONResponse, answers))
    result = run(*command.split(), "--json")
    assert result.exit_code == 0, result.stderr
    printed = json.loads(result.stdout)
    printed.pop("waited_s", None)
    assert printed == said
    assert len(service.seen) == len(answers)
    assert f"{service.seen[-1].method} {service.seen[-1].path}" == last.replace(" ", " /api/v1/operator")
    if body is not None:
        assert service.seen[-1].json == body
