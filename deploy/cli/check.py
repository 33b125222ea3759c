"""`afterturn check`: checks of tenant isolation and of upgrades, on real servers."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import httpx
import structlog
import typer
from sqlalchemy.exc import SQLAlchemyError

from deploy.cli.options import DataOption, JsonOption, create_group
from deploy.cli.output import exit_with, print_json
from deploy.cli.running_stack import read_settings
from deploy.lab.isolation import IsolationReport
from deploy.lab.isolation.fixture import FixtureIncomplete
from deploy.lab.isolation.run import run_check
from deploy.local.errors import EmbeddedError
from deploy.local.private_stack import PrivateStackError, run_private_stack
from deploy.local.stack import Stack, StackNotRunning, find_stack
from deploy.notices import print_notice

check_app = create_group()


@check_app.callback()
def _keep_group() -> None:
    """Keep the two checks a group of commands."""


@check_app.command("isolation")
@check_app.command("walls", hidden=True, deprecated=True)
def isolation_command(
    *,
    tries: Annotated[int, typer.Option(min=2, metavar="N", help="Number of requests to make.")] = 2000,
    seed: Annotated[int, typer.Option(help="Seed of the tries; the same seed repeats the same tries.")] = 0,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check isolation: try every read and write across tenants, banks, users and agents.

    No foreign data may be seen or changed, and an answer must not reveal whether a foreign object exists. The check
    works in its own tenants on the running stack, or on a private stack, and removes what it made. Most tries call the
    API in this process, one in twenty over HTTP. Exits 1 when isolation does not hold, or when a route or a
    tenant's table is not covered by the check.

    **Example:** `afterturn check isolation --tries 100000`
    """
    # The application in this process would write a line for every try.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        with _open_stack(data) as stack:
            print_notice(f"{tries:,} requests are made to the stack at {stack.api}")
            report = asyncio.run(run_check(stack, tries, seed))
    except FixtureIncomplete as error:
        raise exit_with(f"isolation could not be checked: {error}", 1) from None
    except (SQLAlchemyError, httpx.HTTPError, OSError) as error:
        raise exit_with(f"the stack does not answer ({type(error).__name__})", 1) from None
    _print_report(report)
    if as_json:
        print_json(report.as_json())
    raise typer.Exit(0 if report.holds else 1)


@check_app.command("upgrade")
def upgrade_command(
    *,
    wheel: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, metavar="FILE", help="Wheel of the other version.")
    ],
    seconds: Annotated[float, typer.Option(min=1, metavar="N", help="Seconds of load after each step.")] = 20.0,
    rate: Annotated[
        float, typer.Option(min=0.1, max=100, metavar="N", help="Rounds a second; each calls every interface once.")
    ] = 2.0,
    as_json: JsonOption = False,
) -> None:
    """Upgrade from another version to this one under load, in both orders: no call fails, nothing acknowledged is lost.

    Runs twice on private servers: schema migrated first, then processes replaced first. The other version runs with
    this version's dependencies. Exits 1 when a call failed, a turn is missing or work is left, 2 when the run could not
    finish.

    **Example:** `afterturn check upgrade --wheel afterturn-0.1.0-py3-none-any.whl`
    """
    # WHY here: the laboratory imports much, and `afterturn --help` should not.
    from deploy.lab.upgrade import UpgradeBroken, run_upgrades  # noqa: PLC0415

    try:
        upgrades = run_upgrades(wheel, seconds, rate, print_notice)
    except (UpgradeBroken, EmbeddedError) as error:
        raise exit_with(f"the run broke off: {error}", 2) from None
    if as_json:
        print_json({"upgrades": [one.as_json() for one in upgrades]})
    failures = [f"{one.order}: {failure}" for one in upgrades for failure in one.failures]
    for failure in failures:
        print_notice(f"does not hold: {failure}")
    raise typer.Exit(1 if failures else 0)


def _print_report(report: IsolationReport) -> None:
    for line in report.examples:
        print_notice(line)
    for route in report.uncovered:
        print_notice(f"not tried: {route}")
    for table in report.unplanted:
        print_notice(f"nothing was planted in {table}")
    verdict = "isolation holds" if report.holds else "isolation does not hold"
    print_notice(
        f"{verdict}: {report.tries:,} tries in {len(report.doors)} ways in {report.seconds} s, "
        f"{report.seen} saw or changed foreign data, {report.told_apart} revealed that a foreign object exists"
    )


@contextmanager
def _open_stack(data: Path | None) -> Iterator[Stack]:
    """Yield the running stack, or a private one when none was named and none runs."""
    folder = data or read_settings().data
    try:
        found = find_stack(folder)
    except StackNotRunning as error:
        if data is not None:
            raise exit_with(str(error), 2) from None
        found = None
    if found is not None:
        yield found
        return
    print_notice("no stack runs: starting one for this")
    try:
        with run_private_stack(1, name="isolation") as own:
            yield own
    except PrivateStackError as error:
        raise exit_with(str(error), 1) from None
