"""Random histories against the model: whatever happens in whatever order, the tables and their replay agree with it.

Events of all kinds, duplicates, stale versions, old events delivered again, ends, second lives, erasures. In the end
the log and its tables hold what the model says and nothing that was erased, and derived state equals its rebuild.
"""

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from sqlalchemy import text

from store import identity
from store.database import Database
from store.derived import bank_state, locks
from store.derived.postings import rebuild_words
from store.erasure import Erasures, ErasureTarget, Kind
from store.errors import EventRefused, NotFound
from store.log.append import append_events
from store.log.bulk import append_bulk
from store.log.catalog import EVENTS, ID_FIELDS, Aggregate, EventType
from store.log.envelope import Origin, build_command
from store.replay import ReplayScope, verify_log
from tests.servers import TestPostgres
from tests.store.conftest import new_host, settings_of
from tests.store.derived_rows import read_contents
from tests.store.log.samples import named, sample
from tests.store.replay.erasing import NothingThere, erased
from tests.store.replay.model import Model, Offer, RefusedByModel
from tests.store.replay.rows import SAID, STATE, TABLES, expected, meant, says
from tests.workers.loops import LoopThread, loop_thread

A = Aggregate
START = datetime(2026, 3, 1, tzinfo=UTC)
NAMES, USERS = ("a", "b"), ("ana", "bob")
#: What is asked for by name; an erasure by age is of turns, and here are none.
KINDS = (Kind.UNIT, Kind.SESSION, Kind.USER, Kind.BANK)
#: Most commands are those that fit; the others are stale, taken, or come before their time.
STEPS = (1, 1, 1, 1, 1, 1, 1, 0, -1, 2)

#: Kind, bank, two names, step of the version, document, source, user, and whether it is offered though it does not fit.
CHOICES: tuple[Sequence[Any], ...] = (
    tuple(EventType), "xy", NAMES, NAMES, STEPS, (None, None, *NAMES), (None, None, *NAMES), USERS,
    (False,) * 19 + (True,),
)  # fmt: skip
commands = st.tuples(*map(st.sampled_from, CHOICES))


#: What every history begins with: without it, most of what is drawn would belong to nobody.
FAMILY = (
    (EventType.BANK_CREATED, "a"),
    *(
        (kind, name)
        for kind in (EventType.DOC_CREATED, EventType.UNIT_RETAINED, EventType.ENTITY_CREATED)
        for name in NAMES
    ),
    (EventType.SESSION_CREATED, "a"),
)


