"""Errors of embedded servers.

EmbeddedError
 +- PartMissing        a wheel or one of its binaries is not installed or cannot be reached
 +- FolderUnusable     a data folder cannot be used as it is
 +- DidNotStart        a process ended or stayed silent before it was ready
"""


class EmbeddedError(Exception):
    """An embedded server cannot be used; the text says why and what to do."""


class BinaryMissing(EmbeddedError):
    """A server's binary is not installed, or not reachable by the account that must run it."""


class FolderUnusable(EmbeddedError):
    """A data folder belongs to someone else, another version, or is gone."""


class StartFailed(EmbeddedError):
    """A process ended, or was not ready in time; the text ends with what it last wrote."""
