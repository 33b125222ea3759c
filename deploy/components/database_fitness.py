"""Says why a PostgreSQL cannot be used by a URL of the settings, and logs it when a process starts.

A process starts without its database, and goes on when it is back. A refused login, a foreign authority, a missing
database or a pooler's old session does not pass by itself: each is logged by the name of its setting, never its value.
"""

import asyncio
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import structlog
from asyncpg.exceptions import PostgresError
from pydantic import SecretStr
from sqlalchemy import NullPool, text
from sqlalchemy.exc import SQLAlchemyError

from store.database import read_missing_defaults, service_engine
from store.database_outage import state_of
from store.errors import SessionDefaultsMissing
from store.settings import DatabaseSettings

log = structlog.get_logger(__name__)

#: What opening a connection and asking one question may raise.
DATABASE_ERRORS = (SQLAlchemyError, PostgresError, OSError, TimeoutError, SessionDefaultsMissing)
#: Time-out for connection and question, in seconds, and the pause until the next try.
ANSWER_S, RETRY_INTERVAL_S = 5.0, 10.0
ALIVE = text("select 1")
#: SQLSTATE of a database that does not exist, and the class of refused logins.
NO_DATABASE, REFUSED_LOGIN = "3D000", "28"
#: The SQLSTATE of all that PgBouncer itself refuses (1.18), and by the beginning of its text the one of PostgreSQL.
POOLER_REFUSES = "08P01"
POOLER_SAYS: Mapping[str, str] = {
    "password authentication failed": REFUSED_LOGIN,
    "SASL authentication failed": REFUSED_LOGIN,
    "no such user": REFUSED_LOGIN,
    "no such database": NO_DATABASE,
}
RECONNECT = "run `afterturn db init` with database.transaction_pooling set, then RECONNECT the pooler"


@dataclass(frozen=True, slots=True)
class DatabaseProblem:
    """Why a database cannot be used, and the remedy; `lasting`: it does not pass by itself."""

    what: str
    remedy: str
    lasting: bool = True


def explain_failure(error: BaseException, setting: str) -> DatabaseProblem:
    """Return the problem behind an error of DATABASE_ERRORS; `setting` is that of the URL."""
    if isinstance(error, SessionDefaultsMissing):
        return DatabaseProblem("its sessions lack the service's defaults", RECONNECT)
    for cause in list_causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            what = f"its certificate is not accepted ({cause.verify_message})"
            remedy = f"name in {setting} the authority that signed it (sslrootcert) and a host name of the certificate"
            return DatabaseProblem(what, remedy)
    kind = name_error_kind(error)
    if (state := find_state(error)).startswith(REFUSED_LOGIN):
        remedy = f"check user and password of {setting}; `afterturn db init` makes both roles with those of their URLs"
        return DatabaseProblem(f"it refuses the login ({kind})", remedy)
    if state == NO_DATABASE:
        return DatabaseProblem(f"it has no database of this name ({kind})", f"create it, or correct {setting}")
    remedy = f"see whether the server of {setting} runs and can be reached"
    return DatabaseProblem(f"it does not answer ({kind})", remedy, lasting=False)


def find_state(error: BaseException) -> str:
    """Return the SQLSTATE of an error; of a pooler's refusal the one that PostgreSQL gives for the same."""
    state = state_of(error)
    if state != POOLER_REFUSES:
        return state
    told = [str(cause) for cause in list_causes(error) if isinstance(cause, PostgresError)]
    return next((same for begin, same in POOLER_SAYS.items() if any(one.startswith(begin) for one in told)), state)


def name_error_kind(error: BaseException) -> str:
    """Return the kind of an error, the driver's where it is wrapped; never its text, which may quote what was sent."""
    origin = getattr(error, "orig", None)
    return type(getattr(origin, "__cause__", None) or origin or error).__name__


def list_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those behind it."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


async def try_url(url: str, *, pooled: bool, timeout_s: float = ANSWER_S) -> None:
    """Log in as the service does. Raises one of DATABASE_ERRORS."""
    engine = service_engine(url, pooled=pooled, poolclass=NullPool)
    async with asyncio.timeout(timeout_s), engine.connect() as connection:
        await connection.execute(ALIVE)
        if pooled:
            raw = await connection.get_raw_connection()
            if missing := await read_missing_defaults(raw.driver_connection):
                raise SessionDefaultsMissing(", ".join(missing))


async def log_unusable_databases(settings: DatabaseSettings) -> None:
    """Try the service's URLs until each works; log why one does not, each reason once."""
    urls: Mapping[str, SecretStr | None] = {
        "database.url": settings.url,
        "database.operator_url": settings.operator_url,
        "database.replica_url": settings.replica_url,
    }
    left = {setting: url.get_secret_value() for setting, url in urls.items() if url and url.get_secret_value()}
    told = set[tuple[str, str]]()
    while left:
        for setting, url in list(left.items()):
            try:
                await try_url(url, pooled=settings.transaction_pooling)
            except DATABASE_ERRORS as error:
                problem = explain_failure(error, setting)
                if (setting, problem.what) not in told:
                    told.add((setting, problem.what))
                    tell = log.error if problem.lasting else log.warning
                    tell("database_unusable", setting=setting, what=problem.what, remedy=problem.remedy)
            else:
                del left[setting]
        if left:
            await asyncio.sleep(RETRY_INTERVAL_S)
