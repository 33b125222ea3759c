"""The worker process: `python -P -m deploy.worker`.

Exit codes: 0 stopped when told to, 1 no model or a broker that discards messages, 2 wrong settings.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.components.process_setup import forbid_core_dumps, lower_priority
from deploy.observability.samples import WORKER_SAMPLES, share_samples
from deploy.observability.tracing import find_missing_packages
from deploy.settings import Settings, find_missing_urls, load_settings
from deploy.settings_errors import SettingsError

#: Pause before dramatiq reconnects to Redis, in milliseconds.
RECONNECT_MS = 500


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the settings, work until SIGTERM or SIGINT, and return the exit code."""
    forbid_core_dumps()
    parser = argparse.ArgumentParser(prog="deploy.worker", description="work on what the ledger holds")
    parser.add_argument("--config", type=Path, help="a YAML or JSON file of settings")
    parser.add_argument("--stages", help="what it does, separated by commas (default: worker.stages)")
    chosen = parser.parse_args(arguments)
    overrides = {"worker": {"stages": chosen.stages.split(",")}} if chosen.stages else None
    try:
        settings = load_settings(config=chosen.config, overrides=overrides).settings
    except SettingsError as error:
        print(f"deploy.worker: {error}", file=sys.stderr)
        return 2
    if missing := find_missing_urls(settings):
        print(f"deploy.worker: not set: {', '.join(missing)}", file=sys.stderr)
        return 2
    if missing_packages := find_missing_packages(settings.tracing):
        print(f"deploy.worker: {missing_packages}", file=sys.stderr)
        return 2
    prepare_environment(settings)
    lower_priority(settings.worker.nice)
    # Imported only now: dramatiq and prometheus_client read the environment when they are imported.
    from deploy.worker.process import run_worker  # noqa: PLC0415

    return run_worker(settings)


def prepare_environment(settings: Settings) -> None:
    """Set the environment variables that dramatiq and prometheus_client read when they are imported."""
    if not share_samples(settings.metrics_dir / WORKER_SAMPLES):
        print("deploy.worker: the disk is full: /metrics goes without this process's samples", file=sys.stderr)
    os.environ.setdefault("dramatiq_restart_delay", str(RECONNECT_MS))


if __name__ == "__main__":
    sys.exit(main())
