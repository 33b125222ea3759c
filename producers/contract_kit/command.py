"""`afterturn contract-test`, also `python -m producers.contract_kit`: judge a memory plugin by contract v1."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from afterturn_client.errors import InvalidRequestError
from afterturn_client.plugin_target import PluginTarget, parse_target
from rich.console import Console

from producers.contract_kit.catalog import select_cases
from producers.contract_kit.client import Plugin
from producers.contract_kit.errors import UnusableError
from producers.contract_kit.findings import show_text
from producers.contract_kit.junit import junit_xml
from producers.contract_kit.probe import ContractSettings
from producers.contract_kit.registry import Case
from producers.contract_kit.report import ContractReport, Result
from producers.contract_kit.runner import ContractRun, run_cases
from producers.contract_kit.store_switch import parse_switch
from producers.contract_kit.terminal import print_cases, print_report
from producers.contract_kit.wire import CONTRACT

TOKEN_VARIABLE = "MEMORY_PLUGIN_TOKEN"  # noqa: S105 - the name of a variable
#: Columns where no terminal sets them.
PIPE_WIDTH = 240


def contract_test_command(
    *,
    url: Annotated[
        str | None,
        typer.Argument(
            envvar="MEMORY_PLUGIN_URL",
            show_default=False,
            help="Where the plugin listens: http://HOST:PORT, https://HOST/PREFIX, unix:/PATH/TO.SOCK.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on one line.")] = False,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Also write the report as JUnit XML.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Run the cases whose ids match (`fts.*`); may be repeated."),
    ] = None,
    list_cases: Annotated[bool, typer.Option("--list", help="Print the cases and run none.")] = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="End at the first case that fails.")] = False,
    timeout: Annotated[
        float, typer.Option(min=0.05, max=300, metavar="S", help="Seconds that one request may take as a whole.")
    ] = 5.0,
    namespace_prefix: Annotated[
        str, typer.Option(metavar="NAME", help="How the names of all namespaces begin that the kit makes.")
    ] = ContractSettings().prefix,
    dimension: Annotated[
        int, typer.Option(min=2, max=4096, metavar="N", help="Numbers in the embeddings that the plugin takes.")
    ] = ContractSettings().dimension,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"Bearer token to send (default: {TOKEN_VARIABLE}, else none)."),
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificates (PEM) to trust for https instead of the system's.")
    ] = None,
    stop_store: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="Takes the plugin's database away; with --start-store: tests the outage."),
    ] = None,
    start_store: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Brings the plugin's database back.")
    ] = None,
) -> None:
    """Test any memory plugin against every clause of contract v1, over HTTP.

    Works in namespaces of its own and deletes them. Cases of capabilities that the plugin does not claim are skipped.
    Exits 0 when every case that ran passed, 1 when one failed, 2 when the plugin cannot be judged (nothing listens, no
    health, wrong usage), 130 when interrupted; the report of what ran is written then, too.

    **Example:** `afterturn contract-test http://127.0.0.1:9100 --junit report.xml`
    """
    report = ContractReport()
    try:
        cases = select_cases(only or [])
        if list_cases:
            _print_list(cases, as_json=as_json)
            return
        _check_writable(junit)
        run = ContractRun(
            cases, ContractSettings(namespace_prefix, dimension, parse_switch(stop_store, start_store)), fail_fast
        )
        target, token = _parse_target(url), _read_token(token_file)
        report.url = target.shown
        asyncio.run(_run_cases(run, target, report, timeout_s=timeout, token=token, ca_file=ca_file))
    except UnusableError as error:
        report.unusable = str(error)
    except KeyboardInterrupt:
        report.interrupted = True
    if junit is not None and junit.exists():
        junit.write_bytes(junit_xml(report))
    _print_report(report, as_json=as_json)
    raise typer.Exit(report.exit_status)


async def _run_cases(
    run: ContractRun,
    target: PluginTarget,
    report: ContractReport,
    *,
    timeout_s: float,
    token: str | None,
    ca_file: Path | None,
) -> None:
    """Run the cases, with a progress line on a terminal."""
    status = Console(stderr=True).status("asking for the plugin's health")

    def show(result: Result) -> None:
        status.update(f"{len(report.results)} of {len(run.cases)} cases, the last: {result.case.id}")

    async with Plugin(target, timeout_s=timeout_s, token=token, ca_file=ca_file) as plugin:
        with status:
            await run_cases(run, plugin, report, show)


def _print_report(report: ContractReport, *, as_json: bool) -> None:
    """Print the report: on standard output, or, where nothing could be judged, one line on standard error."""
    if report.unusable is not None:
        print(f"contract-test: {show_text(report.unusable, 2000)}", file=sys.stderr)
    if as_json:
        _print_json(report.as_json())
    elif report.unusable is None:
        print_report(report, _build_console())


def _print_list(cases: Sequence[Case], *, as_json: bool) -> None:
    if as_json:
        listed = [{"id": c.id, "clause": c.clause, "needs": list(c.needs), "promise": c.promise} for c in cases]
        _print_json({"contract": CONTRACT, "cases": listed})
    else:
        print_cases(cases, _build_console())


def _print_json(value: Mapping[str, Any]) -> None:
    """Print one line of ASCII, so that nothing in it can be taken for the end of a line."""
    print(json.dumps(value, ensure_ascii=True, allow_nan=False), flush=True)


def _build_console() -> Console:
    """Return the console for people: texts are shown unchanged, and nothing is cut off in a pipe."""
    return Console(markup=False, highlight=False, emoji=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def _parse_target(url: str | None) -> PluginTarget:
    if not url:
        raise UnusableError("name the plugin: afterturn contract-test http://127.0.0.1:9100 (or MEMORY_PLUGIN_URL)")
    try:
        return parse_target(url)
    except InvalidRequestError as error:
        raise UnusableError(str(error)) from None


def _read_token(file: Path | None) -> str | None:
    """Return the token of the file, else of the environment, else None; raises UnusableError for an unusable one."""
    try:
        text = os.environ.get(TOKEN_VARIABLE, "") if file is None else file.read_text()
    except (OSError, UnicodeDecodeError):
        raise UnusableError(f"--token-file {file}: it cannot be read; give a file that holds the token alone") from None
    token = text.strip()
    if not token.isascii() or not token.isprintable() or " " in token or (file is not None and not token):
        origin = TOKEN_VARIABLE if file is None else f"--token-file {file}"
        raise UnusableError(f"{origin} holds no token: it must be one word of printable ASCII")
    return token or None


def _check_writable(file: Path | None) -> None:
    """Create the report's file now, so that a run of minutes does not end without its report."""
    if file is not None:
        try:
            file.write_bytes(b"")
        except OSError as error:
            raise UnusableError(f"--junit {file}: it cannot be written ({error.strerror})") from None
