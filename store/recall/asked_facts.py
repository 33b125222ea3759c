"""Tells which facts about themselves people ask for: "What's my name?", "Where do I work?". Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from store.text.rules.rule import any_of
from store.text.rules.vocabulary import RELATION_WORDS

_RELATIONS = any_of(RELATION_WORDS)
#: Characters of a question that are read for this, from its beginning.
_LONGEST = 256
# Agents ask of "the user" where people ask of themselves.
_OF_USER = (
    (re.compile(r"\b(?:the )?user's\b"), "my"),
    (re.compile(r"\bdoes the user\b"), "do i"),
    (re.compile(r"\bis the user\b"), "am i"),
    (re.compile(r"\bhas the user\b"), "have i"),
    (re.compile(r"\bthe user\b"), "i"),
)
_WHERE = r"(?:in )?(?:what|which) (?:\w+ )?(?:city|town|village|country|place|state|area|region|street)"
_FIRM = (
    r"(?:what|which) (?:\w+ )?(?:company|firm|employer|hospital|school|shop|place|organi[sz]ation|university|clinic)"
)
_NOW = "(?:currently |now |actually |still )?"


@dataclass(frozen=True, slots=True)
class AskedFacts:
    """The kinds of facts that a question asks for, the one that answers it best first.

    `key`: those of one key alone, such as the favourite colour.
    """

    fact_ids: tuple[str, ...]
    key: str | None = None


def _compile_phrases(*phrases: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(phrases)})\b")


_KINDS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (
        _compile_phrases(
            r"my (?:full |first |last |given |real )?name(?! (?:tag|day|badge|plate|server))",
            r"who am i",
            r"what am i called",
            r"(?:should|do|can) (?:you|i|people|they|we) call me",
            r"wie hei(?:ss|\u00df)e ich",
            r"comment je m'appelle",
            r"c[o\u00f3]mo me llamo",
            r"come mi chiamo",
        ),
        ("user_name",),
    ),
    (
        _compile_phrases(
            rf"where (?:do|did) (?:i|we) {_NOW}(?:live|reside)",
            rf"where (?:am i|are we) {_NOW}(?:based|living|located)",
            rf"{_WHERE} (?:do|am|are) (?:i|we) {_NOW}(?:live|living|based|in)",
            r"my (?:current )?(?:city|location|residence|home (?:city|address)|place of residence|hometown|home town)",
            r"wo (?:wohne|lebe) ich",
            r"o\u00f9 est-ce que j'habite",
            r"d\u00f3nde vivo",
        ),
        ("user_home", "user_origin"),
    ),
    (
        _compile_phrases(
            r"where (?:am i|was i|do i come) (?:originally )?(?:from|born)",
            r"where did i grow up",
            r"(?:what|which) country am i from",
            r"my (?:hometown|home town|birthplace|place of birth|nationality)",
        ),
        ("user_origin",),
    ),
    (
        _compile_phrases(
            rf"where (?:do|am) i {_NOW}(?:work|working|employed)",
            rf"who do i {_NOW}work for",
            rf"{_FIRM} (?:do|am) i {_NOW}(?:work|working|employed)",
            r"my (?:current )?(?:employer|company|workplace|place of work)",
            r"wo arbeite ich",
        ),
        ("user_employer", "user_job"),
    ),
    (
        _compile_phrases(
            r"what do i do (?:for (?:a living|work)|professionally)",
            r"what do i work as",
            r"my (?:current )?(?:job|job title|profession|occupation|line of work)",
            r"what am i by profession",
        ),
        ("user_job", "user_employer"),
    ),
    (
        _compile_phrases(r"my (?:birthday|birth date|date of birth)", r"when was i born", r"wann habe ich geburtstag"),
        ("user_birthday", "user_age"),
    ),
    (_compile_phrases(r"how old am i", r"my age", r"wie alt bin ich"), ("user_age", "user_birthday")),
    (
        _compile_phrases(
            r"am i allergic", r"my allerg(?:y|ies)", r"do i have any allerg(?:y|ies)", r"allerg(?:y|ies) do i have"
        ),
        ("user_allergy",),
    ),
    (
        _compile_phrases(
            r"my diet(?:ary (?:needs|restrictions|requirements))?",
            r"(?:can|can't|may|shouldn't) i (?:not )?eat",
            r"am i (?:an? )?(?:vegetarian|vegan|pescatarian|coeliac|celiac)",
        ),
        ("user_diet", "user_allergy", "user_condition"),
    ),
    (
        _compile_phrases(r"my (?:medical |health )(?:conditions?|issues?|problems?|history)", r"conditions? do i have"),
        ("user_condition", "user_allergy"),
    ),
    (
        _compile_phrases(r"am i (?:married|single|divorced|engaged)", r"my (?:marital|relationship) status"),
        ("user_marriage", "user_wife", "user_husband", "user_partner"),
    ),
    (_compile_phrases(r"languages? (?:do|can) i speak"), ("user_speaks",)),
    (_compile_phrases(r"what (?:else )?do i (?:like|love|enjoy|prefer)"), ("user_like", "user_preference")),
    (
        _compile_phrases(r"what (?:else )?do i (?:dislike|hate)", r"what (?:can't i|do(?:n't| not) i) (?:like|stand)"),
        ("user_dislike",),
    ),
)
_FAVOURITE = re.compile(
    r"\b(?:what|which|who|tell|remember|know|say)\b.*\bmy favou?rite (?P<key>[^\W_]{2,30}(?: [^\W_]{2,30})?)"
)
_RELATION = re.compile(
    rf"\bwho(?:'s| is| was| are) my (?P<who>{_RELATIONS})s?\b"
    rf"|\bmy (?P<named>{_RELATIONS})(?:'s name| called| named)\b"
    rf"|\bnames? (?:of|do) my (?P<of>{_RELATIONS})s?\b"
    rf"|\bmy (?P<many>{_RELATIONS})s(?:'|) (?:names|called|named)\b"
)


def find_asked_facts(text: str) -> AskedFacts | None:
    """Return the kinds of own facts that a question asks for, None where it asks for none of them."""
    asked = text[:_LONGEST].lower().replace("\u2019", "'")
    for pattern, instead in _OF_USER:
        asked = pattern.sub(instead, asked)
    return next(_iterate_asked(asked), None)


def _iterate_asked(asked: str) -> Iterator[AskedFacts]:
    relation = _RELATION.search(asked)
    if relation:
        word = next(found for found in relation.groups() if found)
        yield AskedFacts((f"user_{word}",))
    favourite = _FAVOURITE.search(asked)
    if favourite:
        yield AskedFacts(("user_favourite",), favourite["key"])
    for pattern, fact_ids in _KINDS:
        if pattern.search(asked):
            yield AskedFacts(fact_ids)
