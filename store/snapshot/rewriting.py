"""Derives the ids of a snapshot's events anew, for another tenant or other names, and rewrites every reference. Pure.

Names are the chain of ids: tenant, bank, session, turn, unit. An id that follows from a name in the source follows from
the same name, or from the one that a rule puts in its place, in the target; so a turn that is sent again there has the
ids of the one that came. An id that follows from no name is derived from the old id. Content is never changed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID, uuid5

from store import identity
from store.derived.facts import MANY_VALUED, Identity
from store.derived.reflections import list_id, reflection_id
from store.derived.said_facts import name_fact_unit
from store.log.catalog import ID_FIELDS, Aggregate, aggregate_id
from store.memory.documents import chunk_id, doc_id
from store.snapshot.events import ReadEvent
from store.snapshot.replacements import Replaced, Replacements
from store.tenancy.spaces import parse_space

#: Data fields that hold the id of a thing of the bank.
THINGS = frozenset(
    (
        *("docId", "unitId", "entityId", "fromUnitId", "toUnitId", "directiveId", "reflectionId", "sessionId"),
        "turnId",
    )
)
#: Data fields that hold the id of a user or an agent.
PEOPLE = frozenset({"userId", "agentDefId"})
#: Data fields that hold a list of ids of units, and one of messages that name their units.
UNITS, MESSAGES = "sourceMemoryIds", "messages"
#: Data fields that hold a name of the chain, and the field of the rules that replace it.
NAMES: Mapping[str, Replaced] = {
    "sessionName": Replaced.SESSION,
    "turnName": Replaced.TURN,
    "userName": Replaced.USER,
    "laidDownBy": Replaced.USER,
}
#: How often a memory or document may have begun again, and messages of a turn that a fact may be of.
MOST_LIVES, MOST_ORDINALS = 64, 256
#: An id that no name gives follows from the old one; no name holds a line break.
_UNNAMED = "imported\n{}"


class UnnamedBank(Exception):
    """The bank of an event is named by no event of the snapshot that came before it."""


class ClashingName(Exception):
    """Two things of the snapshot have one name in the target: one of them is refused."""


@dataclass(slots=True)
class Learned:
    """What a batch tells of ids, by the source's: those of things, each another one, and those of users and agents."""

    things: dict[UUID, UUID] = field(default_factory=dict)
    people: dict[UUID, UUID] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StatedFact:
    """A fact of the source: reflections and lists of its identity have ids that follow from it, once it is folded."""

    bank: UUID
    fact_id: str
    subject: str = field(repr=False)
    key: str = field(repr=False)


