"""Errors of the cut-over.

CutoverError
├── LegacyUnreadable   the table of memories, or its database, does not answer
├── GaveUp             the plugin was away for longer than was to be waited
└── UnusableFile       a checkpoint or an export is not one, or is not of this source and target
"""

from producers.errors import ProducerError


class CutoverError(ProducerError):
    """The base of everything the cut-over raises on purpose."""


class LegacyUnreadable(CutoverError):
    """The table of memories, or its database, does not answer."""


class GaveUp(CutoverError):
    """The plugin was away for longer than was to be waited; the same command goes on."""


class UnusableFile(CutoverError):
    """A file is not what it should be."""
