"""No process of ours dumps core, which would hold texts and keys: each entry point forbids it before anything else."""

import resource
import subprocess
import sys
from importlib.metadata import distribution

from tests.patience import PATIENCE_S
from tests.tables import each_row

INSTALLED = {
    one.value
    for name in ("afterturn", "afterturn-client")
    for one in distribution(name).entry_points.select(group="console_scripts")
}
PROCESSES = {"deploy.api.__main__:main", "deploy.worker.__main__:main"}

RUN = """
import atexit, importlib, resource, sys
asked = []
resource.setrlimit = lambda *given: asked.append(given)
atexit.register(lambda: print(asked, file=sys.stderr))
module, _, function = sys.argv[1].partition(":")
sys.argv = [module, "--help"]
sys.exit(getattr(importlib.import_module(module), function)())
"""


@each_row("entry", sorted(INSTALLED | PROCESSES))
def test_an_entry_point_forbids_core_dumps(entry: str) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", RUN, entry], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == str([(resource.RLIMIT_CORE, (0, 0))]), done.stderr


def test_the_installed_commands_are_among_them() -> None:
    assert {"deploy.cli:main", "afterturn_client.command:main"} <= INSTALLED
