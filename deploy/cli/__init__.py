"""The command line: one file a command, `afterturn --help` explains them. Hands out `main`."""

from deploy.cli.starting import main

__all__ = ["main"]
