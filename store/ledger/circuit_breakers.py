"""Circuit breaker and rate limit of an external service, shared by all processes.

The state is one row a service in the database: all processes share its clock, it is available whenever work is
(Redis may be away), and a worker that dies leaves nothing to clean up. It names no tenant and holds no content.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import structlog
from sqlalchemy import Text, any_, bindparam, func, select, text
from sqlalchemy.dialects.postgresql import ARRAY

from store.database import Database
from store.errors import LeaseLost
from store.ledger.ledger import Claim
from store.schema import GATE

log = structlog.get_logger(__name__)

#: Seconds for which a process treats a gate without a rate limit as open before it reads the gate again.
BELIEVED_S = 1.0

#: The longest pause a service may ask for, in seconds.
LONGEST_PAUSE_S = 3600.0

ENTER = text("select * from afterturn.gate_enter(:gate, :threshold, :cooldown, :rate, :burst, :patience)")
PUT_OFF = text("""
    select afterturn.put_off(:host, :stage, :stream, :epoch, array[cast(:item as uuid)], :status,
                             cast(:retry_in as interval), cast(:target as uuid))""")
SHUT = (
    select(GATE.c.gate)
    .where(GATE.c.gate == any_(bindparam("gates", type_=ARRAY(Text))), GATE.c.shut_until > func.clock_timestamp())
    .order_by(GATE.c.gate)
)
REPORT = text("select * from afterturn.gate_report(:gate, :threshold, :cooldown, :well, :pause)")


@dataclass(frozen=True, slots=True)
class GatePolicy:
    """The policy of a gate: it shuts for `cooldown_s` seconds after `threshold` failures in a row, and limits the rate.

    `rate` calls a second, `burst` at once; 0 sets no rate.
    """

    threshold: int = 5
    cooldown_s: float = 30.0
    rate: float = 0.0
    burst: float = 1.0


@dataclass(frozen=True, slots=True)
class Passage:
    """The gate's answer: `granted`, call after `wait_s` seconds; otherwise the gate is shut for that long.

    `probing`: the call shall show whether the service is back. `failures`: calls that failed in a row.
    """

    granted: bool
    wait_s: float = 0.0
    probing: bool = False
    failures: int = 0


def gate_name(kind: str, *identity: str) -> str:
    """Return the name of a service's gate: its kind and a digest of the URL and the account it is called with."""
    digest = hashlib.sha256("\0".join(identity).encode()).hexdigest()
    return f"{kind}:{digest[:32]}"


async def shut_gates(database: Database, names: Sequence[str]) -> list[str]:
    """Return those of these gates that are shut now; reads as the operator."""
    async with database.operator() as connection:
        return list((await connection.execute(SHUT, {"gates": list(names)})).scalars())


class Gate:
    """The circuit breaker and rate limit of one service, as one process sees them. Belongs to one event loop."""

    def __init__(
        self, database: Database, name: str, policy: GatePolicy, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._name = name
        self._policy = policy
        self._clock = clock
        self._failures = 0
        self._shut_until = float("-inf")
        self._open_until = float("-inf")
        self._asking = asyncio.Lock()

    @property
    def failing(self) -> bool:
        """Whether the circuit breaker is open or half open, as far as this process knows."""
        return self._failures >= self._policy.threshold

    @property
    def shut_s(self) -> float:
        """The seconds for which the gate stays shut, as far as this process knows."""
        return max(0.0, self._shut_until - self._clock())

    def at_most(self, calls: int) -> int:
        """Return how many calls to prepare: none while shut, one to see whether it opens again, else `calls`."""
        if self.shut_s > 0:
            return 0
        return 1 if self.failing else calls

    async def enter(self, patience_s: float = 0.0) -> Passage:
        """Ask for a call; one that would wait longer than `patience_s` seconds for the rate is not granted."""
        if self._policy.rate > 0:
            return await self._ask(patience_s)
        if self._believed:
            return Passage(granted=True)
        # Many calls start together; the first one's answer also serves the others.
        async with self._asking:
            return Passage(granted=True) if self._believed else await self._ask(patience_s)

    @property
    def _believed(self) -> bool:
        return self._clock() < self._open_until

    async def _ask(self, patience_s: float) -> Passage:
        arguments = {**self._whose(), "rate": self._policy.rate, "burst": self._policy.burst, "patience": patience_s}
        async with self._database.call() as connection:
            passage = Passage(*(await connection.execute(ENTER, arguments)).one())
        self._learn(passage.failures, 0.0 if passage.granted else passage.wait_s)
        return passage

    async def report(self, *, well: bool, pause_s: float | None = None) -> None:
        """Record a call's outcome; `pause_s`: the seconds for which the service asked for no calls. Never raises."""
        if well and self._failures == 0 and not pause_s:
            return
        arguments = {**self._whose(), "well": well, "pause": min(LONGEST_PAUSE_S, pause_s or 0.0)}
        try:
            async with self._database.call() as connection:
                row = (await connection.execute(REPORT, arguments)).one()
        except Exception as error:  # noqa: BLE001 - the outcome of the call matters more than its notification
            log.warning("circuit_breaker_not_updated", error=type(error).__name__)
        else:
            self._learn(row.failures, row.wait_s)

    def _learn(self, failures: int, shut_s: float) -> None:
        now = self._clock()
        self._failures = failures
        self._shut_until = now + shut_s if shut_s > 0 else float("-inf")
        self._open_until = now + BELIEVED_S if failures == 0 and shut_s <= 0 else float("-inf")

    def _whose(self) -> dict[str, object]:
        return {"gate": self._name, "threshold": self._policy.threshold, "cooldown": self._policy.cooldown_s}


async def put_off(
    database: Database, claim: Claim, item: UUID, status: str, wait: timedelta, *, target: UUID | None = None
) -> None:
    """Release a row as it was before it was claimed, until `wait` is over; this attempt is not counted.

    Other rows that wait for the same gateway `target` wait as long. Raises LeaseLost, having written nothing.
    """
    whose = {"host": claim.host_id, "stage": claim.stage.value, "stream": claim.stream_id, "epoch": claim.epoch}
    async with database.call() as connection:
        arguments = {**whose, "item": item, "status": status, "retry_in": wait, "target": target}
        if not (await connection.execute(PUT_OFF, arguments)).scalar():
            raise LeaseLost("the lease expired and another worker has the work")
