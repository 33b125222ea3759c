"""Finds what a message only repeats: quotations, code, logs, diffs, mail, lines of other people, and texts to work on.

Such text is no statement of the message's author. Every pattern is bounded or anchored at a line, so that the time is
in proportion to the text.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from store.text.rules.canonical import canonical_name
from store.text.rules.gazetteer import word_list
from store.text.rules.pattern_tables import Patterns
from store.text.rules.vocabulary import is_given_name, is_word

_PATTERN = Patterns("repetition_patterns")

Span = tuple[int, int]

_SEPARATORS = ",;\t"


class _Line(NamedTuple):
    text: str
    start: int
    end: int


def find_repeated(text: str, author: str | None = None) -> list[Span]:
    """Return the spans of a text that its author only repeats or invents, in order of their begin; they may overlap.

    Lines labelled with the author's own name are the author's.
    """
    spans = [
        match.span()
        for pattern in (_PATTERN.quoted, _PATTERN.element, _PATTERN.enclosed, _PATTERN.failure)
        for match in pattern.finditer(text)
    ]
    lines = [*_split_lines(text)]
    name = canonical_name(author or "")
    spans += [*_repeated_lines(lines, name), *_opened_texts(text, lines, name)]
    return sorted(spans)


def _split_lines(text: str) -> Iterator[_Line]:
    at = 0
    for line in text.splitlines(keepends=True):
        yield _Line(line.rstrip("\r\n"), at, at + len(line))
        at += len(line)


def _repeated_lines(lines: Sequence[_Line], author: str) -> Iterator[Span]:
    """Yield the lines that are quoted, logged, code, settings, or another's in a dialogue."""
    fence, diff, before, changed = "", False, "", _has_both_signs(lines)
    settings, rows = _count_settings(lines), _find_rows(lines)
    for nth, line in enumerate(lines):
        opened = _PATTERN.fence.match(line.text)
        mark = opened.group().strip()[:3] if opened else ""
        diff = bool(_PATTERN.diff_head.match(line.text)) or (
            diff and (not line.text.strip() or _PATTERN.diff_line.match(line.text) is not None)
        )
        if fence or mark:
            yield line.start, line.end
            fence = ("" if mark == fence else fence) if fence else mark
        elif (
            diff
            or (changed and _PATTERN.changed.match(line.text))
            or _is_repeated(line.text, before)
            or settings[nth]
            or nth in rows
            or _is_anothers(line.text, author)
        ):
            yield line.start, line.end
        before = line.text if line.text.strip() or not _PATTERN.indented.match(before) else before


def _has_both_signs(lines: Sequence[_Line]) -> bool:
    return {"+", "-"} <= {match[1] for line in lines if (match := _PATTERN.changed.match(line.text))}


def _is_repeated(line: str, before: str) -> bool:
    """Return whether a line is quoted, of a log or a trace, or code; `before`: the line before it."""
    if (
        _PATTERN.row.fullmatch(line.strip())
        or _PATTERN.quote_mark.match(line)
        or _PATTERN.logged.match(line)
        or _PATTERN.traced.match(line)
        or _PATTERN.prompt.match(line)
    ):
        return True
    if _PATTERN.indented.match(line):
        return not before.strip() or before.rstrip().endswith(":") or _PATTERN.indented.match(before) is not None
    return _PATTERN.code_line.match(line) is not None


def _count_settings(lines: Sequence[_Line]) -> list[bool]:
    """Return for each line whether it is one of two or more neighbouring lines `key: value` of lower-case keys."""
    keys = [match[1] if (match := _PATTERN.setting.match(line.text)) else "" for line in lines]
    is_key = [bool(key) and (key.islower() or "_" in key) and key not in word_list("label", "own") for key in keys]
    return [
        here and ("_" in key or (nth > 0 and is_key[nth - 1]) or (nth + 1 < len(is_key) and is_key[nth + 1]))
        for nth, (here, key) in enumerate(zip(is_key, keys, strict=True))
    ]


