"""Speakers are found by what they are called and by names that are spelt wrong; ordinary words mean nobody."""

from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.bank_state import rebuild_bank
from store.derived.called_names import CALLED, CalledName, choose_speakers
from store.driver_rows import fetch_rows
from store.erasure import Erasures, ErasureTarget, Kind
from store.memory.turns import NewMessage
from store.memory.units import Units
from store.recall import names, preparation
from store.recall.names import SPEAKERS
from store.recall.preparation import WORDS
from store.recall.question import rename_speakers
from tests.store.conftest import NOON, rows
from tests.store.recall.conftest import BANK, Memory

LIKES = "I like tulips best of all flowers."
#: What was said, by whom; nobody is called by name.
TALK = (
    ("Katherine", LIKES),
    ("Robert", "I like roses, they smell better."),
    ("Katherine", "I moved to Leeds in spring."),
    ("Robert", "I work for a small theatre."),
    ("Katherine", "I play the cello in a quartet."),
    ("Robert", "My knee hurts again."),
    ("Katherine", "I painted the kitchen yellow."),
    ("Robert", "I sold the old car."),
)
KATE = (("Robert", "Hey Kate! How are you?"), ("Robert", "Thanks, Kate."), ("Robert", "Wow, Kate, great!"))
BY_NAME = {str(CALLED), str(SPEAKERS), str(WORDS)}


async def talk(memory: Memory, *more: tuple[str | None, str], session: str = "s1") -> None:
    said = [NewMessage("user", content, name) for name, content in (*TALK, *more)]
    await memory.say(*said, session=session)


async def first(memory: Memory, question: str, **more: Any) -> str | None:
    """Return whose words come first."""
    return (await memory.ask(question, k=1, **more)).items[0].name


async def embedded(memory: Memory, question: str, asker: str | None = None) -> str:
    """Ask a recaller that knows no names yet, and return the question's text that was embedded."""
    before, memory.recaller = len(memory.embedder.heard), None
    await memory.ask(question, k=1, asker=asker)
    [asked] = memory.embedder.heard[before]
    return asked


async def is_resolved(memory: Memory, question: str) -> bool:
    """Say whether a question's name means somebody: then the speaker's own is put in its place."""
    asked = await embedded(memory, question)
    return "Kate" not in asked and "Kahterine" not in asked


async def test_a_speaker_is_found_by_the_name_others_call_her(memory: Memory) -> None:
    await talk(memory, *KATE)
    assert await memory.texts("What does Kate like?", k=1) == [LIKES]
    assert await memory.texts("what does kate like?", k=1) == [LIKES]
    assert await first(memory, "What does Kate play?") == "Katherine"
    found = (await memory.ask("Which flowers does Kate like?", k=1, explain=True)).items[0].explain
    assert found is not None
    assert found.moved["speaker"] > 0


async def test_a_speaker_is_found_by_it_when_her_words_stand_in_the_index(memory: Memory) -> None:
    await talk(memory, *KATE)
    await memory.embed_all()
    await memory.sql("select afterturn.post_words(:host, :bank, 1000, true)", host=memory.host, bank=memory.bank)
    assert await memory.texts("What does Kate like?", k=1) == [LIKES]
    assert await memory.texts("What does Kahterine like?", k=1) == [LIKES]


async def test_without_names_nobody_is_resolved(memory: Memory) -> None:
    await talk(memory, *KATE)
    assert await first(memory, "What does Kate like?", without=["names"]) == "Robert"


@pytest.mark.parametrize("words", ["My name is Kate.", "Call me Kate!", "I'm Kate, by the way."])
async def test_a_speaker_is_found_by_the_name_she_gives_herself(memory: Memory, words: str) -> None:
    await talk(memory, ("Katherine", words))
    assert await memory.texts("What does Kate like?", k=1) == [LIKES]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(KATE[:2], id="twice is not often enough"),
        pytest.param((*KATE, ("Katherine", "Hey Kate!")), id="not five times as often as another"),
        pytest.param((*KATE, ("Robert", "We fed the kate in the pond.")), id="a word that is written small"),
        pytest.param((*KATE, ("Maud", "I like daisies.")), id="of three nobody knows"),
        pytest.param(tuple((None, text) for _, text in KATE), id="said by somebody without a name"),
        pytest.param((("Katherine", "Call me Kate!"), ("Robert", "No, call me Kate!")), id="two have it"),
    ],
)
async def test_what_is_not_sure_to_be_a_name_of_one_speaker_means_nobody(
    memory: Memory, more: tuple[tuple[str | None, str], ...]
) -> None:
    await talk(memory, *more)
    assert not await is_resolved(memory, "What does Kate like?")


