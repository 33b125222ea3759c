"""Pure computation of the evidence flags' figures: detection rates and false alarms."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from afterturn_client.contract.recall import Evidence

from deploy.lab.bench.quality.material import ADVERSARIAL, Dialogue, DialogueQuestion

#: Groups of questions: answerable; about the wrong person, as in the data; with the other speaker's name; and of
#: another conversation.
ANSWERABLE, WRONG_PERSON, SWAPPED, ELSEWHERE = "answerable", "wrong person", "names swapped", "another conversation's"
GROUPS = (ANSWERABLE, WRONG_PERSON, SWAPPED, ELSEWHERE)


@dataclass(frozen=True, slots=True)
class FlaggedAnswer:
    """The evidence flags of an answer to a question of a group."""

    group: str
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class FlagShares:
    """The shares of a group's answers about one named speaker, flagged `other_speaker`, and on topic.

    For answerable questions, `other_speaker` is the rate of false alarms, `on_topic` the share that a threshold keeps.
    """

    group: str
    questions: int
    one_speaker: float
    other_speaker: float
    on_topic: float


def name_group(asked: DialogueQuestion) -> str:
    """Return the group of a question from the data."""
    return WRONG_PERSON if asked.category == ADVERSARIAL else ANSWERABLE


def swap_names(dialogue: Dialogue) -> Iterator[str]:
    """Yield, with the other speaker's name, those questions of a dialogue of two that name the evidence's speaker."""
    names = {one.id: one.name for one in dialogue.said}
    speakers = {name for name in names.values() if name}
    if len(speakers) != 2:  # noqa: PLR2004 - with three, the other name would be ambiguous
        return
    for asked in dialogue.asked:
        named = [one for one in speakers if _find_name(one, asked.text)]
        if name_group(asked) == ANSWERABLE and len(named) == 1 and {names[one] for one in asked.evidence} == {*named}:
            [other] = speakers.difference(named)
            yield other.join(re.split(_build_pattern(named[0]), asked.text))


def list_elsewhere(dialogues: Sequence[Dialogue], nth: int) -> Sequence[str]:
    """Return the questions of the next dialogue, cyclically; none when there is only one dialogue."""
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
    return re.search(_build_pattern(name), text) is not None


def _build_pattern(name: str) -> str:
    return rf"\b{re.escape(name)}\b"
