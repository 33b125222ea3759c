"""The command line: one file a command, `afterturn --help` explains them. Hands out `main`."""

from deploy.cli.entry_point import main

__all__ = ["main"]
