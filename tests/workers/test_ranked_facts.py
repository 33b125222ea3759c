"""The facts of a turn: the speaker's first, then those of people that the input names, by the contract's score."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import NullPool

from deploy.lab.bench.recall.filling import PEOPLE
from store import identity
from store.connections import create_owner_engine
from store.driver_rows import fetch_rows
from store.memory import held_facts
from store.memory.held_fact_queries import Whose
from store.memory.held_facts import HoldingFact
from store.memory.session_history import SessionHistory, WantedFacts
from store.memory.turns import Appended, NewMessage, NewTurn
from store.replay import verify_log
from tests.workers.conftest import HOST, World
from tests.workers.stages import Crew

NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
ROW = """
    with unit as (
        insert into afterturn.agent_memory_unit_t
               (host_id, bank_id, unit_id, content, event_date, fact_type, user_id, origin, turn_id, position, metadata,
                update_ts, update_user)
        values (:host, :bank, :unit, :value, :at, 'world', :user, 'extraction', :unit, :position,
                cast(:metadata as jsonb), :at, 'test')
    )
    insert into afterturn.fact_t
           (host_id, bank_id, unit_id, subject, fact_id, key, value, position, valid_from, said, weight)
    values (:host, :bank, :unit, :subject, :fact_id, :key, lower(:value), :position, :at, :position, :weight)"""


async def say(world: World, user: str | None, *said: str, name: str | None = None, session: str = "s") -> None:
    for words in said:
        new = NewTurn("default", session, uuid4().hex, [NewMessage("user", words, name=name)], user_id=user)
        assert isinstance((await world.turns.append(HOST, [new]))[0], Appended)


async def read(world: World, user: str | None, said: str = "", most: int = 20) -> list[HoldingFact]:
    history = SessionHistory(world.database, lambda: NOON)
    return await history.holding(HOST, "default", WantedFacts(most, user, said), "another")


async def put(
    world: World, value: str, tier: str, confidence: str, *, days: float = 0, user: str | None = None
) -> None:
    """Write a fact as the stages do, without its turn."""
    bank, of = identity.bank_id(HOST, "default"), identity.user_id(HOST, user)
    [row] = await world.sql("select coalesce(max(position), 0) + 1 as position from afterturn.fact_t")
    kind = {"L0": "name", "L1": "task"}.get(tier, "like")
    await world.sql(
        ROW,
        host=HOST,
        bank=bank,
        unit=uuid4(),
        user=of,
        subject=str(of),
        fact_id=f"user_{kind}",
        key=value if kind == "like" else kind,
        value=value,
        at=NOON - timedelta(days=days),
        position=row.position,
        metadata=json.dumps(
            {"fact_id": f"user_{kind}", "key": kind, "value": value, "tier": tier, "confidence": confidence}
        ),
        weight=float(confidence) + {"L0": 0.35, "L1": 0.10}.get(tier, 0.20),
    )


def tell(facts: Sequence[HoldingFact]) -> list[tuple[Whose, str | None, str]]:
    return [(one.whose, one.subject, one.value) for one in facts]


@pytest.mark.parametrize(
    "said, found",
    [
        ("what is my name?", ["Ann", "tea", "milk", "jazz"]),
        ("where is JAZZ, and jazz for tea?", ["tea", "jazz", "Ann", "milk"]),
        ("is milk there?", ["milk", "Ann", "tea", "jazz"]),
        ("100%_\\", ["Ann", "tea", "milk", "jazz"]),
        ("", ["Ann", "tea", "milk", "jazz"]),
    ],
)
async def test_facts_stand_by_what_they_match_how_sure_lasting_and_new_they_are(
    world: World, said: str, found: list[str]
) -> None:
    await world.append()
    await put(world, "milk", "L1", "0.80")
    await put(world, "tea", "L2", "0.85", days=1)
    await put(world, "jazz", "L2", "0.85", days=3)
    # Who somebody is stays among the first, however much was said since.
    await put(world, "Ann", "L0", "0.95", days=400)
    assert [one.value for one in await read(world, None, said)] == found
    assert [one.value for one in await read(world, None, said, most=2)] == found[:2]


async def test_of_equal_facts_the_newest_stands_first(world: World) -> None:
    await world.append()
    for days, value in ((92, "c"), (90, "a"), (91, "b")):
        await put(world, value, "L2", "0.85", days=days)
    assert [one.value for one in await read(world, None)] == ["a", "b", "c"]


async def test_a_fact_whose_unit_ended_leaves_its_place_to_the_next(world: World) -> None:
    await world.append()
    for nth in range(9):
        await put(world, f"tea {nth}", "L2", f"{0.9 - nth / 100:.2f}")
    ended = "update afterturn.agent_memory_unit_t set active = false where content = any(:ended)"
    await world.sql(ended, ended=[f"tea {nth}" for nth in (0, 1, 2, 3, 4, 6)])
    assert [one.value for one in await read(world, None, most=2)] == ["tea 5", "tea 7"]
    assert [one.value for one in await read(world, None, most=1)] == ["tea 5"]


async def test_a_name_is_told_however_many_facts_were_said_since(world: World) -> None:
    await say(world, "ann", "My name is Alice.")
    await Crew(world).drain()
    for nth in range(205):
        await put(world, f"thing {nth}", "L2", "0.85", user="ann")
    assert tell(await read(world, "ann"))[0] == (Whose.OWN, "Alice", "Alice")
    assert (await read(world, None))[0].value == "Alice"


async def test_each_user_is_told_the_own_facts_first_then_those_of_whom_the_input_names(world: World) -> None:
    names = ["Ann", "Bo", "Cy", "Dora"]
    for name in names:
        await say(world, f"u-{name}", f"My name is {name}.", f"I like {name}berries.")
    await say(world, "silent", "I live in Oslo.")
    await say(world, None, "I like the sea.")
    early = None
    for _ in range(2):
        found = await read(world, "u-Bo", "what does Dora's friend eat?")
        assert tell(found)[:2] == [(Whose.OWN, "Bo", "Bo"), (Whose.OWN, "Bo", "Boberries")]
        assert {one.subject for one in found if one.whose is Whose.NAMED} == {"Dora"}
        others = [one for one in found if one.whose is Whose.OTHERS]
        assert [one.whose for one in found] == sorted(one.whose for one in found)
        # What a user said who gives no name is nobody's to this one; what was said without a user is the bank's.
        assert {one.subject for one in others} == {"Ann", "Cy", None}
        assert [one.value for one in others if one.subject is None] == ["the sea"]
        unknown = await read(world, None, "Where is Oslo?")
        assert tell(unknown)[0] == (Whose.OWN, None, "the sea")
        assert "Oslo" in {one.value for one in unknown}
        assert early in (None, found)
        early = found
        await Crew(world).drain()
    report = await verify_log(world.postgres.owner_url)
    assert report.equal
    assert all(one.equal for one in report.derived)


async def test_a_fact_of_a_session_is_ranked_among_those_of_this_session_alone(world: World) -> None:
    await say(world, "ann", "I like tea.", session="s")
    await say(world, "ann", "I like jazz.", session="other")
    history = SessionHistory(world.database, lambda: NOON)
    for _ in range(2):
        found = (await history.recent_and_holding(HOST, "default", "s", 10, WantedFacts(20, "ann"), within=True)).facts
        assert [(one.value, one.whose) for one in found] == [("tea", Whose.OWN)]
        await Crew(world).drain()


async def test_the_speakers_facts_and_those_of_others_are_read_at_once_up_to_the_limit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.append()
    for value in ("tea", "milk"):
        await put(world, value, "L2", "0.85", user="ann")
    await put(world, "jazz", "L2", "0.85")
    statements = list[object]()

    async def note(connection: Any, statement: Any, values: Any) -> Any:
        statements.append(statement)
        return await fetch_rows(connection, statement, values)

    monkeypatch.setattr(held_facts, "fetch_rows", note)
    read_by_most = [[(one.whose, one.value) for one in await read(world, "ann", most=most)] for most in (3, 2, 1)]
    everything = [(Whose.OWN, "tea"), (Whose.OWN, "milk"), (Whose.OTHERS, "jazz")]
    assert [sorted(found) for found in read_by_most[:2]] == [sorted(everything), sorted(everything[:2])]
    assert len(read_by_most[2]) == 1
    assert len(statements) == 3


async def test_each_of_three_hundred_users_who_share_ten_thousand_facts_is_named_first(world: World) -> None:
    users, facts = [f"user-{nth}" for nth in range(300)], 10_000
    await world.append()
    bank = identity.bank_id(HOST, "default")
    ids = [identity.user_id(HOST, user) for user in users]
    names = [f"Name{nth}" for nth in range(len(users))]
    async with create_owner_engine(world.postgres.owner_url, poolclass=NullPool).connect() as connection:
        raw: Any = (await connection.get_raw_connection()).driver_connection
        await raw.execute("select set_config('afterturn.host', $1, false)", str(HOST))
        await raw.execute(PEOPLE, HOST, bank, ids, names, facts, NOON - timedelta(days=30))
    told = {user: (await read(world, user, "What do I like?"))[0] for user in users}
    wrong = [user for user, name in zip(users, names, strict=True) if told[user].subject != name]
    assert wrong == []
    assert {one.whose for one in told.values()} == {Whose.OWN}
    assert {(await read(world, user, "Who am I?"))[0].value for user in users[:9]} == set(names[:9])
