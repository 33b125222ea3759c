"""Errors of embedded servers.

EmbeddedError
 +- BinaryMissing      a wheel or one of its binaries is not installed or not accessible
 +- FolderUnusable     a data folder cannot be used as it is
 +- StartFailed        a process ended before it was ready, or was not ready in time
"""


class EmbeddedError(Exception):
    """Base class: an embedded server cannot be used; the text says why and what to do."""


class BinaryMissing(EmbeddedError):
    """A server's binary is not installed, or the account that must run it cannot access it."""


class FolderUnusable(EmbeddedError):
    """A data folder belongs to someone else, another version, or is gone."""


class StartFailed(EmbeddedError):
    """A process ended before it was ready, or was not ready in time; the text ends with its last output."""
