"""What the value of a rule stands for: other spellings, several things, or nothing where it is of another kind."""

import re
from collections.abc import Callable, Mapping, Sequence

from store.text.rules.gazetteer import name_list, word_list
from store.text.rules.vocabulary import is_given_name, is_word, known_places, known_things

_PLURALS = (("ies", "y"), ("s", ""))
#: Ends of German words for what goes on during work: "bei Sonnenaufgang", "bei Besprechungen".
_ABSTRACT = ("gang", "ung", "ungen", "heit", "keit")
#: What people are allergic to or dislike in a figure of speech.
_FIGURATIVE = re.compile(
    r"(?:heit|keit|idioten|l\u00fcgner|l\u00fcgen|(?:mon|diens|donners|frei|sams|sonn)tage?|meetings?|besprechungen"
    r"|ausreden|aufstehen|arbeit|stress|hektik|l\u00e4rm|drama|politik|excel|jira|smalltalk|hausaufgaben|putzen|aufr\u00e4umen)\Z",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r",? (?:und|oder|sowie) |, ")
_LIST_AND = re.compile(r",? (?:y|e|et|ed|o|ou|und|and) |, ", re.IGNORECASE)
_LIST_ARTICLE = re.compile(
    r"\A(?:(?:un poco de|algo de|un peu de|um pouco de|un po['\u2019]? di|etwas|ein bisschen|ein wenig|auch|tambi[eé]n"
    r"|aussi|anche|de|a|al|[àa] la|aux?|alla|alle|agli|ai|du)(?: |\b(?=[dl]['\u2019]))|un peu d['\u2019]|all['\u2019])?"
    r"(?:(?:el|la|los|las|le|les|o|a|os|as|il|lo|i|gli) |l['\u2019])?",
    re.IGNORECASE,
)


def name_company(said: str) -> Sequence[str]:
    """Return an employer, nothing where the word is a place or a person: "Trabajo en Madrid"."""
    low = said.casefold()
    other = low in known_things() or is_given_name(low)
    return () if other and low not in name_list("organisations") else (said,)


def name_employer(said: str) -> Sequence[str]:
    """Return an employer; nothing for a person's name, or for an occasion during which a person works."""
    low = said.casefold()
    is_other = " " not in low and (is_given_name(low) or low.endswith(_ABSTRACT))
    return () if is_other and low not in name_list("organisations") else (said,)


def name_given(said: str) -> Sequence[str]:
    """Return a person's name, nothing for another noun: "meine Frau \u00c4rztin"."""
    return (said,) if is_given_name(said.casefold()) else ()


def name_job(said: str) -> Sequence[str]:
    """Return a job, nothing where the word is a person's name."""
    return () if is_given_name(said.casefold()) else (said,)


def split_nouns(said: str) -> Sequence[str]:
    """Return each thing of a list: what is liked is no person, and an allergy against stupidity is none."""
    return tuple(one for one in _BETWEEN.split(said) if not _is_person(one.casefold()) and not _FIGURATIVE.search(one))


def _is_person(low: str) -> bool:
    return is_given_name(low) and not is_word(low) and low not in known_places()


def split_values(said: str) -> Sequence[str]:
    """Return each value of a list in a language of the tables, without article: "nueces y al huevo", "Mia und Ben"."""
    return tuple(_LIST_ARTICLE.sub("", one).strip() for one in _LIST_AND.split(said))


def vary_number(value: str) -> Sequence[str]:
    """Return a value and what it is called in the other number: "nut" and "nuts"."""
    low = value.casefold()
    for ending, instead in _PLURALS:
        if low.endswith(ending):
            return value, value[: -len(ending)] + instead
    if low.split()[-1] in word_list("deed", "uncounted"):
        return (value,)
    return value, value[:-1] + "ies" if low.endswith("y") else value + "s"


def vary_condition(value: str) -> Sequence[str]:
    """Return an illness, and its other number where it comes in attacks."""
    return vary_number(value) if "migraine" in value.casefold() else (value,)


def vary_hyphen(value: str) -> Sequence[str]:
    """Return a value with and without its hyphen: "gluten-free" and "gluten free"."""
    return tuple(dict.fromkeys((value, value.replace("-", " "), value.replace(" free", "-free"))))


#: The functions by the names that rules give them; a rule without one takes its value as it stands.
ENDS: Mapping[str, Callable[[str], Sequence[str]] | None] = {
    one.__name__: one
    for one in (
        name_company,
        name_employer,
        name_given,
        name_job,
        split_nouns,
        split_values,
        vary_number,
        vary_condition,
        vary_hyphen,
    )
} | {"": None}
