"""Questions are understood by the rules of the language they are asked in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.recall.question import parse_question, put_in_first_person
from store.text.calendars import load_calendars
from store.text.language_detection import detect_language
from store.text.question_words import question_languages
from tests.tables import each_row

#: Of each language: a question for a time, one for a number, one for what the assistant said, and one for a thing; the
#: last as its speaker would put it, and what he says of himself.
ASKED = {
    "en": (
        ("When did Marta move?", "How many cats does she have?", "What did you suggest for dinner?"),
        ("Where is Marta's bicycle?", "Where is my bicycle?", "I moved in May"),
    ),
    "de": (
        ("Wann ist Marta umgezogen?", "Wie viele Katzen hat sie?", "Was hast du zum Essen vorgeschlagen?"),
        ("Wo hat Marta ihr Fahrrad?", "Wo hat ich ihr Fahrrad?", "Ich bin im Mai umgezogen"),
    ),
    "fr": (
        ("Quand est-ce que Marta a déménagé ?", "Combien de chats a-t-elle ?", "Que m'as-tu dit, tu as proposé quoi ?"),
        ("Où est le vélo de Marta ?", "Où est le vélo de je ?", "J'ai déménagé en mai"),
    ),
    "pt": (
        ("Quando a Marta se mudou?", "Quantos gatos ela tem?", "O que você sugeriu para o jantar?"),
        ("Onde está a bicicleta da Marta?", "Onde está a bicicleta da eu?", "Eu me mudei em maio"),
    ),
    "es": (
        ("¿Cuándo se mudó Marta?", "¿Cuántos gatos tiene ella?", "¿Qué sugeriste para la cena?"),
        ("¿Dónde está la bicicleta de Marta?", "¿Dónde está la bicicleta de yo?", "Mi mudanza fue en mayo"),
    ),
    "it": (
        ("Quando si è trasferita Marta?", "Quanti gatti ha lei?", "Che cosa hai suggerito per la cena?"),
        ("Dove è la bicicletta di Marta?", "Dove è la bicicletta di io?", "Io mi sono trasferita a maggio"),
    ),
    "nl": (
        ("Wanneer is Marta verhuisd?", "Hoeveel katten heeft ze?", "Wat heb je voorgesteld voor het eten?"),
        ("Waar is de fiets van Marta?", "Waar is de fiets van ik?", "Ik ben in mei verhuisd"),
    ),
}


@each_row("code", sorted(ASKED))
def test_what_a_question_wants_is_seen_in_its_language(code: str) -> None:
    wants, (thing, told, of_self) = ASKED[code]
    found = [parse_question(text) for text in (*wants, thing)]
    assert [detect_language(text) for text in (*wants, thing, of_self)] == [code] * 5
    assert [q.wants_assistant for q in found] == [False, False, True, False]
    assert put_in_first_person(thing, ["Marta"]) == told


def test_every_language_with_a_calendar_has_its_rules() -> None:
    assert question_languages().keys() == load_calendars().keys() == ASKED.keys()


@pytest.mark.parametrize("text", ["Postgres 15", "我们星期五飞往里斯本", "Привет"])
def test_what_holds_no_common_word_is_in_no_known_language(text: str) -> None:
    assert detect_language(text) is None
    assert put_in_first_person(f"{text} Marta", ["Marta"]) in (text, "Marta")


@given(st.text())
def test_any_text_can_be_asked(text: str) -> None:
    assert parse_question(text).text == text
