"""A made-up history: all families, valid, the same for the same seed, and equal after a replay."""

from uuid import UUID

from deploy.components.bootstrap import HOST as HOST_NAME
from deploy.lab.bench.history import ARCHIVE_EVERY, History
from store import identity
from store.log.catalog import EventType
from store.replay import ReplayScope, verify_log
from store.tenancy.keys import Keys
from tests.deploy.operated import Operated
from tests.store.log.reoffering import build_reoffer
from tests.store.log.samples import cloud_event

HOST = UUID("6f1b2c1e-6c1d-5f0e-9a57-8c8a0f2d7b11")


def test_the_same_seed_tells_the_same_and_another_does_not() -> None:
    first = list(History(HOST, "b", 1).events(500))
    again = History(HOST, "b", 1)
    assert [*again.events(200), *again.events(300)] == first
    assert list(History(HOST, "b", 2).events(500)) != first


def test_every_event_is_one_the_catalog_knows_and_every_type_occurs() -> None:
    told = list(History(HOST, "b", 3).events(2 * ARCHIVE_EVERY))
    assert {event["type"] for event in told} == {kind.value for kind in EventType}
    versions: dict[str, int] = {}
    for event in told:
        assert build_reoffer(cloud_event(event))["id"] == event["id"]
        assert event["version"] == versions.get(event["subject"], 0) + 1
        versions[event["subject"]] = event["version"]


async def test_generate_writes_it_once_and_it_replays_equal(operated: Operated) -> None:
    database = operated.database()
    await Keys(database).create(HOST_NAME, "test")
    await database.close()
    first = await operated.answer("generate", "--events", "1500", "--seed", "4")
    assert (first["events"], first["appended"], first["known"], first["bank"]) == (1500, 1500, 0, "generated-4")
    more = await operated.answer("generate", "--events", "2500", "--seed", "4")
    assert (more["appended"], more["known"]) == (1000, 1500)
    report = await verify_log(operated.postgres.owner_url)
    assert (report.equal, report.events) == (True, 2500)
    assert [one.name for one in report.derived if not one.equal] == []
    assert (first["words"] > 100, first["vectors"] >= first["words"], more["words"] > 50) == (True, True, True)
    assert all(table.rows_live for table in report.tables)
    bank = identity.bank_id(identity.host_id(HOST_NAME), "generated-4")
    scoped = await verify_log(operated.postgres.owner_url, ReplayScope(identity.host_id(HOST_NAME), bank))
    assert scoped.equal
