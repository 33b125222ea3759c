"""A quota is never passed, whoever writes at once; what is erased is free again; nobody else pays."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest

from store import identity
from store.database import Database
from store.erasure import Erasures, ErasureTarget, Kind
from store.errors import OverQuota, QuotaExceeded, RateLimited, StoreError
from store.log.append import append_events
from store.log.bulk import append_bulk
from store.log.catalog import EventType
from store.log.envelope import Origin, build_command
from store.memory.documents import Documents, NewDocument, content_hash
from store.memory.memories import Memories, NewMemory
from store.memory.turns import Appended, TurnStore
from store.memory.units import Units
from store.tenancy.banks import Banks
from store.tenancy.keys import Keys
from store.tenancy.quotas import QuotaLimits, Quotas, recount_quota
from tests.store.conftest import NOON, rows, turn


@dataclass
class Clock:
    now: datetime = NOON

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Limited:
    """A host under a quota."""

    name: str
    host: UUID
    quotas: Quotas
    turns: TurnStore
    clock: Clock

    async def used(self) -> tuple[int, int, int]:
        quota = (await self.quotas.show(self.name))[0]
        return quota.turns, quota.bytes, quota.banks


@pytest.fixture
def limited(database: Database) -> Limited:
    clock, name = Clock(), f"host-{uuid4().hex}"
    return Limited(name, identity.host_id(name), Quotas(database, clock), TurnStore(database, clock), clock)


async def allow(limited: Limited, database: Database, bank: str | None = None, **limits: int) -> None:
    await Keys(database).create(limited.name, "test")
    await limited.quotas.set(limited.name, bank, QuotaLimits(**limits))


def reason(answer: Appended | StoreError) -> str | None:
    """Return the limit a turn would have passed; None when it was accepted."""
    if isinstance(answer, Appended):
        return None
    assert isinstance(answer, OverQuota)
    return str(answer.details["limit"])


def reasons(answers: list[Appended | StoreError]) -> list[str | None]:
    return [reason(answer) for answer in answers]


async def test_turns_past_the_limit_are_refused_one_by_one_and_nothing_of_them_is_written(
    limited: Limited, database: Database
) -> None:
    await allow(limited, database, max_turns=2)
    answers = await limited.turns.append(limited.host, [turn(f"t{n}") for n in range(4)])
    assert reasons(answers) == [None, None, "max_turns", "max_turns"]
    assert await limited.used() == (2, len("words of t0") * 2, 1)
    assert len(await rows(database, limited.host, "select 1 from turn_t")) == 2
    assert len(await rows(database, limited.host, "select 1 from agent_memory_unit_t")) == 2


async def test_a_repeated_turn_is_a_duplicate_however_full_it_is_and_costs_nothing(
    limited: Limited, database: Database
) -> None:
    await allow(limited, database, max_turns=1)
    await limited.turns.append(limited.host, [turn("t1")])
    again = await limited.turns.append(limited.host, [turn("t1"), turn("t2")])
    assert isinstance(again[0], Appended)
    assert again[0].duplicate
    assert reasons(again) == [None, "max_turns"]


async def test_writers_that_meet_at_the_last_turn_never_pass_the_limit(limited: Limited, database: Database) -> None:
    await allow(limited, database, max_turns=7, max_banks=3)
    stores = [TurnStore(database, limited.clock) for _ in range(20)]
    answers = await asyncio.gather(
        *(store.append(limited.host, [turn("t1", session=f"s{n}", bank=f"b{n % 4}")]) for n, store in enumerate(stores))
    )
    accepted = sum(isinstance(one, Appended) for answer in answers for one in answer)
    assert accepted == 7 == len(await rows(database, limited.host, "select 1 from turn_t"))
    assert len(await rows(database, limited.host, "select 1 from agent_memory_bank_t")) <= 3
    assert (await limited.used())[0] == 7


async def test_bytes_and_banks_have_limits_of_their_own(limited: Limited, database: Database) -> None:
    await allow(limited, database, max_bytes=10, max_banks=1)
    answers = await limited.turns.append(
        limited.host, [turn("t1", "ä" * 4), turn("t2", "b" * 3), turn("t3", "c", bank="other"), turn("t4", "dd")]
    )
    assert reasons(answers) == [None, "max_bytes", "max_banks", None]
    with pytest.raises(QuotaExceeded):
        await Banks(database, limited.clock).create(limited.host, None, "third")


async def test_a_bank_has_a_quota_of_its_own(limited: Limited, database: Database) -> None:
    await allow(limited, database, bank="small", max_turns=1)
    answers = await limited.turns.append(
        limited.host, [turn("t1", bank="small"), turn("t2", bank="small"), turn("t3", bank="large")]
    )
    assert reasons(answers) == [None, "max_turns", None]
    [refused] = [a for a in answers if isinstance(a, StoreError)]
    assert isinstance(refused, QuotaExceeded)
    assert refused.details == {"limit": "max_turns", "scope": "bank", "allowed": 1}


async def test_the_turns_of_a_minute_are_limited_and_the_next_minute_begins_anew(
    limited: Limited, database: Database
) -> None:
    await allow(limited, database, turns_per_minute=2)
    limited.clock.now = NOON + timedelta(seconds=20)
    answers = await limited.turns.append(limited.host, [turn(f"t{n}") for n in range(3)])
    assert reasons(answers) == [None, None, "turns_per_minute"]
    [refused] = [a for a in answers if isinstance(a, StoreError)]
    assert isinstance(refused, RateLimited)
    assert refused.retry_after_s == 40
    limited.clock.now = NOON + timedelta(seconds=61)
    assert reasons(await limited.turns.append(limited.host, [turn("t2")])) == [None]


async def test_what_is_there_counts_when_a_quota_is_set_and_what_was_forgotten_is_free(
    limited: Limited, database: Database
) -> None:
    await Keys(database).create(limited.name, "test")
    await limited.turns.append(limited.host, [turn("t1", "x" * 100)])
    await limited.quotas.set(limited.name, None, QuotaLimits(max_bytes=100))
    assert await limited.used() == (1, 100, 1)
    assert reasons(await limited.turns.append(limited.host, [turn("t2", "y")])) == ["max_bytes"]
    [(unit,)] = await rows(database, limited.host, "select unit_id from agent_memory_unit_t")
    await Units(database, limited.clock).forget(limited.host, "home", unit)
    # A total is counted anew before it is held against somebody, at most once a minute.
    assert reasons(await limited.turns.append(limited.host, [turn("t2", "y")])) == ["max_bytes"]
    limited.clock.now = NOON + timedelta(minutes=2)
    assert reasons(await limited.turns.append(limited.host, [turn("t2", "y")])) == [None]


async def test_what_is_erased_is_given_back_at_once(limited: Limited, database: Database) -> None:
    await allow(limited, database, max_turns=3, max_bytes=30, max_banks=2)
    await allow(limited, database, "home", max_turns=2)
    await limited.turns.append(limited.host, [turn("t1", "x" * 10, "y" * 5), turn("t2", "z" * 4, session="s2")])
    await limited.turns.append(limited.host, [turn("t3", "w" * 3, bank="other")])
    assert await limited.used() == (3, 22, 2)
    erasures = Erasures(database, limited.clock)
    for target, left in (
        (ErasureTarget(Kind.SESSION, "home", "s1"), (2, 7, 2)),
        (ErasureTarget(Kind.BANK, "other"), (1, 4, 1)),
        (ErasureTarget(Kind.USER), (0, 0, 1)),
    ):
        assert (await erasures.run(limited.host, await erasures.request(limited.host, target))).done
        assert await limited.used() == left
    [_, home] = await limited.quotas.show(limited.name)
    assert (home.bank, home.turns, home.bytes) == ("home", 0, 0)
    assert reasons(await limited.turns.append(limited.host, [turn(f"n{n}") for n in range(2)])) == [None, None]


async def test_a_document_counts_as_what_it_was_charged_and_is_given_back(limited: Limited, database: Database) -> None:
    await allow(limited, database, max_turns=3, max_bytes=100)
    documents = Documents(database, limited.clock)
    await documents.add(limited.host, NewDocument("home", content_hash(b"d"), "ä" * 10))
    charged = await limited.used()
    await limited.quotas.set(limited.name, None, QuotaLimits(max_turns=3, max_bytes=100))
    assert await limited.used() == charged
    erasures = Erasures(database, limited.clock)
    await erasures.run(limited.host, await erasures.request(limited.host, ErasureTarget(Kind.BANK, "home")))
    assert await limited.used() == (0, 0, 0)


async def test_a_single_memory_counts_as_what_it_was_charged_and_no_limit_is_passed(
    limited: Limited, database: Database
) -> None:
    await allow(limited, database, max_turns=2, max_bytes=60)
    memories = Memories(database, limited.clock)

    async def keep(memory_id: str, content: str) -> None:
        await memories.keep(limited.host, NewMemory("home", memory_id, content, title="t"), permit)

    async def permit(_unit: UUID) -> None:
        """Let anything be replaced."""

    await keep("a", "ä" * 10)
    await keep("a", "b" * 10)
    await keep("b", "c" * 10)
    assert await limited.used() == (2, 21 + 11 + 11, 1)
    with pytest.raises(QuotaExceeded):
        await keep("c", "d")
    with pytest.raises(QuotaExceeded):
        await keep("b", "e" * 20)
    await limited.quotas.set(limited.name, None, QuotaLimits(max_turns=2, max_bytes=60))
    assert await limited.used() == (2, 43, 1)
    await memories.end(limited.host, "home", "a")
    limited.clock.now += timedelta(hours=1)
    await keep("c", "d")


@pytest.mark.parametrize("bulk", [False, True])
async def test_banks_that_begin_or_end_by_an_event_count_at_once(
    limited: Limited, database: Database, *, bulk: bool
) -> None:
    await allow(limited, database, max_banks=2)

    async def say(kind: EventType, name: str, version: int = 1) -> None:
        bank = identity.bank_id(limited.host, name)
        fields = {} if kind is EventType.BANK_DELETED else {"bankName": name}
        event = build_command(Origin(limited.host, bank, limited.host, NOON), kind, fields, version=version)
        if bulk:
            await append_bulk(database, limited.host, [event])
            return
        async with database.tenant(limited.host) as connection:
            await append_events(connection, limited.host, [event])

    await say(EventType.BANK_CREATED, "one")
    await limited.turns.append(limited.host, [turn("t1", bank="two")])
    assert (await limited.used())[2] == 2
    with pytest.raises(QuotaExceeded):
        await say(EventType.BANK_CREATED, "three")
    assert reasons(await limited.turns.append(limited.host, [turn("t1", bank="three")])) == ["max_banks"]
    await say(EventType.BANK_DELETED, "two", 2)
    assert (await limited.used())[2] == 1
    # What was in it is free with the next count, which a bank that ends keeps nobody waiting for.
    assert await recount_quota(database, limited.host, limited.clock() + timedelta(hours=1))
    assert await limited.used() == (0, 0, 1)
    await say(EventType.BANK_CREATED, "three")
    assert (await limited.used())[2] == 2


async def test_banks_made_at_once_never_pass_the_limit(limited: Limited, database: Database) -> None:
    await allow(limited, database, max_banks=3)
    banks = Banks(database, limited.clock)
    made = await asyncio.gather(
        *(banks.create(limited.host, None, f"b{n}") for n in range(5)),
        *(TurnStore(database, limited.clock).append(limited.host, [turn("t1", bank=f"t{n}")]) for n in range(5)),
        return_exceptions=True,
    )
    refused = [one for one in made if isinstance(one, BaseException)]
    assert all(isinstance(one, QuotaExceeded) for one in refused)
    active = await rows(database, limited.host, "select 1 from agent_memory_bank_t where active")
    assert len(active) == 3 == (await limited.used())[2]


async def test_an_open_turn_counts_until_it_is_stored_or_erased(limited: Limited, database: Database) -> None:
    await allow(limited, database, max_bytes=1000)
    await allow(limited, database, "home", max_bytes=800)
    opened = limited.turns.open

    async def begin(size: int, bank: str = "home") -> str:
        request = {"project": bank, "session_id": "s1", "turn_id": "t", "conversation_items": ["x" * size]}
        token, _ = await opened.open(limited.host, "key", bank, request, "ann")
        return token

    async def held() -> list[int]:
        return [quota.bytes for quota in await limited.quotas.show(limited.name)]

    token = await begin(500)
    size = (await held())[0]
    assert (size > 500, await held()) == (True, [size, size])
    with pytest.raises(QuotaExceeded):
        await begin(500)
    assert await held() == [size, size]
    assert reasons(await limited.turns.append(limited.host, [turn("t1", "y" * 600, bank="other")])) == ["max_bytes"]
    limited.clock.now = NOON + timedelta(minutes=2)
    assert await recount_quota(database, limited.host, limited.clock.now)
    assert await held() == [size, size]
    await opened.close(limited.host, await opened.read(limited.host, "key", token))
    [left, _] = await held()
    assert 0 < left < 100
    await begin(500)
    assert reasons(await limited.turns.append(limited.host, [turn("t2", "z")])) == [None]
    erasures = Erasures(database, limited.clock)
    await erasures.run(limited.host, await erasures.request(limited.host, ErasureTarget(Kind.BANK, "home")))
    assert await held() == [0, 0]


async def test_a_quota_without_limits_is_none(limited: Limited, database: Database) -> None:
    await allow(limited, database, max_turns=0)
    assert reasons(await limited.turns.append(limited.host, [turn("t1")])) == ["max_turns"]
    await limited.quotas.set(limited.name, None, QuotaLimits())
    assert reasons(await limited.turns.append(limited.host, [turn("t1")])) == [None]
    assert await limited.quotas.show(limited.name) == []


async def test_a_host_does_not_pay_for_another(limited: Limited, database: Database, host: UUID) -> None:
    await allow(limited, database, max_turns=0)
    assert reasons(await limited.turns.append(host, [turn("t1")])) == [None]
