"""What a question asks for and what a text holds, as data for each language that has such rules."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from re import Pattern

from store.recall.calendars import calendars


@dataclass(frozen=True, slots=True)
class Language:
    """Patterns of one language; each is searched anywhere in a text in lower case and without accents.

    asks_*: what a question wants. tells_*: what a text must hold to answer it. `self_words` are what a speaker says for
    himself and for what is his.
    """

    self_words: tuple[str, str]
    asks_time: Pattern[str]
    tells_time: Pattern[str]
    asks_number: Pattern[str]
    tells_number: Pattern[str]
    asks_assistant: Pattern[str]
    tells_of_self: Pattern[str]


def _words(*groups: str) -> str:
    return r"\b(?:" + "|".join("|".join(group.split()) for group in groups) + r")\b"


def _any(*patterns: str) -> Pattern[str]:
    return re.compile("|".join(patterns))


ENGLISH = Language(
    self_words=("I", "my"),
    asks_time=_any(r"\A\s*when\b", r"\bwhat (?:date|day|month|year|time)\b", r"\bhow long\b"),
    tells_time=_any(
        _words(
            "yesterday today tonight tomorrow last next ago recently morning evening",
            "week weekend month year",
            "monday tuesday wednesday thursday friday saturday sunday",
            "january february march april may june july august september october november december",
        ),
        r"\b(?:19|20)\d\d\b",
        r"\b\d+(?:st|nd|rd|th)\b",
    ),
    asks_number=_any(r"\bhow (?:many|much|often)\b"),
    tells_number=_any(
        _words(
            "one two three four five six seven eight nine ten once twice couple few several dozen",
            "first second third",
        ),
        r"\b\d+\b",
    ),
    asks_assistant=_any(
        r"\b(?:did|have|had) you\b",
        r"\byou (?:\w+ )?(?:said|told|suggested|recommended|gave|mentioned|provided|listed|advised|explained"
        r"|proposed)\b",
    ),
    tells_of_self=_any(_words("i my me we our us")),
)


def _language(code: str, self_words: tuple[str, str], of_self: str, **asks: str) -> Language:
    """Make a language whose times and numbers are those of its calendar."""
    calendar = calendars()[code]
    seasons, units = "|".join(calendar.seasons), "|".join(calendar.units.values())
    days, near = "|".join(calendar.days), rf"{calendar.last}|{calendar.next}"
    times = "|".join((*calendar.months, *calendar.weekdays, seasons, units, days, near, calendar.weekend))
    return Language(
        self_words=self_words,
        asks_time=_any(asks["time"]),
        tells_time=_any(rf"\b(?:{times})\b", r"\b(?:19|20)\d\d\b"),
        asks_number=_any(asks["number"]),
        tells_number=_any(rf"\b(?:{'|'.join(calendar.numbers)})\b", r"\b\d+\b"),
        asks_assistant=_any(asks["assistant"]),
        tells_of_self=_any(_words(of_self)),
    )


@cache
def languages() -> Mapping[str, Language]:
    """Return the languages there are, by code; those that have a calendar."""
    return {
        "en": ENGLISH,
        "de": _language(
            "de",
            ("ich", "mein"),
            "ich mich mir mein meine meinen meinem meiner wir uns unser unsere",
            time=r"\b(?:wann|wie lange)\b|\bwelche[mns]? (?:datum|tag|monat|jahr|uhrzeit)\b",
            number=r"\bwie ?(?:viele?|oft)\b",
            assistant=r"\b(?:hast|hattest) du\b|\b(?:haben|hatten) sie mir\b|\bdu mir\b",
        ),
        "fr": _language(
            "fr",
            ("je", "mon"),
            "je j moi mon ma mes nous notre nos",
            time=r"\bquand\b|\bcombien de temps\b|\bquel(?:le)? (?:date|jour|mois|annee|heure)\b",
            number=r"\bcombien\b",
            assistant=r"\b(?:as-tu|avez-vous|tu m'?as|vous m'?avez|tu as (?:dit|propose|conseille|recommande))\b",
        ),
        "pt": _language(
            "pt",
            ("eu", "meu"),
            "eu mim meu minha meus minhas nosso nossa",
            time=r"\bquando\b|\bquanto tempo\b|\b(?:que|qual) (?:data|dia|mes|ano|hora)\b",
            number=r"\bquant[oa]s?\b",
            assistant=r"\b(?:voce|tu) (?:me )?(?:disse|sugeriu|recomendou|deu|aconselhou|disseste|sugeriste)\b",
        ),
        "es": _language(
            "es",
            ("yo", "mi"),
            "yo mi mis nosotros nosotras nuestro nuestra",
            time=r"\bcuando\b|\bcuanto tiempo\b|\b(?:que|cual) (?:fecha|dia|mes|ano|hora)\b",
            number=r"\bcuant[oa]s?\b",
            assistant=r"\b(?:dijiste|sugeriste|recomendaste|propusiste|aconsejaste|mencionaste|explicaste)\b",
        ),
        "it": _language(
            "it",
            ("io", "mio"),
            "io mio mia miei mie noi nostro nostra",
            time=r"\bquando\b|\bquanto tempo\b|\bche (?:data|giorno|mese|anno|ora)\b",
            number=r"\bquant[oaie]\b",
            assistant=r"\b(?:hai|avevi) (?:detto|suggerito|consigliato|proposto|raccomandato|spiegato)\b",
        ),
        "nl": _language(
            "nl",
            ("ik", "mijn"),
            "ik mij mijn wij ons onze",
            time=r"\b(?:wanneer|hoe lang)\b|\bwelke? (?:datum|dag|maand|jaar)\b|\bhoe laat\b",
            number=r"\bhoe (?:veel|vaak)\b|\bhoeveel\b",
            assistant=r"\b(?:heb|had) (?:je|jij|u)\b",
        ),
    }
