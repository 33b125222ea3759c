"""Errors of work, by the error category that the ledger records.

WorkError
├── Transient   a retry may succeed: tried again with back-off, after `retry_after` seconds if that is known
├── Permanent   no retry can succeed: into quarantine at once
└── OutcomeUnrecorded      a call was made and its outcome is not recorded: the row stays as it is for the next worker

`category` is one word for counting; `reason` is for the operator. Neither ever holds content.
"""


class WorkError(Exception):
    """Base of the errors that a stage raises on purpose."""

    def __init__(self, category: str, reason: str) -> None:
        super().__init__(f"{category}: {reason}")
        self.category = category
        self.reason = reason


class Transient(WorkError):
    """An error after which a retry may succeed."""

    def __init__(self, category: str, reason: str, retry_after: float | None = None) -> None:
        super().__init__(category, reason)
        self.retry_after = retry_after


class Permanent(WorkError):
    """An error that no retry can mend."""


class OutcomeUnrecorded(WorkError):
    """A call was made and its outcome could not be written; the row's status tells the worker that claims it next."""
