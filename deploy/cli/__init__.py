"""The command line: one file a command, `afterturn --help` explains them. Hands out `main`."""

from deploy.cli.app import main

__all__ = ["main"]
