"""Whatever was said, derived, compacted, forgotten, erased: replay and rebuild find what is there, and no more."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID, uuid4, uuid5

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from store import identity
from store.derived import bank_state
from store.erasure import Erasures, ErasureTarget, Kind
from store.errors import NotFound
from store.ledger.stages import Stage
from store.log.append import append_events, read_versions
from store.log.catalog import EventType
from store.log.envelope import Origin, build_command
from store.memory.directives import Curation, NewLink
from store.memory.documents import Documents, NewDocument, content_hash
from store.memory.turns import NewMessage, NewTurn
from store.memory.units import Units
from store.replay import verify_log
from tests.examples import examples
from tests.servers import TestPostgres
from tests.store.derived_rows import read_contents
from tests.store.erasure.dump import dump, lines_with
from tests.workers.conftest import HOST, World, now, open_world
from tests.workers.loops import LoopThread, loop_thread
from tests.workers.stages import Crew

pytestmark = pytest.mark.law("L11")

SESSIONS, USERS = ("s0", "s1"), ("ana", "bob")
SENTENCES = (
    "My name is {word}. I live in Kyoto.",
    "I live in {word}. I like jazz.",
    "Karl Berger met {word} Moore in Lisbon.",
    "Nothing to see, {word}.",
)
sayings = st.tuples(
    st.just("say"), st.sampled_from(SESSIONS), st.sampled_from(USERS), st.integers(0, len(SENTENCES) - 1)
)
steps = st.lists(
    st.one_of(
        sayings,
        sayings,
        st.tuples(st.just("work"), st.sampled_from(["all", Stage.EXTRACTION.value, Stage.EMBEDDING.value])),
        st.tuples(st.just("unit"), st.integers(0, 20)),
        st.tuples(st.just("forget"), st.integers(0, 20), st.booleans()),
        st.tuples(st.just("hand_in"), st.sampled_from(USERS), st.integers(0, len(SENTENCES) - 1)),
        st.tuples(st.just("correct"), st.integers(0, 20), st.integers(0, len(SENTENCES) - 1)),
        st.tuples(st.just("rewrite"), st.integers(0, 20), st.sampled_from(USERS), st.integers(0, len(SENTENCES) - 1)),
        st.tuples(st.just("pin"), st.integers(0, 20), st.sampled_from(USERS)),
        st.tuples(st.just("link"), st.integers(0, 20), st.integers(0, 20)),
        st.tuples(st.just("compact"), st.sampled_from(SESSIONS)),
        st.tuples(st.just("session"), st.sampled_from(SESSIONS)),
        st.tuples(st.just("user"), st.sampled_from(USERS)),
        st.tuples(st.just("bank"), st.just("")),
    ),
    min_size=4,
    max_size=14,
)


@dataclass
class Said:
    """A message as it was said, by the only word no other holds."""

    word: str
    session: str
    user: str
    unit: UUID
    gone: bool = False
    #: Who made it say something else, with a word that no other text holds, and whether that is gone.
    rewritten: list[tuple[str, str]] = field(default_factory=list)
    erased: list[str] = field(default_factory=list)


@dataclass
class Story:
    """One example: a bank and users of its own."""

    world: World
    crew: Crew
    erasures: Erasures
    name: str = field(default_factory=lambda: uuid4().hex[:8])
    said: list[Said] = field(default_factory=list)

    @property
    def bank(self) -> UUID:
        return identity.bank_id(HOST, self.name)

    async def say(self, session: str, user: str, sentence: int) -> None:
        turn_name = f"t{len(self.said)}"
        session_id = identity.session_id(self.bank, session)
        unit = identity.unit_id(identity.turn_id(session_id, turn_name), 0)
        one = Said(f"Zq{len(self.said)}x{self.name}", session, user, unit)
        self.said.append(one)
        messages = [NewMessage("user", SENTENCES[sentence].format(word=one.word)), NewMessage("assistant", "Noted.")]
        turn = NewTurn(self.name, session, turn_name, messages, user_id=f"{user}-{self.name}")
        await self.world.turns.append(HOST, [turn])

    async def hand_in(self, user: str, sentence: int) -> None:
        """Say the same in a document of one unit."""
        word = f"Zq{len(self.said)}x{self.name}"
        text = SENTENCES[sentence].format(word=word)
        document = NewDocument(self.name, content_hash(text.encode()), text, user_id=f"{user}-{self.name}")
        added = await Documents(self.world.database, now).add(HOST, document)
        self.said.append(Said(word, "", user, uuid5(added.doc_id, "chunk:0")))

    async def correct(self, which: int, sentence: int) -> None:
        if self.said:
            one = self.said[which % len(self.said)]
            with suppress(NotFound):
                text = f"Once more: {SENTENCES[sentence].format(word=one.word)}"
                await Units(self.world.database, now).correct(HOST, self.name, one.unit, text)

    async def rewrite(self, which: int, user: str, sentence: int) -> None:
        """Make a message, whosesoever it is, say something else as this user."""
        if self.said:
            one = self.said[which % len(self.said)]
            word = f"Zw{sum(len(each.rewritten) + len(each.erased) for each in self.said)}x{self.name}"
            with suppress(NotFound):
                text = SENTENCES[sentence].format(word=word)
                units = Units(self.world.database, now)
                await units.correct(HOST, self.name, one.unit, text, user=f"{user}-{self.name}")
                one.rewritten.append((user, word))

    async def pin(self, which: int, user: str) -> None:
        if self.said:
            one = self.said[which % len(self.said)]
            with suppress(NotFound):
                units = Units(self.world.database, now)
                await units.pin(HOST, self.name, one.unit, pinned=True, user=f"{user}-{self.name}")

    async def link(self, first: int, second: int) -> None:
        if self.said:
            one, other = (self.said[which % len(self.said)].unit for which in (first, second))
            with suppress(NotFound):
                await Curation(self.world.database, now).link(HOST, self.name, NewLink(one, other, "causes"))

    async def work(self, stage: str) -> None:
        await (self.crew.drain() if stage == "all" else self.crew.drain(Stage(stage)))

    async def unit(self, which: int) -> None:
        if self.said:
            one = self.said[which % len(self.said)]
            await self.erase(Kind.UNIT, str(one.unit))
            one.gone = True

    async def forget(self, which: int, with_facts: bool) -> None:  # noqa: FBT001 - drawn
        if self.said and not (one := self.said[which % len(self.said)]).gone:
            with suppress(NotFound):
                await Units(self.world.database, now).forget(HOST, self.name, one.unit, with_facts=with_facts)

    async def compact(self, session: str) -> None:
        """Sum a session up in words that repeat all it holds."""
        thing = identity.session_id(self.bank, session)
        words = [one.word for one in self.said if one.session == session and not one.gone]
        subject = f"{HOST}|{self.bank}|{thing}"
        async with self.world.database.tenant(HOST) as connection:
            version = (await read_versions(connection, HOST, [subject]))[subject]
            if version and words:
                origin = Origin(HOST, self.bank, identity.user_id(HOST, None), now())
                summary = {"sessionId": str(thing), "messages": [{"role": "user", "content": " ".join(words)}]}
                event = build_command(origin, EventType.SESSION_COMPACTED, summary, version=version + 1)
                await append_events(connection, HOST, [event])

    async def session(self, session: str) -> None:
        if await self.erase(Kind.SESSION, session):
            self._gone(lambda one: one.session == session)

    async def user(self, user: str) -> None:
        if await self.erase(Kind.USER, f"{user}-{self.name}"):
            self._gone(lambda one: one.user == user)
            for one in self.said:
                one.erased += [word for by, word in one.rewritten if by == user]
                one.rewritten = [(by, word) for by, word in one.rewritten if by != user]

    async def bank_(self, _: str) -> None:
        if await self.erase(Kind.BANK, ""):
            self._gone(lambda _one: True)

    async def erase(self, kind: Kind, name: str) -> bool:
        try:
            target = ErasureTarget(kind, None if kind is Kind.USER else self.name, name)
            receipt = await self.erasures.run(HOST, await self.erasures.request(HOST, target))
            assert receipt.done
        except NotFound:
            return False
        return True

    def _gone(self, which: "object") -> None:
        for one in self.said:
            one.gone = one.gone or which(one)  # type: ignore[operator]  # a predicate

    async def check(self) -> None:
        await self.crew.drain()
        dumped = await dump(self.world.postgres)
        words = [one.word for one in self.said if one.gone] + [word for one in self.said for word in one.erased]
        words += [word for one in self.said if one.gone for _, word in one.rewritten]
        assert lines_with(dumped, *words, "never said") == []
        living = [one for one in self.said if not one.gone]
        for word in [one.word for one in living] + [word for one in living for _, word in one.rewritten]:
            assert any(word in line and ("unit_t" in line or "event_store_t" in line) for line in dumped.split("\n"))
        report = await verify_log(self.world.postgres.owner_url)
        assert [table for table in report.tables if not table.equal] == []
        async with self.world.database.tenant(HOST) as connection:
            kept = await read_contents(connection, HOST, self.bank)
            await bank_state.rebuild_bank(connection, HOST, self.bank)
            made = await read_contents(connection, HOST, self.bank)
        for state in (kept, made):
            state["bank_statistics_t"] = [row for row in state["bank_statistics_t"] if row != (0, 0)]
        assert made == kept
        undone = await self.world.sql(
            "select stage, status from afterturn.ledger_t where undone and stage <> 'gateway'"
        )
        assert undone == []


@pytest.fixture
def bench(servers: tuple[TestPostgres, object]) -> Iterator[tuple[World, LoopThread]]:
    with loop_thread() as loop:
        database = loop.run(servers[0].create(f"erasure_{uuid4().hex}"))
        world = loop.run(open_world(database))
        yield world, loop
        loop.run(world.database.close())
        loop.run(database.drop())


async def _play(world: World, played: list[tuple[str, ...]]) -> None:
    story = Story(world, Crew(world), Erasures(world.database, now))
    for name, *arguments in played:
        await getattr(story, {"bank": "bank_"}.get(name, name))(*arguments)
    await story.check()


@pytest.mark.slow
def test_nothing_erased_is_left_and_replay_and_rebuild_are_equal(bench: tuple[World, LoopThread]) -> None:
    @settings(
        max_examples=examples(15),
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(steps)
    def holds(played: list[tuple[str, ...]]) -> None:
        world, loop = bench
        loop.run(_play(world, played))

    holds()
