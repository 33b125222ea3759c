"""What an erasure does to the model: some events become markers, and the rows are what the log says from then on."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, replace

from store.erasure import Kind
from store.log.catalog import Aggregate, EventType
from tests.store.replay.model import Key, Model, Offer

E, A = EventType, Aggregate

#: What a user makes beside units and histories.
MADE = {A.DOC: E.DOC_DELETED, A.DIRECTIVE: E.DIRECTIVE_DELETED, A.REFLECTION: E.REFLECTION_DELETED}


class NothingThere(Exception):
    """There is no such thing to erase."""


@dataclass
class Erasing:
    """One erasure of the model, at `at`."""

    model: Model
    at: int

    def unit(self, bank: str, name: str) -> None:
        """Erase a unit and what was drawn from it."""
        if (A.UNIT.value, bank, name) not in self.model.rows:
            raise NothingThere
        self._units(bank, {name})

    def session(self, bank: str, name: str) -> None:
        """End a history, erase it and its units."""
        key = (A.SESSION.value, bank, name)
        if key not in self.model.rows:
            raise NothingThere
        if self.model.rows[key].active:
            self._end(key, E.SESSION_DELETED)
        said_there = {k[2] for k in self.model.rows if k[:2] == (A.UNIT.value, bank) and k[2] == name}
        self._units(bank, said_there)
        self._erase(lambda offer: offer.key == key)

    def user(self, user: str) -> None:
        """Erase what a user said and made, in all banks."""
        theirs = [offer for offer in self.model.events if offer.user == user]
        if not theirs:
            raise NothingThere
        for bank in sorted({offer.bank for offer in theirs}):
            here = [offer for offer in theirs if offer.bank == bank and not offer.kind.endswith("DeletedEvent")]
            for kind, end in MADE.items():
                for key in sorted({offer.key for offer in here if offer.aggregate is kind and not offer.erased}):
                    self._end(key, E.DOC_UPDATED if self._others_stand_in(key, user) else end)
                    self._erase(lambda offer, key=key: offer.key == key and not offer.kind.endswith("DeletedEvent"))  # type: ignore[misc]  # a bound default
            self._units(bank, {offer.parts[0] for offer in here if offer.aggregate is A.UNIT and not offer.erased})
            ids = {offer.id for offer in here if offer.aggregate is A.SESSION}
            spoken_in = {o.parts[0] for o in here if o.id in ids or (o.kind is E.UNIT_RETAINED and not o.erased)}
            self._erase(lambda offer, ids=ids: offer.id in ids)  # type: ignore[misc]  # a bound default
            for name in sorted(spoken_in):
                self._end_session((A.SESSION.value, bank, name), user)

    def _end_session(self, key: Key, user: str) -> None:
        """End a session of which only this user's events, and no message, say something."""
        left = [offer for offer in self.model.events if offer.key == key and not offer.erased]
        unit = self.model.rows.get((A.UNIT.value, *key[1:]))
        if left and all(offer.user == user for offer in left) and not (unit and unit.said):
            if self.model.rows[key].active:
                self._end(key, E.SESSION_DELETED)
            self._erase(lambda offer: offer.key == key)

    def _others_stand_in(self, key: Key, user: str) -> bool:
        """Say whether a document has living units of somebody else."""
        authors = {offer.key: offer.user for offer in self.model.events if offer.user}
        return key[0] == A.DOC.value and any(
            row.active and row.doc == key[2] and authors[unit] != user
            for unit, row in self.model.rows.items()
            if unit[:2] == (A.UNIT.value, key[1])
        )

    def bank(self, bank: str) -> None:
        """End a bank and erase all that was ever in it."""
        key = (A.BANK.value, bank)
        if key not in self.model.rows:
            raise NothingThere
        if self.model.rows[key].active:
            self._end(key, E.BANK_DELETED)
        self._erase(lambda offer: offer.bank == bank)

    def _units(self, bank: str, seeds: set[str]) -> None:
        rows = self.model.rows
        units = {k[2]: row for k, row in rows.items() if k[:2] == (A.UNIT.value, bank)}
        found = set(seeds)
        while more := {name for name, row in units.items() if row.source in found and name not in found}:
            found |= more
        found = {name for name in found if self._says_something((A.UNIT.value, bank, name))}
        for name in sorted(found):
            self._end((A.UNIT.value, bank, name), E.UNIT_DELETED)
        gone: set[Key] = {(A.UNIT.value, bank, name) for name in found}
        gone |= {k for k in rows if k[:2] == (A.LINK.value, bank) and found & set(k[2:])}
        named = {k for k in rows if k[:2] == (A.UNIT_ENTITY.value, bank) and k[2] in found}
        gone |= named | self._orphans(bank, {k[3] for k in named}) | self._documents(bank, found)
        first = {
            name: min(n for n, offer in enumerate(self.model.events) if offer.key == (A.UNIT.value, bank, name))
            for name in found
        }
        late = {
            offer.id
            for n, offer in enumerate(self.model.events)
            if offer.kind is E.SESSION_COMPACTED and offer.bank == bank and n > first.get(offer.parts[0], n)
        }
        self._erase(lambda offer: offer.key in gone or offer.id in late)

    def _orphans(self, bank: str, entities: Iterable[str]) -> set[Key]:
        """End the entities of these that no living unit names."""
        named = {k[3] for k, row in self.model.rows.items() if k[:2] == (A.UNIT_ENTITY.value, bank) and row.active}
        keys = {(A.ENTITY.value, bank, name) for name in set(entities) - named}
        for key in sorted(ending := {key for key in keys if self._says_something(key)}):
            self._end(key, E.ENTITY_DELETED)
        return set(ending)

    def _documents(self, bank: str, units: Iterable[str]) -> set[Key]:
        """Take the text of the documents that these units are parts of."""
        docs = {self.model.rows[A.UNIT.value, bank, name].doc for name in units} - {None}
        keys = {(A.DOC.value, bank, str(name)) for name in docs}
        for key in sorted(keys := {key for key in keys if self.model.rows[key].said is not None}):
            if self.model.rows[key].active:
                self._end(key, E.DOC_UPDATED)
        return set(keys)

    def _says_something(self, key: Key) -> bool:
        return any(offer.key == key and not offer.erased for offer in self.model.events)

    def _end(self, key: Key, kind: EventType) -> None:
        """Append a marker behind the last event of an aggregate."""
        version = max(self.model.log[key]) + 1
        marker = Offer(f"{kind} {key} {version}", kind, key[1], key[2:], version, "", self.at, user="", erased=True)
        self.model = self.model.append([marker])

    def _erase(self, which: Callable[[Offer], bool]) -> None:
        events = [replace(offer, erased=True) if which(offer) else offer for offer in self.model.events]
        self.model = deepcopy(self.model)
        self.model.events, self.model.rows = events, {}
        for offer in events:
            self.model.project(offer)


def erased(model: Model, kind: Kind, bank: str, name: str, at: int) -> Model:
    """Return the model after an erasure; raises NothingThere."""
    erasing = Erasing(model, at)
    match kind:
        case Kind.USER:
            erasing.user(name)
        case Kind.BANK:
            erasing.bank(bank)
        case Kind.SESSION:
            erasing.session(bank, name)
        case Kind.UNIT:
            erasing.unit(bank, name)
    return erasing.model
