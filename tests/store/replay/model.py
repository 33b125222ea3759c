"""The nine aggregates in plain Python, one event after the other: what every projection must come to.

What an erasure does to them stands in `erasing.py`.
"""

from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from store.log.catalog import EVENTS, Aggregate, EventType
from tests.store.log.samples import BEGINNINGS

E, A = EventType, Aggregate
Key = tuple[str, ...]


class RefusedByModel(Exception):
    """The log would not take this."""


@dataclass(frozen=True)
class Offer:
    """One event as the machine offers it, by `user`; `parts` are names.

    A unit is said to come from the document `doc` and from the unit `source`, and belongs to the session of its own
    name. What is `erased` says nothing any more.
    """

    id: str
    kind: EventType
    bank: str
    parts: tuple[str, ...]
    version: int
    text: str
    at: int
    doc: str | None = None
    source: str | None = None
    user: str = "ana"
    erased: bool = False

    def __deepcopy__(self, _: dict[int, Any]) -> "Offer":
        return self

    @property
    def aggregate(self) -> Aggregate:
        return EVENTS[EventType(self.kind)].aggregate

    @property
    def key(self) -> Key:
        return (self.aggregate.value, self.bank, *self.parts)


@dataclass
class Row:
    """What stands in a table; `ended` is when a mention was unlinked."""

    version: int
    active: bool
    said: Any
    doc: str | None = None
    source: str | None = None
    ended: int | None = None
    first_seq: int = 0
    messages: list[str | None] = field(default_factory=list)


@dataclass
class Model:
    """The log and the projections."""

    events: list[Offer] = field(default_factory=list)
    log: dict[Key, dict[int, str]] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    rows: dict[Key, Row] = field(default_factory=dict)

    def append(self, offers: list[Offer]) -> "Model":
        """Return the model after all of them; raises RefusedByModel, and then nothing has happened."""
        after = deepcopy(self)
        known = set(self.ids)
        for offer in offers:
            if offer.id not in known:
                known.add(offer.id)
                after._take(offer)
        return after

    def _take(self, offer: Offer) -> None:
        versions = self.log.setdefault(offer.key, {})
        if offer.version <= max(versions, default=0):
            raise RefusedByModel
        if offer.kind not in BEGINNINGS and offer.version - 1 not in versions:
            raise RefusedByModel
        versions[offer.version] = offer.id
        self.ids.add(offer.id)
        self.events.append(offer)
        self.project(offer)

    def project(self, offer: Offer) -> None:
        """Bring the rows up to one more event of the log."""
        row = self.rows.get(offer.key)
        if offer.kind in BEGINNINGS:
            self._begin(offer, row)
        elif row is None:
            raise RefusedByModel
        elif row.version < offer.version:
            row.version = offer.version
            self._change(offer, row)

    def _begin(self, offer: Offer, row: Row | None) -> None:
        if row is not None and (row.active or row.version >= offer.version):
            row.version = max(row.version, offer.version)
            return
        parents = [self.rows.get(key) for key in self._parents(offer)]
        if None in parents:
            raise RefusedByModel
        alive = all(parent is not None and parent.active for parent in parents)
        new = Row(offer.version, alive, said(offer), offer.doc, offer.source, None if alive else offer.at)
        if offer.aggregate is A.SESSION:
            earlier = row.messages if row else []
            new = replace(new, first_seq=len(earlier), messages=[*earlier, words(offer)])
        self.rows[offer.key] = new

    def _parents(self, offer: Offer) -> list[Key]:
        bank = (A.BANK.value, offer.bank)
        match offer.aggregate:
            case A.BANK:
                return []
            case A.UNIT:
                return [bank, *([(A.DOC.value, offer.bank, offer.doc)] if offer.doc else [])]
            case A.UNIT_ENTITY:
                unit, entity = offer.parts
                return [(A.UNIT.value, offer.bank, unit), (A.ENTITY.value, offer.bank, entity)]
            case A.LINK:
                return [(A.UNIT.value, offer.bank, unit) for unit in offer.parts]
            case _:
                return [bank]

    def _change(self, offer: Offer, row: Row) -> None:
        match offer.kind:
            case E.SESSION_APPENDED:
                row.messages += [words(offer), None if offer.erased else "and more"]
            case E.SESSION_COMPACTED:
                row.first_seq = len(row.messages)
                row.messages.append(words(offer))
            case E.UNIT_ENTITY_UNLINKED:
                self._end(offer.key, offer.at)
            case kind if kind.endswith("DeletedEvent"):
                self._end(offer.key, offer.at)
            case _:
                if offer.doc and (A.DOC.value, offer.bank, offer.doc) not in self.rows:
                    raise RefusedByModel
                row.said, row.doc, row.source = said(offer), offer.doc, offer.source

    def _end(self, key: Key, at: int) -> None:
        """End one thing and all that hangs on it."""
        row = self.rows[key]
        row.active = False
        row.ended = at if row.ended is None else row.ended
        for other, below in self.rows.items():
            if below.active and other != key and self._hangs_on(other, below, key):
                self._end(other, at)

    def _hangs_on(self, other: Key, below: Row, key: Key) -> bool:
        if other[1] != key[1]:
            return False
        match key[0]:
            case A.BANK:
                return True
            case A.DOC:
                return other[0] == A.UNIT and below.doc == key[2]
            case A.UNIT:
                mention = other[0] == A.UNIT_ENTITY and other[2] == key[2]
                return mention or (other[0] == A.LINK and key[2] in other[2:])
            case A.ENTITY:
                return other[0] == A.UNIT_ENTITY and other[3] == key[2]
            case _:
                return False


def said(offer: Offer) -> Any:
    """What the row's own column says after the event."""
    match offer.aggregate:
        case A.LINK if offer.erased:
            return 1
        case A.LINK:
            return 0.5 if offer.kind is E.LINK_CREATED else 0.75
        case A.UNIT_ENTITY | A.SESSION:
            return None
        case A.DOC:
            return words(offer)
        case _:
            return words(offer) or ""


def words(offer: Offer) -> str | None:
    """What an event said, None when that is erased."""
    return None if offer.erased else offer.text
