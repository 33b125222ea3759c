"""Random histories against the model: whatever happens in whatever order, the tables and their replay agree with it."""

import asyncio
import os
import random
import threading
from collections.abc import Coroutine, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from sqlalchemy import text

from store.database import Database
from store.errors import EventRefused
from store.events.bulk import append_bulk
from store.events.catalog import ID_FIELDS, Aggregate, EventType, aggregate_type
from store.events.envelope import Origin, command
from store.events.log import append_events
from store.replay import Scope, verify
from tests.servers import TestPostgres
from tests.store.conftest import new_host, settings_of
from tests.store.events.samples import named, sample
from tests.store.replay.model import Key, Model, Offer, RefusedByModel

A = Aggregate
START = datetime(2026, 3, 1, tzinfo=UTC)
NAMES = ("a", "b")
#: Most commands are those that fit; the others are stale, taken, or come before their time.
STEPS = (1, 1, 1, 1, 1, 1, 1, 0, -1, 2)

#: Kind, bank, two names, step of the version, document, and whether it is offered though it does not fit.
CHOICES: tuple[Sequence[Any], ...] = (
    tuple(EventType), "xy", NAMES, NAMES, STEPS, (None, None, *NAMES), (False,) * 19 + (True,),
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


class Loop:
    """An event loop in a thread of its own: the machine is driven from outside any."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=120)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class LogMachine(RuleBasedStateMachine):
    """Appends random events, one by one, in batches and in bulk, and delivers old ones again."""

    loop: Loop
    database: Database
    postgres: TestPostgres

    @initialize()
    def begin(self) -> None:
        self.host: UUID = self.loop.run(new_host(self.database))
        self.model = Model()
        self.offers: list[Offer] = []
        family = [(kind, bank, name, name, 1, None, False) for bank in "xy" for kind, name in FAMILY]
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
        assert self.loop.run(self._rows()) == expected(self.model)
        report = self.loop.run(verify(self.postgres.owner_url, Scope(self.host)))
        assert report.equal, report.as_json()
        assert report.events == len(self.model.ids)

    def _offers(self, drawn: list[Any]) -> list[Offer]:
        """Choose versions by how the log would stand after those before; of what does not fit, leave most away."""
        trial, offers = self.model, list[Offer]()
        for kind, bank, one, other, step, doc, anyway in drawn:
            parts = (one, other)[: min(2, len(ID_FIELDS[Aggregate(aggregate_type(kind))]))]
            version = max(1, max(trial.log.get((aggregate_type(kind), bank, *parts), {0: ""})) + step)
            n = len(self.offers) + len(offers)
            unit = kind in {EventType.UNIT_RETAINED, EventType.UNIT_UPDATED}
            offer = Offer(f"event {n}", kind, bank, parts, version, f"text {n}", n, doc if unit else None)
            try:
                trial = trial.append([offer])
            except RefusedByModel:
                if not anyway:
                    continue
            offers.append(offer)
        return offers

    def _event(self, offer: Offer) -> dict[str, Any]:
        origin = Origin(self.host, UUID(named(f"bank {offer.bank}")), UUID(int=1), START + timedelta(seconds=offer.at))
        fields = sample(offer.kind, "-".join(offer.parts) or "a", offer.text)
        if offer.doc:
            fields["docId"] = named(f"doc {offer.doc}")
        return command(origin, offer.kind, fields, version=offer.version, identity=uuid5(self.host, offer.id))

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

    async def _rows(self) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        async with self.database.tenant(self.host) as connection:
            found = await connection.execute(text(STATE))
            return {(row.kind, *row.ids): (row.version, row.active, row.said, row.more) for row in found}


STATE = """
    select 'AgentMemoryBank' as kind, array[bank_id]::text[] as ids, aggregate_version as version, active,
           bank_name::text as said, null::text as more from agent_memory_bank_t
    union all
    select 'AgentMemoryDoc', array[bank_id, doc_id]::text[], aggregate_version, active, original_text, null
      from agent_memory_doc_t
    union all
    select 'AgentMemoryUnit', array[bank_id, unit_id]::text[], aggregate_version, active, content, doc_id::text
      from agent_memory_unit_t
    union all
    select 'AgentMemoryEntity', array[bank_id, entity_id]::text[], aggregate_version, active, canonical_name, null
      from agent_memory_entity_t
    union all
    select 'AgentMemoryUnitEntity', array[bank_id, unit_id, entity_id]::text[], aggregate_version, removed_at is null,
           null, extract(epoch from removed_at - '2026-03-01T00:00Z')::int::text from agent_memory_unit_entity_t
    union all
    select 'AgentMemoryLink', array[bank_id, from_unit_id, to_unit_id]::text[], aggregate_version, active, weight::text,
           null from agent_memory_link_t
    union all
    select 'AgentMemoryDirective', array[bank_id, directive_id]::text[], aggregate_version, active, content, null
      from agent_memory_directive_t
    union all
    select 'AgentMemoryReflection', array[bank_id, reflection_id]::text[], aggregate_version, active, content, null
      from agent_memory_reflection_t
    union all
    select 'AgentSessionHistory', array[bank_id, session_id]::text[], aggregate_version, active, null,
           (select string_agg(m->>'content', '|' order by n) from hindsight.agent_session_history_t h,
                   jsonb_array_elements(h.messages) with ordinality x(m, n)
             where h.bank_id = s.bank_id and h.session_id = s.session_id) from agent_session_history_t s"""

PREFIXES = {
    A.BANK: (),
    A.DOC: ("doc",),
    A.UNIT: ("unit",),
    A.ENTITY: ("entity",),
    A.UNIT_ENTITY: ("unit", "entity"),
    A.LINK: ("unit", "unit"),
    A.DIRECTIVE: ("directive",),
    A.REFLECTION: ("reflection",),
    A.SESSION: ("session",),
}


def expected(model: Model) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """The model's rows as `STATE` shows them."""

    def ids(key: Key) -> tuple[str, ...]:
        kinds = PREFIXES[Aggregate(key[0])]
        return tuple(named(f"{kind} {name}") for kind, name in zip(("bank", *kinds), key[1:], strict=True))

    def more(key: Key) -> str | None:
        row = model.rows[key]
        match Aggregate(key[0]):
            case A.UNIT:
                return named(f"doc {row.doc}") if row.doc else None
            case A.UNIT_ENTITY:
                return None if row.ended is None else str(row.ended)
            case A.SESSION:
                return "|".join(row.messages[row.first_seq :][-40:])
            case _:
                return None

    return {
        (key[0], *ids(key)): (row.version, row.active, None if row.said is None else str(row.said), more(key))
        for key, row in model.rows.items()
    }


@pytest.fixture
def machine(fresh_database: TestPostgres) -> Iterator[type[LogMachine]]:
    loop = Loop()
    LogMachine.loop, LogMachine.postgres = loop, fresh_database
    LogMachine.database = loop.run(opened(fresh_database))
    yield LogMachine
    loop.run(LogMachine.database.close())
    loop.close()


async def opened(postgres: TestPostgres) -> Database:
    return Database(settings_of(postgres))


EXAMPLES = int(os.environ.get("AFTERTURN_EXAMPLES", "15"))
CI = settings(
    max_examples=EXAMPLES, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), database=None
)


@pytest.mark.slow
@pytest.mark.law("L5")
def test_random_histories_agree_with_the_model_and_with_their_replay(machine: type[LogMachine]) -> None:
    run_state_machine_as_test(machine, settings=CI)


@pytest.mark.law("L5")
@pytest.mark.parametrize("seed", range(max(3, EXAMPLES // 5)))
def test_a_long_random_history_does_too(machine: type[LogMachine], seed: int) -> None:
    chance = random.Random(seed)
    history = machine()
    history.begin()
    for _ in range(30):
        drawn = [tuple(map(chance.choice, CHOICES)) for _ in range(20)]
        history.append(drawn, bulk=chance.random() < 1 / 3, batch=chance.randint(3, 9))
        if chance.random() < 1 / 5:
            history.deliver_again(chance.randint(1, 4))
    history.teardown()