#: A user without a name, and an agent.
AGENT_TALK = (
    ("user", "I live in Celje."),
    ("assistant", "Noted."),
    ("user", "My sister is in Graz, she likes it."),
    ("assistant", "Good to know."),
)


async def tell_agent(memory: Memory, *more: tuple[str, str], **whose: str) -> None:
    await memory.say(*(NewMessage(role, text) for role, text in (*AGENT_TALK, *more)), **whose)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param((("user", "My name is Kate."),), id="by own account"),
        pytest.param(tuple(("assistant", f"{one} Kate!") for one in ("Hey", "Thanks", "Hello")), id="by the agent"),
    ],
)
async def test_a_user_without_a_name_is_meant_where_a_bank_has_one_user(
    memory: Memory, more: tuple[tuple[str, str], ...]
) -> None:
    await tell_agent(memory, *more, user_id="kat")
    assert await memory.texts("Where does Kate live?", k=1) == ["I live in Celje."]
    assert await is_resolved(memory, "Where does Kate live?")
    await memory.say(NewMessage("user", "I live in Rome."), session="s2", user_id="bob")
    assert not await is_resolved(memory, "Where does Kate live?")


async def test_a_user_is_meant_by_her_own_id_unless_a_text_has_that_name(memory: Memory) -> None:
    await tell_agent(memory, user_id="kate")
    assert (await memory.texts("Where does Kate live now?", k=1, asker="kate")) == ["I live in Celje."]
    assert "Kate" not in await embedded(memory, "Where does Kate live now?", asker="kate")
    assert "Kate" in await embedded(memory, "Where does Kate live now?", asker="kat")
    assert "Kate" in await embedded(memory, "Where does Kate live now?")
    await memory.say(NewMessage("user", "Kate Bush sings."), session="s2", user_id="kate")
    assert "Kate" in await embedded(memory, "Where does Kate live now?", asker="kate")


async def test_an_agent_is_meant_by_the_name_its_user_calls_it(memory: Memory) -> None:
    await tell_agent(memory, *(("user", f"{one} Xavi!") for one in ("Hey", "Thanks", "Hello")))
    assert "Xavi" not in await embedded(memory, "What did Xavi say about Graz?")


async def test_a_word_that_addresses_is_never_a_name_where_it_is_an_ordinary_word(memory: Memory) -> None:
    await talk(memory, *(("Robert", f"Hello Grace, for the {n}th time.") for n in range(4, 8)))
    assert await first(memory, "What does Grace like?") == "Katherine"
    assert await embedded(memory, "What does Grace like?") == "What does I like?"
    await memory.say(NewMessage("user", "She danced with grace.", "Katherine"), session="s2")
    assert "Grace" in await embedded(memory, "What does Grace like?")


async def test_a_speaker_who_has_the_name_is_meant_and_nobody_else(memory: Memory) -> None:
    await talk(memory, *KATE)
    await memory.say(NewMessage("user", "I like asters.", "Kate Moss"), session="s2")
    assert await first(memory, "What does Kate like?") == "Kate Moss"


@pytest.mark.parametrize("name", ["Kahterine", "Catherine", "kahterine"])
async def test_a_speaker_is_found_by_a_name_that_is_spelt_wrong(memory: Memory, name: str) -> None:
    await talk(memory)
    assert await memory.texts(f"What does {name} like?", k=1) == [LIKES]


async def test_a_name_that_the_bank_has_is_not_spelt_wrong(memory: Memory) -> None:
    await talk(memory, *(("Robert", f"Kahterine came {n} times.") for n in range(3)))
    assert not await is_resolved(memory, "What does Kahterine like?")


async def test_a_misspelt_name_of_two_speakers_means_neither(memory: Memory) -> None:
    await talk(memory, ("Katherina", "I like daisies."))
    assert not await is_resolved(memory, "What does Kahterine like?")


