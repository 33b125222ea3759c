"""The key of a tenant's digests travels with a snapshot, sealed, where that is asked for."""

from typing import Any
from uuid import UUID

import orjson
import pytest
from cryptography.fernet import Fernet

from producers.service.snapshots import EventsParameters, Snapshots
from store.errors import SealBroken, SnapshotRefused, TurnConflict
from store.memory.turns import Appended, NewTurn
from store.tenancy.sealing import Sealer
from tests.workers.conftest import HOST, World, dialogue, now
from tests.workers.snapshot_worlds import fill

PARTS = ["agent_memory", "agent_session_history"]
DIGESTS = (
    "select count(*) from afterturn.event_store_t"
    " where event_type = 'AgentSessionHistoryAppendedEvent' and data ? 'bodyDigest'"
)


def of(world: World, *keys: str) -> Snapshots:
    return Snapshots(world.database, now, Sealer(keys), "staging")


async def export(snapshots: Snapshots, **asked: Any) -> tuple[dict[str, Any], list[Any]]:
    """The first line and the events of an export with its digest key."""
    body = {"tenant": "default", "include": PARTS, "digest_key": True, **asked}
    _, started = await snapshots.begin_export("test", body)
    snapshot = UUID(str(started.snapshot.snapshot_id))
    events, place = list[Any](), 0
    while True:
        _, page = await snapshots.read_events(snapshot, EventsParameters(tenant="default", after=place))
        events += orjson.loads(orjson.dumps(list(page.events)))
        place = page.snapshot.place
        if page.snapshot.status == "done":
            return dict(started.first_line), events


async def take(snapshots: Snapshots, first_line: dict[str, Any], events: list[Any]) -> None:
    """Take a snapshot in, and finish."""
    _, begun = await snapshots.begin_import("test", {"tenant": "default", "first_line": first_line})
    snapshot = UUID(str(begun.snapshot.snapshot_id))
    await snapshots.take_events(snapshot, {"tenant": "default", "first": 0, "events": events})
    ended = {"tenant": "default", "events": len(events)}
    while (await snapshots.finish_import(snapshot, ended))[1].status != "done":
        pass


async def test_a_tenant_that_the_import_creates_takes_the_key_and_compares_turns_by_it(
    world: World, elsewhere: World
) -> None:
    await fill(world)
    key = Fernet.generate_key().decode()
    first_line, events = await export(of(world, key))
    raw = bytes((await world.sql("select digest_key from afterturn.host_t"))[0][0])
    assert raw.hex() not in first_line["digest_key"]
    await elsewhere.sql("delete from afterturn.host_t")
    with pytest.raises(SealBroken):
        await take(of(elsewhere, Fernet.generate_key().decode()), first_line, events)
    assert await elsewhere.sql("select 1 from afterturn.host_t") == []
    await take(of(elsewhere, key), first_line, events)
    assert bytes((await elsewhere.sql("select digest_key from afterturn.host_t"))[0][0]) == raw
    assert (await elsewhere.sql(DIGESTS))[0][0] == 3
    words = "My name is Karl Berger. I live in Kyoto. Karl and Ann Moore met in Kyoto."
    turn = NewTurn("default", "s", "t0", dialogue(words, "Ann Moore likes Kyoto."))
    [again] = await elsewhere.turns.append(HOST, [turn])
    assert isinstance(again, Appended)
    assert again.duplicate
    [other] = await elsewhere.turns.append(HOST, [NewTurn("default", "s", "t0", dialogue("Another thing."))])
    assert isinstance(other, TurnConflict)
    assert "snapshot" not in str(other)


async def test_a_tenant_that_is_there_keeps_its_own_key_and_no_digest_of_another(
    world: World, elsewhere: World
) -> None:
    await fill(world)
    key = Fernet.generate_key().decode()
    first_line, events = await export(of(world, key))
    own = (await elsewhere.sql("select digest_key from afterturn.host_t"))[0][0]
    await take(of(elsewhere, key), first_line, events)
    assert (await elsewhere.sql("select digest_key from afterturn.host_t"))[0][0] == own
    assert (await elsewhere.sql(DIGESTS))[0][0] == 0


async def test_no_key_travels_unsealed_or_with_a_masked_snapshot(world: World) -> None:
    await fill(world)
    with pytest.raises(SnapshotRefused, match="sealing_keys"):
        await export(of(world))
    with pytest.raises(SnapshotRefused, match="masked"):
        await export(of(world, Fernet.generate_key().decode()), mask=True)
    first_line, _ = await export(of(world, Fernet.generate_key().decode()), digest_key=False)
    assert "digest_key" not in first_line
