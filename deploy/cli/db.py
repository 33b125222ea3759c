"""`afterturn db`: roles, extension and schema of your own PostgreSQL; no superuser is needed."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from sqlalchemy import NullPool, make_url, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from deploy.cli.options import JsonOption, create_group
from deploy.cli.output import create_console, exit_with, print_json
from deploy.cli.running_stack import OWNER_VARIABLE, read_settings
from deploy.cli.scram import make_verifier
from deploy.components.database_checks import EXTENSION_SQL, PATIENCE_S, judge_revision, read_row, read_schema_version
from deploy.components.database_fitness import DATABASE_ERRORS, explain_failure, name_error_kind
from deploy.notices import print_notice
from deploy.settings import Settings
from deploy.settings_layers import name_variable
from deploy.tables import ResultTable
from store import migrations
from store.connections import LIVENESS, NAMELESS, create_engine
from store.database import SESSION_DEFAULTS, read_missing_defaults
from store.database_outage import state_of
from store.distribution import FUNCTIONS, FUNCTIONS_KEPT, plan_statements
from store.errors import RevisionRefused
from store.log.reader import restamp_log

INSUFFICIENT_PRIVILEGE = "42501"
APP, OPERATOR = "afterturn_app", "afterturn_operator"
#: Which setting names the URL of each role of the service.
URLS = {APP: "database.url", OPERATOR: "database.operator_url"}

ConfigOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A YAML or JSON file of settings (default: AFTERTURN_CONFIG).")
]

REVISION = text("select version_num from public.afterturn_version")
VERSION_TABLE = text("select to_regclass('public.afterturn_version') is not null as there")
SERVER = text("""
    select current_setting('server_version') as version, current_user as name,
           (select extversion from pg_extension where extname = 'vector') as vector""")
ROLE = text("select rolcanlogin from pg_roles where rolname = :role")
MEMBER = text("select pg_has_role(current_user, :role, 'member')")

db_app = create_group()


@db_app.command("init")
def init_command(*, config: ConfigOption = None) -> None:
    """Create the service's two roles, the pgvector extension and the schema. Idempotent.

    Connects as `database.owner_url`: a role that owns the database and has CREATEROLE. The roles `afterturn_app` and
    `afterturn_operator` get the passwords of `database.url` and `database.operator_url`, sent as SCRAM verifiers and
    never in plain. When the role lacks a privilege, the command prints the SQL that an administrator must run and
    exits 1; run it again afterwards.

    **Example:** `AFTERTURN_DATABASE__OWNER_URL_FILE=/run/secrets/owner-url afterturn db init`
    """
    settings = read_settings(config)
    owner = _owner_url(settings)
    logins = {role: _read_login(settings, role) for role in URLS}
    left = _run_or_exit(_prepare_database(owner, logins, defaults=settings.database.transaction_pooling))
    if left:
        print_notice(
            "an administrator of the server must run this in the database; then run `afterturn db init` again:"
        )
        for statement in left:
            print(statement)
        raise typer.Exit(1)
    _migrate_schema(owner)


@db_app.command("migrate")
def migrate_command(*, config: ConfigOption = None) -> None:
    """Migrate the schema to this version, as its owner (`database.owner_url`).

    Idempotent and safe to run concurrently. A schema of a newer version is refused and left untouched.

    **Example:** `afterturn db migrate`
    """
    _migrate_schema(_owner_url(read_settings(config)))


@db_app.command("status")
def status_command(*, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show server, extension, schema and roles as seen through each configured URL. Exits 1 when one is missing.

    **Example:** `afterturn db status --json`
    """
    settings = read_settings(config)
    found = _run_or_exit(_examine_database(settings))
    ready = all(one.problem is None for one in found)
    if as_json:
        print_json(
            {"ready": ready, "newest_revision": migrations.newest_revision(), "checks": [asdict(one) for one in found]}
        )
    else:
        table = ResultTable("what", "seen", "to do")
        for one in found:
            table.add_values(one.subject, one.seen, one.problem or "")
        create_console().print(table)
    raise typer.Exit(0 if ready else 1)


