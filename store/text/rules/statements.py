"""Tells whether a clause states what it says, or asks, supposes, reports or describes."""

import re

from store.text.rules.pattern_tables import Patterns

_PATTERN = Patterns("statement_patterns")

_SUPPOSED_LENGTH = 36

# A sentence is read this far to both sides of what it tells.
_AROUND = 240


_EXAMPLE_LENGTH = 24


def is_stated(text: str, start: int, value: int, end: int) -> bool:
    """Return whether a sentence states the clause that begins at `start`, with its value in `value` to `end`.

    Not where it is negated, doubted, asked, a condition or a wish, what others say, an example, or describes a noun.
    """
    before = _PATTERN.ends.split(text[max(0, start - _AROUND) : start])[-1]
    if (
        _PATTERN.open_quote.search(before)
        or _PATTERN.describes.search(before)
        or _PATTERN.negated_value.match(text, value)
    ):
        return False
    if _is_meant_otherwise(before, text, start):
        return False
    clause = _last_clause(before)
    governed = _PATTERN.reported.search(before) or _PATTERN.governed.search(clause)
    if _PATTERN.to_forget.search(clause) or (governed and not _PATTERN.factive.search(before)):
        return False
    rest, asked = _read_rest(text, end)
    if asked and clause.strip() and _PATTERN.asks.match(before):
        return False
    if asked and _PATTERN.asked_back.match(rest):
        asked = False
    if asked and not clause.strip() and _PATTERN.asked_before.search(before):
        asked = False
    behind = text[value:end] + rest
    if _PATTERN.denied_after.search(behind) or _PATTERN.said_after.search(rest):
        return False
    return not asked or ("," in rest and _PATTERN.question_tag.search(rest) is None)


def _is_meant_otherwise(before: str, text: str, start: int) -> bool:
    """Return whether the words before a clause make it another's, an example, or the opposite of what it says."""
    if _PATTERN.scoped.match(before) or _stands_below_scope(text[max(0, start - _AROUND) : start]):
        return True
    if _PATTERN.governed_elsewhere.search(before) or _PATTERN.example.search(
        text[max(0, start - _EXAMPLE_LENGTH) : start]
    ):
        return True
    if _PATTERN.not_yet.search(before) and _PATTERN.present.match(text, start):
        return True
    return _PATTERN.sarcastic.search(before) is not None and _PATTERN.loves.match(text, start) is not None


def _stands_below_scope(before: str) -> bool:
    """Return whether the paragraph begins with a line such as "Test data:" alone."""
    paragraph = before.rpartition("\n\n")[2]
    scope = _PATTERN.scoped.match(paragraph)
    return scope is not None and paragraph[scope.end() :].lstrip(" \t").startswith("\n")


def denies_partly(text: str, opening: str, end: int) -> bool:
    """Return whether a denial is of a part only: "I don't work at Nordwind on Fridays" ends no employment."""
    rest, _ = _read_rest(text, end)
    if _PATTERN.of_place.match(rest):
        return True
    if re.search(r"\bleft\b", opening, re.IGNORECASE) and _PATTERN.left_for_now.match(rest):
        return True
    return (
        not _PATTERN.ended.search(opening)
        and _PATTERN.partly.match(rest) is not None
        and not re.search(r"any ?(?:more|longer)", rest)
    )


def _last_clause(before: str) -> str:
    """Return the clause that may govern what stands behind it: from the last separator on."""
    separators = list(_PATTERN.separator.finditer(before))
    return before[separators[-1].end() :] if separators else before


def _read_rest(text: str, end: int) -> tuple[str, bool]:
    """Return the rest of the sentence behind `end`, and whether it ends as a question."""
    after = text[end : end + _AROUND]
    ends = _PATTERN.ends.search(after)
    return (after[: ends.start()] if ends else after), ends is not None and ends.group() == "?"


def is_supposed(text: str, start: int) -> bool:
    """Return whether the words before a clause only ask, suppose, report or forget it: "if I", "she says I".

    Some do so only before "I" and "we": "I have my sister Maud here" tells her name.
    """
    before = text[max(0, start - _SUPPOSED_LENGTH) : start]
    found = _PATTERN.supposed.search(before)
    supposed = found is not None and (found.group("of_us") is None or text[start] in "IiWw")
    return supposed or _PATTERN.to_forget.search(_last_clause(_PATTERN.ends.split(before)[-1])) is not None


def is_plainly_told(text: str, start: int, end: int) -> bool:
    """Return whether a sentence states the clause in `start` to `end` of the text, as its own and without a doubt.

    A question, a report of what another person says, and a clause that describes a noun do not.
    """
    before = _PATTERN.ends.split(text[max(0, start - _AROUND) : start])[-1]
    if not before.strip() and text[max(0, start - _AROUND) : start].rstrip().endswith(":"):
        return False
    rest, asked = _read_rest(text, end)
    if asked or not _PATTERN.begins.search(before) or _PATTERN.taken_back.search(rest):
        return False
    return not _PATTERN.doubted.search(before) or _PATTERN.on_its_own.search(before) is not None
