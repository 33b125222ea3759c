"""Finds the short questions of a text. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

#: Most words of a short question: a longer one also states something.
SHORT_QUESTION_WORDS = 16
QUESTION_MARKS = "?\uff1f"

#: Titles, whose full stop ends no sentence: a name follows.
_TITLES = ("Mr", "Mrs", "Ms", "Dr", "Prof", "St")
_NO_TITLE = "".join(rf"(?<!\b{title}\.)" for title in _TITLES)
_SENTENCE_END = re.compile(rf"(?<=[.!?\uff1f\u3002]){_NO_TITLE}\s+|\n+")


@dataclass(frozen=True, slots=True)
class ShortQuestions:
    """The short questions of a text, and the share of the text's words that they contain, from 0 to 1."""

    questions: Sequence[str] = field(default=(), repr=False)
    share: float = 0.0


NOTHING_ASKED = ShortQuestions()


def split_questions(text: str) -> ShortQuestions:
    """Return the short questions of a text: short sentences that end in a question mark."""
    if "?" not in text and "\uff1f" not in text:
        return NOTHING_ASKED
    sentences = [part.strip() for part in _SENTENCE_END.split(text) if part.strip()]
    words = [len(sentence.split()) for sentence in sentences]
    asking = [
        (sentence, count)
        for sentence, count in zip(sentences, words, strict=True)
        if sentence[-1] in QUESTION_MARKS and count <= SHORT_QUESTION_WORDS
    ]
    return ShortQuestions([sentence for sentence, _ in asking], sum(count for _, count in asking) / max(1, sum(words)))
