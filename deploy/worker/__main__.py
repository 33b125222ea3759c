"""The worker process: `python -P -m deploy.worker`.

Exit codes: 0 stopped when told to, 1 no model or a broker that discards messages, 2 wrong settings.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.components.process_settings import can_start, load_process_settings, prepare_samples
from deploy.components.process_setup import forbid_core_dumps, importing, lower_priority
from deploy.observability.samples import WORKER_SAMPLES
from deploy.settings import Settings

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
    loaded = load_process_settings("deploy.worker", chosen.config, overrides)
    if loaded is None or not can_start("deploy.worker", loaded.settings):
        return 2
    settings = loaded.settings
    if not prepare_environment(settings):
        return 2
    lower_priority(settings.worker.nice)
    with importing():
        # Imported only now: dramatiq and prometheus_client read the environment when they are imported.
        from deploy.worker.process import run_worker  # noqa: PLC0415
    return run_worker(settings)


def prepare_environment(settings: Settings) -> bool:
    """Set the environment variables that dramatiq and prometheus_client read when they are imported.

    Returns False where the folder of samples cannot be written.
    """
    os.environ.setdefault("dramatiq_restart_delay", str(RECONNECT_MS))
    return prepare_samples("deploy.worker", settings.metrics_dir / WORKER_SAMPLES)


if __name__ == "__main__":
    sys.exit(main())
