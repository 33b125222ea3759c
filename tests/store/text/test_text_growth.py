"""Whatever text anybody writes: each function of the store that reads it takes time in proportion to it."""

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

import numpy as np

from store.log.storable import check_json, check_text
from store.memory.offered_turns import index_text
from store.recall import rules
from store.recall.dense import compute_products
from store.recall.pool import Candidate, CandidatePool
from store.recall.question import find_named_speakers, parse_question, put_in_first_person
from store.recall.recaller import MAX_CHARACTERS
from store.recall.time_arm import mentions_time
from store.text.chunks import split_chunks
from store.text.language_detection import detect_language
from store.text.normal_forms import normalise_text
from store.text.question_words import question_languages as spoken_languages
from store.text.terms import analyse_text, lexical_text, split_words
from store.text.times import DAY, TimeSpan, find_spans
from store.text.word_rules import AUTO, FIRST, NONE, rules_of, strip_accents, supported_languages
from tests.growth import LONG, outgrowing
from tests.tables import each_row

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
QUESTIONS = [
    parse_question(one)
    for one in ("When did Ann go?", "How many did I see?", "Wann war ich da?", "Combien en ai-je vu ?", "¿Cuándo?")
]
MAY = TimeSpan(datetime(2025, 5, 1, tzinfo=UTC), datetime(2025, 6, 1, tzinfo=UTC))


def ranked(text: str) -> None:
    """Judge a text by every rule, for a question of every kind."""
    unit = Candidate(UUID(int=1), "experience", text, True, None, None, None, None, None, "Ann", NOW, ())
    nothing = np.zeros((1, 4), dtype=np.float32)
    pool = CandidatePool([unit], compute_products(np.zeros(4, dtype=np.float32), nothing, nothing, nothing))
    for question in QUESTIONS:
        for _, rule in rules.RULES:
            rule(np.ones(1), pool, question)


READ: dict[str, Callable[[str], object]] = {
    "a question is understood": parse_question,
    "a question is put as it is told": lambda text: put_in_first_person(text, ["Ann", "Zoë", "user"]),
    "speakers are found in a question": lambda text: find_named_speakers(QUESTIONS[0], ["Ann", text]),
    "times are read": lambda text: find_spans(text, NOW),
    "a text tells of a time": lambda text: mentions_time(text, MAY.end + DAY, [MAY]),
    "a language is told": detect_language,
    "words are listed": split_words,
    "accents are taken out": strip_accents,
    "a normal form is made": lambda text: [normalise_text(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD")],
    "a text is ranked": ranked,
    "a document is cut": split_chunks,
    "a text is checked": check_text,
    "JSON is checked": lambda text: check_json({"a": [text, text[:100]]}),
    "a message's words are counted": lambda text: index_text(lexical_text("Ann", NOW, text), rules_of(AUTO)),
}


@each_row("name", READ)
def test_the_time_grows_with_the_text(name: str) -> None:
    # A question is read by most rules, and only so far.
    assert outgrowing(READ[name], long=MAX_CHARACTERS if "question" in name else LONG) == []


@each_row("language", [AUTO, FIRST, NONE, *sorted(supported_languages())])
def test_the_time_of_cutting_words_grows_with_the_text(language: str) -> None:
    pieces = (
        "a",
        "a ",
        "ing",
        "lich",
        "issimo",
        "\u043e\u0433\u043e",
        "\u0627\u0644",
        "\u0301\u0323",
        "\uff9e\u0301",
        "Zoë ",
    )
    assert outgrowing(lambda text: analyse_text(text, rules_of(language)), pieces, long=16_384) == []


@each_row("language", sorted(spoken_languages()))
def test_the_time_of_searching_by_a_languages_patterns_grows_with_the_text(language: str) -> None:
    pattern = spoken_languages()[language].asks_assistant
    pieces = ("a ", "1 ", " ", "i ", "me ", "you ", "did you ", "how ")
    assert outgrowing(lambda text: pattern.findall(strip_accents(text.lower())), pieces) == []
