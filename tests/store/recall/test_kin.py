"""Words near a question's words: which there are, and how much they count."""

from store.recall.kin import TABLES, kin, related
from store.recall.kin import _table as table
from store.recall.lexical import Statistics
from store.recall.question import understand
from store.recall.settings import RankingSettings, RecallSettings
from store.recall.terms import analyse
from tests.store.recall.conftest import Memory

SETTINGS = RankingSettings(kin_weight=0.3)


def test_who_asks_for_pets_is_told_of_dogs() -> None:
    near = dict(kin(understand("Which pets are there?"), ())["pet"])
    assert near["dog"] > near["rat"] > 0.5


def test_names_have_no_kin() -> None:
    question = understand("Does Violet play the flute?")
    assert list(kin(question, ())) == ["play", "flute"]
    assert list(kin(understand("does violet play"), ["violet"])) == ["play"]


def test_only_words_of_the_bank_count_the_five_nearest_and_less_than_what_is_asked() -> None:
    question = understand("pets")
    nearest = kin(question, ())
    words = [word for word, _ in nearest["pet"]]
    everything = Statistics(100, 8.0, dict.fromkeys(["pet", *words], 3))
    assert list(related(nearest, question, everything, SETTINGS)) == words[:5]
    some = Statistics(100, 8.0, {"pet": 30, words[7]: 1})
    found = related(nearest, question, some, SETTINGS)
    assert list(found) == [words[7]]
    assert found[words[7]] * some.idf(words[7]) < SETTINGS.kin_weight * some.idf("pet")


def test_a_word_that_is_asked_for_itself_is_not_related() -> None:
    question = understand("pets and dogs")
    found = related(kin(question, ()), question, Statistics(9, 8.0, {"pet": 1, "dog": 1, "cat": 1}), SETTINGS)
    assert list(found) == ["cat"]


def test_the_table_holds_stems_with_cosines() -> None:
    for name in TABLES:
        for stem, others in table(name).items():
            assert [cosine for _, cosine in others] == sorted((cosine for _, cosine in others), reverse=True), stem
            assert all(0.5 <= cosine <= 1 for _, cosine in others), stem
        assert all(len(analyse(stem).counts) <= 1 for stem in table(name))


async def test_a_message_is_found_by_a_word_of_its_kind(memory: Memory) -> None:
    memory.settings = RecallSettings(ranking=SETTINGS)
    await memory.say("The trumpet was loud.", "The table was large.", "It rained.")
    await memory.embed_all()
    bank = "(select bank_id from afterturn.agent_memory_bank_t limit 1)"
    for term in ("trumpet", "tabl"):
        await memory.sql(
            f"insert into afterturn.term_t (host_id, bank_id, term, df) values (:host, {bank}, :term, 1)",
            host=memory.host,
            term=term,
        )
    answer = await memory.ask("Which instruments were played?", explain=True)
    first, *_ = answer.items
    assert "trumpet" in first.text
    assert first.explain
    assert first.explain.arms["lexical"].score > 0
