"""Generates the history of a bank: consistent events of all families, the same for the same seed."""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from deploy.lab.bench.talk import make_sentence
from store import identity
from store.log.catalog import EventType
from store.log.envelope import Origin, build_offer

Event = dict[str, Any]

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
#: Aggregates of a kind that may still change; older ones do not, so that memory stays bounded.
LIVE_AGGREGATES = 400
#: Steps after which another bank begins, ends and begins again.
ARCHIVE_EVERY = 5_000
LINK_TYPES = ("temporal", "semantic", "entity", "causes", "caused_by", "enables", "prevents")
E = EventType


@dataclass(slots=True)
class LiveAggregate:
    """An aggregate that may change: the parts of its id by wire name, its version, the aggregates it depends on."""

    key: Mapping[str, Any]
    version: int = 1
    alive: bool = True
    hangs_on: tuple["LiveAggregate", ...] = ()
    joined: set[UUID] = field(default_factory=set)

    @property
    def usable(self) -> bool:
        """Whether this aggregate and those it depends on exist."""
        return self.alive and all(parent.alive for parent in self.hangs_on)


@dataclass(frozen=True, slots=True)
class EventFamily:
    """The event types of an aggregate's life, and a function for its fields besides the id."""

    begins: EventType
    goes_on: tuple[EventType, ...]
    ends: EventType
    state: Callable[[random.Random, datetime], dict[str, Any]]


FAMILIES: Mapping[str, EventFamily] = {
    "doc": EventFamily(
        E.DOC_CREATED, (E.DOC_UPDATED,), E.DOC_DELETED,
        lambda chance, _: {"originalText": make_sentence(chance), "contentHash": f"{chance.getrandbits(128):032x}"},
    ),
    "unit": EventFamily(
        E.UNIT_RETAINED, (E.UNIT_UPDATED,), E.UNIT_DELETED,
        lambda chance, at: {"content": make_sentence(chance), "factType": "world", "eventDate": at.isoformat(),
                            "metadata": {}, "proofCount": 1},
    ),
    "entity": EventFamily(
        E.ENTITY_CREATED, (E.ENTITY_UPDATED,), E.ENTITY_DELETED,
        lambda chance, _: {"canonicalName": f"name {chance.randint(1, 9999)}", "metadata": {}},
    ),
    "mention": EventFamily(
        E.UNIT_ENTITY_LINKED, (), E.UNIT_ENTITY_UNLINKED,
        lambda chance, _: {"mentions": chance.randint(1, 3)},
    ),
    "link": EventFamily(
        E.LINK_CREATED, (E.LINK_UPDATED,), E.LINK_DELETED,
        lambda chance, _: {"weight": chance.randint(1, 100) / 100},
    ),
    "directive": EventFamily(
        E.DIRECTIVE_CREATED, (E.DIRECTIVE_UPDATED,), E.DIRECTIVE_DELETED,
        lambda chance, _: {"name": "tone", "content": make_sentence(chance), "priority": chance.randint(0, 9)},
    ),
    "reflection": EventFamily(
        E.REFLECTION_CREATED, (E.REFLECTION_UPDATED,), E.REFLECTION_DELETED,
        lambda chance, _: {"content": make_sentence(chance), "sourceMemoryIds": []},
    ),
    "session": EventFamily(
        E.SESSION_CREATED, (E.SESSION_APPENDED, *[E.SESSION_APPENDED] * 18, E.SESSION_COMPACTED), E.SESSION_DELETED,
        lambda chance, at: {
            "messages": [{"role": "user", "content": make_sentence(chance), "timestamp": at.isoformat()}]
        },
    ),
}  # fmt: skip

#: Weights by which an aggregate of each kind begins, changes or ends.
STEPS: Mapping[tuple[str, str], int] = {
    ("unit", "begins"): 300, ("unit", "goes_on"): 10, ("unit", "ends"): 2,
    ("mention", "begins"): 250, ("mention", "ends"): 4,
    ("entity", "begins"): 100, ("entity", "goes_on"): 5, ("entity", "ends"): 1,
    ("link", "begins"): 120, ("link", "goes_on"): 5, ("link", "ends"): 3,
    ("session", "begins"): 10, ("session", "goes_on"): 150, ("session", "ends"): 1,
    ("doc", "begins"): 20, ("doc", "goes_on"): 3, ("doc", "ends"): 1,
    ("directive", "begins"): 4, ("directive", "goes_on"): 2, ("directive", "ends"): 1,
    ("reflection", "begins"): 8, ("reflection", "goes_on"): 2, ("reflection", "ends"): 1,
}  # fmt: skip


