"""Shared by operators' commands: run work on the stack's database, confirm it first, record it in the audit."""

import asyncio
import contextlib
import os
import pwd
import re
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

import typer
from sqlalchemy.exc import SQLAlchemyError

from deploy.cli.output import exit_with
from deploy.cli.running_stack import build_database_settings
from deploy.components.database_fitness import explain_failure
from deploy.local.stack import Stack
from deploy.notices import replace_unprintable
from store.clock import DatabaseClock
from store.database import Database
from store.errors import ResourceBusy
from store.tenancy.call_audit import NO_HOST, AuditedCall, CallAudit, Interface

T = TypeVar("T")


def run_on_database(stack: Stack, work: Callable[[Database], Awaitable[T]]) -> T:
    """Run work on the running stack's database; exits 1 when the database does not answer."""
    with exit_on_outage():
        return asyncio.run(with_database(stack, work))


async def with_database(stack: Stack, work: Callable[[Database], Awaitable[T]]) -> T:
    """Run work on the stack's database, in this event loop; raises what the database raises."""
    database = Database(build_database_settings(stack))
    try:
        return await work(database)
    finally:
        await database.close()


@contextlib.contextmanager
def exit_on_outage() -> Iterator[None]:
    """Exit 1 with a line where the block's database does not answer, or refuses the login."""
    try:
        yield
    except BrokenPipeError:  # the reader of a pipe went away: typer ends such a command quietly
        raise
    except (SQLAlchemyError, OSError) as error:
        problem = explain_failure(error, "database.url and database.operator_url")
        raise exit_with(
            f"the database of the stack cannot be used: {problem.what}: see `afterturn doctor`", 1
        ) from None
    except ResourceBusy as error:
        raise exit_with(f"{error}; the database's view pg_locks shows which session holds what", 1) from None


def run_audited(stack: Stack, operation: str, host: UUID, work: Callable[[Database, "AuditedAct"], Awaitable[T]]) -> T:
    """Run work as `run_on_database` does, and record it in the call audit under this name."""

    async def noted(database: Database) -> T:
        async with record_act(database, operation, host) as act:
            return await work(database, act)

    return run_on_database(stack, noted)


def read_operator_name() -> str:
    """Return the operating system's user of this process for the audit; environment variables are ignored."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    # Only a user who may become root can set this one as root.
    behind = os.environ.get("SUDO_USER") if os.getuid() == 0 else None
    return replace_unprintable(f"{behind} as {name}") if behind else name


@dataclass(slots=True)
class AuditedAct:
    """The audit record of an operator's command: rows changed, or the refusal."""

    clock: DatabaseClock
    rows: int | None = None
    code: str | None = None


@asynccontextmanager
async def record_act(database: Database, operation: str, host: UUID = NO_HOST) -> AsyncGenerator[AuditedAct]:
    """Record the command in the call audit when the block ends, also when it fails."""
    act = AuditedAct(await DatabaseClock.asked(database))
    at, begun = act.clock(), time.monotonic()

    async def note() -> None:
        took = (time.monotonic() - begun) * 1000
        call = AuditedCall(
            at, Interface.OPERATOR, operation, took, host, actor=read_operator_name(), code=act.code, rows=act.rows
        )
        await CallAudit(database).write([call])

    try:
        yield act
    except BaseException as error:
        act.code = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).upper()
        with contextlib.suppress(SQLAlchemyError, OSError):
            await note()
        raise
    await note()


def confirm_change(question: str, beforehand: str) -> None:
    """Ask for confirmation; exits 1 when it is denied, 2 without a terminal and without --yes."""
    if not sys.stdin.isatty():
        raise exit_with(f"{question} Say {beforehand}", 2)
    if not typer.confirm(question, err=True):
        raise exit_with("nothing was changed", 1)
