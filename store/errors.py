"""Errors of the store.

StoreError
├── TurnConflict        the turn is known with another body
│   ├── TurnErased          the turn was erased, in whole or in part: its name is used up
│   └── TurnEnded           the turn's bank has ended since it was accepted: its name is used up
├── ResourceBusy        another transaction held a lock for longer than the time-out (try again)
│   └── TurnBusy            another request is writing this turn right now
├── AuthorityEnded      the key of the call was revoked or has expired since the call began; nothing was written
├── ErasedMeanwhile     the target of the write was erased since the call began; nothing was written
├── OverQuota           a limit that the operator set would be exceeded; nothing was written
│   ├── QuotaExceeded       a limit of size
│   └── RateLimited         a limit per minute (try again later)
├── NotFound            no such thing for this tenant; a foreign one does not exist either
├── KeyReused           an idempotency key was used for another command
├── GenerationRefused   a generation of vectors is in a state that does not allow the change
├── BankInUse           a bank holds something that lives; it was not ended
├── IsReflection        a reflection follows from its facts; change these instead
├── NotSettled          a delivery's state does not allow this settlement
├── TargetTaken         another tenant or bank has, or had, this user of the gateway
├── SealBroken          a sealed secret cannot be opened, or none sealed, with the keys of the settings
├── LeaseLost           another worker has the claim by now; nothing was written
├── StatementTimeout    a statement took longer than the time-out; nothing of it was written
├── InvalidTenantName   a name of a new tenant that can look like another's
├── PositionBeyondLog   a read asked for a position that was never issued
├── SessionDefaultsMissing  a login role behind a pooler does not begin its sessions as the service needs
├── InvalidDatabaseUrl  a URL of the settings does not say which PostgreSQL, or how it is secured
├── InvalidEvent        an event's ids or data break the catalog's rules
├── EventRefused        the log did not take an event: of which aggregate type, what it expected, what it found
│   ├── ConcurrencyError    another writer wrote that version of the aggregate
│   ├── VersionGap          the version before this one is not in the log
│   └── MissingParent       the aggregate that the event belongs to was never created
├── SnapshotRefused     a snapshot is not made or taken in as asked
├── RestoredElsewhere   the log was written by another cluster and is not stamped for this one yet
└── ReplayError         the log could not be replayed or swapped in as asked
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from uuid import UUID


class StoreError(Exception):
    """Base of the errors that the store raises on purpose; their text never holds content."""

    #: Details for programs, without content.
    details: Mapping[str, object] = MappingProxyType({})


class TurnConflict(StoreError):
    """The turn is known with another body."""


class TurnErased(TurnConflict):
    """The turn was erased, in whole or in part: nothing is stored under its name again."""


class TurnEnded(TurnConflict):
    """The turn was accepted, and its bank has ended since: no read shows it, and it is not stored again."""


class ResourceBusy(StoreError):
    """Another transaction held a lock for longer than `store.database.LOCK_TIMEOUT_S`; nothing was written."""


class TurnBusy(ResourceBusy):
    """Another request is writing this turn right now."""


class AuthorityEnded(StoreError):
    """The key of the call was revoked, or has expired, since the call began; nothing was written."""


class ErasedMeanwhile(StoreError):
    """The user, session or bank that the call writes to was erased since it began; nothing was written."""


class OverQuota(StoreError):
    """A limit that the operator set would be exceeded; nothing was written."""

    def __init__(
        self, limit: str, scope: str, allowed: int, remedy: str = "erase something, or ask the operator for more"
    ) -> None:
        shown = "tenant" if scope == "host" else scope
        super().__init__(f"the quota of this {shown} is used up: {limit} is {allowed}; {remedy}")
        self.details = {"limit": limit, "scope": scope, "allowed": allowed}


class QuotaExceeded(OverQuota):
    """A limit of size would be exceeded; erase something, or ask the operator for a higher limit."""

    #: Seconds until a retry can succeed.
    retry_after_s = 3600


class RateLimited(OverQuota):
    """A limit per minute would be exceeded; try again later."""

    def __init__(self, limit: str, scope: str, allowed: int, retry_after_s: int) -> None:
        super().__init__(limit, scope, allowed, f"try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class NotFound(StoreError):
    """No such thing for this tenant."""


class KeyReused(StoreError):
    """The idempotency key was used for another command; nothing was written."""


class GenerationRefused(StoreError):
    """A generation of vectors is in a state that does not allow the change; the text says what to do first."""


class BankInUse(StoreError):
    """A bank is not ended while something in it lives; `details` say how much of what."""

    def __init__(self, living: Mapping[str, int]) -> None:
        told = ", ".join(f"{count} {name}" for name, count in living.items())
        super().__init__(f"this bank is not empty: {told}; end these first")
        self.details = dict(living)


class IsReflection(StoreError):
    """The id is of a reflection, which follows from its facts: correct, pin or erase these instead."""

    def __init__(self, sources: Sequence[UUID]) -> None:
        told = ", ".join(map(str, sources))
        super().__init__(
            f"this unit is a reflection, which follows from its facts; change one of these instead: {told}"
        )
        self.details = {"sources": [str(source) for source in sources]}


class NotSettled(StoreError):
    """A delivery's state does not allow this settlement; nothing was written."""


