"""`afterturn jobs`, `gateway` and `audit` on a real database: what they show, what they change, what they refuse."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.cli.operator_command import read_operator_name
from store.ledger.stages import TURN_STAGES, Stage
from tests.deploy.operated import HOST_ID, SECRET, Busy, turn_id
from tests.generations import make_generation_live
from tests.patience import PATIENCE_S
from tests.processes import spawned
from tests.servers import TestPostgres

OPERATOR = "/api/v1/operator"


async def test_the_list_shows_what_waits_and_what_failed_and_says_whether_there_is_more(busy: Busy) -> None:
    await busy.append(("monday", "1"), ("monday", "2"))
    await busy.end(Stage.EMBEDDING)
    found = await busy.answer("jobs", "list", "--status", "dead")
    assert found["has_more"] is False
    assert [(job["stage"], job["status"], job["bank"], job["tenant"]) for job in found["jobs"]] == [
        ("embedding", "dead", "default", "default")
    ] * 2
    first = found["jobs"][0]
    assert (first["category"], first["reason"], first["attempts"]) == ("internal", "Broken", 1)
    assert first["turn_id"] == str(turn_id("monday", "1"))
    assert (await busy.answer("jobs", "list", "--limit", "1"))["has_more"] is True
    waiting = await busy.answer("jobs", "list", "--stage", "projection")
    assert {(job["status"], job["waits_for"]) for job in waiting["jobs"]} == {("pending", "extraction")}
    shown = await busy.run("jobs", "list", "--limit", "1")
    assert "--limit shows more" in shown.stderr
    await busy.append(("monday", "1"), bank="elsewhere")
    assert {job["bank"] for job in (await busy.answer("jobs", "list", "--bank", "elsewhere"))["jobs"]} == {"elsewhere"}
    assert len((await busy.answer("jobs", "list", "--older-than", "1h"))["jobs"]) == 0


async def test_a_turn_is_shown_by_id_and_by_the_names_its_agent_gave(busy: Busy) -> None:
    await busy.append(("monday", "a/1"))
    await busy.end(Stage.EXTRACTION)
    by_name = await busy.answer("jobs", "show", "monday/a/1")
    assert by_name["turn_id"] == str(turn_id("monday", "a/1"))
    assert [job["stage"] for job in by_name["jobs"]] == list(TURN_STAGES)
    by_id = await busy.answer("jobs", "show", by_name["turn_id"])
    assert [job["id"] for job in by_id["jobs"]] == [job["id"] for job in by_name["jobs"]]
    assert "internal: Broken" in (await busy.run("jobs", "show", "monday/a/1")).stdout
    assert (await busy.run("jobs", "show", "monday/2")).exit_code == 1
    assert (await busy.run("jobs", "show", "neither")).exit_code == 2


async def test_retrying_one_needs_no_yes_and_is_in_the_turns_history(busy: Busy) -> None:
    await busy.append(("monday", "1"))
    await busy.end(Stage.EMBEDDING)
    assert await busy.answer("jobs", "retry", "monday/1") == {
        "dry_run": False,
        "selected": 1,
        "retried": 1,
        "left": 0,
    }
    assert await busy.states(Stage.EMBEDDING) == ["pending"]
    [_, noted] = (await busy.answer("jobs", "show", "monday/1"))["history"]
    assert noted["event"] == "operator_retried"
    assert (noted["details"]["by"], noted["details"]["was"]) == (read_operator_name(), "dead")
    assert (await busy.run("jobs", "retry", "monday/1")).exit_code == 1


async def test_retrying_many_is_counted_first_and_needs_a_yes(busy: Busy) -> None:
    await busy.append(*((f"s{n}", "1") for n in range(5)))
    await busy.end(Stage.EMBEDDING)
    asked = await busy.run("jobs", "retry", "--stage", "embedding")
    assert asked.exit_code == 2
    assert "5 rows would be retried" in asked.stderr
    assert (await busy.answer("jobs", "retry", "--stage", "embedding", "--dry-run"))["selected"] == 5
    assert await busy.states(Stage.EMBEDDING) == ["dead"] * 5
    assert (await busy.answer("jobs", "retry", "--stage", "embedding", "--yes"))["retried"] == 5
    assert await busy.states(Stage.EMBEDDING) == ["pending"] * 5
    assert (await busy.answer("jobs", "retry", "--all", "--yes"))["selected"] == 0


async def test_nothing_is_changed_without_saying_which(busy: Busy) -> None:
    for command in (["jobs", "retry"], ["jobs", "drop", "--reason", "x"], ["gateway", "retry"]):
        result = await busy.run(*command, "--yes")
        assert result.exit_code == 2
        assert "--all" in result.stderr


async def test_dropping_leaves_pending_work_alone_unless_that_was_said(busy: Busy) -> None:
    await busy.append(("monday", "1"), ("monday", "2"))
    await busy.end(Stage.EMBEDDING)
    dropped = await busy.answer("jobs", "drop", "--all", "--reason", "model is gone", "--yes")
    assert (dropped["selected"], dropped["dropped"]) == (2, 2)
    assert await busy.states(Stage.EXTRACTION) == ["pending"] * 2
    pending = ["--stage", "extraction", "--status", "pending"]
    assert (await busy.answer("jobs", "drop", *pending, "--reason", "x", "--yes"))["dropped"] == 2
    history = (await busy.answer("jobs", "show", "monday/1"))["history"]
    [_, noted] = [one for one in history if one["details"]["stage"] == "embedding"]
    assert (noted["event"], noted["details"]["why"]) == ("operator_dropped", "model is gone")
    assert (await busy.run("jobs", "drop", "monday/1", "--reason", " ")).exit_code == 2


async def test_an_unknown_delivery_is_not_retried_and_the_way_out_is_named(busy: Busy) -> None:
    await busy.append(("monday", "1"))
    await busy.end(Stage.GATEWAY, "add_unknown", "timeout", "outcome unknown: the gateway may have it")
    for command in ("jobs", "gateway"):
        refused = await busy.run(command, "retry", "monday/1")
        assert refused.exit_code == 1
        assert "gateway resolve" in refused.stderr
    assert await busy.states(Stage.GATEWAY) == ["add_unknown"]
    [job] = (await busy.answer("gateway", "list"))["jobs"]
    [target] = (await busy.answer("gateway", "list-targets"))["targets"]
    assert job["gateway"] == {
        "target_id": target["target_id"],
        "url": target["url"],
        "user_id": target["user_id"],
        "session": "chat:default/monday",
    }
    assert "chat:default/monday" in (await busy.run("gateway", "list")).stdout
    assert (job["status"], job["state"], job["category"]) == ("unknown", "add_unknown", "timeout")
    assert "timeout" in (await busy.run("gateway", "show", "monday/1")).stdout


async def test_an_unknown_delivery_is_settled_by_hand(busy: Busy) -> None:
    await busy.append(("monday", "1"))
    await busy.end(Stage.GATEWAY, "add_unknown", "timeout")
    for wrong in (["not-delivered"], ["delivered", "--then", "retry"], ["not-delivered", "--then", "flush"], ["maybe"]):
        assert (await busy.run("gateway", "resolve", "monday/1", "--as", *wrong)).exit_code == 2
    settled = await busy.answer("gateway", "resolve", "monday/1", "--as", "delivered")
    assert settled.pop("gateway")["session"] == "chat:default/monday"
    assert settled == {"turn_id": str(turn_id("monday", "1")), "was": "add_unknown", "state": "added"}
    assert (await busy.run("gateway", "resolve", "monday/1", "--as", "delivered")).exit_code == 1
    [noted] = (await busy.answer("gateway", "show", "monday/1"))["history"]
    told = noted["details"]
    assert (noted["event"], told["as"], told["then"]) == ("operator_resolved", "delivered", "flush")


async def test_a_failed_flush_that_was_made_after_all_is_done(busy: Busy) -> None:
    await busy.append(("monday", "1"))
    await busy.end(Stage.GATEWAY, "flush_failed", "timeout", "no answer came")
    settled = await busy.answer("gateway", "resolve", "monday/1", "--as", "delivered")
    assert settled["state"] == "flushed"


async def test_deliveries_that_were_turned_away_are_retried_together(busy: Busy) -> None:
    await busy.append(*((f"s{n}", "1") for n in range(3)))
    await busy.end(Stage.GATEWAY, "add_failed", "unauthorized", "status 401")
    await busy.append(("late", "1"))
    await busy.end(Stage.GATEWAY, "add_failed", "http_error", "status 500")
    result = await busy.run("gateway", "retry", "--all", "--yes", "--json")
    assert json.loads(result.stdout) == {"dry_run": False, "selected": 4, "retried": 3, "left": 1}
    assert result.exit_code == 1
    assert await busy.states(Stage.GATEWAY) == ["pending"] * 3 + ["add_failed"]


async def test_every_command_of_an_operator_is_in_the_call_audit(busy: Busy) -> None:
    await busy.append(("monday", "1"), ("monday", "2"))
    await busy.end(Stage.EMBEDDING)
    await busy.answer("jobs", "retry", "--all", "--yes")
    await busy.run("gateway", "resolve", "monday/1", "--as", "delivered")
    calls = (await busy.answer("audit", "list", "--door", "operator"))["calls"]
    assert [(call["operation"], call["actor"], call["status"], call["code"], call["tenant"]) for call in calls] == [
        (f"POST {OPERATOR}/jobs/{{job_id}}/settle", read_operator_name(), 404, "NOT_FOUND", None),
        # One call changes all that match, of every tenant.
        (f"POST {OPERATOR}/jobs/matching", read_operator_name(), 200, None, None),
    ]
    assert len((await busy.answer("audit", "list", "--refused"))["calls"]) == 1
    changed = ("--operation", f"POST {OPERATOR}/jobs/matching", "--since", "1h")
    assert len((await busy.answer("audit", "list", *changed))["calls"]) == 1


async def test_what_else_an_operator_changes_is_in_the_call_audit_and_what_is_only_read_is_not(busy: Busy) -> None:
    made = await busy.answer("keys", "create", "--label", "bot")
    await busy.append(("monday", "1"))
    async with busy.opened() as database:
        await make_generation_live(database, 77)
    for command in (["keys", "list"], ["quota", "show"], ["erase", "session", "monday", "--dry-run"], ["replay"]):
        await busy.run(*command, "--json")
    await busy.answer("quota", "set", "--max-turns", "10")
    await busy.answer("erase", "session", "monday", "--yes")
    await busy.answer("replay", "--repair", "--host", "default")
    await busy.answer("maintenance", "--dry-run")
    await busy.answer("maintenance", "--task", "ledger")
    await busy.answer("extract", "--host", "default", "--timeout", "0s")
    await busy.answer("embed", "--host", "default", "--timeout", "0s")
    assert (await busy.run("keys", "revoke", str(HOST_ID))).exit_code == 1
    calls = (await busy.answer("audit", "list", "--door", "operator"))["calls"]
    told = [(call["operation"], call["code"]) for call in calls]
    assert told == [
        (f"DELETE {OPERATOR}/keys/{{key_id}}", "NOT_FOUND"),
        ("embed", None),
        ("extract", None),
        ("maintenance", None),
        ("replay --repair", None),
        ("erase session", None),
        (f"PUT {OPERATOR}/quotas", None),
        (f"POST {OPERATOR}/keys", None),
    ]
    assert calls[5]["rows"] > 1
    assert {call["tenant"] for call in calls if call["operation"] != "maintenance"} == {"default", None}
    assert made["key"] not in str(calls)
    assert "monday" not in str(calls)


async def test_drain_ends_when_nothing_is_undone_whatever_is_dead(busy: Busy) -> None:
    await busy.append(("monday", "1"))
    await busy.end(Stage.EMBEDDING)
    waiting = asyncio.ensure_future(busy.answer("jobs", "drain", "--timeout", "600s"))
    await asyncio.sleep(1)
    assert not waiting.done()
    await busy.finish()
    drained = await waiting
    assert (drained["drained"], drained["undone"], drained["dead"], drained["unknown"]) == (True, 0, 1, 0)


async def test_drain_gives_up_after_its_time_and_says_what_is_left(busy: Busy) -> None:
    await busy.append(("monday", "1"))
    result = await busy.run("jobs", "drain", "--timeout", "1s", "--json")
    assert result.exit_code == 1
    drained = json.loads(result.stdout)
    assert (drained["drained"], drained["undone"]) == (False, len(TURN_STAGES))
    assert f"{len(TURN_STAGES)} pieces of work undone" in result.stderr
    at_once = await busy.run("jobs", "drain", "--stage", "projection", "--timeout", "0s")
    assert (at_once.exit_code, "1 pieces of work undone" in at_once.stderr) == (1, True)


@pytest.mark.live
async def test_drain_that_is_interrupted_says_how_it_stands(busy: Busy) -> None:
    await busy.append(("monday", "1"))
    command = [sys.executable, "-m", "deploy.cli", "jobs", "drain", "--json", "--data", str(busy.folder)]

    def interrupted() -> "tuple[int, str, str]":
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        with spawned(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stderr is not None
            assert "undone" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE_S)
            return process.returncode, out, err

    status, out, err = await asyncio.to_thread(interrupted)
    assert (status, json.loads(out)["undone"]) == (130, len(TURN_STAGES))
    assert "Traceback" not in err


@pytest.mark.law("L7")
async def test_no_text_and_no_key_is_in_anything_an_operator_sees(busy: Busy) -> None:
    made = await busy.answer("keys", "create", "--label", "bot")
    await busy.append(("monday", "1"), ("tuesday", "1"))
    for stage in (Stage.EMBEDDING, Stage.EXTRACTION):
        await busy.end(stage)
    await busy.end(Stage.GATEWAY, "add_unknown", "timeout")
    commands = [
        ["jobs", "list"],
        ["jobs", "show", "monday/1"],
        ["jobs", "retry", "monday/1", "--stage", "embedding"],
        ["jobs", "drop", "monday/1", "--stage", "extraction", "--reason", "no use"],
        ["jobs", "drain", "--timeout", "0s"],
        ["gateway", "list"],
        ["gateway", "show", "monday/1"],
        ["gateway", "resolve", "monday/1", "--as", "not-delivered", "--then", "skip"],
        ["gateway", "resolve", "tuesday/1", "--as", "delivered"],
        ["gateway", "retry", "--all"],
        ["audit", "list"],
        ["jobs", "show", "monday/1"],
        ["status"],
    ]
    for command in commands:
        for form in ([], ["--json"]):
            result = await busy.run(*command, *form)
            assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
            for secret in (SECRET, made["key"]):
                assert secret not in result.stdout + result.stderr
    kept = [await busy.tell(f"select cast(t as text) as row from afterturn.{name} t") for name in ("audit_event_t",)]
    assert SECRET not in str(kept)


async def test_without_a_stack_the_commands_end_with_2(tmp_path: Path) -> None:
    away = Busy(tmp_path / "none", TestPostgres("", "", "", "", ""))
    for command in (["jobs", "list"], ["jobs", "drain"], ["gateway", "list"], ["audit", "list"]):
        assert (await away.run(*command)).exit_code == 2