def _find_rows(lines: Sequence[_Line]) -> set[int]:
    """Return the places of lines of a table: neighbours with as many separators, and no blank behind one."""
    cells = [{mark: line.text.count(mark) for mark in _SEPARATORS if _is_row(line.text, mark)} for line in lines]
    rows = set[int]()
    for nth, (one, other) in enumerate(pairwise(cells)):
        if any(other.get(mark) == count for mark, count in one.items()):
            rows |= {nth, nth + 1}
    return rows


def _is_row(line: str, mark: str) -> bool:
    return mark in line and f"{mark} " not in line and not line.endswith(mark)


def _is_anothers(line: str, author: str) -> bool:
    """Return whether a line begins with the label of another speaker: "Kim: ", "<kim> ", "Customer: "."""
    match = _PATTERN.label.match(line)
    if match is None:
        return False
    label = (match[1] or match[2]).strip()
    low = canonical_name(label)
    first, *others = low.removeprefix("the ").split(" ")
    if low == author or first in word_list("label", "own") or low.startswith("p.s"):
        return False
    if match[1] or (
        first in word_list("label", "speaker") and not any(other.isalpha() and other[1:] for other in others)
    ):
        return True
    known = any(is_given_name(word) and not is_word(word) for word in (first, *others))
    return known or (label[0].isupper() and not any(is_word(word) for word in (first, *others)))


def _find_letter(lines: Sequence[_Line], author: str) -> Iterator[Span]:
    """Yield a letter that another person signed: from its greeting to its end."""
    said = [line for line in lines if line.text.strip()]
    greeted = next((nth for nth, line in enumerate(said) if _PATTERN.greeting.match(line.text)), None)
    if greeted is None:
        return
    for nth in range(greeted + 1, len(said) - 1):
        if _PATTERN.signed.match(said[nth].text) and canonical_name(said[nth + 1].text.strip(" .,-")) != author:
            yield said[greeted].start, lines[-1].end
            return


def _find_asked_texts(text: str) -> Iterator[Span]:
    """Yield the text that a sentence before or behind it asks to be worked on."""
    if _PATTERN.dear.match(text) and (asked := _PATTERN.asked_work.search(text)):
        yield 0, asked.start()
    if asked := _PATTERN.asked_of_above.search(text):
        yield 0, asked.start()
    if asked := _PATTERN.asked_of.search(text):
        yield asked.end(), len(text)


def _opened_texts(text: str, lines: Sequence[_Line], author: str) -> Iterator[Span]:
    """Yield the rest of the text behind the head of a mail or of a text to work on, and paragraphs of fiction."""
    whole = len(text)
    if _PATTERN.listed.match(text):
        yield 0, whole
    heads = [line for line in lines if _PATTERN.mail.match(line.text)]
    if heads:
        yield heads[0].start, whole
    yield from _find_letter(lines, author)
    for line in lines:
        if _PATTERN.head.match(line.text):
            stop = _PATTERN.paragraph_end.search(text, line.end)
            yield line.start, stop.start() if stop else whole
    yield from _find_asked_texts(text)
    for work in _PATTERN.opened_work.finditer(text):
        if not _PATTERN.marked.match(text, work.end()):
            yield work.end(), whole
            break
    for pattern in (_PATTERN.opened_saying, _PATTERN.fiction):
        at = 0
        while (found := pattern.search(text, at)) is not None:
            begin = found.start() if pattern is _PATTERN.fiction else found.end()
            # "Kim wrote:" and a blank line open the paragraph below.
            said = (
                _PATTERN.said.search(text, found.end(), found.end() + 8) if pattern is _PATTERN.opened_saying else None
            )
            stop = _PATTERN.paragraph_end.search(text, said.start() if said else found.end())
            at = stop.start() if stop else whole
            yield begin, at
