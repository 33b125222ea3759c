"""Errors of the store.

StoreError
├── TurnConflict        the turn is known with another body
├── TurnBusy            another request is writing this turn right now (try again)
├── NotFound            no such thing for this tenant; a foreign one does not exist either
├── LeaseLost           the claim belongs to somebody else by now; nothing was written
├── PositionBeyondLog   a read asked for a position that was never issued
└── SchemaMismatch      the database holds another schema version than this code
"""


class StoreError(Exception):
    """The base of everything the store raises on purpose; its text never holds content."""


class TurnConflict(StoreError):
    """The turn is known with another body."""


class TurnBusy(StoreError):
    """Another request is writing this turn right now."""


class NotFound(StoreError):
    """No such thing for this tenant."""


class LeaseLost(StoreError):
    """The claim belongs to somebody else by now; the transaction that learned it writes nothing."""


class PositionBeyondLog(StoreError):
    """A read asked for a position that was never issued."""


class SchemaMismatch(StoreError):
    """The database holds another schema version than this code."""
