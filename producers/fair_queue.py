"""Fair scheduling between tenants: under contention the busiest tenant gets a small share.

Every call of a tenant takes a slot before it works, and gives it back when its answer is made or while it waits for
something else (`sleep_without_slot`). A slot has a weight in units: a turn is TURN_WEIGHT, a recall RECALL_WEIGHT, and
each BYTES_A_UNIT of a body adds 1, as does that of an answer, and of the texts that were read for it, once they are
known. A tenant alone may have all units.
Once another was active within ACTIVE_S, a tenant whose demand is above the mean may have `share`, and the others
LESS_BUSY times that. Demand counts the units that were started of late, and UNFINISHED times those that wait or work
now: a tenant that keeps a few costly calls under way asks for more than one whose many calls soon end.
A call beyond the share waits in its own tenant's queue, and the tenant with the fewest running units is served first.

With `share` 4 and this rule, 32 concurrent turns or recalls of one tenant keep another's p95 within three times its
quiet one; with a share of 8 for every tenant alike it was ten times (`afterturn bench attacks`, 2 cores).

    offer -> starts at once, or waits -> starts when another ends; refused when its queue is full or its time is over
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from uuid import UUID

from producers import metrics
from producers.errors import Overloaded
from producers.settings import FairnessSettings

TURN_WEIGHT, RECALL_WEIGHT = 2, 4
BYTES_A_UNIT = 16_384
#: Shares of a tenant whose demand is not above the mean.
LESS_BUSY = 3
#: How much a unit that waits or works counts in the demand, where one that was just started counts 1.
UNFINISHED = 4
#: Most units that may wait in a queue; the bodies they stand for have 64 MiB.
UNITS_WAITING = 4096
#: Seconds for which a tenant counts as active after its last call.
ACTIVE_S = 1.0
#: Seconds after which a started unit counts as a third in its tenant's demand.
DEMAND_S = 1.0
RETRY_AFTER_S = 1

#: The slot of the current call, if it has one.
CURRENT: ContextVar["Slot | None"] = ContextVar("slot", default=None)


@dataclass(slots=True, eq=False)
class QueuedCall:
    """One call of a tenant; `start` is called once, when the call gets its slot."""

    host: UUID
    weight: int
    start: Callable[[], None]
    running: bool = False
    waiting: bool = False


@dataclass(slots=True)
class _Tenant:
    """The queue of one tenant: units running and waiting, the time of its last call, and the number of its last start.

    `served` is the number of units started until `served_at`, exponentially weighted by age.
    """

    running: int = 0
    waiting: deque[QueuedCall] = field(default_factory=deque)
    units_waiting: int = 0
    seen_at: float = 0.0
    turn: int = 0
    served: float = 0.0
    served_at: float = 0.0

    def demand(self, now: float) -> float:
        """Return the tenant's recent demand in units: started ones, weighted by age, and unfinished ones."""
        return self.decay_served(now) + UNFINISHED * (self.running + self.units_waiting)

    def decay_served(self, now: float) -> float:
        """Return the started units, weighted by their age at `now`."""
        return self.served * math.exp((self.served_at - now) / DEMAND_S)

    def add_served(self, units: float, now: float) -> None:
        """Add started units, or units by which a call turned out larger."""
        self.served, self.served_at = self.decay_served(now) + units, now