class LogMachine(RuleBasedStateMachine):
    """Appends random events, one by one, in batches and in bulk, and delivers old ones again."""

    loop: LoopThread
    database: Database
    postgres: TestPostgres

    @initialize()
    def begin(self) -> None:
        self.host: UUID = self.loop.run(new_host(self.database))
        self.model = Model()
        self.offers: list[Offer] = []
        family = [(kind, bank, name, name, 1, None, None, "ana", False) for bank in "xy" for kind, name in FAMILY]
        self.append(family, bulk=False, batch=2)

    @rule(drawn=st.lists(commands, min_size=6, max_size=16), bulk=st.booleans(), batch=st.integers(3, 9))
    def command(self, drawn: list[Any], bulk: bool, batch: int) -> None:  # noqa: FBT001 - hypothesis hands it over so
        self.append(drawn, bulk=bulk, batch=batch)

    def append(self, drawn: list[Any], *, bulk: bool, batch: int) -> None:
        offers = self._offers(drawn)
        chunks = [offers[n : n + batch] for n in range(0, len(offers), batch)] if bulk else [offers]
        refused = False
        for chunk in chunks:
            if not refused:
                try:
                    self.model = self.model.append(chunk)
                except RefusedByModel:
                    refused = True
        self.offers += offers
        events = [self._event(offer) for offer in offers]
        try:
            self.loop.run(self._bulk(events, batch) if bulk else self._append(events))
        except EventRefused:
            assert refused, "the log refused what the model takes"
        else:
            assert not refused, "the log took what the model refuses"

    @rule(kind=st.sampled_from(KINDS), bank=st.sampled_from("xy"), name=st.sampled_from(NAMES))
    def erase(self, kind: Kind, bank: str, name: str) -> None:
        name = dict(zip(NAMES, USERS, strict=True))[name] if kind is Kind.USER else name
        try:
            self.model = erased(self.model, kind, bank, name, len(self.offers))
        except NothingThere:
            with pytest.raises(NotFound):
                self.loop.run(self._erase(kind, bank, name))
        else:
            self.loop.run(self._erase(kind, bank, name))

    @rule(bank=st.sampled_from("xy"))
    def count(self, bank: str) -> None:
        """The projection stage comes by."""
        self.loop.run(self._count(identity.bank_id(self.host, bank)))

    @rule(picked=st.lists(st.integers(0, 10_000), min_size=1, max_size=6))
    def offer_again(self, picked: list[int]) -> None:
        """The same events once more: those the log knows change nothing."""
        known = [offer for offer in self.offers if offer.id in self.model.ids]
        if known:
            self.loop.run(self._append([self._event(known[n % len(known)]) for n in picked]))

    @rule(every=st.integers(1, 4))
    def deliver_again(self, every: int) -> None:
        """Old events reach the projectors once more, as from a queue that repeats itself."""
        self.loop.run(self._project_again(every))

    def teardown(self) -> None:
        if not hasattr(self, "model"):
            return
        assert self.loop.run(self._rows()) == expected(self.model, self.host)
        report = self.loop.run(verify_log(self.postgres.owner_url, ReplayScope(self.host)))
        assert [table for table in report.tables if not table.equal] == []
        assert report.events == len(self.model.ids)
        assert self.loop.run(self._said("event_store_t")) == {e.text for e in self.model.events if says(e)}
        everywhere = self.loop.run(self._said(*self.loop.run(self._tables())))
        assert everywhere.isdisjoint(e.text for e in self.model.events if e.erased)
        for bank in "xy":
            self.loop.run(self._derived_equals_its_rebuild(identity.bank_id(self.host, bank)))

    def _offers(self, drawn: list[Any]) -> list[Offer]:
        """Choose versions by how the log would stand after those before; of what does not fit, leave most away."""
        trial, offers = self.model, list[Offer]()
        for kind, bank, one, other, step, doc, source, user, anyway in drawn:
            parts = (one, other)[: min(2, len(ID_FIELDS[EVENTS[kind].aggregate]))]
            n = len(self.offers) + len(offers)
            # One author a thing: what remains of a thing of several is held in tests/store/erasure.
            key = (EVENTS[kind].aggregate.value, bank, *parts)
            version = max(1, max(trial.log.get(key, {0: ""})) + step)
            author = next((known.user for known in trial.events if known.key == key), user)
            offer = Offer(f"event {n}", kind, bank, parts, version, f"<said {n}>", n, user=author)
            if kind in {EventType.UNIT_RETAINED, EventType.UNIT_UPDATED}:
                offer = replace(offer, doc=doc, source=source if source != one else None)
            try:
                trial = trial.append([offer])
            except RefusedByModel:
                if not anyway:
                    continue
            offers.append(offer)
        return offers

    def _event(self, offer: Offer) -> dict[str, Any]:
        bank = identity.bank_id(self.host, offer.bank)
        origin = Origin(self.host, bank, identity.user_id(self.host, offer.user), at(offer.at))
        fields = sample(offer.kind, "-".join(offer.parts) or "a", offer.text)
        if offer.aggregate is A.SESSION or offer.kind is EventType.UNIT_RETAINED:
            fields["sessionId"] = str(identity.session_id(bank, offer.parts[0]))
        if offer.aggregate is A.UNIT and offer.kind is not EventType.UNIT_DELETED:
            fields["sourceMemoryIds"] = [named(f"unit {offer.source}")] if offer.source else []
        if offer.doc:
            fields["docId"] = named(f"doc {offer.doc}")
        return build_command(origin, offer.kind, fields, version=offer.version, identity=uuid5(self.host, offer.id))

    async def _append(self, events: list[dict[str, Any]]) -> None:
        async with self.database.tenant(self.host) as connection:
            await append_events(connection, self.host, events)

    async def _bulk(self, events: list[dict[str, Any]], batch: int) -> None:
        await append_bulk(self.database, self.host, events, batch=batch)

    async def _project_again(self, every: int) -> None:
        async with self.database.tenant(self.host) as connection:
            await connection.execute(
                text(
                    "select afterturn.project(array_agg(e order by position)) from afterturn.event_store_t e "
                    "where host_id = :host and position % :every = 0"
                ),
                {"host": self.host, "every": every},
            )

    async def _erase(self, kind: Kind, bank: str, name: str) -> None:
        erasures = Erasures(self.database, lambda: at(len(self.offers)))
        name = named(f"unit {name}") if kind is Kind.UNIT else name
        target = ErasureTarget(kind, None if kind is Kind.USER else bank, name)
        assert (await erasures.run(self.host, await erasures.request(self.host, target))).done

    async def _count(self, bank: UUID) -> None:
        origin = Origin(self.host, bank, identity.user_id(self.host, None), at(len(self.offers)))
        async with self.database.tenant(self.host) as connection:
            await locks.lock_bank(connection, bank)
            # Interfaces write the words of what they bring; these units came as events alone.
            await rebuild_words(connection, self.host, bank)
            await bank_state.advance_bank(connection, origin, [])

    async def _derived_equals_its_rebuild(self, bank: UUID) -> None:
        await self._count(bank)
        async with self.database.tenant(self.host) as connection:
            kept = await read_contents(connection, self.host, bank)
            await bank_state.rebuild_bank(connection, self.host, bank)
            assert meant(await read_contents(connection, self.host, bank)) == meant(kept)

    async def _rows(self) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        async with self.database.tenant(self.host) as connection:
            found = await connection.execute(text(STATE))
            return {(row.kind, *row.ids): (row.version, row.active, row.said, row.more) for row in found}

    async def _tables(self) -> list[str]:
        async with self.database.tenant(self.host) as connection:
            return list((await connection.execute(text(TABLES))).scalars())

    async def _said(self, *tables: str) -> set[str]:
        """What stands in these tables of all that was ever said."""
        found = set[str]()
        async with self.database.tenant(self.host) as connection:
            for table in tables:
                rows = await connection.execute(
                    text(f"select cast(t as text) from {table} t where host_id = :host"), {"host": self.host}
                )
                for row in rows.scalars():
                    found.update(SAID.findall(row))
        return found


