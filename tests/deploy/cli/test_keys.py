"""`afterturn keys` and `afterturn quota`: scopes, rotation by overlap, limits, on a real database."""

import json
import os
import sys
from datetime import UTC, datetime, timedelta

import pytest
import typer

from deploy.cli import main
from deploy.cli.times import parse_duration
from store.tenancy.keys import Grant, Keys
from tests.deploy.operated import Operated
from tests.tables import each_row


async def grant_of(operated: Operated, token: str) -> Grant | None:
    database = operated.database()
    try:
        return await Keys(database).authenticate(token)
    finally:
        await database.close()


async def test_a_key_is_scoped_to_a_user_an_agent_and_a_time(operated: Operated) -> None:
    made = await operated.answer("keys", "create", "--user", "ana", "--agent", "planner", "--expires", "90d")
    lives = datetime.fromisoformat(made["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=89) < lives <= timedelta(days=90)
    grant = await grant_of(operated, made["key"])
    assert grant is not None
    assert (grant.user, grant.agent) == ("ana", "planner")
    shown = (await operated.run("keys", "list")).stdout
    assert "read and write as ana for agent planner" in shown
    assert "active until" in shown


async def test_the_scope_curate_is_kept_with_the_key_and_shown(operated: Operated) -> None:
    made = await operated.answer("keys", "create", "--user", "ana", "--curate")
    grant = await grant_of(operated, made["key"])
    assert grant is not None
    assert grant.curate
    [key] = json.loads((await operated.run("keys", "list", "--json")).stdout)["keys"]
    assert key["curate"] is True
    assert "read, write and curate as ana" in (await operated.run("keys", "list")).stdout
    plain = await grant_of(operated, (await operated.answer("keys", "create", "--user", "ana"))["key"])
    assert plain is not None
    assert not plain.curate
    for other in (("--read-only",), ("--gateway-user", "ana")):
        assert (await operated.run("keys", "create", "--curate", *other)).exit_code == 2


async def test_a_rotated_key_is_listed_with_its_successor_and_both_work(operated: Operated) -> None:
    made = await operated.answer("keys", "create", "--label", "bot", "--bank", "a")
    [key] = json.loads((await operated.run("keys", "list", "--json")).stdout)["keys"]
    assert made["key_id"] == key["key_id"]
    rotated = await operated.answer("keys", "rotate", key["key_id"], "--overlap", "24h")
    old, new = json.loads((await operated.run("keys", "list", "--json")).stdout)["keys"]
    assert (old["state"], old["replaced_by"]) == ("active", new["key_id"])
    assert rotated["key_id"] == new["key_id"]
    assert (new["label"], new["banks"], new["expires_at"]) == ("bot", ["a"], None)
    for token in (made["key"], rotated["key"]):
        assert await grant_of(operated, token) is not None
    assert "replaced by" in (await operated.run("keys", "list")).stdout
    assert (await operated.run("keys", "rotate", key["key_id"])).exit_code == 1
    rotated = await operated.answer("keys", "rotate", new["key_id"], "--expires", "30d")
    lives = datetime.fromisoformat(rotated["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=29) < lives <= timedelta(days=30)


async def test_the_stacks_own_key_is_replaced_in_its_file(operated: Operated) -> None:
    made = await operated.answer("keys", "create")
    file = operated.folder / "api-key"
    file.write_text(made["key"])
    [key] = json.loads((await operated.run("keys", "list", "--json")).stdout)["keys"]
    rotated = await operated.run("keys", "rotate", key["key_id"])
    assert rotated.exit_code == 0, rotated.stderr
    assert file.read_text() == rotated.stdout.strip()


async def test_a_new_key_is_shown_even_where_its_file_cannot_be_written(operated: Operated) -> None:
    made = await operated.answer("keys", "create")
    file = operated.folder / "api-key"
    file.write_text(made["key"])
    [key] = (await operated.answer("keys", "list"))["keys"]
    (operated.folder / f".api-key.{os.getpid()}").mkdir()
    rotated = await operated.run("keys", "rotate", key["key_id"])
    assert rotated.exit_code == 1
    assert "cannot be written" in rotated.stderr
    assert await grant_of(operated, rotated.stdout.strip()) is not None
    assert file.read_text() == made["key"]


async def test_a_gateways_key_takes_no_other_scope(operated: Operated) -> None:
    assert (await operated.run("keys", "create", "--gateway-user", "ana", "--user", "ana")).exit_code == 2
    assert (await operated.run("keys", "create", "--expires", "soon")).exit_code == 2
    assert (await operated.run("keys", "create", "--expires", "0s")).exit_code == 2


async def test_a_quota_is_set_shown_and_lifted(operated: Operated) -> None:
    await operated.answer("keys", "create")
    limits = ["--max-turns", "10", "--turns-per-minute", "5"]
    [quota] = (await operated.answer("quota", "set", *limits))["quotas"]
    assert quota["limits"] == {"max_turns": 10, "max_bytes": None, "max_banks": None, "turns_per_minute": 5}
    assert (await operated.answer("quota", "set", "--bank", "notes", "--max-bytes", "1000"))["quotas"][1] == {
        "bank": "notes",
        "limits": {"max_turns": None, "max_bytes": 1000, "max_banks": None, "turns_per_minute": None},
        "used": {"turns": 0, "bytes": 0},
    }
    assert "0 of 1,000" in (await operated.run("quota", "show")).stdout
    assert (await operated.run("quota", "set", "--bank", "notes", "--max-banks", "1")).exit_code == 2
    assert (await operated.run("quota", "set", "--host", "nobody", "--max-turns", "1")).exit_code == 1
    await operated.answer("quota", "set", "--bank", "notes")
    assert len((await operated.answer("quota", "set"))["quotas"]) == 0


@each_row(
    "command",
    [
        "keys create --user",
        "keys create --agent",
        "keys create --gateway-user",
        "keys create --bank a --bank",
        "keys create --host",
        "quota set --bank",
        "erase user --yes",
        "erase bank --yes",
        "erase session --yes",
        "generate --events 1 --bank",
    ],
)
@each_row("name", ["", "n" * 257])
async def test_a_name_that_no_door_takes_is_wrong_usage_and_nothing_is_done(
    operated: Operated, command: str, name: str
) -> None:
    told = await operated.run(*command.split(), name)
    assert told.exit_code == 2, told.stderr
    assert "must have 1 to" in told.stderr
    assert json.loads((await operated.run("audit", "list", "--json")).stdout)["calls"] == []


async def test_a_limit_past_what_can_be_counted_is_wrong_usage(operated: Operated) -> None:
    await operated.answer("keys", "create")
    assert (await operated.run("quota", "set", "--max-bytes", str(2**63))).exit_code == 2
    [quota] = (await operated.answer("quota", "set", "--max-bytes", str(2**63 - 1)))["quotas"]
    assert quota["limits"]["max_bytes"] == 2**63 - 1


@pytest.mark.usefixtures("usual_signals")
def test_what_is_not_utf8_is_wrong_usage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["afterturn", "jobs", "list", "--host", "\udcff"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert "UTF-8" in capsys.readouterr().err


@each_row("text", ["", "5", "h", "1.5h", "-1h", "999999d", "1w"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_duration(text)
    assert parse_duration("24h") == timedelta(days=1)
