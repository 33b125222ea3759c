"""`afterturn recall`, `config` and the command line as a whole."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy.cli.app import COMMANDS, build_cli
from deploy.settings_listing import mask_value
from tests.client.loopback import Loopback
from tests.deploy.native_double import NativeDouble, stand_in
from tests.patience import PATIENCE_S
from tests.tables import each_row

SECRET = "hunter2-distinctive"
RESULT = {
    "unit_id": "0b7c1f5e-52a7-5a3e-8d51-3f6a1c9b7e21",
    "handle": 1,
    "kind": "experience",
    "text": "red [bold]herring[/bold]\x1b[31m \u2028 :smile:",
    "score": 0.5,
    "session_id": "s",
    "turn_id": "t/1",
    "role": "user",
    "name": "Ana",
    "occurred_at": "2026-01-02T03:04:05Z",
    "arms": ["dense", "lexical"],
    "explain": {
        "arms": {
            "dense": {"rank": 1, "score": 0.4, "weight": 0.75},
            "lexical": {"rank": 9, "score": 0.0, "weight": 1.0},
        },
        "moved": {"session": 0.25, "assistant": -0.05},
    },
}
ANSWER = {
    "results": [RESULT],
    "reference": None,
    "freshness": {
        "position": 1,
        "embedded": 1,
        "extracted": 1,
        "projected": 1,
        "pending": 3,
        "waited_ms": 0,
        "met": True,
    },
    "took_ms": 4.25,
    "tokens": 9,
    "evidence": {"top": 0.9, "on_topic": True, "about": None},
    "bank_known": True,
}


@pytest.fixture
def data(server: Loopback, tmp_path: Path) -> Iterator[Path]:
    server.reset()
    lock = stand_in(tmp_path / "data", server, NativeDouble(answers={"/api/v1/recall": ANSWER}))
    yield tmp_path / "data"
    lock.release()


def test_a_question_is_sent_with_what_narrows_it(server: Loopback, data: Path) -> None:
    options = ["--bank", "b", "--session", "s", "--exclude-session", "-k", "3", "--max-tokens", "9", "--kind", "world"]
    result = CliRunner().invoke(build_cli("recall"), ["recall", "who?", "--data", str(data), "--explain", *options])
    assert result.exit_code == 0, result.stderr
    assert server.seen[0].json == {
        "query": "who?",
        "bank": "b",
        "session_id": "s",
        "exclude_session": True,
        "k": 3,
        "max_tokens": 9,
        "kinds": ["world"],
        "explain": True,
    }


def test_times_sources_metadata_and_positions_are_sent_as_the_service_has_them(server: Loopback, data: Path) -> None:
    options = [
        "--as-of",
        "2026-05-01",
        "--known-at",
        "2026-05-01T09:30:00+02:00",
        "--metadata",
        "a=b=c",
        "--session",
        "s",
    ]
    options += [
        "--source",
        "local",
        "--sources",
        "gateway",
        "--min-position",
        "7",
        "--wait-ms",
        "90",
        "--skip-recent",
        "6",
    ]
    result = CliRunner().invoke(build_cli("recall"), ["recall", "who?", "--data", str(data), *options])
    assert result.exit_code == 0, result.stderr
    asked = server.seen[0].json
    assert asked["as_of"] == "2026-05-01T00:00:00Z"
    assert asked["known_at"] == "2026-05-01T07:30:00Z"
    assert asked["metadata"] == {"a": "b=c"}
    assert asked["sources"] == ["local", "gateway"]
    assert (asked["min_position"], asked["wait_ms"], asked["skip_recent"]) == (7, 90, 6)


@pytest.mark.parametrize("wrong", [["--as-of", "May"], ["--known-at", ""], ["--metadata", "a"], ["--wait-ms", "10001"]])
def test_what_cannot_be_read_is_wrong_usage_before_anything_is_asked(
    server: Loopback, data: Path, wrong: list[str]
) -> None:
    assert CliRunner().invoke(build_cli("recall"), ["recall", "who?", "--data", str(data), *wrong]).exit_code == 2
    assert server.seen == []


def test_directives_other_turns_and_how_sure_a_fact_is_are_shown(server: Loopback, tmp_path: Path) -> None:
    server.reset()
    found = {**RESULT, "turn_ids": ["t/1", "t/0"], "confidence": 0.78}
    more = {
        "results": [found],
        "directives": [{"directive_id": RESULT["unit_id"], "name": "tone", "content": "brief", "priority": 1}],
    }
    lock = stand_in(tmp_path / "more", server, NativeDouble(answers={"/api/v1/recall": {**ANSWER, **more}}))
    result = CliRunner().invoke(build_cli("recall"), ["recall", "who?", "--data", str(tmp_path / "more")])
    lock.release()
    assert all(shown in result.stdout for shown in ("tone: brief", "also in t/0", "78% sure"))


def test_tags_and_a_user_hold_it_and_across_banks_needs_the_user(server: Loopback, data: Path) -> None:
    held = ["recall", "who?", "--data", str(data), "--tag", "a", "--tag", "b", "--across-banks"]
    assert CliRunner().invoke(build_cli("recall"), held).exit_code == 2
    assert server.seen == []
    result = CliRunner().invoke(build_cli("recall"), [*held, "--user", "ana"])
    assert result.exit_code == 0, result.stderr
    asked = server.seen[0].json
    assert (asked["tags"], asked["user_id"], asked["across_banks"]) == (["a", "b"], "ana", True)


def test_json_is_the_services_answer_on_one_ascii_line(data: Path) -> None:
    result = CliRunner().invoke(build_cli("recall"), ["recall", "who?", "--data", str(data), "--json"])
    assert len(result.stdout.splitlines()) == 1
    assert json.loads(result.stdout) == ANSWER


def test_for_people_texts_cannot_steer_the_terminal(data: Path) -> None:
    result = CliRunner().invoke(build_cli("recall"), ["recall", "who?", "--data", str(data), "--explain"])
    assert "red [bold]herring[/bold]" in result.stdout
    assert ":smile:" in result.stdout
    assert "\x1b" not in result.stdout
    for shown in ("0.5000", "2026-01-02 03:04", "Ana", "s/t/1", "dense+lexical", "3 pieces"):
        assert shown in result.stdout


def test_what_a_score_is_made_of_is_told_in_words(data: Path) -> None:
    result = CliRunner().invoke(build_cli("recall"), ["recall", "who?", "--data", str(data), "--explain"])
    assert "    dense 0.300 (no. 1), session +0.250, assistant -0.050\n" in result.stdout


def test_a_trace_tells_what_each_step_took(server: Loopback, tmp_path: Path) -> None:
    server.reset()
    traced = {**ANSWER, "trace": {"prepare": 1.5, "dense": 2.125}}
    lock = stand_in(tmp_path / "traced", server, NativeDouble(answers={"/api/v1/recall": traced}))
    result = CliRunner().invoke(build_cli("recall"), ["recall", "who?", "--data", str(tmp_path / "traced"), "--trace"])
    lock.release()
    assert server.seen[0].json["explain"] is True
    assert "(no. 1)" not in result.stdout
    rows = [line.split() for line in result.stdout.splitlines()[-4:]]
    assert rows == [["step", "ms", "share"], ["prepare", "1.50", "35%"], ["dense", "2.12", "50%"], ["all", "4.25"]]


def test_a_wrong_number_and_a_wrong_command_are_wrong_usage(data: Path) -> None:
    assert CliRunner().invoke(build_cli("recall"), ["recall", "q", "-k", "0", "--data", str(data)]).exit_code == 2
    assert CliRunner().invoke(build_cli(), ["nonsense"]).exit_code == 2


def test_an_environment_variable_names_the_data_folder(data: Path) -> None:
    result = CliRunner().invoke(build_cli("recall"), ["recall", "q", "--json"], env={"AFTERTURN_DATA": str(data)})
    assert result.exit_code == 0


@each_row("command", sorted(n for n, at in COMMANDS.items() if not at.place.endswith("_app") and n != "demo"))
def test_help_teaches_with_an_example(command: str) -> None:
    result = CliRunner().invoke(build_cli(command), [command, "--help"])
    assert result.exit_code == 0
    assert command == "up" or "Example" in result.stdout


def test_the_installed_command_knows_every_command() -> None:
    command = [sys.executable, "-c", "from deploy.cli import main; main()", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout
    assert all(name in shown for name in COMMANDS)


CONFIGURED = {
    "AFTERTURN_DATABASE__URL": f"postgresql+asyncpg://app:{SECRET}@db.example:5432/x",
    "AFTERTURN_BROKER__URL": f"redis://:{SECRET}@cache.example:6379/0?password={SECRET}",
    "AFTERTURN_GATEWAY__BASE_URL": f"http://user:{SECRET}@gateway.example/",
    "AFTERTURN_GATEWAY_USER_KEY": SECRET,
    "AFTERTURN_API__PORT": "9000",
    "AFTERTURN_PORT": "tcp://10.0.0.1:80",
}


def test_config_shows_values_and_origins_and_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("worker: {max_attempts: 7}\n")
    result = CliRunner().invoke(build_cli("config"), ["config", "--config", str(file), "--json"], env=CONFIGURED)
    settings = json.loads(result.stdout)["settings"]
    assert settings["api.port"] == {"value": 9000, "from": "environment AFTERTURN_API__PORT"}
    assert settings["worker.max_attempts"] == {"value": 7, "from": f"file {file}"}
    assert settings["worker.sweep_seconds"]["from"] == "default"
    assert settings["database.url"]["value"] == "postgresql+asyncpg://app:********@db.example:5432/x"
    assert settings["broker.url"]["value"] == "redis://:********@cache.example:6379/0?********"
    assert settings["gateway.user_key"]["value"] == "********"
    assert "AFTERTURN_PORT" in result.stderr
    for_people = CliRunner().invoke(build_cli("config"), ["config"], env=CONFIGURED)
    assert "api.port" in for_people.stdout
    for shown in (result.stdout, result.stderr, for_people.stdout, for_people.stderr):
        assert SECRET not in shown


def test_config_says_what_is_wrong_and_ends_with_2() -> None:
    environ = {"AFTERTURN_API__PORT": SECRET, "AFTERTURN_DATABASE__URL": f"postgresql://u:{SECRET}@h/x"}
    result = CliRunner().invoke(build_cli("config"), ["config"], env=environ)
    assert result.exit_code == 2
    assert "api.port (environment AFTERTURN_API__PORT)" in result.stderr
    assert "0..65535" in result.stderr
    assert SECRET not in result.stderr


@each_row(
    "url",
    [
        f"postgresql://app:{SECRET}@h/x",
        f"postgresql://app:pa/{SECRET}@h/x",
        f"postgresql://app:pa@{SECRET}@h/x",
        f"postgresql://app:pa#{SECRET}@h/x",
        f"postgresql://app:pa?{SECRET}@h/x",
        f"postgresql://[{SECRET}@h/x",
        f"postgresql://h/x?password={SECRET}",
        f"postgresql://h/x#{SECRET}",
    ],
)
def test_no_password_of_a_url_is_shown_however_it_is_written(url: str) -> None:
    assert SECRET not in mask_value(url)
