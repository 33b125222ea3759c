"""`afterturn status`, `keys` and `doctor` on a real database and a real Valkey."""

import json
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
import typer
from afterturn_client.contract.installation import Finding
from asyncpg import InvalidPasswordError
from sqlalchemy import NullPool, text
from sqlalchemy.exc import DBAPIError

from deploy.cli.operator_command import exit_on_outage, read_operator_name
from deploy.components import doctor_rules
from deploy.components.bootstrap import HOST
from deploy.components.doctor_rules import CheckVerdict
from deploy.local.stack import find_stack
from store import identity
from store.connections import create_owner_engine
from store.ledger.stages import TURN_STAGES
from store.memory.turns import NewMessage, NewTurn, TurnStore
from store.tenancy.keys import Keys
from tests.client.loopback import closed_port, raw_server
from tests.deploy.operated import Operated, laid_out
from tests.servers import TestPostgres
from tests.tables import each_row


async def test_status_of_an_empty_stack_is_all_zero(operated: Operated) -> None:
    status = await operated.answer("status")
    zero = {"pending": 0, "running": 0, "done": 0, "skipped": 0, "unknown": 0, "dead": 0}
    stages = dict.fromkeys(TURN_STAGES, zero)
    oldest = dict.fromkeys(TURN_STAGES, 0.0)
    told = {"turns": 0, "stages": stages, "rows": stages, "oldest_undone_s": 0.0, "oldest_by_stage_s": oldest}
    assert status == {**told, "dead": 0, "undone": 0}


async def test_status_counts_turns_by_stage(operated: Operated) -> None:
    database = operated.database()
    host = identity.host_id(HOST)
    await Keys(database).create(HOST, "test")
    turns = [NewTurn("b", "s", str(n), [NewMessage("user", f"text {n}")]) for n in range(3)]
    await TurnStore(database, lambda: datetime.now(UTC)).append(host, turns)
    await database.close()
    status = await operated.answer("status")
    assert status["turns"] == 3
    assert status["stages"]["embedding"] == {
        "pending": 3,
        "running": 0,
        "done": 0,
        "skipped": 0,
        "unknown": 0,
        "dead": 0,
    }
    assert status["oldest_undone_s"] > 0
    assert status["undone"] >= 9
    shown = (await operated.run("status")).stdout
    assert "3 turns" in shown
    assert "embedding" in shown


async def test_a_key_is_created_listed_and_revoked(operated: Operated) -> None:
    made = await operated.answer("keys", "create", "--label", "bot", "--bank", "a", "--bank", "b", "--read-only")
    database = operated.database()
    grant = await Keys(database).authenticate(made["key"])
    assert grant is not None
    assert (grant.banks, grant.write, grant.host_id) == (frozenset({"a", "b"}), False, identity.host_id(HOST))
    listed = await operated.run("keys", "list", "--json")
    assert made["key"] not in listed.stdout
    (key,) = json.loads(listed.stdout)["keys"]
    assert (key["key_id"], key["banks"], key["revoked_at"]) == (str(grant.key_id), ["a", "b"], None)
    assert (await operated.answer("keys", "revoke", key["key_id"]))["revoked"]
    assert await Keys(database).authenticate(made["key"]) is None
    await database.close()
    assert "bot" in (await operated.run("keys", "list")).stdout


async def test_a_key_for_people_is_alone_on_standard_output(operated: Operated) -> None:
    result = await operated.run("keys", "create", "--gateway-user", "ana")
    assert result.stdout.startswith("uk_")
    assert len(result.stdout.split()) == 1


async def test_revoking_what_is_not_there_holds_not(operated: Operated) -> None:
    assert (await operated.run("keys", "revoke", str(uuid4()))).exit_code == 1
    assert (await operated.run("keys", "revoke", "not-an-id")).exit_code == 2


