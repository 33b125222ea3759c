"""Reads sentences that tell a change in words of their own: "we swapped Titebond for Gorilla", by English rules. Pure.

Such a sentence names the old value (`left`), the new one, or the value chosen for something (`chosen`). `about` holds
the terms of all its other words, such as "for the drawers". Told in the future ("we will swap"), it has not happened.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from types import MappingProxyType
from typing import NamedTuple

from store.text.pattern_tables import fill_pieces
from store.text.rules.gazetteer import word_list
from store.text.rules.pattern_tables import Patterns, read_pieces, read_table
from store.text.terms import analyse_text


@dataclass(frozen=True, slots=True)
class ToldChange:
    """A change that a sentence tells: the words of the value left, or of the value chosen; `off`: it was called off.

    `version` is the new version of a thing that has one at a time, and the words of that thing: "16" of "postgres".
    """

    left: tuple[str, ...]
    chosen: tuple[str, ...]
    about: frozenset[str]
    off: bool = False
    version: tuple[str, tuple[str, ...]] | None = None


# What tells no kind of a thing: "switched to another doctor".
_NO_KIND = frozenset(
    {"new", "other", "another", "same", "different", "next", "better", "bigger", "smaller", "it", "is"}
)
_TABLE = read_table("told_changes")
_PATTERN, _PIECES = Patterns("told_changes"), read_pieces(_TABLE, {})
_LEFT, _CHOSEN = (
    tuple(re.compile(fill_pieces(one, _PIECES)) for one in _TABLE["lists"][name]) for name in ("left", "chosen")
)
#: A text without any of these words tells no such change.
CUES = word_list("change", "cue")
_BEHIND = frozenset(
    {"for", "in", "at", "on", "as", "with", "from", "of", "because", "since", "when", "after", "before"}
)
_ENDS = _BEHIND | {",", "and", "but", "so", "to", "that", "which", "who", "where"}
_CLAUSE = frozenset({",", "and", "but", "so", "because", "since", "when", "after", "before", "that", "which", "who"})
_OWN = frozenset({"the", "a", "an", "my", "our", "your", "his", "her", "their", "old", "former"})
# Words that name no thing.
_ANYTHING = frozenset({"one", "ones", "it", "that", "this", "them", "him", "all", "some", "both", "everything"})
_WHEN = word_list("change", "month") | word_list("change", "when")


def read_told_change(lows: Sequence[str]) -> ToldChange | None:
    """Return the change that a sentence of these words, in lower case without contractions, tells; None if none."""
    said = _PATTERN.in_the_end.sub("", " ".join(lows))
    if found := _PATTERN.called_off.match(said):
        return ToldChange(tuple(_drop_own(found["left"].split())), (), frozenset(), off=True)
    for pattern in _LEFT:
        found = pattern.search(said)
        if found and not _PATTERN.not_so.search(said[: found.start()]):
            left, rest = _split_thing(found["left"].split())
            left = _drop_own(left)
            new = _split_thing(found["new"].split())[1] if "new" in pattern.groupindex else []
            what = found["what"] if "what" in pattern.groupindex else None
            about = [said[: found.start()], what or "", _first_clause(rest), _first_clause(new)]
            return None if _ANYTHING.issuperset(left) else ToldChange(tuple(left), (), _list_terms(about))
    chosen = next(filter(None, (_read_chosen(said, pattern.search(said)) for pattern in _CHOSEN)), None)
    return _read_version(said, chosen, _PATTERN.raised.search(said))


def _read_version(said: str, chosen: ToldChange | None, found: re.Match[str] | None) -> ToldChange | None:
    """Return a change with the version that a sentence says a thing has now, if it says one."""
    if not found or _PATTERN.not_so.search(said[: found.start()]):
        return chosen
    value, rest = _split_thing(_drop_own(found["new"].split()))
    value = [*takewhile(lambda word: word not in _WHEN, value)]
    what = _drop_own((found["what"] or "").split())
    about = [said[: found.start()], _first_clause(rest)]
    if what and value and _PATTERN.numbered.fullmatch(value[0]):
        version = value[0], tuple(what)
    elif value[1:] and _PATTERN.numbered.fullmatch(value[-1]):
        version, about = (value[-1], tuple(value[:-1])), [*about, *what]
    elif len(value) == len(("pro", "plan")) and "moved" not in found[0] and not _NO_KIND.intersection(value):
        version, about = (value[0], (value[1],)), [*about, *what]
    else:
        return chosen
    return ToldChange((), chosen.chosen if chosen else (), _list_terms(about), version=version)


def read_now_chosen(lows: Sequence[str]) -> ToldChange | None:
    """Return the choice of "it is Obsidian for my notes", said with a word of change, such as "these days"."""
    said = " ".join(lows)
    if found := _PATTERN.now_at.fullmatch(said):
        return ToldChange((), (), frozenset(), version=(found["new"], (found["thing"],)))
    return _read_chosen(said, _PATTERN.now_chosen.search(said))


def _read_chosen(said: str, found: re.Match[str] | None) -> ToldChange | None:
    if not found or _PATTERN.not_so.search(said[: found.start()]):
        return None
    value, rest = _split_thing(_drop_own(found["new"].split()))
    what = found["what"] if "what" in found.re.groupindex else None
    about = [said[: found.start()], what or "", _first_clause(rest)]
    return ToldChange((), tuple(value), _list_terms(about)) if value else None


def _split_thing(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the words of a thing, and the words about it behind them."""
    thing = [*words[:1], *takewhile(lambda word: word not in _ENDS, words[1:])]
    return thing, words[len(thing) :]


