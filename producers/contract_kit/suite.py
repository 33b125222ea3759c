"""The pytest plugin of the kit: options, the fixture of a case, what a case's end means, and the report of a run."""

import asyncio
import os
from argparse import ArgumentTypeError, Namespace
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, cast

import pytest
from afterturn_client.errors import InvalidRequestError
from afterturn_client.plugin_target import parse_target

from producers.contract_kit.client import Plugin
from producers.contract_kit.errors import DeviationError, NoAnswerError, UnusableError
from producers.contract_kit.findings import ContractFinding
from producers.contract_kit.probe import OK, UNAVAILABLE, ContractSettings, Names, Probe, delete_namespaces
from producers.contract_kit.store_switch import STORE_COMMANDS, parse_switch
from producers.contract_kit.wire import CAPABILITIES, CONTRACT, NAME

TOKEN_VARIABLE = "MEMORY_PLUGIN_TOKEN"  # noqa: S105 - the name of a variable
#: Letters of the prefix of namespaces that leave room for the run, a number and what the cases append.
LONGEST_PREFIX = 100
#: Deviations of one case that its report shows; all are in --json.
SHOWN_DEVIATIONS = 3
_NEEDS_TOKEN = (401, 403)


@dataclass(frozen=True, slots=True)
class Case:
    """One clause of the contract: a test of `cases`, marked with `contract(clause, *needs, mend=...)`.

    `id` is `<module>.<function>` without `test_`, `clause` a section of the contract, `promise` what a conforming
    plugin does, `needs` the capabilities it must claim for the case to run, `mend` what to look at where it fails.
    """

    id: str
    clause: str
    promise: str
    needs: tuple[str, ...]
    mend: str


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a case: `status` is passed, failed or skipped; a failed one has a finding for each deviation."""

    case: Case
    status: str
    findings: tuple[ContractFinding, ...]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return the result as an object."""
        case = self.case
        deviations = [{"did": one.did, "expected": one.expected, "saw": one.saw} for one in self.findings]
        return {
            "id": case.id,
            "clause": case.clause,
            "needs": case.needs,
            "promise": case.promise,
            "status": self.status,
            **({"mend": case.mend, "deviations": deviations} if deviations else {}),
            "seconds": round(self.seconds, 3),
        }


