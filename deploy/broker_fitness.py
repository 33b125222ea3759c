"""Whether a Redis or Valkey is fit to be rung through: looked at by workers and the API when they start.

No work is lost with a message: the ledger keeps it. But a server that throws messages away makes work, and whoever
asked for a recall, wait for the sweeper; so workers do not begin with one. What only slows is told, and so is all that
is seen when a broker comes back that was away at the start: turns are accepted and worked on without it.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import islice

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from producers.settings import BrokerSettings

log = structlog.get_logger(__name__)

#: Patience with the server, in seconds.
ANSWER_S = 1.0
#: How often a server that is away is asked again, in seconds.
LOOK_AGAIN_S = 5.0
#: So many keys are looked at: ours are few.
KEYS = 1000


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong with a broker and what to do about it; `loses`: messages may be thrown away."""

    what: str
    remedy: str
    loses: bool = False


def flaws(settings: BrokerSettings) -> list[Flaw]:
    """Look at the broker. Raises redis.RedisError when it does not answer, ValueError for no URL."""
    with redis.Redis.from_url(
        settings.url.get_secret_value(),
        socket_connect_timeout=ANSWER_S,
        socket_timeout=ANSWER_S,
        retry=Retry(NoBackoff(), 0),
    ) as client:
        policy = client.info("memory").get("maxmemory_policy")
        ours = f"{settings.namespace}:".encode()
        seen = islice(client.scan_iter(count=KEYS), KEYS)
        return [*of_eviction(policy), *of_company(sum(not key.startswith(ours) for key in seen))]


def of_eviction(policy: str | None) -> Iterator[Flaw]:
    """Judge `maxmemory-policy`; None: the server does not say."""
    if policy is None:
        yield Flaw("maxmemory-policy cannot be read", "see to it that it is noeviction")
    elif policy != "noeviction":
        remedy = "run `CONFIG SET maxmemory-policy noeviction` there and keep it so, or name another server"
        yield Flaw(f"maxmemory-policy is {policy}", remedy, loses=policy.startswith("allkeys"))


def of_company(foreign: int) -> Iterator[Flaw]:
    """Judge how many keys in the broker's database are not ours."""
    if foreign:
        many = f"{foreign} of the first {KEYS} keys" if foreign > 1 else "a key"
        remedy = "give Afterturn a database of its own: a number at the end of broker.url that nobody else uses"
        yield Flaw(f"its database also holds {many} of others, among which it must search for its own", remedy)


@dataclass(slots=True)
class Watch:
    """Looks at the broker once; one that is away is looked at when it is back. What is found is logged."""

    settings: BrokerSettings
    every_s: float = LOOK_AGAIN_S
    _found: list[Flaw] | None = None

    def wrong(self) -> str:
        """Return why messages may be thrown away, '' for nothing that is known."""
        return "; ".join(flaw.what for flaw in self._found or () if flaw.loses)

    def look(self) -> bool:
        """Look; says whether the broker was there."""
        with suppress(redis.RedisError, OSError):
            self._found = flaws(self.settings)
            for flaw in self._found:
                tell = log.error if flaw.loses else log.warning
                tell("the broker is not as it should be", what=flaw.what, remedy=flaw.remedy)
        return self._found is not None

    async def run(self) -> None:
        """Return when the broker was looked at."""
        while self._found is None:
            if not await asyncio.to_thread(self.look):
                await asyncio.sleep(self.every_s)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Look for as long as the block lasts."""
        task = asyncio.create_task(self.run(), name="look at the broker")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
