"""Analyses a question before the search. Pure rules."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from store.text.language_detection import detect_language
from store.text.question_words import ENGLISH, question_languages
from store.text.rules.called_names import find_asked_names
from store.text.terms import question_terms, words_of
from store.text.word_rules import AUTO, WordRules, rules_of, strip_accents

#: A question's words beyond this number are not looked up: a pasted document is not a question.
MAX_TERMS = 160
#: Parsing a question costs this many times as much as cutting a text of that length into words.
EFFORT = 20

_WORD = re.compile(r"\w+(?:['\u2019]s\b)?")
_USUAL = (rules_of(AUTO),)
#: The speaker where no speaker has a name.
ROLES = frozenset({"user", "assistant", "system", "tool", "human", "ai", "bot", "agent"})


@dataclass(frozen=True, slots=True)
class Question:
    """A question's words and what kind of answer it wants; `words` are index terms and their counts.

    `rules` are those by which the bank's words are cut; `names` its words that may be a person's name, folded.
    """

    text: str = field(repr=False)
    words: dict[str, int] = field(repr=False)
    wants_assistant: bool
    rules: Sequence[WordRules] = _USUAL
    names: Sequence[str] = field(default=(), repr=False)


def parse_question(text: str, *, rules: Sequence[WordRules] = _USUAL) -> Question:
    """Take a question apart; what no language's rules know is simply a bag of words, cut as the bank's words are."""
    counts = question_terms(text, rules)
    lower = strip_accents(text.lower())
    language = question_languages()[code] if (code := detect_language(text)) else ENGLISH
    return Question(
        text=text,
        words=dict(islice(counts.items(), MAX_TERMS)),
        wants_assistant=bool(language.asks_assistant.search(lower)),
        rules=rules,
        names=find_asked_names(text),
    )


def rename_speakers(text: str, names: Mapping[str, str]) -> str:
    """Return a question with the speakers' own names in place of these words, folded, that mean them."""
    return _WORD.sub(lambda match: _rename_word(match.group(), names), text)


def _rename_word(word: str, names: Mapping[str, str]) -> str:
    bare = word.removesuffix("'s").removesuffix("\u2019s")
    [folded, *more] = words_of(bare) or [""]
    return word if more or folded not in names else names[folded] + word[len(bare) :]


def named_speakers(question: Question, speakers: Iterable[str]) -> frozenset[str]:
    """Return those of the speakers whom the question names by at least one word of their name.

    A role is named by its own word alone: a question for assistance does not speak of the assistant.
    """
    said = {word.removesuffix("'s") for word in words_of(question.text)}
    return frozenset(
        one
        for one in speakers
        if not question.words.keys().isdisjoint(question_terms(one, question.rules))
        and (one.lower() not in ROLES or one.lower() in said)
    )


def as_told(text: str, names: Collection[str]) -> str:
    """Return a question with the speakers it names put as they speak of themselves, for the dense arm alone.

    Nearly every question names a speaker, and the name pulls its vector towards every text that carries it. The texts
    themselves are told in the first person: "When did Marta move?" is nearest to "I moved in May" as "When did I
    move?". Where no language's rules apply, and for roles, names are cut out instead. A question that is nothing but
    names stays as it is.
    """
    people, roles = (
        {word for name in names if (name.lower() in ROLES) is of_role for word in words_of(name)}
        for of_role in (False, True)
    )
    if not words_of(_swap_persons(text, people | roles, "", "")):
        return text
    me, mine = question_languages()[code].self_words if (code := detect_language(text)) else ("", "")
    told = _swap_persons(_swap_persons(text, roles - people, "", ""), people, me, mine)
    return re.sub(rf"\b{me} (?=(?:{me}|{mine})\b)", "", told) if me else told


def _swap_persons(text: str, words: Collection[str], me: str, mine: str) -> str:
    return " ".join(_WORD.sub(lambda match: _swap_person(match.group(), words, me, mine), text).split())


def _swap_person(word: str, words: Collection[str], me: str, mine: str) -> str:
    bare = word.removesuffix("'s").removesuffix("\u2019s")
    spoken = words_of(bare)
    if not spoken or any(part not in words for part in spoken):
        return word
    return (me if bare == word else mine) or " "
