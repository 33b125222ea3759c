"""What a session is about is read as it grows: once, page by page, and nothing stays of what is gone."""

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest

from store import identity
from store.erasure import Erasures, ErasureTarget, Kind
from store.ledger.stages import Stage
from store.memory import session_digests
from store.memory.session_digests import LEAST, PAGE, SessionDigest, SessionDigests
from store.memory.session_summaries import SessionPlace
from store.memory.turns import NewMessage, NewTurn
from store.memory.units import Units
from store.text.session_digest import DigestEntry, digest_messages, merge_entries, read_entry
from tests.workers.conftest import BANK, HOST, START, World, now
from tests.workers.stages import Crew
from tests.workers.test_session_summaries import PLACE, talk

ROW = "select next_seq, cast(entries as text) as entries from afterturn.session_digest_t where session_id = :session"
MESSAGE = "select unit_id from afterturn.agent_memory_unit_t where content = :said and origin = 'message'"


async def stored(world: World, place: SessionPlace = PLACE) -> tuple[int, str]:
    rows = await world.sql(ROW, session=place.session)
    return (rows[0].next_seq, rows[0].entries) if rows else (0, "[]")


async def from_nothing(world: World) -> tuple[int, str]:
    """Return the digest as one would make it that had seen nothing before."""
    await world.sql("delete from afterturn.session_digest_t")
    await world.turns.digests.extend(PLACE)
    return await stored(world)


async def forget(world: World, said: str) -> None:
    [row] = await world.sql(MESSAGE, said=said)
    await Units(world.database, now).forget(HOST, "default", row.unit_id)


async def test_the_stage_after_a_turn_reads_what_is_new_once_enough_waits(world: World) -> None:
    crew = Crew(world, digests=world.turns.digests)
    await talk(world, 0, LEAST // 2 - 1)
    await crew.drain()
    assert await stored(world) == (0, "[]")
    assert (await world.turns.digests.read(PLACE)).messages == LEAST - 2
    await talk(world, LEAST // 2 - 1)
    await crew.drain()
    next_seq, entries = await stored(world)
    assert (next_seq, "plan 0 for Anna" in entries, "plan 7 for Anna" in entries) == (LEAST, True, True)
    found = await world.turns.digests.read(PLACE)
    assert (found.next_seq, found.messages) == (LEAST, LEAST)
    assert {one.turn for one in found.entries} <= {f"t{n}" for n in range(LEAST // 2)}


@pytest.mark.law("L2")
async def test_killed_and_done_by_several_at_once_each_message_is_read_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    crew = Crew(world, digests=world.turns.digests)
    await talk(world, 0, LEAST)
    write, killed = SessionDigests._write, list[int]()

    async def die(self: SessionDigests, *told: Any) -> bool:
        killed.append(1)
        if len(killed) % 2:
            raise RuntimeError("killed")
        return await write(self, *told)

    with monkeypatch.context() as patch:
        patch.setattr(SessionDigests, "_write", die)
        await crew.drain()
    assert killed
    assert set(await world.statuses(Stage.EXTRACTION)) == {"done"}, "what fails here undoes no extraction"
    assert await stored(world) == (0, "[]")
    await asyncio.gather(*(world.turns.digests.extend(PLACE) for _ in range(4)))
    several = await stored(world)
    assert several[0] == 2 * LEAST
    assert several == await from_nothing(world)
    await talk(world, LEAST, 3)
    assert await world.turns.digests.extend(PLACE) == 6
    assert await world.turns.digests.extend(PLACE) == 0
    assert (await stored(world))[0] == 2 * LEAST + 6


@pytest.mark.law("L11")
async def test_what_is_forgotten_corrected_over_or_erased_is_in_no_digest(world: World) -> None:
    crew = Crew(world, digests=world.turns.digests)
    await talk(world, 0, LEAST // 2)
    for turn, words in (("a", "We decided on the lighthouse."), ("b", "We decided on the harbour.")):
        await world.append("s", turn, messages=[NewMessage("user", words, occurred_at=START)])
    ends = now() + timedelta(hours=1)
    over = NewTurn("default", "s", "c", [NewMessage("user", "We decided on the kiosk.")], expires_at=ends)
    await world.turns.append(HOST, [over])
    await crew.drain()
    await world.turns.digests.extend(PLACE)
    entries = (await stored(world))[1]
    assert [word in entries for word in ("lighthouse", "harbour", "kiosk")] == [True] * 3
    await forget(world, "We decided on the lighthouse.")
    [row] = await world.sql(MESSAGE, said="We decided on the harbour.")
    await Units(world.database, now).correct(HOST, "default", row.unit_id, "We decided on the station.")
    entries = (await stored(world))[1]
    assert ("lighthouse" in entries, "harbour" in entries) == (False, False), "gone from the row at once"
    later = SessionDigests(world.database, lambda: ends)
    assert "kiosk" not in str([one.text for one in (await later.read(PLACE)).entries])
    await crew.drain()
    assert "station" in (await stored(world))[1], "the corrected text is read again"
    [plan] = await world.sql(MESSAGE, said="We decided on plan 3 for Anna.")
    erasures = Erasures(world.database, now)
    for target in (
        ErasureTarget(Kind.UNIT, "default", str(plan.unit_id)),
        ErasureTarget(Kind.SESSION, "default", "s"),
    ):
        request = await erasures.request(HOST, target)
        assert (await erasures.run(HOST, request)).done
        assert "plan 3 for Anna" not in (await stored(world))[1]
    assert (await stored(world))[1] == "[]"
    assert (await world.turns.digests.read(PLACE)).entries == ()


@pytest.mark.law("L11")
async def test_what_is_forgotten_while_it_is_read_is_not_written(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await talk(world, 0, 3)

    async def and_forget(effort: int, function: Any, before: Any, page: Any) -> list[DigestEntry]:
        del effort, function
        found = merge_entries([*map(read_entry, before), *digest_messages(page)])
        await forget(world, "We decided on plan 1 for Anna.")
        return found

    monkeypatch.setattr(session_digests, "run_off_loop", and_forget)
    assert await world.turns.digests.extend(PLACE) == 6
    entries = (await stored(world))[1]
    assert ("plan 0" in entries, "plan 1" in entries) == (True, False)


async def test_a_long_session_is_read_page_by_page_and_in_time(world: World) -> None:
    told = [NewMessage("user", f"We decided on number {n}.", occurred_at=START) for n in range(600)]
    for n in range(0, 1200, 600):
        await world.append("s", f"t{n}", messages=told)
    assert await world.turns.digests.find_behind(HOST, [(BANK, PLACE.session)], 1201) == []
    assert await world.turns.digests.find_behind(HOST, [(BANK, PLACE.session)], 1200) == [PLACE]
    assert await world.turns.digests.extend(PLACE, pages=1) == PAGE
    assert await world.turns.digests.extend(PLACE, until=time.monotonic()) == PAGE
    assert await world.turns.digests.extend(PLACE) == 1200 - 2 * PAGE
    assert await world.turns.digests.find_behind(HOST, [(BANK, PLACE.session)]) == []
    found = await world.turns.digests.read(PLACE)
    assert len(found.entries) <= 12, "a digest is as long as its kinds allow"
    assert await stored(world) == await from_nothing(world)


async def test_of_a_foreign_or_unknown_session_there_is_no_digest(world: World) -> None:
    await talk(world, 0, LEAST)
    await world.turns.digests.extend(PLACE)
    foreign = SessionPlace(identity.host_id("other"), BANK, PLACE.session)
    assert await world.turns.digests.read(foreign) == SessionDigest()
    assert await world.turns.digests.extend(foreign) == 0
