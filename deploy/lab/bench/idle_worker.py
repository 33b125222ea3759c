"""A worker process with idle stages: `python -P -m deploy.lab.bench.idle_worker`."""

import sys

from deploy.settings import load_settings
from deploy.worker.__main__ import prepare_environment


def main() -> int:
    """Work until SIGTERM or SIGINT."""
    settings = load_settings().settings
    prepare_environment(settings)
    # Imported only now: these modules read the environment.
    from deploy.lab.bench.idle_stages import create_idle_stages  # noqa: PLC0415
    from deploy.worker.process import run_worker  # noqa: PLC0415

    return run_worker(settings, create_idle_stages)


if __name__ == "__main__":
    sys.exit(main())
