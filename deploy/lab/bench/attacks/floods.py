"""Attacks by number: ordinary calls, of which one tenant makes very many, or locks that it holds."""

import asyncio
import time
from typing import Any

from sqlalchemy import text

from deploy.lab.bench.attacks.attack import attack
from deploy.lab.bench.attacks.attacker import BANK, Attacker
from deploy.lab.worker_pause import pause_workers
from store import identity

BATCH = 500
#: The stack's limit of undone rows for recall jobs: low, so that the attack can exceed it in seconds.
RECALL_JOB_ROWS = 4000
#: How long a database client locks a bank and a session, in seconds: longer than a caller waits.
HELD_S = 8.0
HELD_SESSION = "held"
#: How long load shedding may take to notice a backlog, in seconds; expensive counts are made rarely.
SHED_S = 20.0

HOLD = text("""
    select pg_advisory_xact_lock(afterturn.lock_key('bank', :bank)),
           pg_advisory_xact_lock(afterturn.lock_key('session', :session))""")


def _make_turn(attacker: Attacker) -> dict[str, Any]:
    number = attacker.number()
    said = f"Note {number}: Ana met Boris in Porto about plan {number}, and Carla likes plan {number % 7}."
    return {"bank": BANK, **attacker.turn_of(said, "It is noted.")}


async def _send_batch(attacker: Attacker, turns: int = BATCH) -> None:
    body = {"turns": [_make_turn(attacker) for _ in range(turns)]}
    await attacker.call("POST", "/api/v1/turns:batch", body)


async def _store_units(attacker: Attacker) -> None:
    """Store two hundred turns, and recall the ids of some units."""
    await _send_batch(attacker, 200)
    answer = await attacker.recall("Ana Boris Porto plan", k=100)
    if answer is not None and answer.is_success:
        attacker.units += [one["unit_id"] for one in answer.json()["results"]]


@attack("recalls", "32 questions of one tenant at a time", prepare=_store_units)
async def _flood_recalls(attacker: Attacker) -> None:
    await attacker.keep_at(32, lambda: attacker.recall(f"which plan did Ana discuss, {attacker.number()}?"))


@attack("turns", "32 turns of one tenant at a time")
async def _flood_turns(attacker: Attacker) -> None:
    await attacker.keep_at(32, lambda: attacker.call("POST", "/api/v1/turns", _make_turn(attacker)))


@attack("batches", "8 batches of 500 turns at once")
async def _flood_batches(attacker: Attacker) -> None:
    await asyncio.gather(*(_send_batch(attacker) for _ in range(8)))


@attack("erasures", "erasures of unknown users beside small batches")
async def _flood_erasures(attacker: Attacker) -> None:
    """Request erasures of unknown users while sending small batches."""

    async def erase() -> None:
        body = {"kind": "user", "user_id": f"unknown-{attacker.number()}"}
        await attacker.call("POST", "/api/v1/erasures", body)

    await asyncio.gather(attacker.keep_at(4, erase), attacker.keep_at(2, lambda: _send_batch(attacker, 10)))


@attack("banks", "up to 4,000 new banks")
async def _flood_banks(attacker: Attacker) -> None:
    async def make() -> None:
        await attacker.call("POST", "/api/v1/banks", {"bank": f"bank {attacker.number()}"})

    await attacker.keep_at(16, make, most=4000)


@attack("links", "32 links at a time", prepare=_store_units)
async def _flood_links(attacker: Attacker) -> None:
    """Link units to each other, again and again."""

    async def link() -> None:
        number = attacker.number()
        units = attacker.units
        one, other = units[number % len(units)], units[(number * 7 + 1) % len(units)]
        kind = ("causes", "enables", "semantic", "prevents")[number % 4]
        body = {"bank": BANK, "from_unit_id": one, "to_unit_id": other, "link_type": kind}
        await attacker.call("POST", "/api/v1/links", body)

    if attacker.units:
        await attacker.keep_at(32, link)


@attack("long_polls", "256 waits of 6 s", seconds=6.0, pauses_workers=True)
async def _flood_long_polls(attacker: Attacker) -> None:
    """Wait 256 times for a bank's stages and for a recall job while all workers are stopped."""
    with pause_workers(attacker.stack):
        taken = await attacker.call("POST", "/api/v1/turns", _make_turn(attacker))
        position = taken.json()["position"] if taken is not None and taken.is_success else 1
        opened = await attacker.call("POST", "/api/v1/recall/jobs", {"bank": BANK, "query": "who?", "ttl_s": 60})
        paths = [f"/api/v1/freshness?bank={BANK}&position={position}&wait_ms=6000"]
        if opened is not None and opened.is_success:
            paths.append(f"/api/v1/recall/jobs/{opened.json()['job_id']}?wait_ms=6000")
        await asyncio.gather(*(attacker.call("GET", path) for path in paths * 128))


@attack("held_session", "32 turns at a time into what psql holds", seconds=HELD_S + 1)
async def _hold_locks(attacker: Attacker) -> None:
    """Lock a bank and a session from another database client, as psql could, while their tenant writes to them."""
    bank = identity.bank_id(attacker.host_id, BANK)
    session = identity.session_id(bank, HELD_SESSION)

    async def write() -> None:
        await attacker.turn("into what is held", session=HELD_SESSION)

    async with attacker.owner.begin() as connection:
        await connection.execute(HOLD, {"bank": bank, "session": session})
        writing = asyncio.gather(attacker.keep_at(32, write), _send_batch(attacker, 10))
        await asyncio.wait({asyncio.ensure_future(writing)}, timeout=HELD_S)
    await writing


@attack("backlog", "more undone rows than load shedding allows", pauses_workers=True)
async def _build_backlog(attacker: Attacker) -> None:
    """Build a backlog above the limit of load shedding, then try whether another tenant's calls are refused."""
    with pause_workers(attacker.stack):
        for _ in range(2 + RECALL_JOB_ROWS // (3 * BATCH)):
            await _send_batch(attacker)
        job = {"bank": BANK, "query": "who?", "ttl_s": 30}
        shed_by = time.monotonic() + SHED_S
        while time.monotonic() < shed_by:
            answer = await attacker.call("POST", "/api/v1/recall/jobs", job)
            if answer is not None and answer.is_error:
                break
            await asyncio.sleep(0.25)
        for _ in range(8):
            await attacker.bystander("POST", "/api/v1/recall/jobs", job)
            turn = {"bank": BANK, **attacker.turn_of("an ordinary turn")}
            await attacker.bystander("POST", "/api/v1/turns:batch", {"turns": [turn]})