@db_app.command("citus-plan")
def citus_plan_command(*, config: ConfigOption = None) -> None:
    """Print the statements that distribute an empty schema over Citus by tenant. Executes nothing.

    Reads the schema's functions as `database.owner_url`. Limits and what was tested: docs/past-one-database.md.

    **Example:** `afterturn db citus-plan > citus.sql`
    """
    functions = _run_or_exit(_read_functions(_owner_url(read_settings(config))))
    for statement in plan_statements(functions):
        print(statement)


async def _read_functions(owner: str) -> list[str]:
    """Return the signatures of the functions that run on a tenant's node."""
    async with _open_connection(owner) as connection:
        return [row.signature for row in await connection.execute(FUNCTIONS) if row.name not in FUNCTIONS_KEPT]


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check, and the remedy when it failed."""

    subject: str
    seen: str
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Login:
    """User name and password of a configured database URL."""

    name: str
    password: str


def _owner_url(settings: Settings) -> str:
    url = settings.database.owner_url.get_secret_value()
    if not url:
        raise exit_with(f"this works as the role that owns the database: set database.owner_url ({OWNER_VARIABLE})", 2)
    return url


def _read_login(settings: Settings, role: str) -> Login:
    """Return the login in a configured URL; exits 2 when it has none."""
    key = URLS[role]
    secret = settings.database.url if role == APP else settings.database.operator_url
    if not secret.get_secret_value():
        raise exit_with(f"not set: {key} ({name_variable(key)}); the role {role} gets the password that it names", 2)
    url = make_url(secret.get_secret_value())
    password = str(url.password or "")
    if not url.username or not password or not password.isascii():
        raise exit_with(f"{key} must name a user and a password of ASCII characters", 2)
    return Login(url.username, password)


async def _prepare_database(owner: str, logins: dict[str, Login], *, defaults: bool) -> list[str]:
    """Create extension and roles with session `defaults`; return the SQL that this role lacks privileges for."""
    left = list[str]()
    async with _open_connection(owner) as connection:
        if not await _try_statement(connection, "create extension if not exists vector"):
            left.append(EXTENSION_SQL)
        for role, login in logins.items():
            if login.name == role:
                left += await _give_login(connection, role, login.password)
            elif await connection.scalar(ROLE, {"role": role}) is None and not await _try_statement(
                connection, f"create role {role}"
            ):
                left.append(f"create role {role}; grant {role} to {_quote_identifier(login.name)};")
        for login in logins.values() if defaults else ():
            left += await _keep_session_defaults(connection, login.name)
    return left


async def _keep_session_defaults(connection: AsyncConnection, name: str) -> list[str]:
    """Set session defaults on a login role, so that they hold behind any connection pooler."""
    database = str(await connection.scalar(text("select current_database()")))
    kept = {**SESSION_DEFAULTS, **LIVENESS}
    statements = [
        f"alter role {_quote_identifier(name)} in database {_quote_identifier(database)} set {setting} = {value};"
        for setting, value in (
            *((setting, value) for setting, value in SESSION_DEFAULTS.items() if setting == "search_path"),
            *((setting, f"'{value}'") for setting, value in kept.items() if setting != "search_path"),
        )
    ]
    return [statement for statement in statements if not await _try_statement(connection, statement)]


async def _give_login(connection: AsyncConnection, role: str, password: str) -> list[str]:
    """Set a role's password and LOGIN; return the SQL for an administrator when this role lacks the privilege."""
    verb = "create" if await connection.scalar(ROLE, {"role": role}) is None else "alter"
    if await _try_statement(connection, f"{verb} role {role} login password '{make_verifier(password)}'"):
        return []
    if verb == "alter" and await connection.scalar(ROLE, {"role": role}):
        # The administrator made it, with a password that `afterturn db status` tries.
        return []
    return [f"{verb} role {role} login password 'the password of {URLS[role]}';"]