def _first_clause(words: Sequence[str]) -> str:
    return " ".join(takewhile(lambda word: word not in _CLAUSE, words))


def _drop_own(words: list[str]) -> list[str]:
    return words[next((at for at, word in enumerate(words) if word not in _OWN), len(words)) :]


def _list_terms(parts: Sequence[str]) -> frozenset[str]:
    said = " ".join(word for part in parts for word in part.split() if word not in _WHEN)
    return frozenset(analyse_text(said).counts)


# Phrases that state an outcome, and the words that replace them in comparisons.
_TURNED_OUT: Sequence[Sequence[str]] = tuple(
    tuple(phrase.split())
    for phrase in (
        *("as it turns out", "as it turned out", "it turns out that", "it turned out that", "it turns out"),
        *("it turned out", "turned out to", "turns out to", "ended up being", "turns out", "turned out"),
    )
)
_CAME_OUT, _COPULA = frozenset({"turned", "turns", "ended"}), frozenset({"to", "being"})
_USED_TO = frozenset({"am", "is", "are", "be", "get", "got", "getting", "been"})


def drop_turned_out(lows: list[str], names: list[bool]) -> tuple[list[str], list[bool]]:
    """Return the words without those that tell how it came: "turned out to be" is the copula alone."""
    if _CAME_OUT.isdisjoint(lows):
        return lows, names
    for phrase in _TURNED_OUT:
        at = find_phrase(lows, phrase)
        if at >= 0:
            return _put_copula(lows, names, at, at + len(phrase), ends=phrase[-1])
    return lows, names


def _put_copula(lows: list[str], names: list[bool], at: int, end: int, *, ends: str) -> tuple[list[str], list[bool]]:
    if ends == "to" and (end == len(lows) or lows[end] != "be"):
        return lows[:at] + lows[end:], names[:at] + names[end:]
    if ends not in _COPULA:
        end += lows[end : end + 1] == [","]
        return lows[:at] + lows[end:], names[:at] + names[end:]
    end += ends == "to"
    return [*lows[:at], _pick_copula(lows[:at]), *lows[end:]], [*names[:at], False, *names[end:]]


def _pick_copula(subject: Sequence[str]) -> str:
    return "are" if subject and (subject[-1].endswith("s") or subject[-1] in {"we", "they", "you"}) else "is"


