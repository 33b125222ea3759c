"""Errors of the cut-over.

CutoverError
├── LegacyUnreadable   the table of memories, or its database, does not answer
├── GaveUp             the plugin was away for longer than the wait
└── UnusableFile       a checkpoint or an export is not one, or is not of this source and target
"""

from producers.errors import ProducerError


class CutoverError(ProducerError):
    """Base of the errors that the cut-over raises on purpose."""


class LegacyUnreadable(CutoverError):
    """The table of memories, or its database, does not answer."""


class GaveUp(CutoverError):
    """The plugin was away for longer than the wait; running the same command again continues."""


class UnusableFile(CutoverError):
    """A file is no checkpoint or export, or is of another source or target."""
