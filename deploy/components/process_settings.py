"""Reads the settings with which a process of the service starts; standard error explains why it cannot."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.observability.samples import share_samples
from deploy.observability.tracing import find_missing_packages
from deploy.settings import LoadedSettings, Settings, find_missing_urls, load_settings
from deploy.settings_errors import SettingsError


def load_process_settings(
    program: str, config: Path | None, overrides: Mapping[str, Any] | None
) -> LoadedSettings | None:
    """Return the settings, None for invalid ones. `config` and `overrides` are those of `load_settings`.

    `program` begins each line.
    """
    try:
        return load_settings(config=config, overrides=overrides)
    except SettingsError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return None


def can_start(program: str, settings: Settings) -> bool:
    """Return whether the settings name all servers, and the packages that they need are installed."""
    missing = find_missing_urls(settings)
    problem = f"not set: {', '.join(missing)}" if missing else find_missing_packages(settings.tracing)
    if problem:
        print(f"{program}: {problem}", file=sys.stderr)
    return not problem


def prepare_samples(program: str, folder: Path) -> bool:
    """Make this process write its samples of metrics to `folder`; return whether it may start.

    It starts without its samples where the disk is full, and does not where the folder cannot be written at all.
    """
    try:
        if not share_samples(folder):
            print(f"{program}: the disk is full: /metrics goes without this process's samples", file=sys.stderr)
    except OSError as error:
        told = f"{folder} cannot be written ({error.strerror}): set metrics_dir, or data, to a folder of this user"
        print(f"{program}: {told}", file=sys.stderr)
        return False
    return True
