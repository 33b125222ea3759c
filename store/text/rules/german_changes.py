"""Puts German sentences in the words of the rules of change: "wir sind auf Node umgestiegen" is "we switched to Node".

Only the words that such rules look for are put in English, and the verb at the end goes behind its auxiliary. Pure.
"""

from collections.abc import Mapping, Sequence

from store.text.rules.pattern_tables import read_table

#: Words of which a German sentence that tells a change has one.
_SIGNS = frozenset({"ist", "sind", "ich", "wir", "wurde", "wurden", "unser", "unsere", "mein", "meine"})
_TABLE = read_table("german_changes")


def _read_meanings(table: Mapping[str, str]) -> Mapping[str, str]:
    return {said: meant for meant, words in table.items() for said in words.split()}


_MEANS, _CHANGED = _read_meanings(_TABLE["means"]), _read_meanings(_TABLE["changed"])
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