class History:
    """The history of a bank; `events` continues where it stopped, in bounded memory."""

    def __init__(self, host: UUID, bank: str, seed: int) -> None:
        self._host, self._name = host, bank
        self._bank = identity.bank_id(host, bank)
        self._user = identity.user_id(host, None)
        self._chance = random.Random(f"{bank}/{seed}")  # noqa: S311 - a seed, not a secret
        self._live: dict[str, list[LiveAggregate]] = {kind: [] for kind in FAMILIES}
        self._told = 0
        self._endless = self._yield_all()

    def events(self, count: int) -> Iterator[Event]:
        """Yield the next `count` events, as the log's functions take them."""
        for _ in range(count):
            yield next(self._endless)

    def _yield_all(self) -> Iterator[Event]:
        yield self._build_event(self._bank, E.BANK_CREATED, {}, {"bankName": self._name})
        steps, weights = list(STEPS), list(STEPS.values())
        step = 0
        while True:
            if step % ARCHIVE_EVERY == ARCHIVE_EVERY // 10:
                yield from self._archive_bank(step // ARCHIVE_EVERY)
            kind, what = self._chance.choices(steps, weights)[0]
            made = self._begin_aggregate(kind) if what == "begins" else self._touch_aggregate(kind, ends=what == "ends")
            step += 1
            if made is not None:
                yield made

    def _begin_aggregate(self, kind: str) -> Event | None:
        thing = self._create_aggregate(kind)
        if thing is None:
            return None
        live, family = self._live[kind], FAMILIES[kind]
        if len(live) < LIVE_AGGREGATES:
            live.append(thing)
        else:
            live[self._chance.randrange(LIVE_AGGREGATES)] = thing
        named = {"sessionName": f"session {self._told}"} if kind == "session" else {}
        return self._build_event(
            self._bank, family.begins, thing.key, {**named, **family.state(self._chance, self._now)}
        )

    def _create_aggregate(self, kind: str) -> LiveAggregate | None:
        if kind == "mention":
            return self._join_aggregates("unit", "entity", lambda unit, entity: {**unit, **entity})
        if kind == "link":
            link_type = self._chance.choice(LINK_TYPES)
            return self._join_aggregates(
                "unit", "unit",
                lambda a, b: {"fromUnitId": a["unitId"], "toUnitId": b["unitId"], "linkType": link_type},
            )  # fmt: skip
        return LiveAggregate({f"{kind}Id": str(UUID(int=self._chance.getrandbits(128), version=4))})

    def _join_aggregates(
        self, left: str, right: str, key: Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]
    ) -> LiveAggregate | None:
        """Return an aggregate that joins two existing ones not joined before; None when the choice does not fit."""
        one, other = self._choose_aggregate(left), self._choose_aggregate(right)
        if one is None or other is None or one is other:
            return None
        place = UUID(next(iter(other.key.values())))
        if place in one.joined:
            return None
        one.joined.add(place)
        return LiveAggregate(key(one.key, other.key), hangs_on=(one, other))

    def _touch_aggregate(self, kind: str, *, ends: bool) -> Event | None:
        thing, family = self._choose_aggregate(kind), FAMILIES[kind]
        if thing is None:
            return None
        thing.version += 1
        if ends:
            thing.alive = False
            return self._build_event(self._bank, family.ends, thing.key, {}, thing.version)
        state = family.state(self._chance, self._now)
        return self._build_event(self._bank, self._chance.choice(family.goes_on), thing.key, state, thing.version)

    def _choose_aggregate(self, kind: str) -> LiveAggregate | None:
        """Return a random aggregate that may change, and drop ended ones on the way; None when there is none."""
        live = self._live[kind]
        while live:
            at = self._chance.randrange(len(live))
            if live[at].usable:
                return live[at]
            live[at] = live[-1]
            live.pop()
        return None

    def _archive_bank(self, nth: int) -> Iterator[Event]:
        """Yield the events of another bank that begins, changes, ends with all its content, and begins again."""
        name = f"{self._name}/archive-{nth}"
        bank = identity.bank_id(self._host, name)
        yield self._build_event(bank, E.BANK_CREATED, {}, {"bankName": name})
        for kind in ("doc", "unit", "entity", "directive"):
            thing = LiveAggregate({f"{kind}Id": str(UUID(int=self._chance.getrandbits(128), version=4))})
            yield self._build_event(
                bank, FAMILIES[kind].begins, thing.key, FAMILIES[kind].state(self._chance, self._now)
            )
        yield self._build_event(
            bank, E.BANK_UPDATED, {}, {"bankName": name, "background": make_sentence(self._chance)}, 2
        )
        yield self._build_event(bank, E.BANK_DELETED, {}, {}, 3)
        yield self._build_event(bank, E.BANK_CREATED, {}, {"bankName": name}, 4)

    @property
    def _now(self) -> datetime:
        return BEGIN + timedelta(seconds=self._told)

    def _build_event(
        self, bank: UUID, event: EventType, key: Mapping[str, Any], state: Mapping[str, Any], version: int = 1
    ) -> Event:
        self._told += 1
        origin = Origin(self._host, bank, self._user, self._now)
        return build_offer(origin, event, tuple(key.values()), {**key, **state}, nth=str(version))
