"""The ids of a call's turn for its log line, never names. `afterturn doctor --id` computes them."""

from contextvars import ContextVar
from dataclasses import dataclass
from uuid import UUID

from store import identity


@dataclass(slots=True)
class CallPlace:
    """The ids of a call's project (bank), session and turn, as far as it has named them."""

    project: UUID | None = None
    session: UUID | None = None
    turn: UUID | None = None

    def fields(self) -> dict[str, str]:
        """Return the known ids as fields of a log line."""
        known = {"project": self.project, "session": self.session, "turn": self.turn}
        return {name: str(value) for name, value in known.items() if value is not None}


#: The place of the request that is being served; tasks of a request share it.
CURRENT: ContextVar[CallPlace | None] = ContextVar("call place", default=None)


def note_place(host: UUID, bank: str, session: str, turn: str | None = None) -> None:
    """Note bank (by its whole name), session and turn of the current request."""
    if (place := CURRENT.get()) is None:
        return
    place.project = identity.bank_id(host, bank)
    place.session = identity.session_id(place.project, session)
    place.turn = None if turn is None else identity.turn_id(place.session, turn)