def cut_former(lows: list[str], names: list[bool]) -> tuple[list[str], list[bool], bool]:
    """Return the clause of a sentence that tells how things used to be, without these words, and whether it does."""
    at = find_phrase(lows, ("used", "to"))
    if at < 1 or lows[at - 1] in _USED_TO or at + 2 >= len(lows):
        return lows, names, False
    end = next((nth for nth in range(at + 2, len(lows)) if lows[nth] in {",", "but", "and", "now", "until"}), len(lows))
    clause = lows[at + 2 : end]
    if not clause:  # "I used to, but no more"
        return lows, names, False
    if clause[0] == "be":
        clause[0] = "am" if lows[at - 1] == "i" else _pick_copula(lows[:at])
    return lows[:at] + clause, names[:at] + names[at + 2 : end], True


# "Mateo owns billing" and "billing is owned by Mateo" say who the owner of billing is.
_ROLES: Mapping[str, str] = MappingProxyType(
    {"owns": "owner", "leads": "lead", "manages": "manager", "maintains": "maintainer", "chairs": "chair"}
)
_HELD: Mapping[str, str] = MappingProxyType(
    {"owned": "owner", "led": "lead", "managed": "manager", "maintained": "maintainer", "chaired": "chair"}
)
#: Other words for having charge of something, which one person has at a time.
_IN_CHARGE = tuple(
    tuple(phrase.split())
    for phrase in (
        *("is in charge of", "is responsible for", "is now in charge of", "is now responsible for"),
        *("took over", "takes over", "has taken over", "is taking over"),
    )
)
#: Whom a thing belongs to is none of these: "Rex belongs to me", "it belongs to the museum" may hold beside it.
_NO_HOLDER = frozenset({"me", "us", "you", "him", "her", "them", "a", "an", "the", "my", "our", "this", "that"})
#: Fewest words of "owner of" and a thing, less one.
SHORTEST_OF = 2
#: Fewest words before "by" of a thing that a person holds.
SHORTEST_HELD = 3
#: Most words of the person with a role; words that begin no role ("owns a car"); words for no particular person.
_MOST_OF_NAME = 3
_NO_ROLE = frozenset(
    {"a", "an", "to", "by", "it", "them", "one", "two", "three", "some", "several", "many", "no", "up"}
)
_NO_PERSON = frozenset(
    {"he", "she", "it", "who", "that", "which", "nobody", "everybody", "everyone", "someone", "one", "not"}
)


def turn_role(lows: list[str], names: list[bool]) -> tuple[list[str], list[bool], bool]:
    """Return "Mateo owns billing" as "the owner of billing is Mateo", and whether it says who has such a role."""
    found = _find_role(lows)
    if found and found.at <= _MOST_OF_NAME and _NO_PERSON.isdisjoint(lows[: found.at]) and found.thing < len(lows):
        at, thing = found.at, found.thing
        end = next((nth for nth in range(thing, len(lows)) if lows[nth] in _CLAUSE or lows[nth] == "from"), len(lows))
        what = [*lows[thing:end], "is"]
        rest = len(lows) if lows[end : end + 1] == ["from"] else end
        turned = [found.role, "of", *what, *lows[:at], *lows[rest:]]
        written = [False] * (len(what) + 2) + [lows[0] not in _OWN, *names[1:at], *names[rest:]]
        return (lows, names, False) if lows[thing] in _NO_ROLE or end == thing else (turned, written, True)
    by, before = next(
        ((at, at - 2) for at in (find_phrase(lows, ("by",)),) if at >= SHORTEST_HELD and lows[at - 1] in _HELD),
        (find_phrase(lows, ("belongs", "to")) + 1, find_phrase(lows, ("belongs", "to"))),
    )
    held = before > 0 and by + 1 < len(lows) and lows[before] in {"is", "belongs"}
    if not held or lows[by + 1] in _NO_HOLDER:
        return lows, names, False
    role = _HELD.get(lows[by - 1], "owner")
    turned = [role, "of", *lows[:before], "is", *lows[by + 1 :]]
    return turned, [False, False, *names[:before], False, *names[by + 1 :]], True


class _Role(NamedTuple):
    role: str
    at: int
    thing: int


