"""The command line `afterturn`: one file per command. Exports `main`."""

from deploy.cli.entry_point import main

__all__ = ["main"]
