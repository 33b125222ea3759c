"""What the database makes of a call's authority: refused once its key, or whom it writes for, has ended."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from store import identity
from store.authority import Authority
from store.database import Database
from store.log.append import admit_call
from store.tenancy.keys import Keys
from tests.store.conftest import NOON, rows
from tests.store.sql.conftest import value
from tests.store.sql.test_log_functions import SPACE, TRACEPARENT, offered_memory

ACCEPT = "select outcomes, positions, delivers from afterturn.accept_turns($1, $2, $3, $4, $5)"
ACCEPT_MEMORIES = """
    select outcomes, positions from afterturn.accept_plugin_memories($1, $2, $3, $4, $5, $6, $7, $8, $9)"""
ADMIT = "select afterturn.admit_call(:host, cast(:banks as uuid[]), cast(:about as uuid[]))"
MARK = """
    insert into erasure_t (host_id, erasure_id, kind, target_id, upto, requested_at, updated_at)
    values (:host, gen_random_uuid(), :kind, :target, 0, :at, :at)"""
LATER = NOON + timedelta(seconds=1)


async def mark(database: Database, host: UUID, kind: str, target: UUID) -> None:

    async with database.tenant(host) as connection:
        await connection.execute(text(MARK), {"host": host, "kind": kind, "target": target, "at": LATER})


async def accept(database: Database, host: UUID, calls: list[Authority | None], *, wait: bool = True) -> list[str]:
    turns = [offered_memory(host, f"of {n}") for n in range(len(calls))]
    told = [call and call.as_row() for call in calls]
    traced = [TRACEPARENT, *[None] * (len(calls) - 1)]
    [(outcomes, positions, delivers)] = await database.fetch(ACCEPT, host, turns, wait, traced, told)
    assert len(positions) == len(delivers) == len(outcomes)
    return list(outcomes)


@pytest.mark.law("L6")
async def test_turns_of_an_ended_key_are_refused_and_the_others_are_to_be_offered_again(
    database: Database, host: UUID
) -> None:
    keys = Keys(database)
    name = f"host-{uuid4().hex}"
    grant = await keys.authenticate(await keys.create(name, "x"))
    assert grant is not None
    here = Authority(NOON, grant.key_id)
    assert await accept(database, grant.host_id, [here, None]) == ["accepted", "accepted"]
    assert await accept(database, host, [here]) == ["revoked"], "a key of another tenant is none here"
    await keys.revoke(name, grant.key_id)
    for wait in (True, False):
        assert await accept(database, grant.host_id, [None, here], wait=wait) == ["held", "revoked"]
    assert await accept(database, grant.host_id, [None, None]) == ["duplicate", "duplicate"]


@pytest.mark.law("L11")
@pytest.mark.parametrize("kind", ["user", "session", "bank", "document", "memory", "unit"])
async def test_what_was_erased_since_a_call_began_is_not_written_by_it(
    database: Database, host: UUID, kind: str
) -> None:
    bank = identity.bank_id(host, SPACE)
    session = identity.memory_session(bank, "of 0")
    targets = {
        "user": identity.user_id(host, None),
        "session": session,
        "memory": session,
        "document": session,
        "bank": bank,
    }
    await mark(database, host, kind, targets.get(kind, uuid4()))
    assert await accept(database, host, [Authority(NOON)]) == ["accepted" if kind == "unit" else "erased"]
    assert await accept(database, host, [Authority(LATER)]) == ["duplicate" if kind == "unit" else "accepted"]


@pytest.mark.law("L11")
async def test_a_token_ends_with_the_erasure_of_its_own_user_alone(database: Database, host: UUID) -> None:
    ann, bo = uuid4(), uuid4()
    await mark(database, host, "user", ann)
    began = LATER + timedelta(hours=1)
    assert await accept(database, host, [Authority(began, None, ann, NOON)]) == ["erased"]
    assert await accept(database, host, [Authority(began, None, bo, NOON)]) == ["accepted"]
    assert await accept(database, host, [Authority(began, None, ann, began)]) == ["duplicate"]


@pytest.mark.law("L11")
async def test_a_memory_of_a_plugin_is_written_on_the_authority_of_its_call(database: Database, host: UUID) -> None:
    async def offer(call: Authority | None) -> str:
        told: tuple[object, ...] = ([None], [None], [0], [], [None], True, [call and call.as_row()])
        [([outcome], _)] = await database.fetch(ACCEPT_MEMORIES, host, [offered_memory(host)], *told)
        return str(outcome)

    await mark(database, host, "bank", identity.bank_id(host, SPACE))
    assert await offer(Authority(NOON)) == "erased"
    assert await offer(Authority(LATER)) == await offer(None) == "gone", "it has no namespace"


@pytest.mark.law("L11")
async def test_what_is_kept_beside_the_log_is_admitted_by_the_same_rule(database: Database, host: UUID) -> None:
    bank, user = identity.bank_id(host, SPACE), uuid4()
    await mark(database, host, "user", user)
    told: dict[str, object] = {"host": host, "banks": [bank], "about": [user]}
    assert await value(database, host, ADMIT, **told) is None, "the service's own work is not judged"
    async with database.tenant(host, {"afterturn.authority": Authority(LATER).as_setting()}) as connection:
        await admit_call(connection, host, [bank], [user])
    with pytest.raises(DBAPIError) as refused:
        async with database.tenant(host, {"afterturn.authority": Authority(NOON).as_setting()}) as connection:
            await connection.execute(text(ADMIT), told)
    assert getattr(refused.value.orig, "sqlstate", None) == "ZA011"
    assert await rows(database, host, "select count(*) from event_store_t") == [(0,)]