class ContractSuite:
    """One run of the cases against one plugin, as a plugin of pytest; it holds the results when the run has ended."""

    def __init__(self) -> None:
        self.cases: list[Case] = []
        self.results: list[Result] = []
        self.url = ""
        self.version: str | None = None
        self.claimed: tuple[str, ...] = ()
        self.namespaces = ""
        self.left_behind: list[str] = []
        #: Why nothing could be judged, or why the run stopped before its end.
        self.unusable: str | None = None
        self.stopped: str | None = None

    @property
    def failed(self) -> list[Result]:
        """The results of the cases that failed."""
        return [one for one in self.results if one.status == "failed"]

    def counts(self) -> dict[str, int]:
        """Return how many cases passed, failed and were skipped."""
        seen = Counter(one.status for one in self.results)
        return {status: seen[status] for status in ("passed", "failed", "skipped")}

    def as_json(self) -> dict[str, Any]:
        """Return the whole report as one object."""
        return {
            "contract": CONTRACT,
            "url": self.url,
            "version": self.version,
            "claimed": self.claimed,
            **self.counts(),
            "unusable": self.unusable,
            "stopped": self.stopped,
            "namespaces": self.namespaces,
            "left_behind": self.left_behind,
            "cases": [one.as_json() for one in self.results],
        }

    # -- before the cases

    def pytest_addoption(self, parser: pytest.Parser) -> None:
        """Declare the options of the kit beside those of pytest."""
        add, settings = parser.getgroup("memory plugin", after="general").addoption, ContractSettings()
        where = "http://HOST:PORT, https://HOST/PREFIX or unix:/PATH/TO.SOCK (default: MEMORY_PLUGIN_URL)"
        add("--plugin-url", default=os.environ.get("MEMORY_PLUGIN_URL"), help=f"where the plugin listens: {where}")
        add("--json", action="store_true", help="print one JSON object on one line, and the rest on standard error")
        add(
            "--timeout",
            type=_bounded(float, 0.05, 300),
            default=5.0,
            metavar="S",
            help="seconds that one request may take as a whole (5)",
        )
        prefix = f"how the names of all namespaces begin that the kit makes ({settings.prefix})"
        add("--namespace-prefix", default=settings.prefix, metavar="NAME", help=prefix)
        numbers = f"numbers in the embeddings that the plugin takes ({settings.dimension})"
        add("--dimension", type=_bounded(int, 2, 4096), default=settings.dimension, metavar="N", help=numbers)
        token = f"file with the bearer token to send (default: {TOKEN_VARIABLE}, else none)"
        add("--token-file", type=Path, metavar="FILE", help=token)
        add("--ca-file", type=Path, metavar="FILE", help="certificates (PEM) to trust instead of the system's")
        stop = "takes the plugin's database away; with --start-store: tests the outage"
        add("--stop-store", metavar="COMMAND", help=stop)
        add("--start-store", metavar="COMMAND", help="brings the plugin's database back")

    def pytest_configure(self, config: pytest.Config) -> None:
        """Make the mark of a case known."""
        config.addinivalue_line("markers", "contract(clause, *needs, mend): a case of the contract")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put the outage last, when every other case has had an answer."""
        items.sort(key=lambda item: item.path.stem == "test_outage")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Keep the cases that were selected."""
        self.cases = [_describe_case(one) for one in session.items if isinstance(one, pytest.Function)]

    @pytest.fixture(scope="session")
    def runner(self) -> Iterator[asyncio.Runner]:
        """Yield the event loop of the run."""
        with asyncio.Runner() as runner:
            yield runner

    @pytest.fixture(scope="session")
    def plugin(
        self, pytestconfig: pytest.Config, runner: asyncio.Runner, record_testsuite_property: Any
    ) -> Iterator[Plugin]:
        """Yield the plugin under test; end the run where it cannot be judged."""
        try:
            plugin, self.settings = _open_plugin(pytestconfig.option), _read_settings(pytestconfig.option)
            self._names, self.url = Names(self.settings.prefix, token_hex(4)), plugin.target.shown
            try:
                runner.run(self._read_health(plugin))
                for name in ("url", "version", "claimed"):
                    record_testsuite_property(name, getattr(self, name))
                yield plugin
            finally:
                runner.run(plugin.aclose())
        except UnusableError as error:
            self.unusable = str(error)
            pytest.exit(self.unusable, pytest.ExitCode.USAGE_ERROR)

    @pytest.fixture
    def probe(self, request: pytest.FixtureRequest, plugin: Plugin, runner: asyncio.Runner) -> Iterator[Probe]:
        """Yield a case's access to the plugin; delete what it made when it has ended, an interrupted one, too."""
        available = {*self.claimed, *((STORE_COMMANDS,) if self.settings.switch else ())}
        if missing := set(_describe_case(request.node).needs) - available:
            pytest.skip(_explain_skip(missing))
        probe = Probe(plugin, self.settings, self.claimed, self._names)
        yield probe
        self.left_behind += runner.run(delete_namespaces(plugin, self._names))

    async def _read_health(self, plugin: Plugin) -> None:
        """Keep version and capabilities of the plugin's health. Raises UnusableError where it is unusable."""
        try:
            answer = await plugin.send("GET", "/v1/health")
        except NoAnswerError as error:
            raise UnusableError(f"{error}. Is the plugin running, and is {self.url} where it listens?") from None
        if answer.status in _NEEDS_TOKEN:
            raise UnusableError(
                f"the plugin refuses the kit ({answer.saw}): give its token with --token-file or {TOKEN_VARIABLE}"
            )
        if answer.status == UNAVAILABLE:
            raise UnusableError(f"the plugin is degraded ({answer.saw}): mend what it depends on first")
        if answer.status != OK or not isinstance(answer.value, dict):
            raise UnusableError(
                f"GET /v1/health is {answer.saw}: no health of a memory plugin. Does the URL need a path prefix?"
            )
        self.namespaces = f"{self._names.stem}-*"
        version, listed = answer.get("version"), answer.get("capabilities")
        self.version = version if isinstance(version, str) else None
        self.claimed = tuple(one for one in CAPABILITIES if isinstance(listed, list) and one in listed)

    # -- a case and its end

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool:
        """Run a case on the event loop of the run; it fails where there is a finding."""
        case, given = _describe_case(pyfuncitem), pyfuncitem.funcargs
        probe, runner = cast("Probe", given["probe"]), cast("asyncio.Runner", given["runner"])
        try:
            runner.run(pyfuncitem.obj(probe))
        except DeviationError as error:
            probe.findings.append(error.finding)
        except NoAnswerError as error:
            probe.findings.append(ContractFinding(error.did, case.promise, str(error)))
            if not runner.run(_is_listening(probe.plugin)):
                self.stopped = f"the plugin no longer answers, since {case.id}; look at its log, and start it again"
                pyfuncitem.session.shouldfail = self.stopped
        except Exception as error:  # noqa: BLE001 - an answer that no case foresaw is a finding, and the run goes on
            last = probe.steps[-1].saw if probe.steps else "nothing"
            saw = f"an answer that cannot be judged ({type(error).__name__}): {last}"
            probe.findings.append(ContractFinding(probe.did, case.promise, saw))
        if probe.findings:
            pytest.fail(_format_findings(case, probe.findings), pytrace=False)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Function, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep the result of a case."""
        report = yield
        if call.when == "call" or report.skipped:
            probe = item.funcargs.get("probe")
            findings = tuple(probe.findings) if isinstance(probe, Probe) else ()
            self.results.append(Result(_describe_case(item), report.outcome, findings, report.duration))
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what was judged, and what is left of the run in the plugin."""
        if self.results:
            claims = ", ".join(self.claimed) or "no capability"
            terminalreporter.write_line(
                f"memory plugin at {self.url}, version {self.version or 'unknown'}, claims {claims}"
            )
        if self.left_behind:
            terminalreporter.write_line(f"left behind, for they could not be deleted: {', '.join(self.left_behind)}")


