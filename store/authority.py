"""On whose authority a call writes: read again where it writes, after its body came and its locks were waited for.

An interface notes the authority of a call when the call begins. Transactions of that call hand it to the database
(`afterturn.authority`), which refuses to write for a key that was revoked or has expired since, and to write what
belongs to a user, a session or a bank whose erasure was requested since (store/sql/authority.sql).
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from store.errors import AuthorityEnded, ErasedMeanwhile, StoreError

#: Earlier than everything here: the time of what does not say when it was made.
EPOCH = datetime.fromtimestamp(0, UTC)


def read_epoch(value: object, per_second: int = 1) -> datetime:
    """Return the time of an epoch number; EPOCH for what is none: it counts as older than every erasure."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError, OSError):
            return datetime.fromtimestamp(value / per_second, UTC)
    return EPOCH


#: The setting of a transaction that names the authority on which it writes.
SETTING = "afterturn.authority"

#: An authority as the fields of `afterturn.call_authority`.
AuthorityRow = tuple[UUID | None, UUID | None, datetime | None, datetime]


@dataclass(slots=True)
class Authority:
    """The authority of one call: its key, where that is stored here, and when the call began, by the database's clock.

    `user`: the user whose token or key it is. `issued`: when that token was made; an erasure of the user ends it.
    """

    began: datetime
    key: UUID | None = None
    user: UUID | None = None
    issued: datetime | None = None

    def as_row(self) -> AuthorityRow:
        """Return the fields of `afterturn.call_authority`."""
        return self.key, self.user, self.issued, self.began

    def as_setting(self) -> str:
        """Return the text of an `afterturn.call_authority`."""
        fields = (self.key, self.user, self.issued and self.issued.isoformat(), self.began.isoformat())
        return f"({','.join('' if field is None else str(field) for field in fields)})"


#: The authority of the call that is served; None: the service's own work. Tasks of a call share it.
_CURRENT: ContextVar[Authority | None] = ContextVar("authority", default=None)


def begin_call(authority: Authority) -> None:
    """Note the authority of the call that this task serves from here on."""
    _CURRENT.set(authority)


def current_authority() -> Authority | None:
    """Return the authority of the call that is served, None for the service's own work."""
    return _CURRENT.get()


@contextmanager
def act_as_service() -> Iterator[None]:
    """Act for no call within the block: an erasure writes after the authority of its call ended by it."""
    before = _CURRENT.set(None)
    try:
        yield
    finally:
        _CURRENT.reset(before)


def renew_call(now: datetime) -> None:
    """Let the call go on after an erasure that it requested itself: what it writes from now on is meant to stay."""
    if (authority := _CURRENT.get()) is not None:
        authority.began = max(authority.began, now)


def refusal_of_call(outcome: str) -> StoreError | None:
    """Return the error of the outcomes `revoked` and `erased`; None for any other."""
    if outcome == "revoked":
        return AuthorityEnded("this key was revoked, or has expired, while the call was under way: nothing was written")
    if outcome == "erased":
        return ErasedMeanwhile(
            "what this call writes to was erased after the call, or its token, was made: nothing was written"
        )
    return None