def _find_role(lows: Sequence[str]) -> _Role | None:
    """Return the role that a sentence gives, where its verb begins, and where the words for its thing do."""
    at = next((nth for nth, low in enumerate(lows) if nth and low in _ROLES), 0)
    if at:
        return _Role(_ROLES[lows[at]], at, at + 1)
    for phrase in _IN_CHARGE:
        if (at := find_phrase(lows, phrase)) > 0:
            return _Role("owner", at, at + len(phrase))
    at = next((nth for nth in range(1, len(lows) - 2) if lows[nth] == "is"), 0)
    words = [low for low in lows[at + 1 :] if low not in {"the", "our", "new"}]
    if at and len(words) > SHORTEST_OF and words[0] in _ROLES.values() and words[1] == "of":
        return _Role(words[0], at, len(lows) - len(words) + 2)
    return None


_CLEFT = ("it", "is")


def turn_cleft(lows: list[str], names: list[bool]) -> tuple[list[str], list[bool]]:
    """Return "it is Pia who is our captain" as "our captain is Pia"."""
    if tuple(lows[:2]) != _CLEFT:
        return lows, names
    at = max(find_phrase(lows, (word, "is")) for word in ("who", "that"))
    if at <= len(_CLEFT):
        return lows, names
    return [*lows[at + 2 :], "is", *lows[2:at]], [*names[at + 2 :], False, *names[2:at]]


_POINTS = frozenset({"this", "that", "there", "here", "they", "you", "what", "where", "not"})


def turn_named(lows: list[str], names: list[bool]) -> tuple[list[str], list[bool]]:
    """Return "Clara is my manager" as "my manager is Clara"."""
    at = next((nth for nth in range(1, _MOST_OF_NAME) if lows[nth : nth + 1] == ["is"]), 0)
    what = lows[at + 2 :]
    if (
        not at
        or lows[0] in _NO_PERSON | _POINTS
        or lows[at + 1 : at + 2] not in (["my"], ["our"])
        or not 0 < len(what) <= _MOST_OF_NAME
    ):
        return lows, names
    return [*lows[at + 1 :], "is", *lows[:at]], [*names[at + 1 :], False, lows[0] not in _OWN, *names[1:at]]


def find_phrase(lows: Sequence[str], phrase: Sequence[str]) -> int:
    """Return the place of a phrase among words, -1 if it is not there."""
    if phrase[0] not in lows:
        return -1
    width = len(phrase)
    return next((at for at in range(len(lows) - width + 1) if tuple(lows[at : at + width]) == tuple(phrase)), -1)


# Words before the verb of an outcome: "ended up painting", "decided to paint".
_CAME = (("ended", "up"), ("decided", "to"))
_WILL_BE = frozenset({"am", "is", "are"})


def drop_came(lows: list[str], names: list[bool]) -> tuple[list[str], list[bool], bool]:
    """Return the words without "ended up" before a verb, and whether it was there."""
    for nth, pair in enumerate(pairwise(lows)):
        if pair == ("gave", "up") and lows[nth + 2 : nth + 3] and lows[nth + 2].endswith("ing"):
            return [*lows[:nth], "stopped", *lows[nth + 2 :]], [*names[:nth], False, *names[nth + 2 :]], False
        if pair in _CAME and nth + 2 < len(lows) and (pair[1] == "to" or lows[nth + 2].endswith("ing")):
            return lows[:nth] + lows[nth + 2 :], names[:nth] + names[nth + 2 :], True
    return lows, names, False


def reduce_words(words: Sequence[str], names: Sequence[bool]) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """Return the stems of words without auxiliaries of plans ("will paint") and of things under way."""
    kept = list[tuple[str, bool]]()
    for nth, (word, named) in enumerate(zip(words, names, strict=True)):
        following = words[nth + 1] if nth + 1 < len(words) else ""
        if word == "will" or (word in _WILL_BE and following.endswith("ing")):
            continue
        kept.append((next(iter(analyse_text(word).counts), word), named))
    return tuple(word for word, _ in kept), tuple(named for _, named in kept)
