"""Each attack against the product as `afterturn up` runs it: refused or harmless, bounded, and felt by no other tenant.

What the HTTP server cuts off before it knows a key is in tests/deploy/api/test_http_limits.py.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import text

from deploy.lab.bench.attacks import floods
from deploy.lab.bench.attacks.attack import RequiredEnding
from deploy.lab.bench.attacks.attacker import BANK, Attacker
from deploy.lab.bench.attacks.memory import MemoryWatch
from deploy.lab.bench.attacks.run import ATTACKS, ENVIRONMENT, TenantFactory, open_tenant_factory
from tests.deploy.cli.test_live import Live, up

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("attacks")]

#: How long the attacks last that go on for as long as they are let, in seconds.
SECONDS = 1.0
#: What a process of the service may grow by, in MiB: what is sent is a tenth of it, what it led to once was a GiB.
GROWTH_MIB = 300
CUT_OFF = {attack.name for attack in ATTACKS if attack.must is RequiredEnding.BE_CUT_OFF}
#: What workers have to do is waited for: these go before the floods, which leave the one worker much to do.
WORKED_OFF = ("statements", "entities", "name_lists")
MESSAGES, MOST_ENTITIES = 64, 32
#: Just past the 5 s that a caller waits for a held session.
HELD_S = 5.5
#: What an attack may leave in the database, at most: a query for its tenant (`:host`), and the number.
LEFT = {
    "document_metadata": ("select count(*) from afterturn.agent_memory_doc_t where host_id = :host", 0),
    "directives": ("select count(*) from afterturn.agent_memory_directive_t where host_id = :host", 0),
    "job_filters": ("select count(*) from afterturn.recall_job_t where host_id = :host", 0),
    "deep_json": ("select count(*) from afterturn.event_store_t where host_id = :host", 0),
    "turn_metadata": ("select count(*) from afterturn.event_store_t where host_id = :host", 0),
    "erasures": ("select count(*) from afterturn.erasure_t where host_id = :host", 0),
    "malformed_tokens": ("select count(*) from afterturn.call_audit_t where status = 401", 5),
    "unknown_tokens": ("select count(*) from afterturn.call_audit_t where status = 401", 5),
    "entities": (
        "select count(*) from afterturn.agent_memory_entity_cooccur_t where host_id = :host",
        MESSAGES * MOST_ENTITIES * (MOST_ENTITIES - 1) // 2,
    ),
}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with up(tmp_path_factory.mktemp("attacked") / "data", "--workers", "1", **ENVIRONMENT) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def tenants(live: Live) -> AsyncIterator[TenantFactory]:
    async with open_tenant_factory(live.stack) as lent:
        async with lent.attacker() as first:  # what a first turn loads is no growth by an attack
            await first.worked_off(await first.turn("I met Ana and Boris in Porto in April."))
        yield lent


@asynccontextmanager
async def bystanding(attacker: Attacker) -> AsyncIterator[None]:
    """Have another tenant write and ask meanwhile, one call after the other."""
    over, asked = asyncio.Event(), count()

    async def bystand() -> None:
        while not over.is_set():
            turn = {"bank": BANK, "session_id": "s", "turn_id": f"t{next(asked)}"}
            said: dict[str, Any] = {**turn, "messages": [{"role": "user", "content": "the ferry leaves at noon"}]}
            await attacker.bystander("POST", "/api/v1/turns", said)
            await attacker.bystander("POST", "/api/v1/recall", {"bank": BANK, "query": "when does the ferry leave?"})

    task = asyncio.create_task(bystand())
    try:
        yield
    finally:
        over.set()
        await task
    assert next(asked) > 0


@pytest.mark.parametrize(
    "name", [*WORKED_OFF, *(attack.name for attack in ATTACKS if attack.name not in {*CUT_OFF, *WORKED_OFF})]
)
async def test_an_attack_is_refused_or_harmless_and_no_other_tenant_is_refused(
    tenants: TenantFactory, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(floods, "HELD_S", HELD_S)
    attack = next(one for one in ATTACKS if one.name == name)
    async with tenants.attacker() as attacker:
        if attack.prepare is not None:
            await attack.prepare(attacker)
            attacker.endings.clear()
        async with MemoryWatch(tenants.stack) as memory, bystanding(attacker):
            attacker.until = time.monotonic() + SECONDS
            await attack.send(attacker)
        assert sum(attacker.endings.values()) > 0
        assert {ending for ending in attacker.endings if not attack.must.allows(ending)} == set()
        assert attacker.bystander_refused == 0
        assert (memory.restarts(), max(memory.growth_mib().values()) <= GROWTH_MIB) == ([], True), memory.growth_mib()
        if name in LEFT:
            query, most = LEFT[name]
            async with tenants.owner.connect() as connection:
                found = (await connection.execute(text(query), _arguments(query, attacker))).scalar_one()
            assert found <= most


def _arguments(query: str, attacker: Attacker) -> dict[str, object]:
    return {"host": attacker.host_id} if ":host" in query else {}
