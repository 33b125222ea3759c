"""Puts German sentences in the words of the rules of change: "wir sind auf Node umgestiegen" is "we switched to Node".

Only the words that such rules look for are put in English, and the verb at the end goes behind its auxiliary. Pure.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

#: Words of which a German sentence that tells a change has one.
_SIGNS = frozenset({"ist", "sind", "ich", "wir", "wurde", "wurden", "unser", "unsere", "mein", "meine"})
_MEANS: Mapping[str, str] = MappingProxyType(
    {
        said: meant
        for meant, words in (
            *(("i", "ich"), ("we", "wir"), ("you", "du ihr"), ("he", "er"), ("she", "sie"), ("it", "es")),
            *(("my", "mein meine meinen meinem meiner"), ("our", "unser unsere unseren unserem unserer")),
            *(
                ("is", "ist wird hei\u00dft heisst"),
                ("are", "sind"),
                ("am", "bin"),
                ("have", "habe haben"),
                ("has", "hat"),
            ),
            *(("was", "wurde wurden war waren"), ("the", "der die das den dem des ein eine einen einem einer")),
            *(
                ("now", "jetzt nun inzwischen mittlerweile erst"),
                ("instead", "stattdessen"),
                ("actually", "doch"),
                ("not", "nicht kein keine keinen"),
            ),
            *(("and", "und"), ("or", "oder"), ("but", "aber"), ("also", "auch"), ("still", "noch weiterhin")),
            *(
                ("at", "um bei"),
                ("on", "am auf an"),
                ("in", "im in"),
                ("with", "mit"),
                ("for", "f\u00fcr"),
                ("from", "von vom"),
            ),
            *(
                ("to", "zu zum zur nach"),
                ("until", "bis"),
                ("room", "raum zimmer"),
                ("new", "neu neue neuer neues neuen"),
            ),
            *(
                ("use", "nutze nutzen benutze benutzen verwende verwenden"),
                ("run", "fahre fahren"),
                ("runs", "l\u00e4uft"),
            ),
            *(
                ("live", "wohne wohnen lebe leben"),
                ("work", "arbeite arbeiten"),
                ("pay", "zahle zahlen"),
                ("costs", "kostet"),
            ),
            *(("drink", "trinke trinken"), ("eat", "esse essen"), ("like", "mag m\u00f6gen"), ("love", "liebe lieben")),
            *(("monday", "montag montags"), ("tuesday", "dienstag dienstags"), ("wednesday", "mittwoch mittwochs")),
            *(("thursday", "donnerstag donnerstags"), ("friday", "freitag freitags"), ("saturday", "samstag samstags")),
            *(("sunday", "sonntag sonntags"), ("january", "januar"), ("february", "februar"), ("march", "m\u00e4rz")),
            *(("may", "mai"), ("june", "juni"), ("july", "juli"), ("october", "oktober"), ("december", "dezember")),
            *(("two", "zwei"), ("three", "drei"), ("four", "vier"), ("five", "f\u00fcnf"), ("six", "sechs")),
            *(("seven", "sieben"), ("eight", "acht"), ("nine", "neun"), ("ten", "zehn"), ("twelve", "zw\u00f6lf")),
        )
        for said in words.split()
    }
)
#: Verbs at the end of what tells a change: "auf Montag verschoben", "auf Node 22 umgestiegen".
_CHANGED: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("umgestiegen", "gewechselt", "migriert", "umgestellt"), "switched")
    | dict.fromkeys(("verschoben", "verlegt", "vorverlegt", "vorgezogen"), "moved")
    | dict.fromkeys(("ge\u00e4ndert", "angepasst"), "changed")
    | dict.fromkeys(("aktualisiert", "hochgestuft", "geupdatet", "geupgradet", "upgegradet"), "upgraded")
    | {"erh\u00f6ht": "raised", "angehoben": "bumped", "gesenkt": "lowered", "gestiegen": "rose", "gesunken": "fell"}
)
_AUXILIARIES = frozenset({"have", "has", "are", "am", "is", "was"})
#: What stands behind a clock's number, and what tells no more than "now" does.
_DROPPED = frozenset({"uhr", "seit", "heute"})
_TO = frozenset({"auf", "zu", "zum", "zur"})


def is_german(lows: Sequence[str]) -> bool:
    """Return whether a sentence of these words, in lower case, is a German one that may tell how things are."""
    return not _SIGNS.isdisjoint(lows)


def turn_german(lows: Sequence[str], names: Sequence[bool]) -> tuple[list[str], list[bool]]:
    """Return the words of a German sentence with those that tell a change in English, and which of them are names."""
    ends = next((nth for nth, low in enumerate(lows) if low in _CHANGED), -1)
    turned = list[tuple[str, bool]]()
    for nth, (low, named) in enumerate(zip(lows, names, strict=True)):
        if nth == ends or low in _DROPPED:
            continue
        meant = "to" if ends >= 0 and low in _TO else "anymore" if low == "mehr" else _MEANS.get(low, low)
        turned.append((meant, named and meant == low))
    if ends >= 0:
        at = next((nth + 1 for nth, (low, _) in enumerate(turned) if low in _AUXILIARIES), len(turned))
        turned.insert(at, (_CHANGED[lows[ends]], False))
    return [low for low, _ in turned], [named for _, named in turned]
