"""`memory-plugin-kit URL`, also `python -P -m producers.contract_kit URL`: the same as `afterturn contract-test`."""

import signal
import sys

from producers.contract_kit.command import run_contract_test


def main() -> None:
    """Run the command; SIGTERM acts like an interrupt: namespaces are deleted and the report is written."""
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    sys.exit(run_contract_test(sys.argv[1:]))


if __name__ == "__main__":
    main()
