"""`memory-plugin-kit URL`, also `python -P -m producers.contract_kit URL`: the same as `afterturn contract-test`."""

import signal

import typer

from producers.contract_kit.command import contract_test_command


def main() -> None:
    """Run the command; SIGTERM acts like an interrupt: namespaces are deleted and the report is written."""
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    typer.run(contract_test_command)


if __name__ == "__main__":
    main()
