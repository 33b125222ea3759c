"""Classifies a run of capitalised words by word lists and context."""

from dataclasses import dataclass

from store.text.rules.gazetteer import name_list, word_list
from store.text.rules.model import MentionKind
from store.text.rules.people_cues import (
    has_pronoun,
    is_actor,
    is_addressee,
    is_joined_to_person,
    is_owner,
    is_paired,
    is_signature,
    is_tended,
)
from store.text.rules.runs import NameRun
from store.text.rules.thing_cues import (
    classify_after_at,
    classify_called,
    kind_by_enjoyment,
    kind_by_in,
    kind_by_movement,
    kind_by_naming,
    kind_by_noun_before,
    kind_by_noun_behind,
    kind_by_work,
)
from store.text.rules.vocabulary import (
    everyday_words,
    is_family_name,
    is_family_plural,
    is_given_name,
    is_word,
    known_places,
)

_PLACE_BOTH = 2
_LONGEST_PERSON = 5
_LONGEST_STRANGER = 3


@dataclass(frozen=True, slots=True)
class Guess:
    """A guessed kind; `sure`: the text itself or a list supports it."""

    kind: MentionKind
    sure: bool


_UNSURE = Guess(MentionKind.NAME, sure=False)


def guess_kind(run: NameRun) -> Guess:
    """Return the most likely kind of the run; `name`, not sure, without evidence."""
    for rule in _SURE:
        if (kind := rule(run)) is not None:
            return Guess(kind, sure=True)
    return Guess(MentionKind.PERSON, sure=False) if _is_unknown_person(run) else _UNSURE


def is_believable(run: NameRun, found: Guess) -> bool:
    """Return whether the run is a name: a capital at a sentence's beginning or on a common word is not enough."""
    if len(run.parts) > 1:
        return found.sure or _is_telling(run)
    low = run.lows[0]
    if low in word_list("people", "title"):
        return False
    if not is_word(low):
        return found.sure or not run.opens or _is_subject(run)
    if not run.opens and (is_given_name(low) or _kind_by_lists(run) is not None or low not in everyday_words()):
        return True
    return any(cue(run) for cue in (is_actor, is_owner, is_paired)) or any(
        rule(run) is not None for rule in _EVEN_WORDS
    )


def is_titled_work(run: NameRun) -> bool:
    """Return whether a capital "The" before the run makes it a title: "The Rusty Anchors", but not "The Hague"."""
    before = run.before()
    if before is None or before.text != "The" or before.opens or run.parts[0].gap != " ":
        return False
    return (
        _kind_by_lists(run) in {None, MentionKind.NAME}
        and _kind_by_words(run) is None
        and _kind_by_family_name(run) is None
    )


def _is_telling(run: NameRun) -> bool:
    """Return whether enough of the words are no everyday words, which headings are made of."""
    strange = sum(low not in everyday_words() for low in run.lows)
    return strange * 2 >= len(run.parts) if run.opens else strange > 0


def _is_subject(run: NameRun) -> bool:
    """Return whether the run is what its sentence is about: "X is", "X's"."""
    after = run.after()
    if after is None:
        return False
    verb = after.low in word_list("people", "modal") or after.low in word_list("people", "says")
    return run.parts[-1].possessive or (after.gap == " " and verb)


def _subject_listed(run: NameRun) -> MentionKind | None:
    """Return the listed kind of a rare word that begins a sentence as its subject: "Python was"."""
    after = run.after()
    rare = run.lows[0] not in everyday_words() and run.lows[0] not in known_places()
    does = after is not None and after.gap == " " and after.low.endswith("ed")
    return _kind_by_lists(run) if rare and (does or _is_subject(run)) else None


def _kind_by_lists(run: NameRun) -> MentionKind | None:
    raw = run.parts[-1].text.casefold()
    name = run.name
    if name in known_places():
        if name in name_list("organisations") and kind_by_work(run) is not None:
            return MentionKind.ORGANISATION
        return MentionKind.PERSON if is_given_name(run.lows[0]) and _is_human(run) else MentionKind.PLACE
    if name in name_list("organisations") or (len(run.parts) == 1 and raw in name_list("organisations")):
        return MentionKind.ORGANISATION
    if name in name_list("products"):
        hired = kind_by_work(run) is not None
        return MentionKind.ORGANISATION if hired else MentionKind.NAME
    if len(run.parts) == _PLACE_BOTH and all(low in known_places() for low in run.lows):
        return MentionKind.PLACE
    return None