class FairQueue:
    """The scheduler of calls between tenants. It needs no event loop; `clock` counts seconds."""

    def __init__(self, settings: FairnessSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self._clock = clock
        self._tenants: dict[UUID, _Tenant] = {}
        self._turns = 0

    def offer(self, call: QueuedCall, *, again: bool = False) -> None:
        """Start a call now, or queue it. `again`: it had a slot before. Raises Overloaded for a full queue."""
        tenant = self._find_tenant(call.host)
        full = len(tenant.waiting) >= self.settings.queue_calls or tenant.units_waiting + call.weight > UNITS_WAITING
        if full and not again:
            raise refuse_overload(f"{len(tenant.waiting)} of its calls wait already (fairness.queue_calls)")
        tenant.waiting.append(call)
        tenant.units_waiting += call.weight
        call.waiting = True
        self._start_next()

    def withdraw(self, call: QueuedCall) -> None:
        """End a running or waiting call, and start calls that may start now; idempotent."""
        tenant = self._find_tenant(call.host)
        if call.running:
            tenant.running -= self._count_units(call)
        elif call.waiting:
            tenant.waiting.remove(call)
            tenant.units_waiting -= call.weight
        call.running = call.waiting = False
        self._start_next()

    def charge(self, host: UUID, units: float) -> None:
        """Add units to a tenant's demand that were not known when its call came, such as the size of the answer."""
        if host in self._tenants:
            self._tenants[host].add_served(units, self._clock())

    def is_contended(self, host: UUID) -> bool:
        """Return whether any other tenant is active."""
        now = self._clock()
        others = (tenant for name, tenant in self._tenants.items() if name != host)
        return any(one.running or one.waiting or now - one.seen_at < ACTIVE_S for one in others)

    def _find_tenant(self, host: UUID) -> _Tenant:
        now = self._clock()
        if host not in self._tenants:
            gone = [
                n for n, t in self._tenants.items() if not t.running and not t.waiting and now - t.seen_at > ACTIVE_S
            ]
            for name in gone:
                del self._tenants[name]
            self._tenants[host] = _Tenant()
        tenant = self._tenants[host]
        tenant.seen_at = now
        return tenant

    def _count_units(self, call: QueuedCall) -> int:
        """Return the units that a call takes: at most the smallest share, so that it can ever start."""
        return min(call.weight, self.settings.share)

    def _start_next(self) -> None:
        """Start calls that may start: first of the tenant with the fewest running units, then of the longest unserved.

        When there is no room for that tenant's call, no other overtakes it.
        """
        while call := self._choose_next():
            tenant = self._tenants[call.host]
            tenant.waiting.popleft()
            self._turns += 1
            tenant.turn = self._turns
            tenant.units_waiting -= call.weight
            tenant.running += self._count_units(call)
            tenant.add_served(call.weight, self._clock())
            call.running, call.waiting = True, False
            call.start()

    def _compute_limits(self) -> dict[UUID, int]:
        """Return the units that each tenant may have while others are active."""
        now = self._clock()
        demands = {name: tenant.demand(now) for name, tenant in self._tenants.items()}
        mean = math.fsum(demands.values()) / max(len(demands), 1)
        return {name: self.settings.share * (1 if demand > mean else LESS_BUSY) for name, demand in demands.items()}

    def _choose_next(self) -> QueuedCall | None:
        units, limits = self.settings.units, self._compute_limits()
        # Units above a tenant's limit, started when it was alone, do not count against the others.
        taken = sum(min(tenant.running, limits[name]) for name, tenant in self._tenants.items())
        waiting = [(name, tenant) for name, tenant in self._tenants.items() if tenant.waiting]
        for name, tenant in sorted(waiting, key=lambda one: (one[1].running, one[1].turn)):
            call = tenant.waiting[0]
            needed, contended = self._count_units(call), self.is_contended(name)
            if tenant.running + needed > (limits[name] if contended else units):
                continue
            return call if taken + needed <= units or not contended else None
        return None


class Slot:
    """The slot of one call."""

    def __init__(self, queue: FairQueue, host: UUID, weight: int) -> None:
        self._queue = queue
        self._call = QueuedCall(host, weight, lambda: None)

    async def take(self, *, again: bool = False) -> None:
        """Wait for the slot. Raises Overloaded when the tenant's queue is full or the wait too long."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._call.start = lambda: None if mine.done() else mine.set_result(None)
        self._queue.offer(self._call, again=again)
        if self._call.running:
            return
        begun = time.monotonic()
        try:
            await self._wait(mine)
        except BaseException:
            self._queue.withdraw(self._call)
            raise
        finally:
            metrics.FAIR_WAIT_SECONDS.observe(time.monotonic() - begun)

    async def _wait(self, mine: "asyncio.Future[None]") -> None:
        """Wait until the call starts; a tenant that is alone is never refused for its waiting time."""
        while not mine.done():
            await asyncio.wait((mine,), timeout=self._queue.settings.wait_seconds)
            if not mine.done() and self._queue.is_contended(self._call.host):
                raise refuse_overload("other calls of its own took all of its share meanwhile (fairness.wait_seconds)")

    def charge(self, size: int) -> None:
        """Add an answer of this many bytes, or that much text read for it, to the tenant's demand."""
        self._queue.charge(self._call.host, size / BYTES_A_UNIT)

    def give_back(self) -> None:
        """Release the slot, so that the next call can begin; idempotent."""
        self._queue.withdraw(self._call)


def give_back() -> None:
    """Release the current call's slot, where the rest of its work only waits, or costs next to nothing."""
    if slot := CURRENT.get():
        slot.give_back()


def charge_tenant(size: int) -> None:
    """Add an answer of this many bytes, or that much text read for it, to the demand of the current call's tenant."""
    if slot := CURRENT.get():
        slot.charge(size)


async def sleep_without_slot(seconds: float) -> None:
    """Sleep without a slot, then take it again. Raises Overloaded when the wait for it is too long."""
    slot = CURRENT.get()
    if slot is None:
        await asyncio.sleep(seconds)
        return
    slot.give_back()
    await asyncio.sleep(seconds)
    await slot.take(again=True)


def weight_of(size: int) -> int:
    """Return the weight of a call whose body has this many bytes."""
    return TURN_WEIGHT + size // BYTES_A_UNIT


def refuse_overload(why: str) -> Overloaded:
    """Count and return the refusal of a call beyond its tenant's share."""
    metrics.SHED.labels("fairness").inc()
    return Overloaded(f"this tenant sends more than its share while others are served: {why}", RETRY_AFTER_S)
