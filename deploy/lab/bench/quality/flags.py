"""Figures of the evidence flags: detection rate and false alarms. Pure."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from afterturn_client.answers import Evidence

from deploy.lab.bench.quality.material import ADVERSARIAL, Dialogue, DialogueQuestion

#: Groups of questions: with an answer; about the wrong person, as the data has them; with the other speaker's name put
#: in; and those of another conversation.
ANSWERABLE, WRONG_PERSON, SWAPPED, ELSEWHERE = "answerable", "wrong person", "names swapped", "another conversation's"
GROUPS = (ANSWERABLE, WRONG_PERSON, SWAPPED, ELSEWHERE)


@dataclass(frozen=True, slots=True)
class FlaggedAnswer:
    """What an answer to a question of a group says of itself."""

    group: str
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class FlagShares:
    """Of a group's answers: the shares that named one speaker, told another speaker, and were on topic.

    Of answerable questions `other_speaker` is the rate of false alarms, and `on_topic` what a floor would keep.
    """

    group: str
    questions: int
    one_speaker: float
    other_speaker: float
    on_topic: float


def name_group(asked: DialogueQuestion) -> str:
    """Return the group of a question of the data."""
    return WRONG_PERSON if asked.category == ADVERSARIAL else ANSWERABLE


def swap_names(dialogue: Dialogue) -> Iterator[str]:
    """Yield the questions of a talk of two that name who said all of their evidence, with the other one's name."""
    names = {one.id: one.name for one in dialogue.said}
    speakers = {name for name in names.values() if name}
    if len(speakers) != 2:  # noqa: PLR2004 - of three, nobody knows whose name to put in
        return
    for asked in dialogue.asked:
        named = [one for one in speakers if _find_name(one, asked.text)]
        if name_group(asked) == ANSWERABLE and len(named) == 1 and {names[one] for one in asked.evidence} == {*named}:
            [other] = speakers.difference(named)
            yield other.join(re.split(_pattern(named[0]), asked.text))


def list_elsewhere(dialogues: Sequence[Dialogue], nth: int) -> Sequence[str]:
    """Return the questions of the dialogue after this one, the first after the last; none where there is no other."""
    other = (nth + 1) % len(dialogues)
    return [] if other == nth else [asked.text for asked in dialogues[other].asked]


def count_flags(answers: Collection[FlaggedAnswer]) -> list[FlagShares]:
    """Return the shares of each group that has questions."""
    groups = {group: [one.evidence for one in answers if one.group == group] for group in GROUPS}
    return [_count_group(group, found) for group, found in groups.items() if found]


def _count_group(group: str, found: Sequence[Evidence]) -> FlagShares:
    return FlagShares(
        group,
        len(found),
        one_speaker=fmean(one.about is not None for one in found),
        other_speaker=fmean(one.about == "other_speaker" for one in found),
        on_topic=fmean(one.on_topic for one in found),
    )


def _find_name(name: str, text: str) -> bool:
    return re.search(_pattern(name), text) is not None


def _pattern(name: str) -> str:
    return rf"\b{re.escape(name)}\b"
