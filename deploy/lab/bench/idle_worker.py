"""A worker process whose stages do nothing: `python -P -m deploy.lab.bench.idle_worker`."""

import sys

from deploy.settings import load
from deploy.worker import prepare


def main() -> int:
    """Work until SIGTERM or SIGINT."""
    settings = load().settings
    prepare(settings)
    # Only now: what is imported here reads the environment.
    from deploy.lab.bench.idle_stages import idle_stages  # noqa: PLC0415
    from deploy.worker_process import run  # noqa: PLC0415

    return run(settings, idle_stages)


if __name__ == "__main__":
    sys.exit(main())
