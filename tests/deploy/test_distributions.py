"""Four distributions of one repository: each file of the packages is in one wheel, and the service needs no other."""

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from deploy.cli.app import COMMANDS, KIT, LAB, build_requested_cli
from tests.deploy import test_packaging as packaging

ROOT = packaging.ROOT
FOLDERS = {
    "afterturn": ROOT,
    "afterturn-client": packaging.CLIENT,
    "afterturn-lab": packaging.LAB,
    "memory-plugin-kit": packaging.KIT,
}
#: In no wheel: what describes or accompanies a distribution.
BESIDE = (
    "producers/client/README.md",
    "producers/client/examples/",
    "producers/client/plugin/",
    "deploy/lab/README.md",
)
#: A module of the command line that is no command, and serves the laboratory's.
OF_BENCH = "deploy.cli.quality"


def list_wheel(distribution: str) -> dict[Path, str]:
    """Return the files of a distribution's wheel, and the place of each in it."""
    files = WheelBuilder(str(FOLDERS[distribution])).recurse_included_files()
    return {Path(file.path).relative_to(ROOT): file.distribution_path for file in files}


def list_tracked() -> set[Path]:
    """Return the files of the packages that a wheel should hold."""
    listed = subprocess.run(
        ["git", "ls-files", *packaging.PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
    return {Path(name) for name in files if not name.startswith(BESIDE) and not name.endswith("/pyproject.toml")}


def test_the_wheels_are_disjoint_and_together_complete() -> None:
    wheels = {name: list_wheel(name) for name in FOLDERS}
    places = [place for wheel in wheels.values() for place in wheel.values()]
    assert len(places) == len(set(places))
    assert {file for wheel in wheels.values() for file in wheel} == list_tracked()
    assert set(wheels["afterturn-client"].values()) == {
        str(file.relative_to("producers/client")) for file in wheels.pop("afterturn-client")
    }
    assert all(str(file) == place for wheel in wheels.values() for file, place in wheel.items())


def test_the_distributions_have_one_version_and_ask_each_other_for_it() -> None:
    projects = {
        name: tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for name, folder in FOLDERS.items()
    }
    assert {project["name"] for project in projects.values()} == set(FOLDERS)
    [version] = {project["version"] for project in projects.values()}
    ours = [need for project in projects.values() for need in project["dependencies"] if need.startswith("afterturn")]
    assert len(ours) == 3
    assert all(need.endswith(f"=={version}") for need in ours)


def list_modules(distribution: str) -> Iterator[tuple[str, Path]]:
    for file, place in list_wheel(distribution).items():
        if place.endswith(".py"):
            yield place.removesuffix(".py").replace("/", ".").removesuffix(".__init__"), ROOT / file


def test_only_the_commands_that_say_so_import_the_laboratory_and_the_kit() -> None:
    needing = {
        module
        for module, file in list_modules("afterturn")
        if any(needs.package in file.read_text(encoding="utf-8") for needs in (LAB, KIT))
        and any(f"{one}.".startswith((f"{LAB.package}.", f"{KIT.package}.")) for one in packaging.find_modules(file))
    }
    said = {f"deploy.cli.{command.place.partition(':')[0]}" for command in COMMANDS.values() if command.needs}
    assert needing == said | {OF_BENCH}


@pytest.mark.parametrize("name", sorted(name for name, command in COMMANDS.items() if command.needs))
def test_a_command_without_its_distribution_says_what_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs = COMMANDS[name].needs
    assert needs is not None
    monkeypatch.setitem(sys.modules, needs.package, None)
    with pytest.raises(SystemExit) as ended:
        build_requested_cli([name, "--help"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said == f"afterturn: `afterturn {name}` comes with a package of its own: {needs.install}\n"