def at(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.fixture
def machine(fresh_database: TestPostgres) -> Iterator[type[LogMachine]]:
    with loop_thread() as loop:
        LogMachine.loop, LogMachine.postgres = loop, fresh_database
        LogMachine.database = loop.run(opened(fresh_database))
        yield LogMachine
        loop.run(LogMachine.database.close())


async def opened(postgres: TestPostgres) -> Database:
    return Database(settings_of(postgres))


EXAMPLES = int(os.environ.get("AFTERTURN_EXAMPLES", "6"))
CI = settings(
    max_examples=EXAMPLES, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), database=None
)


@pytest.mark.slow
@pytest.mark.law("L5")
def test_random_histories_agree_with_the_model_and_with_their_replay(machine: type[LogMachine]) -> None:
    run_state_machine_as_test(machine, settings=CI)


@pytest.mark.law("L5")
@pytest.mark.parametrize("seed", range(max(1, EXAMPLES // 10)))
def test_a_long_random_history_does_too(machine: type[LogMachine], seed: int) -> None:
    chance = random.Random(seed)
    history = machine()
    history.begin()
    for _ in range(30):
        drawn = [tuple(map(chance.choice, CHOICES)) for _ in range(20)]
        history.append(drawn, bulk=chance.random() < 1 / 3, batch=chance.randint(3, 9))
        if chance.random() < 1 / 5:
            history.deliver_again(chance.randint(1, 4))
        if chance.random() < 1 / 5:
            history.erase(chance.choice(KINDS), chance.choice("xy"), chance.choice(NAMES))
        if chance.random() < 1 / 5:
            history.count(chance.choice("xy"))
    history.teardown()


@pytest.mark.law("L11")
def test_what_began_twice_shows_its_first_beginning_until_that_is_erased(machine: type[LogMachine]) -> None:
    history = machine()
    history.begin()
    history.append([(EventType.UNIT_RETAINED, "x", "a", "a", 1, None, None, "ana", False)], bulk=False, batch=1)
    history.erase(Kind.UNIT, "x", "a")
    history.teardown()