async def test_a_database_that_is_away_is_said_in_words_without_its_password(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    port = closed_port().rpartition(":")[2]
    url = f"postgresql+asyncpg://app:hunter2@127.0.0.1:{port}/x"
    away = TestPostgres("x", url, url, url, url)
    with laid_out(folder, away, f"redis://:hunter2@127.0.0.1:{port}/0"):
        for command in (["status"], ["keys", "list"], ["doctor"]):
            result = await Operated(folder, away).run(*command)
            assert result.exit_code == 1
            assert "does not answer" in result.stdout + result.stderr
            assert "hunter2" not in result.stdout + result.stderr


async def test_a_command_whose_api_is_away_asks_the_database_and_says_so(operated: Operated) -> None:
    key = operated.folder / "operator-key"
    key.write_text("op_some-key")
    stack = find_stack(operated.folder).model_copy(update={"operator_key_file": key})
    stack.save(operated.folder)
    shown = await operated.run("status", "--json")
    assert (shown.exit_code, json.loads(shown.stdout)["turns"]) == (0, 0)
    assert "does not answer" in shown.stderr
    assert (await operated.run("keys", "create", "--label", "bot")).exit_code == 0
    [call] = (await operated.answer("audit", "list"))["calls"]
    assert (call["operation"], call["actor"]) == ("POST /api/v1/operator/keys", read_operator_name())


async def test_a_change_that_may_have_arrived_is_not_made_again_on_the_database(operated: Operated) -> None:
    key = operated.folder / "operator-key"
    key.write_text("op_some-key")
    with raw_server(b"") as (url, seen):
        stack = find_stack(operated.folder).model_copy(update={"operator_key_file": key, "api": url})
        stack.save(operated.folder)
        made = await operated.run("keys", "create", "--label", "bot")
    assert (made.exit_code, "does not answer" in made.stderr, len(seen)) == (1, True, 1)
    database = operated.database()
    assert await Keys(database).hosts() == {}
    await database.close()


async def test_without_a_stack_operators_commands_end_with_2(tmp_path: Path) -> None:
    operated = Operated(tmp_path / "none", TestPostgres("", "", "", "", ""))
    for command in (["status"], ["keys", "list"], ["keys", "create"]):
        assert (await operated.run(*command)).exit_code == 2


async def test_the_doctor_finds_healthy_servers_and_a_missing_api(operated: Operated) -> None:
    found = {one["subject"]: one for one in (await operated.answer("doctor"))["findings"]}
    healthy = ["data folder", "permissions", "disk", "PostgreSQL version", "pgvector", "tenant isolation", "migrations"]
    for subject in [*healthy, "Redis", "sentence model"]:
        assert found[subject]["verdict"] == "ok", found[subject]
    assert found["API"]["verdict"] == "fail"
    assert found["API"]["remedy"]


async def test_the_doctor_finds_a_log_from_another_cluster_and_stamps_it(operated: Operated) -> None:
    engine = create_owner_engine(operated.postgres.owner_url, poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.execute(text("update public.afterturn_cluster set system_identifier = 1"))

    async def log(*arguments: str) -> tuple[str, bool]:
        [found] = [one for one in (await operated.answer(*arguments))["findings"] if one["subject"] == "log"]
        return found["verdict"], "doctor --fix" in found["remedy"]

    assert await log("doctor") == ("fail", True)
    assert await log("doctor", "--fix") == ("ok", False)
    assert await log("doctor") == ("ok", False)


async def test_the_doctor_has_a_restored_log_go_on_behind_lost_positions_where_it_is_told_to(
    operated: Operated,
) -> None:
    engine = create_owner_engine(operated.postgres.owner_url, poolclass=NullPool)
    issued = text("select last_value from afterturn.log_position_seq")

    async def read_issued() -> int:
        async with engine.connect() as connection:
            return int(await connection.scalar(issued) or 0)

    before = await read_issued()
    assert (await operated.run("doctor", "--restored")).exit_code == 2
    await operated.run("doctor", "--fix")
    assert await read_issued() == before
    assert "no lost position" in (await operated.run("doctor", "--fix", "--restored")).stderr
    assert await read_issued() > before + 1_000_000
    await engine.dispose()


async def test_the_doctor_sees_what_others_could_read(operated: Operated) -> None:
    (operated.folder / "api-key").chmod(0o644)
    result = await operated.run("doctor")
    assert result.exit_code == 1
    assert f"chmod go-rwx {operated.folder / 'api-key'}" in result.stdout


@each_row(
    "finding,verdict",
    [
        (doctor_rules.judge_postgresql_version(150_004, "15.4"), CheckVerdict.FAIL),
        (doctor_rules.judge_postgresql_version(160_000, "16.0"), CheckVerdict.OK),
        (doctor_rules.judge_pgvector_version(None), CheckVerdict.FAIL),
        (doctor_rules.judge_pgvector_version("0.8.4"), CheckVerdict.FAIL),
        (doctor_rules.judge_pgvector_version("0.8.5"), CheckVerdict.OK),
        (doctor_rules.judge_pgvector_version("0.10"), CheckVerdict.OK),
        (doctor_rules.judge_schema_revision(None, "0001", "migrate"), CheckVerdict.FAIL),
        (doctor_rules.judge_schema_revision("0001", "0002", "migrate"), CheckVerdict.FAIL),
        (doctor_rules.judge_schema_revision("0002", "0002", None), CheckVerdict.OK),
        (doctor_rules.judge_schema_revision("0003", "0002", None), CheckVerdict.OK),
        (doctor_rules.judge_database_role("application", above=True), CheckVerdict.FAIL),
        (doctor_rules.judge_free_space("/", 10 * 1024**3), CheckVerdict.OK),
        (doctor_rules.judge_free_space("/", 1024**3), CheckVerdict.WARN),
        (doctor_rules.judge_free_space("/", 1024), CheckVerdict.FAIL),
        (doctor_rules.judge_file_mode("/x", 0o100600, holds_secrets=True), CheckVerdict.OK),
        (doctor_rules.judge_file_mode("/x", 0o100640, holds_secrets=True), CheckVerdict.FAIL),
        (doctor_rules.judge_file_mode("/x", 0o40755, holds_secrets=False), CheckVerdict.WARN),
    ],
)
def test_each_rule_says_what_to_do_unless_all_is_well(finding: Finding, verdict: CheckVerdict) -> None:
    assert finding.verdict is verdict
    assert bool(finding.remedy) == (verdict is not CheckVerdict.OK)


@pytest.mark.parametrize(
    "error,told",
    [
        (DBAPIError(None, None, InvalidPasswordError("no")), "it refuses the login (InvalidPasswordError)"),
        (ConnectionRefusedError(), "it does not answer (ConnectionRefusedError)"),
    ],
)
def test_a_database_that_refuses_the_login_is_not_said_to_be_away(
    capsys: pytest.CaptureFixture[str], error: Exception, told: str
) -> None:
    with pytest.raises(typer.Exit), exit_on_outage():
        raise error
    said = f"the database of the stack cannot be used: {told}: see `afterturn doctor`"
    assert capsys.readouterr().err == f"afterturn: {said}\n"
