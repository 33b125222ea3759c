"""The example agent as a user starts it: a process of its own between a model and a gateway on loopback."""

import json
import os
import subprocess
import sys
from pathlib import Path

from starlette.responses import JSONResponse

from tests.client import twins
from tests.client.hybrid.worlds import ANSWER, EXAMPLE, KEY, PROMPT, RECALLED, calls, config, model_answers, says
from tests.client.loopback import Loopback
from tests.patience import PATIENCE_S


def start(home: Path, model: Loopback, *arguments: str, lines: str = "") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(EXAMPLE), "--home", str(home), "--model-url", f"{model.url}/v1", *arguments]
    environment = {**os.environ, "MODEL_API_KEY": "mk-loopback", "AFTERTURN_API_KEY": "at_key", "NO_PROXY": "127.0.0.1"}
    return subprocess.run(
        command, input=lines, capture_output=True, text=True, env=environment, timeout=PATIENCE_S, check=False
    )


def test_the_example_answers_with_memory_and_keeps_the_turn(tmp_path: Path, gateway: Loopback, model: Loopback) -> None:
    (tmp_path / "agent.json").write_text(json.dumps(config(gateway)))
    model_answers(
        model, calls("memory", '{"action": "add", "target": "user", "content": "keeps a ledger"}'), says(ANSWER)
    )
    done = start(tmp_path, model, "--config", str(tmp_path / "agent.json"), PROMPT)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{ANSWER}\n", "")
    assert [seen.path for seen in gateway.seen] == ["/memories/search", "/memories/add", "/memories/flush"]
    first, second = (seen.json["messages"] for seen in model.seen)
    assert [message["role"] for message in first] == ["system", "user", "user"]
    assert RECALLED in first[1]["content"]
    assert [message["role"] for message in second[3:]] == ["assistant", "tool"]
    assert model.seen[0].headers["authorization"] == "Bearer mk-loopback"
    assert (tmp_path / "USER.md").read_text() == "keeps a ledger"


def test_without_a_configuration_the_example_warns_once_and_goes_on(
    tmp_path: Path, gateway: Loopback, model: Loopback
) -> None:
    done = start(tmp_path, model, lines="one\ntwo\n")
    assert (done.returncode, done.stdout) == (0, f"{ANSWER}\n{ANSWER}\n")
    assert done.stderr.count("WARNING") == 1
    assert [message["content"] for message in model.seen[1].json["messages"][1:]] == ["one", ANSWER, "two"]
    assert gateway.seen == []


def test_an_explicit_hybrid_without_credentials_does_not_start_and_shows_no_key(
    tmp_path: Path, gateway: Loopback, model: Loopback
) -> None:
    (tmp_path / "agent.json").write_text(json.dumps(config(gateway, userId="")))
    done = start(tmp_path, model, "--config", str(tmp_path / "agent.json"), PROMPT)
    assert done.returncode == 1
    assert "memory.gateway needs userId" in done.stderr
    assert KEY not in done.stderr
    assert model.seen == gateway.seen == []


def test_a_model_that_fails_ends_the_run_and_nothing_is_kept(
    tmp_path: Path, gateway: Loopback, model: Loopback
) -> None:
    (tmp_path / "agent.json").write_text(json.dumps(config(gateway)))
    model.answers(JSONResponse({}, 500))
    done = start(tmp_path, model, "--config", str(tmp_path / "agent.json"), PROMPT)
    assert done.returncode == 1
    assert KEY not in done.stderr
    assert [seen.path for seen in gateway.seen] == ["/memories/search"]


def test_the_example_hands_its_turns_to_afterturn(tmp_path: Path, gateway: Loopback, model: Loopback) -> None:
    empty = JSONResponse({**twins.ANSWER, "results": [], "reference": None})
    gateway.answers(empty, JSONResponse({"ok": True, "position": 2, "duplicate": False}, 201))
    done = start(tmp_path, model, "--afterturn", gateway.url, PROMPT)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{ANSWER}\n", "")
    assert [seen.path for seen in gateway.seen] == ["/api/v1/recall", "/api/v1/turns"]