class Rewriting:
    """Rewrites events of one tenant for another; `known` are the target's ids by the source's."""

    def __init__(self, source: UUID, host: UUID, rules: Replacements, known: Mapping[UUID, UUID]) -> None:
        """Keep the tenants, the rules, and what is known of ids."""
        self._source, self._host, self._rules = source, host, rules
        self._known = dict(known)
        self.learned = Learned()
        self.clashes: frozenset[UUID] = frozenset()
        self._rewriters: Mapping[str, Callable[[UUID, Any], Any]] = {
            **dict.fromkeys(THINGS, lambda bank, value: str(self._thing(bank, UUID(str(value))))),
            "userId": lambda _bank, value: str(self._person(UUID(str(value)))),
            "agentDefId": lambda _bank, value: str(self._agent(UUID(str(value)))),
            **{name: partial(self._rename, of) for name, of in NAMES.items()},
            "bankName": lambda _bank, value: self._rules.rename_bank(str(value)),
            UNITS: lambda bank, value: [str(self._thing(bank, UUID(str(one)))) for one in value],
            MESSAGES: lambda bank, value: [self._rewrite_message(bank, one) for one in value],
        }
        self._learn_person(identity.user_id(source, None), identity.user_id(host, None))

    def learn_people(self, names: Iterable[str]) -> None:
        """Learn the ids of users and agents of these names."""
        for name in names:
            user, agent = (self._rules.rename(one, name) for one in (Replaced.USER, Replaced.AGENT))
            self._learn_person(identity.user_id(self._source, name), identity.user_id(self._host, user))
            self._learn_person(identity.agent_id(self._source, name), identity.agent_id(self._host, agent))

    def learn(self, events: Sequence[ReadEvent]) -> None:
        """Learn the ids of what these events name."""
        for event in events:
            self._learn_bank(event)
            self.learn_people(str(event.data[name]) for name in ("userName", "laidDownBy") if event.data.get(name))
        for event in events:
            if event.bank in self._known and "sessionId" in event.data and "docId" not in event.data:
                self._learn_session(event)
        for event in events:
            # A session whose name is erased keeps the id that it gets first, even if it is named later.
            if event.bank in self._known and "sessionId" in event.data and "docId" not in event.data:
                session = UUID(str(event.data["sessionId"]))
                self._learn(session, self._thing(event.bank, session))
        for event in events:
            if event.bank in self._known:
                self._learn_things(event)

    def list_facts(self, events: Sequence[ReadEvent]) -> list[StatedFact]:
        """Return the facts of these events; `learn_identities` takes them back when their texts are folded."""
        found = list[StatedFact]()
        for event in events:
            told = event.data.get("metadata")
            if event.bank not in self._known or not isinstance(told, Mapping) or "fact_id" not in told:
                continue
            fact_id = str(told["fact_id"])
            key = told.get("value") if fact_id in MANY_VALUED else told.get("key")
            found.append(StatedFact(event.bank, fact_id, str(told.get("subject") or event.user), str(key or "")))
        return found

    def learn_identities(self, folded: Iterable[StatedFact]) -> None:
        """Learn the ids of the reflections and lists that facts of these identities have."""
        for one in folded:
            bank, subject = self._known[one.bank], self._name_subject(one.subject)
            was, becomes = Identity(one.fact_id, one.subject, one.key), Identity(one.fact_id, subject, one.key)
            self._learn(reflection_id(one.bank, was), reflection_id(bank, becomes))
            self._learn(list_id(one.bank, one.fact_id, one.subject), list_id(bank, one.fact_id, subject))

    def rewrite(self, event: ReadEvent) -> ReadEvent:
        """Return an event of the source as the target's. Raises UnnamedBank, ClashingName."""
        if event.bank not in self._known:
            raise UnnamedBank
        bank = self._find(event.bank)
        data = {name: self._rewrite_field(event.bank, name, value) for name, value in event.data.items()}
        aggregate = Aggregate(event.aggregate)
        parts = tuple(data.get(name) for name in ID_FIELDS[aggregate])
        subject = aggregate_id(self._host, bank, *parts)
        id_, user = self._derive_event_id(event, subject, data), self._person(event.user)
        return event._replace(id=str(id_), subject=subject, bank=bank, user=user, data=data)

    def _rewrite_field(self, bank: UUID, name: str, value: Any) -> Any:
        rewrite = self._rewriters.get(name)
        return value if value is None or rewrite is None else rewrite(bank, value)

    def _rename(self, of: Replaced, _bank: UUID, name: Any) -> str:
        return self._rules.rename(of, str(name))

    def _rewrite_message(self, bank: UUID, message: Mapping[str, Any]) -> dict[str, Any]:
        unit = message.get("unitId")
        return {**message, **({"unitId": str(self._thing(bank, UUID(str(unit))))} if unit else {})}

    def _derive_event_id(self, event: ReadEvent, subject: str, data: Mapping[str, Any]) -> UUID:
        """Return the id of the target's event: from its version, or its turn, where the source's follows from that."""
        nths = [(str(event.version), str(event.version))]
        if event.data.get("turnId"):
            nths.append((str(event.data["turnId"]), str(data["turnId"])))
        for was, becomes in nths:
            if event.id == str(identity.event_id(self._source, event.subject, was)):
                return identity.event_id(self._host, subject, becomes)
        return uuid5(self._host, _UNNAMED.format(event.id))

    def _learn(self, old: UUID, new: UUID) -> None:
        if old not in self._known:
            self._known[old] = self.learned.things[old] = new

    def _learn_person(self, old: UUID, new: UUID) -> None:
        if old not in self._known:
            self._known[old] = self.learned.people[old] = new

    def _learn_bank(self, event: ReadEvent) -> None:
        name = event.data.get("bankName")
        if not name:
            return
        self._learn(event.bank, identity.bank_id(self._host, self._rules.rename_bank(str(name))))
        space = parse_space(str(name))
        self.learn_people(one for one in (space.user, space.agent) if one)

    def _learn_session(self, event: ReadEvent) -> None:
        session, name, memory = (event.data.get(one) for one in ("sessionId", "sessionName", "turnName"))
        old, bank = UUID(str(session)), self._known[event.bank]
        if name and old == identity.session_id(event.bank, str(name)):
            renamed = self._rules.rename(Replaced.SESSION, str(name))
            self._learn(old, identity.session_id(bank, renamed))
        elif memory and old == identity.memory_session(event.bank, str(memory)):
            renamed = self._rules.rename(Replaced.TURN, str(memory))
            self._learn(old, identity.memory_session(bank, renamed))

    def _learn_things(self, event: ReadEvent) -> None:
        data, bank = event.data, self._known[event.bank]
        if digest := data.get("contentHash"):
            old = UUID(str(data["docId"]))
            lives = (n for n in range(MOST_LIVES) if old == doc_id(event.bank, str(digest), n))
            if (life := next(lives, None)) is not None:
                self._learn(old, doc_id(bank, str(digest), life))
        if data.get("turnId") and data.get("turnName") and data.get("sessionId"):
            self._learn_turn(event)
        metadata = data.get("metadata")
        told: Mapping[str, Any] = metadata if isinstance(metadata, Mapping) else {}
        if "unitId" in data and data.get("turnId"):
            self._learn_unit(event, told)
        if "entityId" in data and "normalised" in told:
            named = str(told["normalised"])
            if str(data["entityId"]) == str(identity.entity_id(event.bank, named)):
                self._learn(UUID(str(data["entityId"])), identity.entity_id(bank, named))
        if "directiveId" in data and "name" in data:
            old = UUID(str(data["directiveId"]))
            if old == identity.directive_id(event.bank, str(data["name"])):
                self._learn(old, identity.directive_id(bank, str(data["name"])))

    def _learn_turn(self, event: ReadEvent) -> None:
        session, old, name = (event.data[one] for one in ("sessionId", "turnId", "turnName"))
        of, turn = UUID(str(session)), UUID(str(old))
        into = self._thing(event.bank, of)
        lives = range(MOST_LIVES) if of == identity.memory_session(event.bank, str(name)) else ()
        for was in (str(name), *map(str, lives)):
            if turn == identity.turn_id(of, was):
                becomes = self._rules.rename(Replaced.TURN, was) if was == name else was
                self._learn(turn, identity.turn_id(into, becomes))
                break
        for n, message in enumerate(event.data.get(MESSAGES, ())):
            if str(message.get("unitId")) == str(identity.unit_id(turn, n)):
                self._learn(identity.unit_id(turn, n), identity.unit_id(self._thing(event.bank, turn), n))

    def _learn_unit(self, event: ReadEvent, told: Mapping[str, Any]) -> None:
        unit, turn = UUID(str(event.data["unitId"])), UUID(str(event.data["turnId"]))
        ordinal, into = event.data.get("ordinal"), self._thing(event.bank, turn)
        if unit in self._known:
            return
        if ordinal is not None:
            for derive in (identity.unit_id, chunk_id):
                if unit == derive(turn, int(ordinal)):
                    self._learn(unit, derive(into, int(ordinal)))
        elif "fact_id" in told:
            slug, key, value, version = (str(told.get(name, "")) for name in ("slug", "key", "value", "extractor"))
            for n in range(MOST_ORDINALS):
                if unit == name_fact_unit(turn, n, (slug, key, value), version):
                    self._learn(unit, name_fact_unit(into, n, (slug, key, value), version))
                    break

    def _name_subject(self, subject: str) -> str:
        """Return the subject of a fact; that of a fact of a user alone is the user's id."""
        try:
            return str(self._person(UUID(subject)))
        except ValueError:
            return subject

    def _find(self, old: UUID) -> UUID:
        if old in self.clashes:
            raise ClashingName
        return self._known[old]

    def _thing(self, bank: UUID, old: UUID) -> UUID:
        return self._find(old) if old in self._known else uuid5(self._known[bank], _UNNAMED.format(old))

    def _person(self, old: UUID) -> UUID:
        found = self._rules.ids.get(old) or self._known.get(old)
        return found or identity.user_id(self._host, str(old))

    def _agent(self, old: UUID) -> UUID:
        found = self._rules.ids.get(old) or self._known.get(old)
        return found or identity.agent_id(self._host, str(old))
