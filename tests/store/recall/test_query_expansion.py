"""Words near a question's words: which there are, and how much they count."""

from store.recall.lexical import Statistics
from store.recall.query_expansion import KINDS, NEAR, Kin, related_words, weigh_related
from store.recall.query_expansion import _read_table as table
from store.recall.question import parse_question
from store.recall.settings import RankingSettings
from store.text.terms import analyse_text
from tests.store.recall.conftest import Memory

SETTINGS = RankingSettings()


def test_who_asks_for_pets_is_told_of_dogs() -> None:
    near = dict(related_words(parse_question("Which pets are there?"))["pet"].near)
    assert near["dog"] > near["rat"] > 0.5


def test_names_have_no_kin() -> None:
    question = parse_question("Does Violet play the flute?")
    assert list(related_words(question)) == ["play", "flute"]
    lower = parse_question("does violet play")
    words = {other for row in related_words(lower).values() for other in row.words()}
    everything = Statistics(100, 8.0, dict.fromkeys(words, 3))
    found = weigh_related(related_words(lower), lower, everything, SETTINGS, ["violet"])
    assert found.keys() < set(related_words(lower)["play"].words())


def test_only_words_of_the_bank_count_the_five_nearest_and_less_than_what_is_asked() -> None:
    question = parse_question("pets")
    nearest = related_words(question)
    words = [word for word, _ in nearest["pet"].near]
    everything = Statistics(100, 8.0, dict.fromkeys(["pet", *words], 3))
    assert list(weigh_related(nearest, question, everything, SETTINGS)) == words[:5]
    some = Statistics(100, 8.0, {"pet": 30, words[7]: 1})
    found = weigh_related(nearest, question, some, SETTINGS)
    assert list(found) == [words[7]]
    assert found[words[7]] * some.idf(words[7]) < SETTINGS.kin_weight * some.idf("pet")


def test_what_would_count_hardly_anything_is_not_read() -> None:
    question = parse_question("pets tamarillo quince medlar physalis")
    pets = {"pet": 90, **{word: 90 for word, _ in related_words(question)["pet"].near}}
    assert weigh_related(related_words(question), question, Statistics(100, 8.0, pets), SETTINGS) == {}


def test_a_word_that_is_asked_for_itself_is_not_related() -> None:
    question = parse_question("pets and dogs")
    found = weigh_related(
        related_words(question), question, Statistics(9, 8.0, {"pet": 1, "dog": 1, "cat": 1}), SETTINGS
    )
    assert list(found) == ["cat"]


def test_who_asks_for_a_kind_of_thing_is_told_of_each() -> None:
    question = parse_question("Which sports and which countries?")
    rows = related_words(question)
    assert {"tenni", "judo", "hockey"} <= set(rows["sport"].kinds)
    assert {"franc", "sweden"} <= set(rows["countri"].kinds)
    some = Statistics(100, 8.0, {"sport": 5, "tenni": 5, "sweden": 90})
    found = weigh_related(rows, question, some, SETTINGS)
    assert found["tenni"] == SETTINGS.kind_weight
    assert "judo" not in found


def test_a_kind_that_is_rarer_than_its_name_never_outweighs_it() -> None:
    question = parse_question("sports")
    statistics = Statistics(100, 8.0, {"sport": 60, "judo": 1})
    found = weigh_related({"sport": Kin(kinds=("judo",))}, question, statistics, SETTINGS)
    assert found["judo"] * statistics.idf("judo") <= SETTINGS.kind_weight * statistics.idf("sport") + 1e-9


def test_the_tables_hold_stems_with_cosines_and_with_kinds() -> None:
    for stem, others in table(NEAR):
        cosines = [int(pair.partition(":")[2]) for pair in others]
        assert cosines == sorted(cosines, reverse=True), stem
        assert all(50 <= cosine <= 100 for cosine in cosines), stem
    for stem, kinds in table(KINDS):
        assert stem not in kinds
        assert len(set(kinds)) == len(kinds) > 0, stem
    assert all(len(analyse_text(stem).counts) <= 1 for name in (NEAR, KINDS) for stem, _ in table(name))


async def test_a_message_is_found_by_a_word_of_its_kind_before_anything_is_counted(memory: Memory) -> None:
    await memory.say("The trumpet was loud.", "The table was large.", "It rained.")
    await memory.embed_all()
    answer = await memory.ask("Which instruments were played?", explain=True)
    first, *_ = answer.items
    assert "trumpet" in first.text
    assert first.explain
    assert first.explain.arms["lexical"].score > 0


async def test_a_related_word_never_outweighs_what_is_asked_though_the_bank_lacks_it(memory: Memory) -> None:
    await memory.say("A dog barked.", "The weather is fine.", "Nobody called.")
    await memory.embed_all()
    answer = await memory.ask("rescued pets", explain=True)
    lexical = [item.explain.arms["lexical"].score for item in answer.items if item.explain]
    assert 0 < max(lexical) < SETTINGS.kin_weight