def _describe_case(test: pytest.Function) -> Case:
    [mark] = test.iter_markers("contract")
    clause, *needs = mark.args
    name = f"{test.path.stem.removeprefix('test_')}.{test.name.removeprefix('test_')}"
    return Case(name, clause, " ".join((test.obj.__doc__ or "").split()), tuple(needs), mark.kwargs["mend"])


def _open_plugin(options: Namespace) -> Plugin:
    """Return a client of the plugin that the options name. Raises UnusableError."""
    if not options.plugin_url:
        raise UnusableError("name the plugin: memory-plugin-kit http://127.0.0.1:9100 (or MEMORY_PLUGIN_URL)")
    try:
        target = parse_target(options.plugin_url)
    except InvalidRequestError as error:
        raise UnusableError(str(error)) from None
    return Plugin(target, timeout_s=options.timeout, token=_read_token(options.token_file), ca_file=options.ca_file)


def _read_settings(options: Namespace) -> ContractSettings:
    """Return the settings of the cases. Raises UnusableError."""
    prefix = options.namespace_prefix
    if NAME.fullmatch(prefix) is None or len(prefix) > LONGEST_PREFIX:
        raise UnusableError(
            f"--namespace-prefix must look like custom:kit (a-z, a colon, then letters, digits or _:.-), "
            f"at most {LONGEST_PREFIX} characters"
        )
    return ContractSettings(prefix, options.dimension, parse_switch(options.stop_store, options.start_store))


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


def _bounded(kind: Callable[[str], float], least: float, most: float) -> Callable[[str], float]:
    """Return what reads an option's number within bounds."""

    def read(text: str) -> float:
        if not least <= (number := kind(text)) <= most:
            raise ArgumentTypeError(f"must be {least:g} to {most:g}")
        return number

    return read


def _explain_skip(missing: set[str]) -> str:
    unclaimed = [name for name in CAPABILITIES if name in missing]
    why = [f"the plugin does not claim {', '.join(unclaimed)}"] if unclaimed else []
    return "; ".join([*why, *(["needs --stop-store and --start-store"] if STORE_COMMANDS in missing else [])])


def _format_findings(case: Case, findings: Sequence[ContractFinding]) -> str:
    lines = [f"contract {case.clause}: {case.promise}"]
    for one in findings[:SHOWN_DEVIATIONS]:
        lines += ["", f"did       {one.did}", f"expected  {one.expected}", f"saw       {one.saw}"]
    if len(findings) > SHOWN_DEVIATIONS:
        lines += ["", f"and {len(findings) - SHOWN_DEVIATIONS} more deviations (--json has them all)"]
    return "\n".join([*lines, "", f"to mend   {case.mend}"])


async def _is_listening(plugin: Plugin) -> bool:
    try:
        await plugin.send("GET", "/v1/health")
    except NoAnswerError:
        return False
    return True
