"""Errors of work, by the error category that the ledger records.

WorkError
├── Transient   it may go well another time: tried again with back-off, `retry_after` seconds if that is known
├── Permanent   it will never go well: into quarantine at once
└── Untold      something was begun that must not be begun again: the row stays as it is for the next holder

`category` is one word for counting; `reason` is for the operator. Neither ever holds content.
"""


class WorkError(Exception):
    """The base of what a stage raises on purpose."""

    def __init__(self, category: str, reason: str) -> None:
        super().__init__(f"{category}: {reason}")
        self.category = category
        self.reason = reason


class Transient(WorkError):
    """It may go well another time."""

    def __init__(self, category: str, reason: str, retry_after: float | None = None) -> None:
        super().__init__(category, reason)
        self.retry_after = retry_after


class Permanent(WorkError):
    """It will never go well."""


class Untold(WorkError):
    """Something was begun whose end could not be written; the row's status tells the next holder."""
