"""`afterturn replay` on a real database: equal, or the row that is not, named by its key."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from deploy.components.bootstrap import HOST
from store import identity
from store.connections import create_owner_engine
from store.memory.turns import NewMessage, NewTurn, TurnStore
from tests.deploy.operated import HOST_ID, Busy, Operated
from tests.servers import TestPostgres

BANK = identity.bank_id(HOST_ID, "home")


@pytest.fixture
async def operated(busy: Busy) -> Busy:
    said = NewTurn("home", "s", "t", (NewMessage("user", "I moved to Porto"), NewMessage("assistant", "Noted")))
    async with busy.opened() as database:
        await TurnStore(database, lambda: datetime.now(UTC)).append(HOST_ID, [said])
    return busy


TAMPER = "update afterturn.agent_memory_unit_t set content = 'tampered' where seq = 0"
PLANT = """
    insert into afterturn.term_t (host_id, bank_id, term, df)
    select host_id, bank_id, 'planted', 1 from afterturn.agent_memory_bank_t"""


async def tamper(postgres: TestPostgres, statement: str = TAMPER) -> None:
    engine = create_owner_engine(postgres.owner_url)
    async with engine.begin() as connection:
        await connection.execute(text(statement))
    await engine.dispose()


async def test_what_is_live_is_what_the_log_says(operated: Operated) -> None:
    told = await operated.answer("replay", "--verify")
    assert told["equal"] is True
    assert told["events"] == 5
    assert [table["table"] for table in told["tables"]][:3] == [
        "agent_memory_bank_t",
        "agent_memory_doc_t",
        "agent_memory_unit_t",
    ]
    assert len(told["tables"]) == 9
    assert set(told["tables"][0]) == {
        "table",
        "rows_live",
        "rows_replayed",
        "digest_live",
        "digest_replayed",
        "equal",
        "first_differences",
    }
    assert all(set(one) == {"name", "equal", "first_differences"} for one in told["derived"])


@pytest.mark.law("L5")
async def test_a_row_changed_by_hand_is_named(operated: Operated) -> None:
    await tamper(operated.postgres)
    result = await operated.run("replay", "--json")
    assert result.exit_code == 1
    assert "tampered" not in result.stdout + result.stderr
    told = await operated.answer("replay", "--verify")
    [difference] = told["tables"][2]["first_differences"]
    assert (difference["key"]["bank_id"], difference["columns"]) == (str(BANK), ["content"])
    shown = await operated.run("replay")
    assert difference["key"]["unit_id"] in shown.stdout


@pytest.mark.law("L5")
@pytest.mark.parametrize("mending", [("--repair", "--host", HOST), ("--repair", "--bank", "home"), ("--swap",)])
async def test_a_row_changed_by_hand_is_mended(operated: Operated, mending: tuple[str, ...]) -> None:
    await tamper(operated.postgres)
    assert (await operated.run("replay", *mending)).exit_code == 0
    assert (await operated.run("replay")).exit_code == 0


async def test_derived_state_that_is_not_what_its_pipeline_makes_is_named(operated: Operated) -> None:
    assert (await operated.run("replay", "--verify")).exit_code == 0
    await tamper(operated.postgres, PLANT)
    told = await operated.answer("replay", "--verify")  # what a reader of the JSON sees is in it
    assert told["equal"] is True
    [wrong] = [one for one in told["derived"] if not one["equal"]]
    [difference] = wrong["first_differences"]
    assert (wrong["name"], difference["found"]) == ("term_statistics", "live")
    assert (await operated.run("replay", "--verify", "--tables-only")).exit_code == 0
    result = await operated.run("replay", "--verify")
    assert result.exit_code == 1
    assert "not as derived: term_statistics" in result.stderr
    assert difference["key"]["term_sha256"] in result.stdout
    assert "planted" not in result.stdout


@pytest.mark.parametrize(
    "wrong", [("--verify", "--swap"), ("--swap", "--host", "x"), ("--repair",), ("--repair", "--host", "x", "--resume")]
)
async def test_what_does_not_go_together_is_refused(operated: Operated, wrong: tuple[str, ...]) -> None:
    assert (await operated.run("replay", *wrong)).exit_code == 2