async def test_a_question_that_names_nobody_new_costs_no_statement(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk(memory)
    sent: list[str] = []

    async def listen(connection: AsyncConnection, statement: Any, values: Any) -> Any:
        sent.append(str(statement))
        return await fetch_rows(connection, statement, values)

    monkeypatch.setattr(names, "fetch_rows", listen)
    monkeypatch.setattr(preparation, "fetch_rows", listen)
    for question in ("What does Katherine like?", "which flowers are the best?", "Where does Robert work?"):
        await memory.ask(question)
        assert not BY_NAME & set(sent), question
    await memory.ask("What does Kahterine like?")
    assert [one for one in sent if one in BY_NAME] == [str(SPEAKERS), str(WORDS)]
    sent.clear()
    await memory.ask("What does kubernetes like?")
    assert not BY_NAME & set(sent)
    await memory.ask("What does Xqvarlo like?")
    assert [one for one in sent if one in BY_NAME] == [str(SPEAKERS)]


@pytest.mark.law("L5")
async def test_words_that_are_made_anew_hold_the_same_names(memory: Memory) -> None:
    await talk(memory, *KATE, ("Katherine", "Call me Kitty!"))
    query = "select unit_id, terms, length from afterturn.unit_word_t where bank_id = :bank order by 1"
    before = await rows(memory.database, memory.host, query, bank=memory.bank)
    assert {"to:kate", "me:kitty"} <= {term for _, terms, _ in before for term in terms}
    await memory.sql("update afterturn.unit_word_t set terms = '{}' where bank_id = :bank", bank=memory.bank)
    async with memory.database.tenant(memory.host) as connection:
        await rebuild_bank(connection, memory.host, memory.bank)
    assert await rows(memory.database, memory.host, query, bank=memory.bank) == before
    assert await memory.texts("What does Kate like?", k=1) == [LIKES]


@pytest.mark.law("L11")
async def test_a_user_who_is_erased_is_called_nothing_any_more(memory: Memory) -> None:
    hers = [NewMessage("user", one, "Katherine") for one in (LIKES, "Call me Kitty!")]
    await memory.say(*hers, user_id="kat")
    await memory.say(*(NewMessage("user", one, name) for name, one in KATE), user_id="bob")
    assert await first(memory, "What does Kate like?") == "Katherine"
    erasures = Erasures(memory.database, lambda: NOON)
    await erasures.run(memory.host, await erasures.request(memory.host, ErasureTarget(Kind.USER, None, "kat")))
    query = "select terms from afterturn.unit_word_t where bank_id = :bank and terms ? 'me:kitty'"
    assert await rows(memory.database, memory.host, query, bank=memory.bank) == []
    assert not await is_resolved(memory, "What does Kate like?")


@pytest.mark.law("L11")
async def test_what_is_forgotten_teaches_no_name(memory: Memory) -> None:
    await talk(memory, *KATE)
    assert await is_resolved(memory, "What does Kate like?")
    query = "select unit_id from afterturn.agent_memory_unit_t where content like 'Thanks%' and bank_id = :bank"
    [(unit,)] = await rows(memory.database, memory.host, query, bank=memory.bank)
    await Units(memory.database, lambda: NOON).forget(memory.host, BANK, unit)
    assert not await is_resolved(memory, "What does Kate like?")


def test_a_speaker_is_chosen_where_few_others_are_called_so() -> None:
    def chosen(*called: tuple[str, str, bool, int]) -> dict[str, str]:
        return dict(choose_speakers([CalledName(*one) for one in called]))

    assert chosen(("kate", "Katherine", False, 3)) == {"kate": "Katherine"}
    assert chosen(("kate", "Katherine", False, 2)) == {}
    assert chosen(("kate", "Katherine", True, 1)) == {"kate": "Katherine"}
    assert chosen(("kate", "Katherine", False, 5), ("kate", "Robert", False, 1)) == {"kate": "Katherine"}
    assert chosen(("kate", "Katherine", False, 4), ("kate", "Robert", False, 1)) == {}
    assert chosen(("kate", "Kate Moss", False, 9)) == {}
    assert chosen(("kate", "Katherine", False, 3), ("bob", "Robert", True, 1)) == {"kate": "Katherine", "bob": "Robert"}


def test_a_question_is_put_anew_with_the_speakers_names() -> None:
    names = {"kate": "Katherine", "zoe": "Zoë Lima"}
    assert rename_speakers("Is Kate's cello older than KATE, Kates or Zoé?", names) == (
        "Is Katherine's cello older than Katherine, Kates or Zoë Lima?"
    )
