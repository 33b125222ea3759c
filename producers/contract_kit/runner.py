"""Runs cases against a plugin, one after the other, and deletes the namespaces they made."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from secrets import token_hex

from producers.contract_kit.client import Plugin, PluginReply
from producers.contract_kit.errors import DeviationError, NoAnswerError, UnusableError
from producers.contract_kit.findings import ContractFinding
from producers.contract_kit.probe import OK, UNAVAILABLE, ContractSettings, Names, Probe, delete_namespaces
from producers.contract_kit.registry import STORE_COMMANDS, Case
from producers.contract_kit.report import CaseVerdict, ContractReport, Result
from producers.contract_kit.wire import CAPABILITIES, NAME

#: Letters of the prefix of namespaces that leave room for the run, a number and what the cases append.
LONGEST_PREFIX = 100
_NEEDS_TOKEN = (401, 403)


@dataclass(frozen=True, slots=True)
class ContractRun:
    """The plan of one run: the cases, the settings, and whether it ends at the first failure."""

    cases: Sequence[Case]
    settings: ContractSettings
    fail_fast: bool = False


async def run_cases(
    run: ContractRun, plugin: Plugin, report: ContractReport, on_result: Callable[[Result], None] = lambda _: None
) -> None:
    """Run the cases and write their results into `report` one by one, so that a cancelled run keeps them.

    Namespaces that the cases make are deleted after each of them, a cancelled one included. Raises UnusableError
    where the plugin does not answer or its health is unusable.
    """
    names = Names(_checked_prefix(run.settings.prefix), token_hex(4))
    began = time.monotonic()
    try:
        claimed = await _claimed_capabilities(plugin, report)
        report.namespaces = f"{names.stem}-*"
        available = {*claimed, *((STORE_COMMANDS,) if run.settings.switch else ())}
        for case in run.cases:
            missing = tuple(need for need in case.needs if need not in available)
            probe = Probe(plugin, run.settings, claimed, names)
            skipped = Result(case, CaseVerdict.SKIPPED, "nothing", missing=missing)
            result = skipped if missing else await _run_case(case, probe, report)
            report.results.append(result)
            on_result(result)
            if run.fail_fast and report.failed:
                report.stopped = "the first failure ended the run (--fail-fast)"
                break
            if report.stopped:
                break
    finally:
        report.seconds = time.monotonic() - began


async def _run_case(case: Case, probe: Probe, report: ContractReport) -> Result:
    began = time.monotonic()
    lost = False
    try:
        await case.act(probe)
    except DeviationError as error:
        probe.findings.append(error.finding)
    except NoAnswerError as error:
        probe.findings.append(ContractFinding(error.did, case.promise, str(error)))
        lost = True
    except Exception as error:  # noqa: BLE001 - an answer that no case foresaw is a finding, and the run goes on
        last = probe.steps[-1].saw if probe.steps else "nothing"
        kind = type(error).__name__
        probe.findings.append(
            ContractFinding(probe.did, case.promise, f"an answer that cannot be judged ({kind}): {last}")
        )
    finally:
        report.left_behind += await delete_namespaces(probe.plugin, probe.names)
    if lost and not await _is_listening(probe.plugin):
        report.stopped = f"the plugin no longer answers, since {case.id}; look at its log, and start it again"
    verdict = CaseVerdict.FAILED if probe.findings else CaseVerdict.PASSED
    return Result(case, verdict, probe.did, tuple(probe.findings), seconds=time.monotonic() - began)


async def _claimed_capabilities(plugin: Plugin, report: ContractReport) -> frozenset[str]:
    """Return the capabilities of the plugin's health. Raises UnusableError where it is unusable."""
    try:
        answer = await plugin.send("GET", "/v1/health")
    except NoAnswerError as error:
        raise UnusableError(f"{error}. Is the plugin running, and is {plugin.target.shown} where it listens?") from None
    if answer.status in _NEEDS_TOKEN:
        raise UnusableError(
            f"the plugin refuses the kit ({answer.saw}): give its token with --token-file or MEMORY_PLUGIN_TOKEN"
        )
    if answer.status == UNAVAILABLE:
        raise UnusableError(f"the plugin is degraded ({answer.saw}): mend what it depends on first")
    health = answer.value
    if answer.status != OK or not isinstance(health, dict):
        raise UnusableError(
            f"GET /v1/health is {answer.saw}: no health of a memory plugin. Does the URL need a path prefix?"
        )
    report.version = _text_field(answer, "version")
    listed = health.get("capabilities")
    report.claimed = tuple(one for one in CAPABILITIES if isinstance(listed, list) and one in listed)
    return frozenset(report.claimed)


def _text_field(answer: PluginReply, name: str) -> str | None:
    value = answer.get(name)
    return value if isinstance(value, str) else None


async def _is_listening(plugin: Plugin) -> bool:
    try:
        await plugin.send("GET", "/v1/health")
    except NoAnswerError:
        return False
    return True


def _checked_prefix(prefix: str) -> str:
    if NAME.fullmatch(prefix) is None or len(prefix) > LONGEST_PREFIX:
        raise UnusableError(
            f"--namespace-prefix must look like custom:kit (a-z, a colon, then letters, digits or _:.-), "
            f"at most {LONGEST_PREFIX} characters"
        )
    return prefix
