"""Takes the steps of an erasure by the kind of its target: check that it exists, begin, erase the next page."""

from collections.abc import Awaitable, Callable, Mapping
from itertools import groupby
from uuid import uuid4

from sqlalchemy import bindparam, exists, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store import schema
from store.erasure import requests
from store.erasure.aggregates import (
    HAS_DIRECTIVE,
    HAS_DOCUMENT,
    HAS_MEMORY,
    PAGE_UNITS,
    SESSION,
    begin_session,
    erase_directive,
    erase_document_page,
    erase_memory_page,
    erase_session_page,
)
from store.erasure.banks import BANK, begin_bank, erase_page
from store.erasure.requests import Erasure, ErasureTarget, Kind
from store.erasure.retention import erase_ended, erase_old
from store.erasure.units import LOCK_BANK, LOCK_BANKS, LOCK_QUOTA, SHARE_QUOTA, LockedBank, erase_units
from store.erasure.user_names import find_units_naming
from store.erasure.users import erase_keys, erase_written, group_by_bank, read_events_of_user
from store.errors import NotFound
from store.memory import reflections

KNOWN = text("""
    select exists (select from afterturn.event_store_t e where e.host_id = :host and e.user_id = :thing)
        or exists (select from afterturn.agent_memory_bank_t b
                    where b.host_id = :host and b.user_id = :thing and b.bank_name <> '')
        or afterturn.has_key_of(:name)""")
#: Whether a document, directive, memory or unit of an id is, or was, there.
HAS = {
    Kind.DOCUMENT: HAS_DOCUMENT,
    Kind.DIRECTIVE: HAS_DIRECTIVE,
    Kind.MEMORY: HAS_MEMORY,
    Kind.UNIT: select(exists().where(schema.in_bank(schema.UNIT), schema.UNIT.c.unit_id == bindparam("thing"))),
}
# The user's own banks that are not erased since the last request, those with a running erasure first.
OWN_BANK = text("""
    select b.bank_id, r.erasure_id
      from afterturn.agent_memory_bank_t b
      join afterturn.erasure_t whole on whole.host_id = b.host_id and whole.erasure_id = :erasure
      left join afterturn.erasure_t r
        on r.host_id = b.host_id and r.target_id = b.bank_id and r.kind = 'bank' and r.status = 'running'
     where b.host_id = :host and b.user_id = :user and (b.active or b.bank_name <> '')
       and not exists (select from afterturn.erasure_t d
                        where d.host_id = b.host_id and d.parent_id = :erasure and d.target_id = b.bank_id
                          and d.status = 'done' and d.requested_at >= whole.requested_at)
     order by r.erasure_id is null, b.bank_id limit 1""")


async def find_target(place: LockedBank, target: ErasureTarget) -> None:
    """Check that the target exists, without any lock. Raises NotFound, IsReflection."""
    host, thing = place.erasure.host, place.erasure.target
    match target.kind:
        case Kind.BANK:
            known = bool(await place.ask(BANK))
        case Kind.SESSION:
            known = bool(await place.ask(SESSION, thing=thing))
        case Kind.USER:
            found = await place.connection.execute(KNOWN, {"host": host, "thing": thing, "name": target.name})
            known = bool(found.scalar())
        case kind:
            if kind is Kind.UNIT:
                await reflections.refuse_reflection(place.connection, host, place.bank, thing)
            known = bool((await place.ask(HAS[kind], thing=thing))[0][0])
    if not known:
        raise NotFound(f"no such {target.kind.value}")


async def open_named(connection: AsyncConnection, erasure: Erasure, target: ErasureTarget) -> None:
    """Add the units of others that contain a name of the request to a user's erasure."""
    units = await find_units_naming(connection, erasure.host, erasure.target, target.called)
    await requests.open_units(connection, erasure, units)


async def begin_target(place: LockedBank) -> None:
    """End the target for every reader, while its bank is locked. Raises NotFound."""
    match place.erasure.kind:
        case Kind.BANK:
            await begin_bank(place)
        case Kind.SESSION:
            await begin_session(place)
        case kind:
            if not (await place.ask(HAS[kind], thing=place.erasure.target))[0][0]:
                raise NotFound(f"no such {kind.value}")


