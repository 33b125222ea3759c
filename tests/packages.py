"""Programs of the operating system that some tests need beside our own packages."""

import os
import shutil
from pathlib import Path

import pytest

#: `.ci/run` installs the packages and sets this: there, a missing one is a failure and no reason to skip.
REQUIRED = "AFTERTURN_TEST_PACKAGES"
VERSIONED = "/usr/lib/postgresql"


def program(name: str, package: str) -> Path:
    """Return where a program is; without it the test is skipped, and the reason names the Debian package."""
    versions = sorted(Path(VERSIONED).glob(f"*/bin/{name}"))
    found = versions[-1] if versions else shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    return Path(find_or_skip(found, f"{name} is not installed (Debian package {package})"))


def find_or_skip(found: Path | str | None, missing: str) -> str:
    """Return what was found; where nothing was, skip the test with this reason."""
    if found is not None:
        return str(found)
    if os.environ.get(REQUIRED) == "required":
        pytest.fail(missing)
    pytest.skip(missing)
