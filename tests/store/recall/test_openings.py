"""Of a bank where very many words wait a recall reads what has come since; it answers as if it had read them all."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID, uuid4

import pytest

from store import projections
from store.recall.lexical_arm import LexicalArm
from store.recall.opened import Opened
from store.recall.openings import AGAIN_S, Openings
from store.recall.query import RecallQuery
from store.recall.recaller import Recaller
from store.recall.waiting import MOST_COME
from store.units import Units
from tests.store.conftest import NOON, rows
from tests.store.recall.conftest import BANK, Memory

ASKED = ("Which quokka sleeps beside the keeper?", "wombat", "Who counts ships at night?")


@dataclass
class Twins:
    """Two recallers on one memory: one that keeps words opened, one that reads them each time."""

    memory: Memory
    openings: Openings

    async def agree(self, more: str = "quokka") -> None:
        """Check that both find the same, and that the one did so by what it keeps."""
        memory, words = self.memory, [LexicalArm()]
        keeps = Recaller(memory.database, memory.embedder, memory.settings, words, openings=self.openings)
        reads = Recaller(memory.database, memory.embedder, memory.settings, words)
        for question in (*ASKED, more):
            before = self.openings.of(memory.host, memory.bank)
            query = RecallQuery(BANK, question, k=20)
            found, expected = [await one.recall(memory.host, query) for one in (keeps, reads)]
            assert [one.unit_id for one in found.items] == [one.unit_id for one in expected.items]
            assert [one.score for one in found.items] == pytest.approx([one.score for one in expected.items])
            assert before is not None
            assert before is self.openings.of(memory.host, memory.bank)

    async def opened(self) -> None:
        """Open the bank, as two recalls in a row do."""
        for _ in range(2):
            self.openings.noted(self.memory.host, self.memory.bank, self.openings.many)
        await self.openings.close()


@pytest.fixture
async def twins(memory: Memory) -> AsyncIterator[Twins]:
    twins = Twins(memory, Openings(memory.database, many=1))
    await memory.say("The quokka sleeps beside the fence.", "A lighthouse keeper counts ships.", "Ships pass at night.")
    await twins.opened()
    yield twins
    await twins.openings.close()


async def unit_of(memory: Memory, text: str) -> UUID:
    [(unit,)] = await rows(
        memory.database,
        memory.host,
        "select unit_id from afterturn.agent_memory_unit_t where content = :said",
        said=text,
    )
    return UUID(str(unit))


async def carry(memory: Memory) -> None:
    async with memory.database.tenant(memory.host) as connection:
        await projections.carry_words(connection, memory.host, memory.bank)


async def correct(memory: Memory) -> None:
    unit = await unit_of(memory, "The quokka sleeps beside the fence.")
    await Units(memory.database, lambda: NOON).correct(memory.host, BANK, unit, "A wombat sleeps there.")


async def forget(memory: Memory) -> None:
    unit = await unit_of(memory, "The quokka sleeps beside the fence.")
    await Units(memory.database, lambda: NOON).forget(memory.host, BANK, unit)


async def say_more(memory: Memory) -> None:
    await memory.say("The keeper has a wombat and a quokka.", "Night falls.", session="later")


async def carry_and_say(memory: Memory) -> None:
    await carry(memory)
    await say_more(memory)


@pytest.mark.parametrize("happens", [say_more, correct, forget, carry_and_say])
async def test_whatever_happens_meanwhile_what_is_kept_answers_as_what_is_read(
    twins: Twins, happens: Callable[[Memory], Awaitable[None]]
) -> None:
    await twins.agree()
    await happens(twins.memory)
    # Where something was carried meanwhile, the first recall counts it in both places.
    await twins.openings.close()
    await Recaller(twins.memory.database, twins.memory.embedder, twins.memory.settings, openings=twins.openings).recall(
        twins.memory.host, RecallQuery(BANK, "anything")
    )
    await twins.agree()


async def test_what_was_just_written_is_found_in_the_first_recall_after_it(twins: Twins) -> None:
    await twins.agree()
    await twins.memory.say("A platypus came by.", session="now")
    twins.memory.recaller = Recaller(
        twins.memory.database, twins.memory.embedder, twins.memory.settings, [LexicalArm()], openings=twins.openings
    )
    assert (await twins.memory.texts("platypus"))[0] == "A platypus came by."


async def test_where_more_has_come_than_a_recall_should_read_each_reads_for_itself_again(twins: Twins) -> None:
    await twins.agree()
    statement = """
        insert into afterturn.unit_word_t (host_id, bank_id, unit_id, length, terms)
        select b.host_id, b.bank_id, gen_random_uuid(), 1, '{"quokka": 1}'
          from afterturn.agent_memory_bank_t b, generate_series(1, :many)"""
    await twins.memory.sql(statement, many=MOST_COME + 1)
    twins.memory.recaller = Recaller(
        twins.memory.database, twins.memory.embedder, twins.memory.settings, [LexicalArm()], openings=twins.openings
    )
    assert "A lighthouse keeper counts ships." in await twins.memory.texts("keeper")
    await twins.opened()
    assert twins.openings.of(twins.memory.host, twins.memory.bank) is None


@pytest.mark.parametrize(
    "many, most, pause, kept",
    [(2, 9, 1.0, True), (2, 2, 1.0, False), (4, 9, 1.0, False), (2, 9, AGAIN_S, False)],
    ids=["asked again", "too large", "little waits", "asked seldom"],
)
async def test_only_a_bank_where_much_waits_and_that_is_asked_again_is_kept(
    memory: Memory, *, many: int, most: int, pause: float, kept: bool
) -> None:
    await memory.say("one", "two", "three")
    now = [0.0]
    openings = Openings(memory.database, many=many, most=most, clock=lambda: now[0])
    for _ in range(2):
        openings.noted(memory.host, memory.bank, 3)
        now[0] += pause
    await openings.close()
    assert (openings.of(memory.host, memory.bank) is not None) is kept


async def test_a_bank_whose_words_are_carried_is_let_go(twins: Twins) -> None:
    openings = Openings(twins.memory.database, many=2)
    for _ in range(2):
        openings.noted(twins.memory.host, twins.memory.bank, 3)
    await openings.close()
    assert openings.of(twins.memory.host, twins.memory.bank) is not None
    openings.noted(twins.memory.host, twins.memory.bank, 0)
    assert openings.of(twins.memory.host, twins.memory.bank) is None


def test_a_unit_is_kept_once_by_its_newest_words_and_forgotten_only_as_it_was_known_then() -> None:
    opened, first, second, session = Opened(), uuid4(), uuid4(), uuid4()
    opened.take(first, 1, (session, 0), 2, {"old": 2})
    opened.take(first, 1, (session, 0), 2, {"old": 2})
    opened.take(first, 2, (session, 0), 3, {"new": 1})
    mark = opened.looked_at
    opened.take(second, 3, (session, 1), 4, {"new": 5})
    opened.keep([first], mark)
    assert len(opened) == 2
    assert [list(opened.postings(term)["tf"]) for term in ("old", "new", "never")] == [[], [1, 5], []]
    assert [int(one) for one in opened.postings("new")["length"]] == [3, 4]
    assert opened.units("new", 1) == [first]
    opened.keep([second], opened.looked_at)
    assert opened.units("new", 9) == [second]