async def begin_target_again(place: LockedBank) -> None:
    """End a bank or a session that began anew while its erasure runs; other targets are read as they are found."""
    if place.erasure.kind in (Kind.BANK, Kind.SESSION):
        await begin_target(place)


async def _erase_unit(place: LockedBank) -> bool:
    await erase_units(place, [place.erasure.target])
    return False


#: Erases the next page of a target that lies in one bank, and returns whether there may be more.
PAGES: Mapping[Kind, Callable[[LockedBank], Awaitable[bool]]] = {
    Kind.BANK: erase_page,
    Kind.SESSION: erase_session_page,
    Kind.AGE: erase_old,
    Kind.ENDED: erase_ended,
    Kind.DOCUMENT: erase_document_page,
    Kind.MEMORY: erase_memory_page,
    Kind.DIRECTIVE: erase_directive,
    Kind.UNIT: _erase_unit,
}


async def erase_in_bank(connection: AsyncConnection, erasure: Erasure) -> bool:
    """Erase the next page of a target that lies in one bank; return whether there may be more."""
    assert erasure.bank is not None  # noqa: S101 - told apart by the caller
    await connection.execute(LOCK_BANK, {"bank": erasure.bank})
    return await PAGES[erasure.kind](LockedBank(connection, erasure, erasure.bank))


async def erase_events_of_user(connection: AsyncConnection, erasure: Erasure) -> bool:
    """Erase the content of the user's next events, bank by bank; return whether there were any."""
    page = await read_events_of_user(connection, erasure)
    written = group_by_bank(page)
    await connection.execute(LOCK_BANKS, {"banks": list(written)})
    for bank, wrote in written.items():
        await erase_written(LockedBank(connection, erasure, bank), wrote)
    if page:
        erasure.reached = page[-1].position
    return bool(page)


async def erase_parts_of_user(connection: AsyncConnection, erasure: Erasure) -> bool:
    """Erase a page of the user's own banks, then of the named units of others; False: all is done."""
    if not erasure.reached and await _erase_own_bank(connection, erasure):
        return True
    return await _erase_named(connection, erasure)


async def _erase_named(connection: AsyncConnection, erasure: Erasure) -> bool:
    """Erase the next units that contain a name of the request; False: there is none."""
    rows = await requests.next_units(connection, erasure, PAGE_UNITS)
    if not rows:
        return False
    await connection.execute(SHARE_QUOTA, {"host": erasure.host})
    await connection.execute(LOCK_BANKS, {"banks": [row.bank_id for row in rows]})
    for bank, some in groupby(rows, lambda row: row.bank_id):
        await erase_units(LockedBank(connection, erasure, bank), [row.target_id for row in some])
    await requests.finish_units(connection, erasure, [row.erasure_id for row in rows])
    return True


async def _erase_own_bank(connection: AsyncConnection, erasure: Erasure) -> bool:
    """Erase a page of the next bank of the user's own, by an erasure that is part of this one; False: there is none.

    Keys that name the user, or such a bank, are revoked before that.
    """
    await erase_keys(connection, erasure)
    whose = {"host": erasure.host, "user": erasure.target, "erasure": erasure.erasure_id}
    row = (await connection.execute(OWN_BANK, whose)).one_or_none()
    if row is None:
        return False
    if row.erasure_id is None:
        await connection.execute(LOCK_QUOTA, {"host": erasure.host})
        await connection.execute(LOCK_BANK, {"bank": row.bank_id})
        part = Erasure(
            erasure.host, uuid4(), Kind.BANK, row.bank_id, row.bank_id, erasure.at, parent=erasure.erasure_id
        )
        await begin_bank(LockedBank(connection, await requests.begin_request(connection, part), row.bank_id))
        await requests.save_progress(connection, part)
        return True
    await requests.adopt_erasure(connection, row.erasure_id, erasure)
    part = await requests.lock_request(connection, erasure.host, row.erasure_id, erasure.at)
    await connection.execute(SHARE_QUOTA, {"host": erasure.host})
    await connection.execute(LOCK_BANK, {"bank": row.bank_id})
    more = await erase_page(LockedBank(connection, part, row.bank_id))
    await requests.save_progress(connection, part)
    if not more:
        await requests.finish_request(connection, part)
    return True
