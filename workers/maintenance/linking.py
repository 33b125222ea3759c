"""Creates semantic links between embedded texts, tenant by tenant in small batches."""

from datetime import timedelta
from uuid import UUID

from sqlalchemy import bindparam, select

from store.database import Database
from store.derived.semantic_links import NearLinks
from store.maintenance import PrunedBatch
from store.schema import HOST
from workers.maintenance.tasks import Task
from workers.settings import SemanticLinkSettings

#: How many hosts with nothing to do one batch looks at.
HOSTS = 50
#: A run takes at most two seconds, and the next one waits thirty: a fifteenth of a processor at worst.
LONGEST_S = 2.0
EVERY = timedelta(seconds=30)

NEXT_HOSTS = (
    select(HOST.c.host_id).where(HOST.c.host_id > bindparam("host")).order_by(HOST.c.host_id).limit(bindparam("hosts"))
)


def linking_task(database: Database, links: NearLinks, settings: SemanticLinkSettings, *, at_once: int = HOSTS) -> Task:
    """Return the task that links newly embedded texts: a page of each host by turns, until none has work left."""

    async def step(place: str | None) -> PrunedBatch:
        last, worked = _parse_place(place)
        hosts = await _next_hosts(database, last, at_once)
        for host in hosts:
            made = await links.step(host)
            if made is not None:
                return PrunedBatch(made, f"{host} more")
        if len(hosts) == at_once:
            return PrunedBatch(0, f"{hosts[-1]} {'more' if worked else 'none'}")
        return PrunedBatch(0, f"{UUID(int=0)} none" if worked else None)

    async def count() -> int:
        found, last = 0, UUID(int=0)
        while hosts := await _next_hosts(database, last, at_once):
            found, last = found + sum([await links.undone(host) for host in hosts]), hosts[-1]
        return found

    off = None if settings.enabled else "maintenance.semantic_links.enabled is false"
    return Task("semantic_links", EVERY, step, count, off, LONGEST_S)


def _parse_place(place: str | None) -> tuple[UUID, bool]:
    """Return the host that was looked at last, and whether this round has found work."""
    host, _, worked = (place or f"{UUID(int=0)} none").partition(" ")
    return UUID(host), worked == "more"


async def _next_hosts(database: Database, last: UUID, hosts: int) -> list[UUID]:
    async with database.operator() as connection:
        return list((await connection.execute(NEXT_HOSTS, {"host": last, "hosts": hosts})).scalars())