async def _try_statement(connection: AsyncConnection, statement: str) -> bool:
    """Run a statement; False when the role lacks the privilege."""
    try:
        await connection.exec_driver_sql(statement)
    except DBAPIError as error:
        if state_of(error) != INSUFFICIENT_PRIVILEGE:
            raise
        return False
    return True


def _quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@asynccontextmanager
async def _open_connection(url: str) -> AsyncGenerator[AsyncConnection]:
    engine = create_engine(url, timeout_s=PATIENCE_S, driver=NAMELESS, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        yield connection


def _migrate_schema(owner: str) -> None:
    """Migrate the schema and bind the log to this cluster."""
    server = _run_or_exit(read_row(owner, SERVER))
    if server.vector is None:
        raise exit_with(f"the database has no pgvector: an administrator must run in it: {EXTENSION_SQL}", 1)
    try:
        migrations.upgrade_schema(owner)
        asyncio.run(restamp_log(owner))
    except RevisionRefused as error:
        raise exit_with(str(error), 1) from None
    except DATABASE_ERRORS as error:
        raise exit_with(f"the schema cannot be migrated as {server.name} ({name_error_kind(error)})", 1) from None
    print_notice(f"the schema is at revision {migrations.newest_revision()}")


def _run_or_exit(work: Any) -> Any:
    """Run the work; exits 1 when the database does not answer."""
    try:
        return asyncio.run(work)
    except DATABASE_ERRORS as error:
        problem = explain_failure(error, "database.owner_url")
        raise exit_with(f"the database of database.owner_url: {problem.what}: {problem.remedy}", 1) from None


async def _examine_database(settings: Settings) -> list[Check]:
    found = list[Check]()
    owner = settings.database.owner_url.get_secret_value()
    pooled = settings.database.transaction_pooling
    for role, secret in ((APP, settings.database.url), (OPERATOR, settings.database.operator_url)):
        found.append(await _examine_role(role, secret.get_secret_value(), pooled=pooled))
    if owner:
        found += await _examine_schema(owner)
    else:
        found.append(Check("schema", "not checked", f"set database.owner_url ({OWNER_VARIABLE})"))
    return found


async def _examine_role(role: str, url: str, *, pooled: bool) -> Check:
    key = URLS[role]
    if not url:
        return Check(key, "not set", f"set {name_variable(key)}")
    try:
        async with _open_connection(url) as connection:
            name = str((await connection.execute(SERVER)).one().name)
            there = await connection.scalar(ROLE, {"role": role}) is not None
            member = there and bool(await connection.scalar(MEMBER, {"role": role}))
            raw = await connection.get_raw_connection()
            missing = await read_missing_defaults(raw.driver_connection) if pooled else []
    except DATABASE_ERRORS as error:
        problem = explain_failure(error, key)
        return Check(key, f"cannot connect: {problem.what}", problem.remedy)
    if not member:
        return Check(
            key, f"connects as {name}", f"this is no member of {role}: grant {role} to {_quote_identifier(name)};"
        )
    if missing:
        without = f"connects as {name} without {', '.join(missing)}"
        return Check(key, without, "run `afterturn db init`; then RECONNECT the pooler")
    return Check(key, f"connects as {name}")


async def _examine_schema(owner: str) -> list[Check]:
    try:
        server = await read_row(owner, SERVER)
        there = (await read_row(owner, VERSION_TABLE)).there
        revision = str((await read_row(owner, REVISION)).version_num) if there else None
        told = await read_schema_version(owner)
    except DATABASE_ERRORS as error:
        problem = explain_failure(error, "database.owner_url")
        return [Check("database.owner_url", f"cannot connect: {problem.what}", problem.remedy)]
    vector = server.vector
    return [
        Check("server", f"PostgreSQL {server.version}, owner {server.name}"),
        Check("pgvector", vector or "missing", None if vector else f"an administrator must run: {EXTENSION_SQL}"),
        Check("schema", f"revision {revision}" if revision else "none", judge_revision(revision, told)),
    ]
