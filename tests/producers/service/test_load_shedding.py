"""What is given up while work piles up: in the stated order, told with 429 and Retry-After, and never a single turn."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from producers.errors import Overloaded
from producers.service.load_shedding import LONGEST_REST_S, LOOK_EVERY_S, LoadShedder, Shed, choose_level, highest_limit
from producers.settings import ApiSettings, PressureSettings
from store.identity import host_id
from store.ledger.ledger import Depth
from tests.producers.conftest import broker_of, build
from tests.servers import TestPostgres, TestValkey
from tests.tables import each_row

LIMITS = PressureSettings(
    embedding_rows=10, recall_job_rows=20, recall_job_age_s=5.0, batch_rows=30, batch_age_s=60.0, retry_after_s=7
)


@each_row(
    "rows, oldest_s, expected",
    [
        (9, 4.9, Shed.NOTHING),
        (10, 0.0, Shed.EMBEDDING),
        (19, 0.0, Shed.EMBEDDING),
        (20, 0.0, Shed.RECALL_JOBS),
        (1, 5.0, Shed.RECALL_JOBS),
        (29, 59.0, Shed.RECALL_JOBS),
        (30, 0.0, Shed.BATCHES),
        (1, 60.0, Shed.BATCHES),
    ],
)
def test_the_deeper_the_backlog_the_more_is_given_up_in_one_order(rows: int, oldest_s: float, expected: Shed) -> None:
    assert choose_level(Depth(rows, oldest_s), LIMITS) is expected


def test_a_limit_that_is_not_set_is_none() -> None:
    free = PressureSettings(embedding_rows=None, recall_job_rows=None, recall_job_age_s=None, batch_rows=None)
    assert choose_level(Depth(10**9, 10.0**9), free) is Shed.NOTHING
    assert (highest_limit(free), highest_limit(LIMITS)) == (0, 30)


ANA, BEN = uuid4(), uuid4()


class Backlog:
    """Backlogs that a test sets (`depth` for every other tenant) and that count how often they are read."""

    def __init__(self, depth: Depth = Depth(), *, broken: bool = False) -> None:  # noqa: B008 - frozen
        self.depth, self.broken, self.looks = depth, broken, 0
        self.of: dict[UUID, Depth] = {}

    async def __call__(self, hosts: Sequence[UUID], most: int) -> Mapping[UUID, Depth]:
        self.looks += 1
        if self.broken:
            raise OSError("no database")
        found = {host: self.of.get(host, self.depth) for host in hosts}
        return {host: Depth(min(most, one.rows), one.oldest_s) for host, one in found.items()}


async def looked(load_shedder: LoadShedder, *hosts: UUID) -> list[Shed]:
    """Have the backlogs of these tenants read, and return what is shed for each of them."""
    for host in hosts:
        load_shedder.level(host)
    if load_shedder._looking is not None:
        await load_shedder._looking
    await load_shedder.refresh()
    return [load_shedder.level(host) for host in hosts]


async def test_backlogs_are_read_beside_requests_and_not_by_each() -> None:
    now, backlog = [0.0], Backlog(Depth(25))
    load_shedder = LoadShedder(backlog, LIMITS, clock=lambda: now[0])
    assert [load_shedder.level(ANA) for _ in range(100)] == [Shed.NOTHING] * 100
    assert load_shedder._looking is not None
    await load_shedder._looking
    assert [load_shedder.level(ANA) for _ in range(100)] == [Shed.RECALL_JOBS] * 100
    assert backlog.looks == 1
    now[0] += LOOK_EVERY_S
    load_shedder.level(ANA)
    await load_shedder._looking
    assert backlog.looks == 2


async def test_the_backlog_of_one_tenant_refuses_nothing_to_another() -> None:
    backlog = Backlog()
    backlog.of = {ANA: Depth(99, 600.0)}
    load_shedder = LoadShedder(backlog, LIMITS)
    assert await looked(load_shedder, ANA, BEN) == [Shed.BATCHES, Shed.NOTHING]
    load_shedder.admit(BEN, Shed.BATCHES)
    with pytest.raises(Overloaded):
        load_shedder.admit(ANA, Shed.BATCHES)


async def test_backlogs_of_no_more_than_so_many_tenants_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("producers.service.load_shedding.HOSTS_KEPT", 3)
    load_shedder = LoadShedder(Backlog(Depth(99)), LIMITS)
    hosts = [uuid4() for _ in range(9)]
    levels = await looked(load_shedder, *hosts)
    assert sorted(levels) == [Shed.NOTHING] * 6 + [Shed.BATCHES] * 3


async def test_a_reading_that_took_long_is_not_used_for_long() -> None:
    now = [0.0]

    async def hanging(hosts: Sequence[UUID], _most: int) -> Mapping[UUID, Depth]:
        now[0] += 60.0
        return dict.fromkeys(hosts, Depth(99))

    load_shedder = LoadShedder(hanging, LIMITS, clock=lambda: now[0])
    load_shedder.level(ANA)
    assert load_shedder._looking is not None
    await load_shedder._looking
    assert load_shedder.level(ANA) is Shed.BATCHES
    load_shedder.look, now[0] = Backlog(), now[0] + LONGEST_REST_S
    load_shedder.level(ANA)
    await load_shedder._looking
    assert load_shedder.level(ANA) is Shed.NOTHING


async def test_a_backlog_that_cannot_be_read_is_no_reason_to_refuse() -> None:
    backlog = Backlog(Depth(99))
    load_shedder = LoadShedder(backlog, LIMITS)
    assert await looked(load_shedder, ANA) == [Shed.BATCHES]
    backlog.broken = True
    assert await looked(load_shedder, ANA) == [Shed.NOTHING]


@pytest.mark.parametrize("rows, answers", [(19, (202, 200)), (20, (429, 200)), (30, (429, 429))])
async def test_at_the_door_recall_jobs_go_before_batches_and_single_turns_never(
    postgres: TestPostgres, valkey: TestValkey, turn: dict[str, Any], rows: int, answers: tuple[int, int]
) -> None:
    load_shedder = LoadShedder(Backlog(Depth(rows)), LIMITS)
    broker = broker_of(valkey.url, f"pressure-{uuid4().hex}")
    world = build(postgres, broker, settings=ApiSettings(), load_shedder=load_shedder)
    tenant = await world.tenant()
    await looked(load_shedder, host_id(tenant.host))
    asked = await tenant.http.post("/api/v1/recall/jobs", json={"query": "Where do we fly?"})
    batch = await tenant.http.post("/api/v1/turns:batch", json={"turns": [turn]})
    one = await tenant.http.post("/api/v1/turns", json={**turn, "turn_id": "2"})
    now = await tenant.http.post("/api/v1/recall", json={"query": "Where do we fly?"})
    assert (asked.status_code, batch.status_code, one.status_code, now.status_code) == (*answers, 201, 200)
    for refused in (reply for reply in (asked, batch) if reply.status_code == 429):
        assert refused.headers["retry-after"] == "7"
        error = refused.json()["error"]
        assert (error["code"], error["retryable"]) == ("RATE_LIMITED", True)
    await tenant.http.aclose()
    await world.close()


async def test_new_turns_are_offered_to_be_embedded_at_once_and_duplicates_are_not(
    postgres: TestPostgres, valkey: TestValkey, turn: dict[str, Any]
) -> None:
    offered: list[tuple[UUID, int, int]] = []

    def embed(host: UUID, turns: Sequence[UUID], characters: int) -> bool:
        offered.append((host, len(turns), characters))
        return True

    broker = broker_of(valkey.url, f"pressure-{uuid4().hex}")
    world = build(postgres, broker, settings=ApiSettings(), embed=embed)
    tenant = await world.tenant()
    for _ in range(2):
        await tenant.http.post("/api/v1/turns:batch", json={"turns": [turn, {**turn, "turn_id": "2"}]})
    said = sum(len(message["content"]) for message in turn["messages"])
    assert offered == [(host_id(tenant.host), 2, 2 * said)]
    await tenant.http.aclose()
    await world.close()
