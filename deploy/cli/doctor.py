"""`afterturn doctor`: what is wrong on this machine, and what to do about it."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text
from sqlalchemy.exc import SQLAlchemyError

from deploy.cli import doctor_checks
from deploy.cli.doctor_checks import Patient
from deploy.cli.doctor_rules import Finding, Verdict
from deploy.cli.orphaned_databases import left_behind
from deploy.cli.output import answer, console, ended, printable, say
from deploy.cli.running_stack import DataOption, JsonOption
from deploy.local.stack import NoStack, Stack, find_stack
from deploy.settings import load
from deploy.settings_errors import SettingsError
from store.log.reader import restamp

_COLOURS = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.FAIL: "red"}


def doctor_command(
    *,
    data: DataOption = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A YAML or JSON file (default: AFTERTURN_CONFIG).")
    ] = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="First stamp a log that was restored from another cluster (as the owner).")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Examine servers, versions, schema, log, model, disk and permissions; each line says ok, warn or fail.

    A warning or a failure is followed by what to do. Exits 1 when something fails. Without a running stack
    it looks at the servers of the settings, and at what `afterturn up` would need.

    **Example:** `afterturn doctor --data ./memory`
    """
    try:
        settings = load(config=config, overrides={"data": data}).settings
    except SettingsError as error:
        raise ended(f"these settings cannot be used:\n{error}", 2) from None
    patient = Patient(settings, _stack(settings.data))
    if fix:
        _fix(patient.url("owner_url"))
    found = asyncio.run(_examined(patient))
    if as_json:
        answer(_as_json(found))
    else:
        console().print(Group(*map(_line, found)))
    raise typer.Exit(1 if any(one.verdict is Verdict.FAIL for one in found) else 0)


def _fix(owner_url: str) -> None:
    if not owner_url:
        raise ended("to stamp a log, database.owner_url must be set, or a stack must run", 2)
    try:
        stamped = asyncio.run(restamp(owner_url))
    except (SQLAlchemyError, OSError, TimeoutError) as error:
        raise ended(f"the log could not be stamped ({doctor_checks.kind(error)})", 1) from None
    say(f"{stamped} events were stamped for this cluster")


async def _examined(patient: Patient) -> list[Finding]:
    found = [*doctor_checks.folders(patient), *doctor_checks.packages(patient), await doctor_checks.model(patient)]
    found += [*doctor_checks.processes(patient), *left_behind(patient)]
    for look in (doctor_checks.postgresql, doctor_checks.gateways, doctor_checks.redis, doctor_checks.api):
        found += [one async for one in look(patient)]
    return found


def _stack(data: Path) -> Stack | None:
    try:
        return find_stack(data)
    except NoStack:
        return None


def _line(one: Finding) -> Text:
    line = Text.assemble(
        (f"{one.verdict.value:<5}", _COLOURS[one.verdict]), (f"{one.subject}: ", "bold"), printable(one.seen)
    )
    return line.append(f"\n      -> {printable(one.remedy)}") if one.remedy else line


def _as_json(found: list[Finding]) -> dict[str, Any]:
    lines = [
        {"subject": one.subject, "verdict": one.verdict.value, "seen": one.seen, "remedy": one.remedy} for one in found
    ]
    return {"healthy": all(one.verdict is not Verdict.FAIL for one in found), "findings": lines}
