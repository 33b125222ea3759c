"""Hosts take turns, whatever each of them has waiting; the newest turns are embedded first, and none waits too long."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from sqlalchemy import text

from store.database import Database
from store.ledger.ledger import CLAIM, Claim, Ledger
from store.ledger.stages import Stage
from store.memory.turns import Appended, TurnStore
from tests.servers import TestPostgres
from tests.store.conftest import new_host, turn
from tests.store.ledger.test_claim_plans import fill

LEASE = timedelta(seconds=30)
OLDEST_FIRST_AFTER = timedelta(seconds=30)


async def accepted(database: Database, host: UUID, names: Sequence[str], *, ago: timedelta = timedelta()) -> list[int]:
    store = TurnStore(database, lambda: datetime.now(UTC) - ago)
    answers = await store.append(host, [turn(name, session=name) for name in names])
    return [answer.position for answer in answers if isinstance(answer, Appended)]


async def claimed(
    ledger: Ledger, stage: Stage, streams: int, oldest_first_after: timedelta | None = None
) -> list[Claim]:
    return await ledger.claim(
        stage, streams=streams, rows=1, lease=LEASE, worker="w", max_attempts=5, oldest_first_after=oldest_first_after
    )


def positions(claims: Sequence[Claim]) -> list[int]:
    return sorted(row.position for claim in claims for row in claim.rows)


@pytest.mark.slow
@pytest.mark.parametrize("stage", [Stage.EXTRACTION, Stage.EMBEDDING])
async def test_a_host_with_fifty_thousand_turns_does_not_starve_the_single_turn_of_another(
    fresh_database: TestPostgres, lonely: Database, ledger: Ledger, stage: Stage
) -> None:
    await fill(fresh_database, stage, 50_000)
    host = await new_host(lonely)
    await accepted(lonely, host, ["single"])
    claims = await claimed(ledger, stage, 8, OLDEST_FIRST_AFTER if stage is Stage.EMBEDDING else None)
    assert host in {claim.host_id for claim in claims}
    assert len(claims) == 8


async def test_hosts_share_a_claim_equally_and_what_one_does_not_need_the_others_get(
    lonely: Database, ledger: Ledger
) -> None:
    hosts = [await new_host(lonely) for _ in range(3)]
    for host, turns in zip(hosts, (9, 9, 1), strict=True):
        await accepted(lonely, host, [f"t{n}" for n in range(turns)])
    claims = await claimed(ledger, Stage.EXTRACTION, 7)
    assert [sum(claim.host_id == host for claim in claims) for host in hosts] == [3, 3, 1]


async def test_a_claim_by_bank_takes_the_oldest_and_its_banks_others_before_the_next_bank(
    lonely: Database, ledger: Ledger
) -> None:
    banks = ("b", "a", "b", "a", "b", "a")
    store = TurnStore(lonely, lambda: datetime.now(UTC))
    turns = [turn(f"t{n}", session=f"s{n}", bank=bank) for n, bank in enumerate(banks)]
    answers = await store.append(await new_host(lonely), turns)
    given = [answer.position for answer in answers if isinstance(answer, Appended)]
    for expected in (given[0:5:2], given[1::2]):
        claims = await ledger.claim(
            Stage.EXTRACTION, streams=3, rows=1, lease=LEASE, worker="w", max_attempts=5, by_bank=True
        )
        assert positions(claims) == expected


async def test_of_many_hosts_none_is_passed_over_for_long(lonely: Database, ledger: Ledger) -> None:
    hosts = {await new_host(lonely) for _ in range(40)}
    for host in hosts:
        await accepted(lonely, host, ["a", "b"])
    served: set[UUID] = set()
    while served != hosts:
        claims = await claimed(ledger, Stage.EXTRACTION, 4)
        assert claims
        served |= {claim.host_id for claim in claims}


@pytest.mark.parametrize(
    "stage, sessions, waiting",
    [
        # A session waits for its first turn, and is longer than what is looked at of a host.
        (Stage.EXTRACTION, ["long"] * 20 + ["short"], [0]),
        # Each turn goes alone: the oldest and the newest wait.
        (Stage.EMBEDDING, [str(n) for n in range(100)], [*range(20), *range(80, 100)]),
    ],
)
async def test_what_stands_behind_rows_that_wait_is_not_passed_over_while_other_hosts_have_work(
    lonely: Database, ledger: Ledger, stage: Stage, sessions: Sequence[str], waiting: Sequence[int]
) -> None:
    host, store = await new_host(lonely), TurnStore(lonely, lambda: datetime.now(UTC))
    answers = await store.append(host, [turn(f"t{n}", session=session) for n, session in enumerate(sessions)])
    given = [answer.position for answer in answers if isinstance(answer, Appended)]
    async with lonely.operator() as connection:
        late = text("update ledger_t set next_attempt_at = now() + interval '1 hour' where position = any(:these)")
        await connection.execute(late, {"these": [given[n] for n in waiting]})
    others = [await new_host(lonely) for _ in range(15)]
    for other in others:
        await accepted(lonely, other, ["a", "b"])
    oldest_first_after = OLDEST_FIRST_AFTER if stage is Stage.EMBEDDING else None
    claims = await claimed(ledger, stage, 32, oldest_first_after)
    assert {claim.host_id for claim in claims} == {host, *others}
    served: set[UUID] = set()
    for _ in range(500):  # a claim of one draws from sixteen hosts
        await ledger.release(claims)
        claims = await claimed(ledger, stage, 1, oldest_first_after)
        served |= {claim.host_id for claim in claims}
    assert served == {host, *others}


async def test_who_claims_at_the_same_time_gets_other_streams_and_waits_for_nobody(
    lonely: Database, ledger: Ledger
) -> None:
    given = await accepted(lonely, await new_host(lonely), [f"t{n}" for n in range(4)])
    async with lonely.operator() as connection:
        held = (
            await connection.exec_driver_sql(CLAIM, ("extraction", 2, 1, LEASE, "w", True, 5, None, False, None))
        ).all()
        assert positions(await claimed(ledger, Stage.EXTRACTION, 2)) == given[2:]
    assert sorted(row.position for row in held) == given[:2]


async def test_the_newest_turns_are_embedded_first(lonely: Database, ledger: Ledger) -> None:
    given = await accepted(lonely, await new_host(lonely), [f"t{n}" for n in range(6)])
    assert positions(await claimed(ledger, Stage.EMBEDDING, 2, OLDEST_FIRST_AFTER)) == given[-2:]
    assert positions(await claimed(ledger, Stage.EMBEDDING, 2, OLDEST_FIRST_AFTER)) == given[2:4]


async def test_what_waited_longer_than_the_valve_goes_before_whatever_keeps_coming(
    lonely: Database, ledger: Ledger
) -> None:
    host = await new_host(lonely)
    old = await accepted(lonely, host, ["old1", "old2", "old3"], ago=timedelta(minutes=1))
    new = await accepted(lonely, host, [f"t{n}" for n in range(6)])
    assert positions(await claimed(ledger, Stage.EMBEDDING, 2, OLDEST_FIRST_AFTER)) == old[:2]
    assert positions(await claimed(ledger, Stage.EMBEDDING, 2, OLDEST_FIRST_AFTER)) == [old[2], new[-1]]


async def test_newest_first_every_turn_is_embedded_once_in_the_end(lonely: Database, ledger: Ledger) -> None:
    given = await accepted(lonely, await new_host(lonely), [f"t{n}" for n in range(300)])
    found: list[int] = []
    while claims := await claimed(ledger, Stage.EMBEDDING, 64, OLDEST_FIRST_AFTER):
        found += positions(claims)
    assert sorted(found) == given


async def test_a_row_that_waits_for_its_next_attempt_hides_no_other(lonely: Database, ledger: Ledger) -> None:
    given = await accepted(lonely, await new_host(lonely), ["a", "b", "c"])
    async with lonely.operator() as connection:
        late = text("update ledger_t set next_attempt_at = now() + interval '1 hour' where position = :newest")
        await connection.execute(late, {"newest": given[-1]})
    assert positions(await claimed(ledger, Stage.EMBEDDING, 9, OLDEST_FIRST_AFTER)) == given[:2]
    assert positions(await claimed(ledger, Stage.EXTRACTION, 9)) == given[:2]
