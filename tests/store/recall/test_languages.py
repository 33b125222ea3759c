"""Words of every family of languages are found by other forms of the same word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import identity
from store.text.terms import analyse_text
from store.text.word_rules import AUTO, FIRST, NONE, detect_script, rules_of, supported_languages
from tests.store.conftest import NOON, rows
from tests.store.recall.conftest import BANK, Memory
from tests.tables import each_row

#: Of each language: how a bank is told, what was said, and a question that has none of its words as they stand.
FAMILIES = {
    "English": ("auto", "We were hiking through the forests", "hike forest"),
    "German": ("de", "Wir sind mit den Zügen durch die Wälder gefahren", "Zug Wald"),
    "Spanish": ("es", "Mi hermana vivía en las montañas", "¿dónde vivir, en qué montaña?"),
    "French": ("fr", "Nous avons mangé des gâteaux dans les jardins", "manger un gâteau au jardin"),
    "Portuguese": ("pt", "As organizações plantaram árvores nas florestas", "organização floresta"),
    "Russian": ("auto", "Мы купили новые книги и русский словарь", "книга русского словаря"),
    "Chinese": ("auto", "我们星期五飞往里斯本", "什么时候去里斯本"),
    "Japanese": ("auto", "金曜日にリスボンへ飛びます", "リスボンはいつ?"),
    "Korean": ("auto", "우리는 금요일에 리스본으로 날아가요", "리스본에는 언제"),
    "Mixed": ("auto", "我用Postgres存储数据 and backups", "backup 数据"),
    "Arabic": ("auto", "هذه الكتب في المكتبات الكبيرة", "مكتبة كبير"),
    "Hebrew": ("auto", "הילדים הלכו בירושלים", "ילדים ירושלים"),
    "Hindi": ("auto", "हमने किताबें खरीदीं", "किताब"),
}


@pytest.mark.parametrize("family", sorted(FAMILIES))
async def test_a_family_of_languages_is_found_by_other_forms_of_its_words(memory: Memory, family: str) -> None:
    language, said, question = FAMILIES[family]
    if language != AUTO:
        await speak(memory, language)
    await memory.say(said, *(other for name, (_, other, _) in FAMILIES.items() if name != family))
    answer = await memory.ask(question, without=["dense"])
    assert answer.items[0].text == said
    assert answer.items[0].arms == ("lexical",)


async def test_while_words_follow_a_change_they_are_found_by_the_old_rules_and_the_new(memory: Memory) -> None:
    await memory.say("Die H\u00e4user am See", "Rain again")
    await speak(memory, "de", former=AUTO)
    for question in ("H\u00e4user", "HAUSER"):
        assert (await memory.ask(question, without=["dense"])).items[0].arms == ("lexical",)


async def speak(memory: Memory, language: str, former: str | None = None) -> None:
    """Have the test's bank cut its words so."""
    await memory.sql(
        """insert into afterturn.bank_language_t (host_id, bank_id, language, former, changed_at)
           values (:host, :bank, :language, :former, :at)""",
        host=memory.host,
        bank=identity.bank_id(memory.host, BANK),
        language=language,
        former=former,
        at=NOON,
    )


async def test_a_month_is_found_as_the_bank_calls_it(memory: Memory) -> None:
    await speak(memory, "de")
    await memory.say("Wir waren schwimmen", occurred_at=NOON)
    rules = rules_of("de")
    [(terms,)] = await rows(memory.database, memory.host, "select terms from afterturn.unit_word_t")
    assert set(analyse_text(rules.months[NOON.month - 1], rules).counts) <= set(terms)


@given(st.text(st.characters(max_codepoint=0x2FF) | st.sampled_from("\u2019中文한글あ…½ﬁ́")))
def test_what_was_cut_before_scripts_were_told_apart_is_cut_alike(said: str) -> None:
    assert analyse_text(said, rules_of(AUTO)) == analyse_text(said, rules_of(FIRST)) == analyse_text(said)


@given(st.text(), st.sampled_from([AUTO, FIRST, NONE, *supported_languages()]))
def test_any_text_can_be_cut_by_any_rules(said: str, language: str) -> None:
    terms = analyse_text(said, rules_of(language))
    assert terms == analyse_text(said, rules_of(language))
    assert all(0 < len(term.encode()) <= 64 for term in terms.counts)


@each_row("language", sorted(supported_languages()))
def test_every_language_has_a_script_and_cuts_its_stop_words(language: str) -> None:
    rules = rules_of(language)
    own = rules.scripts[supported_languages()[language]]
    assert len(rules.months) == 12
    assert all(detect_script(word) == own.script for word in own.stop)
    assert all(not analyse_text(word, rules).counts for word in own.stop)


def test_without_a_language_words_stay_as_they_stand() -> None:
    assert set(analyse_text("The dogs were rünning", rules_of(NONE)).counts) >= {"the", "dogs", "were", "running"}


def test_an_unknown_language_has_no_rules() -> None:
    with pytest.raises(ValueError, match="no rules"):
        rules_of("tlh")
