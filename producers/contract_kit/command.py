"""The command of the kit: a run of pytest with the cases and the plugin `ContractSuite`."""

import json
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from producers.contract_kit.suite import ContractSuite

CASES = Path(__file__).with_name("cases")
#: Nothing of the folder in which it is called, nor of other plugins of pytest, changes a run.
OPTIONS = (
    *("-c", os.devnull, "--rootdir", str(CASES), "--import-mode=importlib", "--disable-plugin-autoload"),
    *("-p", "no:cacheprovider", "-p", "no:unraisableexception", "-p", "no:faulthandler"),
    *("--capture=no", "--no-header", "-v", "-rs"),
)
#: Exit statuses that differ from pytest's: interrupted; nothing could be judged.
STATUSES = {pytest.ExitCode.INTERRUPTED: 130, pytest.ExitCode.USAGE_ERROR: 2, pytest.ExitCode.NO_TESTS_COLLECTED: 2}


def run_contract_test(arguments: Sequence[str]) -> int:
    """Judge a memory plugin: the arguments are its URL, then options of the kit and of pytest. Return the exit status.

    0: every case that ran passed; 1: one failed; 2: the plugin cannot be judged; 130: interrupted.
    """
    named = bool(arguments) and not arguments[0].startswith("-")
    suite, options = ContractSuite(), ["--plugin-url", *arguments] if named else list(arguments)
    if "--json" not in options:
        return run_cases(suite, options)
    with redirect_stdout(sys.stderr):
        status = run_cases(suite, options)
    print(json.dumps(suite.as_json() | {"exit_status": status}), flush=True)
    return status


def run_cases(suite: ContractSuite, options: Sequence[str], cases: Sequence[Path | str] = (CASES,)) -> int:
    """Run cases, named as pytest names tests; return the exit status. The suite has the results."""
    status = pytest.main([*OPTIONS, *options, *map(str, cases)], plugins=[suite])
    return STATUSES.get(pytest.ExitCode(status), int(status))
