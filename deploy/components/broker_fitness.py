"""Checks at start, in workers and the API, that a Redis or Valkey keeps messages.

No work is lost with a message: the ledger keeps it. But with a server that discards messages, work and recall jobs wait
for the sweeper, so a worker does not start with one. Settings that only slow it down are logged as warnings, and so is
every problem of a broker that was unavailable at start and came back: turns are accepted and processed without it.
"""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import islice

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from deploy.components.database_fitness import list_causes
from producers.notifications import name_fault, write_probe
from producers.settings import BrokerSettings
from store.concurrent_calls import run_meanwhile

log = structlog.get_logger(__name__)

#: Time-out for the server, in seconds.
ANSWER_S = 1.0
#: Interval between two checks while the server is unavailable, in seconds.
RETRY_INTERVAL_S = 5.0
#: Number of keys that are examined; ours are few.
SCANNED_KEYS = 1000


@dataclass(frozen=True, slots=True)
class BrokerProblem:
    """A problem of a broker and its remedy; `loses`: the server may discard messages."""

    what: str
    remedy: str
    loses: bool = False


def find_broker_problems(settings: BrokerSettings) -> list[BrokerProblem]:
    """Return the problems of the broker; a refused command is one of them.

    Raises redis.RedisError when it does not answer or refuses the login, ValueError for no URL.
    """
    with redis.Redis.from_url(
        settings.url.get_secret_value(),
        socket_connect_timeout=ANSWER_S,
        socket_timeout=ANSWER_S,
        retry=Retry(NoBackoff(), 0),
    ) as client:
        return [
            *_check_cluster(client),
            *_check_eviction_policy(client),
            *_check_foreign_keys(client, f"{settings.namespace}:".encode()),
            *_check_writes(client, settings.namespace),
        ]


def _check_cluster(client: redis.Redis) -> Iterator[BrokerProblem]:
    try:
        enabled = client.info("cluster").get("cluster_enabled")
    except redis.ResponseError:
        return  # the check of the eviction policy reports the refusal
    yield from judge_cluster(enabled=bool(enabled))


def _check_eviction_policy(client: redis.Redis) -> Iterator[BrokerProblem]:
    try:
        policy = client.info("memory").get("maxmemory_policy")
    except redis.ResponseError as error:
        yield judge_refused_command("INFO", "maxmemory-policy", "it is noeviction", error)
    else:
        yield from judge_eviction_policy(policy)


def _check_foreign_keys(client: redis.Redis, ours: bytes) -> Iterator[BrokerProblem]:
    try:
        seen = list(islice(client.scan_iter(count=SCANNED_KEYS), SCANNED_KEYS))
    except redis.ResponseError as error:
        yield judge_refused_command("SCAN", "whose keys its database holds", "no other application uses it", error)
    else:
        yield from judge_foreign_keys(sum(not key.startswith(ours) for key in seen))


def _check_writes(client: redis.Redis, namespace: str) -> Iterator[BrokerProblem]:
    try:
        write_probe(client, namespace)
    except redis.ResponseError as error:
        yield judge_refused_write(error)


def judge_refused_command(command: str, unknown: str, wanted: str, error: redis.ResponseError) -> BrokerProblem:
    """Return the problem of a server that refuses a command, so that `unknown` cannot be read."""
    # Only the kind of error: an old server's answer repeats what it was sent, passwords included.
    what = f"{unknown} cannot be read: {command} is refused ({type(error).__name__})"
    allowed = f"let the user in broker.url run it, as with `ACL SETUSER NAME +{command.lower()}`, and start again"
    return BrokerProblem(what, f"{allowed}; or see to it that {wanted}")


def judge_refused_write(error: redis.ResponseError) -> BrokerProblem:
    """Return the problem of a server that answers and takes no write, so that workers find work by sweeps alone."""
    remedy = "name the primary in broker.url and give it memory, disk space and the replicas that it is set to wait for"
    return BrokerProblem(f"it refuses writes ({name_fault(error)})", f"{remedy}, and let its user write")


def judge_refused_login(error: redis.RedisError) -> BrokerProblem:
    """Return the problem of a server that refuses the login."""
    what = f"it cannot be checked: it refuses the login ({type(error).__name__})"
    return BrokerProblem(what, "name a Redis or Valkey in broker.url, with a user and a password that it takes")


def judge_certificate(error: BaseException) -> BrokerProblem | None:
    """Return the problem of a server whose certificate is not accepted; None for another error."""
    if not any(isinstance(cause, ssl.SSLCertVerificationError) for cause in list_causes(error)):
        return None
    remedy = "name in broker.url the authority that signed it (ssl_ca_certs) and a host name of the certificate"
    return BrokerProblem("its certificate is not accepted", remedy)


def judge_cluster(*, enabled: bool) -> Iterator[BrokerProblem]:
    """Yield a problem when cluster mode is on: such a server holds only some keys and redirects for the others."""
    if enabled:
        remedy = "name a server with cluster-enabled no, or a provider's address with cluster mode off"
        yield BrokerProblem("it is a node of a Redis Cluster, which is not supported", remedy, loses=True)


def judge_eviction_policy(policy: str | None) -> Iterator[BrokerProblem]:
    """Yield a problem unless `maxmemory-policy` is noeviction; None: the server does not report it."""
    if policy is None:
        yield BrokerProblem("maxmemory-policy cannot be read", "see to it that it is noeviction")
    elif policy != "noeviction":
        remedy = "run `CONFIG SET maxmemory-policy noeviction` there and keep it so, or name another server"
        yield BrokerProblem(f"maxmemory-policy is {policy}", remedy, loses=policy.startswith("allkeys"))


def judge_foreign_keys(foreign: int) -> Iterator[BrokerProblem]:
    """Yield a problem when the broker's database holds keys that are not ours; `foreign` is their number."""
    if foreign:
        many = f"{foreign} of the first {SCANNED_KEYS} keys" if foreign > 1 else "a key"
        remedy = "give Afterturn a database of its own: an unused number at the end of broker.url"
        yield BrokerProblem(f"its database also holds {many} of others, among which it must search for its own", remedy)


@dataclass(slots=True)
class BrokerMonitor:
    """Checks the broker once, as soon as it is available, and logs its problems."""

    settings: BrokerSettings
    every_s: float = RETRY_INTERVAL_S
    _found: list[BrokerProblem] | None = None
    _distrusted: bool = False

    def explain_fault(self) -> str:
        """Return why the server may discard messages; '' when no reason is known."""
        return "; ".join(problem.what for problem in self._found or () if problem.loses)

    def check(self) -> bool:
        """Check the broker; return whether it answered and accepted the login."""
        try:
            self._found = find_broker_problems(self.settings)
        except (redis.AuthenticationError, redis.InvalidResponse) as error:
            _log_problem(judge_refused_login(error))
            return False
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            # Unavailable, still loading its saved data, or of a foreign authority, which is told once.
            if (problem := judge_certificate(error)) is not None and not self._distrusted:
                self._distrusted = True
                _log_problem(problem)
            return False
        for problem in self._found:
            _log_problem(problem)
        return True

    async def run(self) -> None:
        """Repeat the check until the broker answers."""
        while self._found is None:
            if not await asyncio.to_thread(self.check):
                await asyncio.sleep(self.every_s)

    def running(self) -> AbstractAsyncContextManager[object]:
        """Run the check in the background while the block runs."""
        return run_meanwhile(self.run(), "look at the broker")


def _log_problem(problem: BrokerProblem) -> None:
    tell = log.error if problem.loses else log.warning
    tell("broker_unfit", what=problem.what, remedy=problem.remedy)
