"""The built wheels install into a bare environment, and run there without the repository."""

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.deploy.test_distributions import FOLDERS
from tests.deploy.test_install_lines import find_lines
from tests.patience import wait_until
from tests.processes import spawned

pytestmark = pytest.mark.nightly  # an environment of 150 packages, from an index

INSTALL = ["install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
CALLS = """
import sys
from pathlib import Path
from afterturn_client import Afterturn, Message
memory = Afterturn(sys.argv[1], Path(sys.argv[2]).read_text().strip(), bank="household")
memory.add_turn("monday", [Message("user", "I moved to Ghent, and I love the canals.")], user_id="ann")
print(memory.recall("Where does Ann live now?", user_id="ann").results[0].text)
"""
INSTALL_S, START_S = 600, 120


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    build = [
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(folder),
        *map(str, FOLDERS.values()),
    ]
    subprocess.run([sys.executable, "-m", "pip", *build], check=True, timeout=INSTALL_S)
    return folder


@pytest.fixture(scope="module")
def bare(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", home], check=True, timeout=INSTALL_S)
    pip: list[str | Path] = [home / "bin" / "pip", *INSTALL, "--find-links", wheels, "afterturn[embedded]"]
    subprocess.run(pip, check=True, timeout=INSTALL_S, cwd=home)
    return home / "bin"


@pytest.mark.parametrize("line", sorted({shlex.join(shlex.split(line)) for _page, line in find_lines()}))
def test_an_install_line_of_the_pages_finds_what_it_names(wheels: Path, tmp_path: Path, line: str) -> None:
    (tmp_path / "wheels").symlink_to(wheels)
    pip = [sys.executable, "-m", "pip", *INSTALL, "--dry-run", "--ignore-installed", *shlex.split(line)[2:]]
    ran = subprocess.run(pip, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=INSTALL_S)
    assert ran.returncode == 0, ran.stderr


def test_an_installed_wheel_lacks_nothing(bare: Path) -> None:
    checked = subprocess.run([bare / "pip", "check"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_an_installed_wheel_starts_the_api_and_a_worker_and_remembers(bare: Path, tmp_path: Path) -> None:
    log = tmp_path / "up.log"
    up: list[str | Path] = [bare / "afterturn", "up", "--data", tmp_path / "data", "--port", "0"]
    with log.open("w") as output, spawned(up, cwd=tmp_path, stdout=output, stderr=subprocess.STDOUT) as running:
        try:
            wait_until(lambda: "READY" in log.read_text() or running.poll() is not None, "it is ready", START_S)
            ready = json.loads(next(line for line in log.read_text().splitlines() if "READY" in line).partition(" ")[2])
            recalled = call([bare / "python", "-c", CALLS, ready["api"], ready["api_key_file"]], tmp_path)
            assert recalled.strip() == "I moved to Ghent, and I love the canals."
            known: list[str | Path] = [
                bare / "afterturn",
                "profile",
                "--user",
                "ann",
                "--data",
                tmp_path / "data",
                "--json",
            ]
            wait_until(lambda: "Ghent" in call(known, tmp_path), "a worker has drawn facts", START_S, pause_s=1.0)
        finally:
            running.send_signal(signal.SIGINT)
            assert running.wait(START_S) == 0


def test_the_laboratory_and_the_kit_are_installed_beside_the_service(bare: Path, wheels: Path, tmp_path: Path) -> None:
    for command, needs in (("bench", "afterturn-lab"), ("contract-test", "memory-plugin-kit")):
        argv: list[str | Path] = [bare / "afterturn", command, "--help"]
        without = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=START_S)
        assert (without.returncode, without.stdout) == (2, "")
        [line] = without.stderr.splitlines()
        assert line.endswith(f"pip install --find-links wheels {needs}")
        pip: list[str | Path] = [bare / "pip", *INSTALL, "--find-links", wheels, needs]
        subprocess.run(pip, check=True, timeout=INSTALL_S, cwd=tmp_path)
        assert "usage: " in call(argv, tmp_path).lower()


def test_the_kit_alone_judges_a_plugin(wheels: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "alone"], check=True, timeout=INSTALL_S)
    home = tmp_path / "alone" / "bin"
    pip: list[str | Path] = [home / "pip", *INSTALL, "--find-links", wheels, "memory-plugin-kit"]
    subprocess.run(pip, check=True, timeout=INSTALL_S, cwd=tmp_path)
    assert "namespaces" in call([home / "memory-plugin-kit", "--collect-only"], tmp_path)


def call(argv: Sequence[str | Path], cwd: Path) -> str:
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=True, timeout=START_S).stdout


def list_needs(version: str) -> list[str]:
    """Return what `afterturn[embedded]` needs on a version of Python: pip reads markers for the one that runs it."""
    needs = [Requirement(line) for line in requires("afterturn") or []]
    there = {"python_version": version, "extra": "embedded"}
    wanted = [need for need in needs if need.marker is None or need.marker.evaluate(there)]
    for need in wanted:
        need.marker = None
    return [str(need) for need in wanted]


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_wheels_alone_are_enough_for_every_version_of_python_that_is_named(
    wheels: Path, tmp_path: Path, version: str
) -> None:
    target = ["--dry-run", "--python-version", version, "--target", str(tmp_path), "--find-links", str(wheels)]
    pip = [sys.executable, "-m", "pip", *INSTALL, *target, *list_needs(version)]
    resolved = subprocess.run(pip, capture_output=True, text=True, check=False, timeout=INSTALL_S)
    assert resolved.returncode == 0, resolved.stderr
