"""Finds bare corrections: "Correction: not Bonn, Cologne." names a wrong value and the right one, and nothing else.

What they correct stands in an earlier message. Pure; English.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from store.text.rules.addresses import mask_spans
from store.text.rules.canonical import canonical_name
from store.text.rules.dates import find_dates
from store.text.rules.fact_rules import RULES
from store.text.rules.facts import MINED_ROLE, cut_value
from store.text.rules.model import ExtractedFact, MessageText, TextSpan
from store.text.rules.retractions import find_unstated
from store.text.rules.rule import Rule, ValueShape

#: Most corrections of one message that are read.
MOST = 4
_VALUE = r"[^\W_](?:[^.!?,;:\n\r\0]{0,60}?[^\W_])?"
_WORD_BEFORE = r"(?:correction|sorry|oops|pardon|my mistake|no|wait|i mean|i meant)"
_MEANT = r"(?:but |i meant |i mean |i should have said |it's |it is |it should be |make that |rather )"
_SENTENCE = r"(?:(?<=[.!?\n])\s{0,3}|\A\s{0,3})"
_END = r"\s{0,3}(?=[.!\n]|\Z)"
_DASH = r"\s{0,2}[:,.\u2013\u2014-]?\s{1,2}"
_NOT_THEN = re.compile(
    rf"{_SENTENCE}(?P<lead>{_WORD_BEFORE}{_DASH})?not (?P<wrong>{_VALUE})"
    rf"(?:\s?[,;\u2013\u2014-]\s?(?P<meant>{_MEANT})?| (?P<but>but ))(?P<right>{_VALUE}){_END}",
    re.IGNORECASE,
)
_THEN_NOT = re.compile(
    rf"{_SENTENCE}(?P<lead>{_WORD_BEFORE}{_DASH})?(?P<meant>{_MEANT})?(?P<right>{_VALUE})"
    rf"(?:\s?[,;\u2013\u2014-]\s?| )(?:and )?not (?P<wrong>{_VALUE}){_END}",
    re.IGNORECASE,
)
_NO_VALUE = re.compile(
    r"\b(?:i|you|he|she|we|they|it|is|are|am|was|were|do|does|will|would|can|not|because|if|that|this|so|just|only|sure"
    r"|really|yet|now|here|today|at all|bad|good|too|very|much)\b",
    re.IGNORECASE,
)
#: Rules of facts of which a person has one for each key, by the kind of fact.
_ONE_VALUED: Mapping[str, Rule] = {
    rule.fact_id: rule
    for rule in reversed(RULES)
    if not rule.contracted and (not rule.many or "key" in rule.opening.groupindex)
}


@dataclass(frozen=True, slots=True)
class Correction:
    """A bare correction: `right` takes the place of `wrong`; `span` is that of `right` in its message."""

    ordinal: int
    wrong: str = field(repr=False)
    right: str = field(repr=False)
    span: TextSpan


def find_corrections(message: MessageText, ordinal: int) -> list[Correction]:
    """Return the bare corrections of a message in the order of its text, of what people say in their own words.

    Takes time in proportion to the text, never raises.
    """
    low = message.content.lower()
    if message.role != MINED_ROLE or not ("not " in low and _MAY_CORRECT.search(low)):
        return []
    said = mask_spans(message.content, find_unstated(message.content, message.name))
    found = dict[int, Correction]()
    for pattern in (_NOT_THEN, _THEN_NOT):
        for match in islice(pattern.finditer(said), MOST):
            if _is_bare(match):
                found.setdefault(match.start(), _build_correction(match, message, ordinal))
    return [found[start] for start in sorted(found)]


_MAY_CORRECT = re.compile(rf"\b{_WORD_BEFORE}\b|\b{_MEANT}")


def _is_bare(match: re.Match[str]) -> bool:
    """Return whether a sentence says that it corrects, and names two values and no more."""
    groups = match.groupdict()
    says = groups["lead"] or groups["meant"] or groups.get("but")
    if not says or groups["wrong"].casefold() == groups["right"].casefold():
        return False
    return not any(_NO_VALUE.search(groups[name]) for name in ("wrong", "right"))


def _build_correction(match: re.Match[str], message: MessageText, ordinal: int) -> Correction:
    start = match.start("right")
    right = cut_value(message.content[start : match.end("right")])
    wrong = message.content[match.start("wrong") : match.end("wrong")]
    return Correction(ordinal, wrong, right, TextSpan(start, start + len(right)))


def correct_fact(correction: Correction, fact_id: str, key: str, subject: str | None) -> ExtractedFact | None:
    """Return the fact that a correction of the fact of this kind and key states.

    None for a fact of which a person has several, and for a value that cannot be one of its kind.
    """
    rule = _ONE_VALUED.get(fact_id)
    if rule is None or key == canonical_name(correction.wrong) or not _fits_rule(rule, correction):
        return None
    return ExtractedFact(
        fact_id=fact_id,
        key=key,
        slug=f"corrected-{rule.slug}-{key}",
        value=correction.right,
        tier=rule.tier,
        confidence=rule.confidence,
        subject=subject,
        statement=rule.says.format(who=subject or "The user", key=key, value=correction.right),
        ordinal=correction.ordinal,
        span=correction.span,
    )


def _fits_rule(rule: Rule, correction: Correction) -> bool:
    """Return whether the right value is of the form that the rule asks of one: a day, or a name like the wrong one."""
    if rule.shape is ValueShape.DAY:
        return bool(find_dates(correction.right, None))
    return not correction.wrong[0].isupper() or not correction.right[0].islower()