def _is_human(run: NameRun) -> bool:
    before = run.before()
    somewhere = before is not None and (before.low in word_list("place", "before") or before.low in {"to", "from"})
    return not somewhere and _kind_by_person_cues(run) is not None


def _kind_by_title(run: NameRun) -> MentionKind | None:
    lows = run.lows
    titled = len(lows) > 1 and lows[0] in word_list("people", "title") and lows[1] != "of"
    return MentionKind.PERSON if titled else None


def _kind_by_words(run: NameRun) -> MentionKind | None:
    lows = run.lows
    if len(lows) == 1:
        tall = any(lows[0].endswith(tail) and len(lows[0]) > len(tail) + 2 for tail in word_list("place", "suffix"))
        return MentionKind.PLACE if tall else None
    if any(part.gap == " & " for part in run.parts[1:]):
        return MentionKind.ORGANISATION
    if lows[-1] in word_list("organisation", "any") or (lows[0] in word_list("organisation", "any")):
        return MentionKind.ORGANISATION
    telling = not all(low in everyday_words() for low in lows[:-1])
    is_brief = not run.opens and len(run.parts) <= _LONGEST_STRANGER
    if lows[0] in word_list("place", "begins") or (lows[-1] in word_list("place", "ends") and (telling or is_brief)):
        return MentionKind.PLACE
    return MentionKind.ORGANISATION if telling and lows[-1] in word_list("organisation", "tail") else None


def _kind_by_given_name(run: NameRun) -> MentionKind | None:
    """Return PERSON by a given name; one that is also a word needs a last name that is none: not "Rose Garden"."""
    lows = run.lows
    if not is_given_name(lows[0]) or len(lows) > _LONGEST_PERSON:
        return None
    words_only = len(lows) > 1 and is_word(lows[0]) and is_word(lows[-1]) and not is_family_name(lows[-1])
    return None if words_only and not is_given_name(lows[-1]) else MentionKind.PERSON


def _kind_by_family_name(run: NameRun) -> MentionKind | None:
    lows, before = run.lows, run.before()
    if len(lows) == 1:
        plural = before is not None and before.low == "the" and is_family_plural(lows[0])
        return MentionKind.PERSON if plural else None
    named = is_family_name(lows[-1]) and len(lows) <= _LONGEST_PERSON and not all(is_word(low) for low in lows)
    return MentionKind.PERSON if named else None


def _kind_by_animal_cues(run: NameRun) -> MentionKind | None:
    return MentionKind.NAME if len(run.parts) == 1 and is_tended(run) else None


def _kind_by_person_cues(run: NameRun) -> MentionKind | None:
    if kind_by_noun_before(run) is MentionKind.PERSON or kind_by_noun_behind(run) is MentionKind.PERSON:
        return MentionKind.PERSON
    found = any(cue(run) for cue in (is_actor, is_addressee, is_joined_to_person, is_owner, is_signature))
    return MentionKind.PERSON if found else None


def _is_unknown_person(run: NameRun) -> bool:
    """Return whether an unknown name is rather a person's: foreign words, a family name, "he" after it."""
    lows = run.lows
    foreign = not any(is_word(low) for low in lows)
    if len(lows) > 1:
        return foreign and len(lows) <= _LONGEST_STRANGER
    return foreign and (run.parts[0].possessive or is_family_name(lows[0]) or has_pronoun(run))


_SURE = (
    *(
        kind_by_naming,
        _kind_by_title,
        kind_by_noun_before,
        _kind_by_lists,
        _kind_by_words,
        kind_by_noun_behind,
        kind_by_in,
    ),
    *(
        _kind_by_given_name,
        _kind_by_family_name,
        kind_by_enjoyment,
        kind_by_work,
        kind_by_movement,
        _kind_by_animal_cues,
        classify_after_at,
        _kind_by_person_cues,
        classify_called,
    ),
)
_EVEN_WORDS = (kind_by_noun_before, kind_by_noun_behind, kind_by_naming, classify_called, _subject_listed)
