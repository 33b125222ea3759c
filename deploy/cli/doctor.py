"""`afterturn doctor`: check the installation, and say how to repair it."""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from afterturn_client.contract.installation import Finding
from rich.console import Group
from rich.text import Text

from deploy.cli.options import DataOption, JsonOption
from deploy.cli.orphaned_databases import find_orphaned_databases
from deploy.cli.output import create_console, exit_with, print_json
from deploy.cli.running_stack import describe_service, find_service_elsewhere, read_settings
from deploy.components import doctor_checks
from deploy.components.bootstrap import HOST
from deploy.components.database_fitness import DATABASE_ERRORS, name_error_kind
from deploy.components.doctor_checks import DoctorTarget
from deploy.components.doctor_rules import CheckVerdict
from deploy.local.stack import Stack, StackNotRunning, find_stack
from deploy.notices import print_notice, replace_unprintable
from deploy.settings import Settings
from producers.settings import BrokerSettings
from store import identity
from store.log.reader import restamp_log, skip_lost_positions
from store.settings import DatabaseSettings

_COLOURS: Mapping[str, str] = {CheckVerdict.OK: "green", CheckVerdict.WARN: "yellow", CheckVerdict.FAIL: "red"}


def doctor_command(
    *,
    data: DataOption = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A YAML or JSON file (default: AFTERTURN_CONFIG).")
    ] = None,
    fix: Annotated[
        bool,
        typer.Option("--fix", help="First bind a log that was restored from a backup to this cluster (as the owner)."),
    ] = False,
    restored: Annotated[
        bool,
        typer.Option(
            "--restored",
            help="With --fix, after a point-in-time restore: number new events after those that were lost.",
        ),
    ] = False,
    name: Annotated[
        str | None,
        typer.Option("--id", metavar="NAME", help="Print the id that log lines show for a project, session or turn."),
    ] = None,
    host: Annotated[str, typer.Option("--host", metavar="NAME", help="With --id: the tenant.")] = HOST,
    bank: Annotated[
        str | None, typer.Option(metavar="BANK", help="With --id: NAME is a session of this project (bank).")
    ] = None,
    session: Annotated[
        str | None, typer.Option(metavar="SESSION", help="With --id and --bank: NAME is a turn of this session.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check servers, versions, schema, log, model, disk and permissions: ok, warn or fail, and what to do.

    Each warning or failure names the remedy. Exits 1 when a check fails. Without a running stack the command checks the
    configured servers and the API of the current context; with none configured, it checks what `afterturn up` needs.

    **Example:** `afterturn doctor --data ./memory`
    """
    if name is not None:
        _print_id(name, host, bank, session, as_json=as_json)
        return
    settings = read_settings(config, {"data": data})
    target = _find_target(settings, data)
    if restored and not fix:
        raise exit_with("--restored needs --fix: it changes the database", 2)
    if fix:
        _mend_log(target.url("owner_url"), restored=restored)
    found = asyncio.run(_run_checks(target))
    if as_json:
        print_json(_serialise_findings(found))
    else:
        create_console().print(Group(*map(_render_finding, found)))
    raise typer.Exit(1 if any(one.verdict is CheckVerdict.FAIL for one in found) else 0)


def _find_target(settings: Settings, data: Path | None) -> DoctorTarget:
    """Return the target of the checks: the service of the command line, else the running stack, else the settings."""
    named = find_service_elsewhere(settings) if data is None else None
    if named is not None:
        bare = settings.model_copy(update={"database": DatabaseSettings(), "broker": BrokerSettings()})
        return DoctorTarget(bare, None, named)
    stack = _find_running_stack(settings.data)
    service = describe_service(settings) if stack is None and settings.client.url else None
    return DoctorTarget(settings, stack, service)


def _print_id(name: str, host: str, bank: str | None, session: str | None, *, as_json: bool) -> None:
    """Print the id of a name in log lines, and its kind."""
    if session is not None and bank is None:
        raise exit_with("--session needs --bank: the project that the session is in", 2)
    kind, found = "project", identity.bank_id(identity.host_id(host), name if bank is None else bank)
    if bank is not None:
        kind, found = "session", identity.session_id(found, name if session is None else session)
    if session is not None:
        kind, found = "turn", identity.turn_id(found, name)
    if as_json:
        print_json({"id": str(found), "kind": kind})
    else:
        print(found)


def _mend_log(owner_url: str, *, restored: bool) -> None:
    """Bind the log to this cluster; after a restore, continue behind the lost positions."""
    if not owner_url:
        raise exit_with("to stamp a log, database.owner_url must be set, or a stack must run", 2)
    try:
        stamped = asyncio.run(restamp_log(owner_url))
        begin = asyncio.run(skip_lost_positions(owner_url)) if restored else None
    except DATABASE_ERRORS as error:
        raise exit_with(f"the log could not be stamped ({name_error_kind(error)})", 1) from None
    print_notice(f"{stamped} events were stamped for this cluster")
    if begin is not None:
        print_notice(f"new events get positions above {begin}: no lost position is used again")


async def _run_checks(target: DoctorTarget) -> list[Finding]:
    found = [
        *doctor_checks.check_folders(target),
        *doctor_checks.check_settings(target),
        *doctor_checks.check_packages(target),
        await doctor_checks.check_model(target),
    ]
    found += [*doctor_checks.check_processes(target), *find_orphaned_databases(target)]
    for look in (
        doctor_checks.check_postgresql,
        doctor_checks.check_generation,
        doctor_checks.check_gateways,
        doctor_checks.check_redis,
        doctor_checks.check_api,
    ):
        found += [one async for one in look(target)]
    return found


def _find_running_stack(data: Path) -> Stack | None:
    try:
        return find_stack(data)
    except StackNotRunning:
        return None


def _render_finding(one: Finding) -> Text:
    line = Text.assemble(
        (f"{one.verdict:<5}", _COLOURS[one.verdict]), (f"{one.subject}: ", "bold"), replace_unprintable(one.seen)
    )
    return line.append(f"\n      -> {replace_unprintable(one.remedy)}") if one.remedy else line


def _serialise_findings(found: list[Finding]) -> dict[str, Any]:
    return {"healthy": all(one.verdict != CheckVerdict.FAIL for one in found), "findings": list(map(asdict, found))}