class TargetTaken(StoreError):
    """Another tenant or bank has, or had, this user of the gateway, whose memory is theirs."""


class SealBroken(StoreError):
    """A sealed secret cannot be opened, or none be sealed, with the keys of the settings."""


class LeaseLost(StoreError):
    """The lease expired and another worker has the claim; the caller's transaction must write nothing."""


class StatementTimeout(StoreError):
    """A statement took longer than the time-out, although the database answers."""


class InvalidTenantName(StoreError):
    """A new tenant's name holds what cannot be seen, and so can look like another's."""


class PositionBeyondLog(StoreError):
    """A read asked for a position that was never issued."""


class SessionDefaultsMissing(StoreError):
    """A login role behind a pooler in transaction mode does not begin its sessions as the service needs."""


class InvalidDatabaseUrl(StoreError):
    """A URL of the settings does not say which PostgreSQL to connect to, or how that connection is secured."""


class InvalidEvent(StoreError):
    """An event's ids or data break the catalog's rules."""


class EventRefused(StoreError):
    """The log refused an event; the transaction that offered it must write nothing.

    `expected` and `actual` are versions of the aggregate, None where they do not apply.
    """

    why = "the log did not take an event"

    def __init__(self, aggregate_type: str, expected: int | None = None, actual: int | None = None) -> None:
        self.aggregate_type = aggregate_type
        self.expected = expected
        self.actual = actual
        self.details = {"aggregate_type": aggregate_type, "expected": expected, "actual": actual}
        super().__init__(f"{self.why} ({aggregate_type}: expected version {expected}, found {actual})")


class ConcurrencyError(EventRefused):
    """Another writer wrote that version of the aggregate."""

    why = "another writer wrote that version; read the aggregate again"


class VersionGap(EventRefused):
    """The version before this one is not in the log."""

    why = "the version before it is not in the log; append that one first"


class MissingParent(EventRefused):
    """The aggregate that the event belongs to was never created."""

    why = "the aggregate it belongs to was never created; append that one's first event before"


class SnapshotRefused(StoreError):
    """A snapshot is not made or taken in as asked; the text says what to do instead."""


class RestoredElsewhere(StoreError):
    """The log was written by another cluster and is not stamped for this one yet."""


class ReplayError(StoreError):
    """The log could not be replayed or swapped in as asked."""


class RevisionRefused(Exception):
    """The database's schema is at a revision that this code does not migrate; it was not touched."""


class FormerRevision(RevisionRefused):
    """The schema is at a revision of the first release's development; the message says how its data is kept."""


class UnknownRevision(RevisionRefused):
    """The database's schema was made by another version of the code; it was not touched."""

    def __init__(self, found: str, newest: str) -> None:
        version, numbered, _ = found.rpartition("_")
        writer = f"Afterturn {version}" if numbered else "a development version before 0.1.0"
        super().__init__(
            f"this data was written by {writer} (schema revision {found}); this one knows revisions up to {newest}. "
            "Nothing was changed: run the version that wrote it, or start with an empty database, in another data "
            "folder (`--data DIR`) or behind another database.owner_url"
        )
        self.found = found
