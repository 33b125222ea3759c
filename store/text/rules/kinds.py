"""What a run of capitalised words names, by the lists and by the words around it."""

from dataclasses import dataclass

from store.text.rules.gazetteer import names, words
from store.text.rules.model import MentionKind
from store.text.rules.people_cues import acts, beside_me, owns, paired, personal, signs, tended, told
from store.text.rules.runs import Run
from store.text.rules.thing_cues import (
    called,
    employer,
    enjoyed,
    explained,
    inside,
    introduced,
    just_called,
    situated,
    stands_at,
)
from store.text.rules.vocabulary import everyday, families, family, given, is_word, places

_PLACE_BOTH = 2
_LONGEST_PERSON = 5
_LONGEST_STRANGER = 3


@dataclass(frozen=True, slots=True)
class Guess:
    """A kind, and whether the text itself or the lists speak for it (`sure`) or little does."""

    kind: MentionKind
    sure: bool


_UNSURE = Guess(MentionKind.NAME, sure=False)


def guess(run: Run) -> Guess:
    """Return what the run most likely names; `name` and not sure when nothing tells."""
    for rule in _SURE:
        if (kind := rule(run)) is not None:
            return Guess(kind, sure=True)
    return Guess(MentionKind.PERSON, sure=False) if _stranger(run) else _UNSURE


def believable(run: Run, found: Guess) -> bool:
    """Whether the run is a name at all: a capital at a sentence's beginning or on a common word is not enough."""
    if len(run.parts) > 1:
        return found.sure or _telling(run)
    low = run.lows[0]
    if low in words("people", "title"):
        return False
    if not is_word(low):
        return found.sure or not run.opens or _subject(run)
    if not run.opens and (given(low) or _listed(run) is not None or low not in everyday()):
        return True
    return any(cue(run) for cue in (acts, owns, paired)) or any(rule(run) is not None for rule in _EVEN_WORDS)


def entitled(run: Run) -> bool:
    """Whether a capital "The" before the run makes it a title: "The Rusty Anchors", but not "The Hague"."""
    before = run.before()
    if before is None or before.text != "The" or before.opens or run.parts[0].gap != " ":
        return False
    return _listed(run) in {None, MentionKind.NAME} and _worded(run) is None and _family(run) is None


def _telling(run: Run) -> bool:
    """Whether enough of the words are no everyday words, which headings are made of."""
    strange = sum(low not in everyday() for low in run.lows)
    return strange * 2 >= len(run.parts) if run.opens else strange > 0


def _subject(run: Run) -> bool:
    """Whether the run is what its sentence is about: "X is", "X's"."""
    after = run.after()
    if after is None:
        return False
    verb = after.low in words("people", "modal") or after.low in words("people", "says")
    return run.parts[-1].possessive or (after.gap == " " and verb)


def _subject_listed(run: Run) -> MentionKind | None:
    """Let a listed name that is a rare word as well begin a sentence when a verb follows: "Python was"."""
    after = run.after()
    rare = run.lows[0] not in everyday() and run.lows[0] not in places()
    does = after is not None and after.gap == " " and after.low.endswith("ed")
    return _listed(run) if rare and (does or _subject(run)) else None


def _listed(run: Run) -> MentionKind | None:
    raw = run.parts[-1].text.casefold()
    name = run.name
    if name in places():
        if name in names("organisations") and employer(run) is not None:
            return MentionKind.ORGANISATION
        return MentionKind.PERSON if given(run.lows[0]) and _human(run) else MentionKind.PLACE
    if name in names("organisations") or (len(run.parts) == 1 and raw in names("organisations")):
        return MentionKind.ORGANISATION
    if name in names("products"):
        hired = employer(run) is not None
        return MentionKind.ORGANISATION if hired else MentionKind.NAME
    if len(run.parts) == _PLACE_BOTH and all(low in places() for low in run.lows):
        return MentionKind.PLACE
    return None


def _human(run: Run) -> bool:
    before = run.before()
    somewhere = before is not None and (before.low in words("place", "before") or before.low in {"to", "from"})
    return not somewhere and _person(run) is not None


def _titled(run: Run) -> MentionKind | None:
    lows = run.lows
    titled = len(lows) > 1 and lows[0] in words("people", "title") and lows[1] != "of"
    return MentionKind.PERSON if titled else None


def _worded(run: Run) -> MentionKind | None:
    lows = run.lows
    if len(lows) == 1:
        tall = any(lows[0].endswith(tail) and len(lows[0]) > len(tail) + 2 for tail in words("place", "suffix"))
        return MentionKind.PLACE if tall else None
    if any(part.gap == " & " for part in run.parts[1:]):
        return MentionKind.ORGANISATION
    if lows[-1] in words("organisation", "any") or (lows[0] in words("organisation", "any")):
        return MentionKind.ORGANISATION
    telling = not all(low in everyday() for low in lows[:-1])
    if lows[0] in words("place", "begins") or (lows[-1] in words("place", "ends") and (telling or _brief(run))):
        return MentionKind.PLACE
    return MentionKind.ORGANISATION if telling and lows[-1] in words("organisation", "tail") else None


def _brief(run: Run) -> bool:
    return not run.opens and len(run.parts) <= _LONGEST_STRANGER


def _given(run: Run) -> MentionKind | None:
    """Tell by a given name; one that is a word needs a last name that is none: "Rose Garden" is nobody."""
    lows = run.lows
    if not given(lows[0]) or len(lows) > _LONGEST_PERSON:
        return None
    words_only = len(lows) > 1 and is_word(lows[0]) and is_word(lows[-1]) and not family(lows[-1])
    return None if words_only and not given(lows[-1]) else MentionKind.PERSON


def _family(run: Run) -> MentionKind | None:
    lows, before = run.lows, run.before()
    if len(lows) == 1:
        plural = before is not None and before.low == "the" and families(lows[0])
        return MentionKind.PERSON if plural else None
    named = family(lows[-1]) and len(lows) <= _LONGEST_PERSON and not all(is_word(low) for low in lows)
    return MentionKind.PERSON if named else None


def _animal(run: Run) -> MentionKind | None:
    return MentionKind.NAME if len(run.parts) == 1 and tended(run) else None


def _person(run: Run) -> MentionKind | None:
    if introduced(run) is MentionKind.PERSON or explained(run) is MentionKind.PERSON:
        return MentionKind.PERSON
    found = any(cue(run) for cue in (acts, told, beside_me, owns, signs))
    return MentionKind.PERSON if found else None


def _stranger(run: Run) -> bool:
    """Whether an unknown name is a person's rather than a thing's: foreign words, a family name, "he" behind it."""
    lows = run.lows
    foreign = not any(is_word(low) for low in lows)
    if len(lows) > 1:
        return foreign and len(lows) <= _LONGEST_STRANGER
    return foreign and (run.parts[0].possessive or family(lows[0]) or personal(run))


_SURE = (
    *(called, _titled, introduced, _listed, _worded, explained, inside),
    *(_given, _family, enjoyed, employer, situated, _animal, stands_at, _person, just_called),
)
_EVEN_WORDS = (introduced, explained, called, just_called, _subject_listed)
