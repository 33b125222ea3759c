"""Finds what a message only repeats: quotations, code, logs, diffs, mail, lines of other people, and texts to work on.

Such text is no statement of the message's author. Every pattern is bounded or anchored at a line, so that the time is
in proportion to the text.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from store.text.rules.canonical import canonical_name
from store.text.rules.gazetteer import word_list
from store.text.rules.vocabulary import is_given_name, is_word

Span = tuple[int, int]

# -- within lines: marks of quotation, elements, code

_LETTER_APOSTROPHE = r"(?<=\w)['\u2019](?=\w)"
_QUOTED = re.compile(
    r"""(?<![\w"])"(?:[^"\n]|\n(?![ \t]*\n)){1,1000}"(?!\w)|\u201c[^\u201d]{1,1000}\u201d"""
    r"""|\u300c[^\u300d]{1,1000}\u300d|\u300e[^\u300f]{1,1000}\u300f"""
    r"""|\u201e[^\u201c\u201d]{1,1000}[\u201c\u201d]|\u00ab[^\u00bb]{1,1000}\u00bb|\u00bb[^\u00ab]{1,1000}\u00ab"""
    rf"""|(?<![\w'])'(?=\S)(?:[^'\n]|{_LETTER_APOSTROPHE}){{1,300}}'(?!\w)"""
    rf"""|\u2018(?:[^\u2018\u2019\n]|{_LETTER_APOSTROPHE}){{1,300}}\u2019(?!\w)"""
    r"""|`[^`\n]{1,400}`"""
)
_ELEMENT = re.compile(
    r"<(code|pre|blockquote|q|samp|kbd|cite|script|style|textarea)\b[^<>]{0,200}>.*?(?:</\1\s*>|\Z)"
    r"|\[(quote|code|spoiler)\b[^\[\]]{0,80}\].*?(?:\[/\2\]|\Z)"
    r"|<([a-z][\w-]{0,30})\b[^<>]{0,200}>[^<]{0,2000}</\3\s*>",
    re.IGNORECASE | re.DOTALL,
)
# Both sides of a merge's conflict, an environment of LaTeX, rows that a database answered, steps of a test in words.
_ENCLOSED = re.compile(
    r"^<{7} .*?(?:^>{7} [^\n]*|\Z)|\\begin\{(\w{1,30}\*?)\}.*?(?:\\end\{\1\}|\Z)"
    r"|^[ \t]*-{3,}(?:\+-{2,})*[ \t]*\n(?:[^\n]*\n){1,100}?\(\d{1,9} rows?\)"
    r"|^[ \t]*Given [^\n]*\n(?:[ \t]*(?:And|But|When|Then|Given) [^\n]*(?:\n|\Z))+",
    re.DOTALL | re.MULTILINE,
)
_FAILURE = re.compile(r"(?<![\w.])(?:\w{1,60}\.){0,8}\w{0,60}(?:Error|Exception|Warning|Panic)(?:\[\w{1,12}\])?:[^\n]*")

# -- whole lines

_FENCE = re.compile(r"[ \t]{0,3}(?:```|~~~)")
_QUOTE_MARK = re.compile(r"[ \t]{0,3}(?:>|&gt;|\|[ \t])")
_INDENTED = re.compile(r"(?: {4}|\t| {1,3}\t)[ \t]*\S")
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
_CLOCK = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:[ \u202f]?[ap]\.?m\.?)?"
_LOGGED = re.compile(
    rf"[\[(<\s]{{0,3}}(?:\d{{4}}[-/.]\d\d[-/.]\d\d|\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{2,4}}"
    rf"|\d{{1,2}}[-/]{_MONTH}[-/]\d{{4}}"
    rf"|{_MONTH} {{1,2}}\d{{1,2}}(?:,? \d{{4}})?)[T,:\s]{{1,3}}{_CLOCK}"
    rf"|\[{_CLOCK}\]|{_CLOCK}\s+(?:[\[<(]|(?-i:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL)\b|\w{{1,30}}:)"
    rf"|\[?\d{{10}}(?:\d{{3}})?\]?[\s|]|\[\s*\d{{1,6}}\.\d{{3,6}}\]"
    r"|[\[<(]?(?-i:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|SEVERE|VERBOSE)[\])>]?(?:[:|\s-]|$)"
    rf"|\[{_CLOCK}, \d{{1,4}}[-/.]\d{{1,2}}[-/.]\d{{2,4}}\]|[IWEF]\d{{4}} {_CLOCK}\s"
    r"|[\w.-]{1,40}[_-]\d{1,3}\s{1,20}\| |RT @\w{1,30}:"
    r"|[\w./-]{1,80}\.\w{1,8}:\d{1,6}:|\^?[0-9a-f]{7,40} \("
    r"|[VDIWEF]/[\w.]{1,40}:|\w{1,20}(?:\[\d{1,7}\])?: (?:error|warning|fatal):",
    re.IGNORECASE,
)
_TRACED = re.compile(
    r"\s*(?:Traceback \(most recent call last\)|File \"[^\"\n]{1,300}\", line \d|at [\w$.<>/]{1,200}[ (:]"
    r"|Caused by: |Exception in thread |Uncaught |panic: |goroutine \d|thread '[^'\n]{0,80}' panicked"
    r"|(?:error|fatal|warning)(?:\[\w{1,12}\])?: |--> |E\s{2,}\S|npm ERR! |assert(?:ion)? (?:failed|`))",
)
_DIFF_HEAD = re.compile(r"diff --git |@@ -\d|Index: \S|(?:---|\+\+\+) [\w/.\"]|\*\*\* [\w/.]")
_DIFF_LINE = re.compile(r"[-+ @\\]|index [0-9a-f]|new file|deleted file|rename |similarity |old mode|new mode")
_CHANGED = re.compile(r"([-+])(?![-+\s\d])")
_PROMPT = re.compile(
    r"\s{0,3}(?:\$|#|%|>>>|(?:user|human|me|you|ai|bot|assistant)>|\.\.\."
    r"|[\w.-]{1,30}@[\w.-]{1,40}[:\s][^\n$#]{0,60}[$#]|(?:In|Out) ?\[\d{1,4}\]:) \S"
)
_ROW = re.compile(r"\s*\|[^\n]*\|\s*$")
_CODE_LINE = re.compile(
    r"\s*(?:(?:def|class|fn|func|function|public|private|static|const|let|var|import|from|return|print|echo|select"
    r"|insert|assert|if|for|while|raise|throw)\b[^\n]{0,300}[({;=:]\s*(?:$|[\"'\w\[{(])[^\n]*[)};:\]]\s*$"
    r"|[\w.\[\]\"']{1,60}\s*(?:=|:=|\+=|=>|->)\s*\S|[\w.]{1,60}\(|echo |//|/\*|\*/|<!--|#!|#include|\{|\}"
    r"|(?:puts|print|echo|return|end|require|local|set)\b[^\n]{0,300}\s# "
    r"|\"[\w $.-]{1,60}\"\s*:|\\[a-z]{2,20}\*?[{\[])"
)
_SETTING = re.compile(r"\s*(?:- )?([A-Za-z_][\w.-]{0,60}):(?:\s|$)")
_LABEL = re.compile(
    r"[ \t]{0,3}(?:[-*\u2022][ \t])?(?:\*\*)?(?:[<\[(]\s?@?([\w'\u2019 .-]{1,40}?)[>\])](?:\*\*)?[ \t]*[:>-]?"
    r"|@?([^\W\d_][\w'\u2019.-]{0,30}(?: [\w'\u2019.-]{1,30}){0,2})(?: \([^()\n]{1,30}\))?"
    r"(?:\*\*)?[ \t]?:(?:\*\*)?)[ \t]"
)
# A message of nothing but a list was copied; one of a single item, or of numbered answers, may be its author's.
_LISTED = re.compile(r"(?:\s*[-*\u2022\u2023\u25e6\u2013\u2014][ \t]+\S[^\n]*(?:\n|\Z)){2,}\s*\Z")

# -- openings after which everything, or the paragraph, is another's text

_SAYS = (
    r"(?:wrote|writes|said|says|replied|replies|answered|answers|posted|posts|tweeted|texted|texts|asked|asks|commented"
    r"|announced|added|adds|shouted|whispered|sang|sings|told me|told us|reads|goes|quoted|put it|schrieb|\u00e9crit"
    r"|escribi\u00f3|scritto|schreef|escreveu)"
)
_MAIL = re.compile(
    rf"(?:On|Am|Le|El|Il|Op|Em)\b[^\n]{{3,200}}\b{_SAYS}[^\n:]{{0,80}}\s?:\s*$"
    r"|[>\s]*-{2,}\s*(?:original|forwarded|weitergeleitete|urspr\u00fcngliche)[^\n]{0,40}"
    r"|begin forwarded message|(?:from|von|de|da|subject|betreff|objet|asunto|oggetto): [^\n]{1,200}$"
    r"|(?:ingredients|directions|zutaten|zubereitung|ingr\u00e9dients)\s?:\s*$|(?-i:(?:INT|EXT)\. [A-Z])"
    r"|(?:chapter|kapitel) [\divxlc]{1,6}\.?\s*$"
    r"|#{1,4} (?:instructions?|inputs?|response|output|prompt|system|user):?\s*$"
    r"|<\|[a-z_]{3,20}\|>|<start_of_turn>|_{10,}\s*$|HTTP/\d(?:\.\d)? \d{3}\b[^\n]*$",
    re.IGNORECASE,
)
_OPENS = r"(?:^|[.!?\n,;]\s{0,3}|\b(?:please|can you|could you|would you|help me|kindly)\s{1,3})"
_DASH = r"\s[-\u2013\u2014](?=\s)"
_COLON = r"\s?:(?=\s|$|[\"'\u201c\u2018\u201e])"
_OPENED_SAYING = re.compile(
    rf"\b(?<!as I )(?<!like I ){_SAYS}(?: (?:this|that|to me|me|us|back|as follows"
    rf"|in (?:(?:his|her|their|the|an?) )?\w{{1,20}})){{0,2}}"
    rf"(?:{_COLON}|{_DASH})",
    re.IGNORECASE,
)
_WORK = (
    r"(?:translate|proof-?read|re-?write|rephrase|reword|paraphrase|summari[sz]e|spell[- ]?check|grammar[- ]?check"
    r"|make(?= (?:this|it|these|the following)\b)|fix"
    r"|improve|polish|shorten|analy[sz]e|explain|classify|tag|parse|tokeni[sz]e|continue|complete|format"
    r"|convert|repeat|recite|read|say|type|print|echo|output|return|copy|quote|transcribe|interpret|annotate"
    r"|review|comment on|label|extract|sing|(?:correct|edit|check|turn|write|draft|compose|finish)(?= \w)"
    r"|\u00fcbersetze|traduis|traduce|traduci|vertaal|traduza)"
)
_MATTER = (
    r"(?:e-?mails?|mails?|messages?|letters?|texts?|posts?|tweets?|comments?|reviews?|story|stories|poems?"
    r"|songs?|limericks?|haikus?|sonnets?|riddles?"
    r"|lyrics"
    r"|articles?|logs?|outputs?|errors?|traces?|traceback|stack ?traces?|diffs?|patch|code|snippets?|scripts?"
    r"|transcripts?"
    r"|chats?|conversations?|dialogues?|paragraphs?|sentences?|phrases?|passages?|excerpts?|following|quotes?"
    r"|quotations?|sayings?|lines?|inputs?|examples?|samples?|character sheets?|descriptions?|tickets?|repl(?:y|ies)"
    r"|drafts?|captions?|speech(?:es)?|voicemails?"
    r"|novels?|bios?|documents?|json|yaml|html|csv|readme|configs?|strings?|prompts?|translations?|subtitles?|verses?"
    r"|chorus|jokes?|headlines?|slogans?|mottos?|flash ?cards?|dictations?|exercises?|case stud(?:y|ies)|scenarios?)"
)
_OPENED_WORK = re.compile(
    rf"{_OPENS}{_WORK}\b[^\n:]{{0,120}}?{_COLON}"
    rf"|(?<!for the )(?<!for my )(?<!for a )(?<!for this )\b{_MATTER}\b(?:[^\n:.!?]{{0,60}}?)?{_COLON}",
    re.IGNORECASE,
)
# "What is this poem about?" and "Translate the above": the text stands below, or above.
_ASKED_OF = re.compile(rf"\b(?:this|these) (?:\w{{1,20}} )?{_MATTER}\b[^\n.!?]{{0,60}}\?[ \t]*\n", re.IGNORECASE)
_ASKED_OF_ABOVE = re.compile(
    rf"{_OPENS}{_WORK}\b[^\n.!?]{{0,40}}?\b(?:(?:the|all|everything|what is) (?:text )?above|{_MATTER} above"
    r"|(?:previous|preceding) text)\b",
    re.IGNORECASE,
)
# A letter on one line, and what is to be done with it: "Dear Sir, I live in Hull. Can you fix the grammar?"
_DEAR = re.compile(r"\s*dear [^\n,!:]{1,40}[,!:]", re.IGNORECASE)
_ASKED_WORK = re.compile(rf"\b(?:please|can you|could you|would you|help me) {_WORK}\b", re.IGNORECASE)
# What has marks of its own ends where these say.
_MARKED = re.compile(r"\s{0,4}(?:```|~~~|[\"'\u201c\u2018\u201e\u00ab<`]|\n(?: {4}|\t))")
_TELLING = r"(?:story|stories|tale|scene|monologue|dialogue|novel|screenplay|sketch|song|poem|diary entry|fairy tale)"
_FICTION = re.compile(
    r"\b(?:let'?s|let\u2019s|let us) (?:pretend|imagine|role-?play|play (?:a|the) (?:game|role|part)|assume|suppose"
    r"|say)\b"
    rf"|{_OPENS}(?:pretend|role-?play|imagine|suppose|assume|act as|act like|say)\b(?![,:])|\bmake[- ]believe\b"
    r"|\bonce upon a time\b|\bin character\b|\bmy (?:character|avatar|persona|protagonist|alter ego)\b"
    rf"|\b(?:in|from|for) (?:my|a|this|our) (?:new |own |short |next )?(?:{_TELLING}|dream|nightmare|role-?play"
    rf"|campaign)\b"
    r"|\b(?:the|a) (?:hero|heroine|narrator|protagonist|main character|villain)\b"
    r"|\bfirst[- ]person\b|\b(?:perspective|point of view|viewpoint|shoes) of\b|\bi (?:dreamt|dreamed) (?:that|of"
    r"|about|i)\b"
    rf"|\b(?:tell|writ(?:e|ing))(?: me| us)? (?:an?|the|some|another) (?:\w{{1,20}} ){{0,3}}{_TELLING}\b"
    r"|\b(?:answer|reply|respond|speak|talk) as (?:if|though|him|her|them|an?|the)\b"
    r"|\bfor the sake of (?:the )?argument\b"
    r"|\byou are now\b|\bsample (?:bio|text|profile)\b|\bas a (?:joke|test|thought experiment)\b",
    re.IGNORECASE,
)
_SEPARATORS = ",;\t"
_SAID = re.compile(r"\S")
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n|\n(?=[-*\u2022#])")


# What heads a paragraph: a chat's "Kim 10:12 AM" on a line of its own, the times of a subtitle, a command that was
# typed, a failure, an answer of HTTP. A letter stands between greeting and signature.
_HEAD = re.compile(
    rf"[ \t]{{0,3}}@?[^\W\d_][\w'\u2019.-]{{0,30}}(?: [\w'\u2019.-]{{1,30}}){{0,2}}"
    rf"(?:[ \t]+[\u2014\u2013-])?[ \t,]+\(?\[?(?:(?:today|yesterday) at )?{_CLOCK}[\])]?\s*$"
    r"|[ \t]*(?:\d\d:)?\d\d:\d\d[.,]\d{3} --> (?:\d\d:)?\d\d:\d\d[.,]\d{3}"
    r"|[ \t]{0,3}(?:\$|>>>|[\w.-]{1,30}@[\w.-]{1,40}[: ][^\n$#]{0,60}[$#]) (?-i:[a-z./])[^\n]*$"
    r"|[ \t]{0,3}(?:[\w-]{1,30}[=-][#>]|(?:mysql|sqlite|mariadb)(?: \[\w{1,30}\])?>) [^\n]*$"
    r"|[ \t]{0,3}(?:PS )?[A-Z]:\\[^\n>]{0,120}>[^\n]*$|thread '[^'\n]{0,80}' panicked[^\n]*$"
    r"|[ \t]{0,3}[\w.-]{1,30}@[\w.-]{1,40} [^\n%]{0,60}% (?-i:[a-z./])[^\n]*$",
    re.IGNORECASE,
)
_GREETING = re.compile(
    r"\s*(?:dear|hi|hello|hey|good (?:morning|afternoon|evening)) "
    r"[^\W\d_][\w'\u2019. -]{0,40}[,!:]?\s*$",
    re.IGNORECASE,
)
_SIGNED = re.compile(
    r"\s*(?:(?:best|kind|warm|many) )?(?:regards|wishes|greetings)|\s*(?:yours|sincerely|cheers|best|love|take care"
    r"|all the best|xoxo|thanks|thank you)"
    r"(?: \w{1,12}){0,2}[,.!]?\s*$",
    re.IGNORECASE,
)


class _Line(NamedTuple):
    text: str
    start: int
    end: int


def find_repeated(text: str, author: str | None = None) -> list[Span]:
    """Return the spans of a text that its author only repeats or invents, in order of their begin; they may overlap.

    Lines labelled with the author's own name are the author's.
    """
    spans = [match.span() for pattern in (_QUOTED, _ELEMENT, _ENCLOSED, _FAILURE) for match in pattern.finditer(text)]
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
        opened = _FENCE.match(line.text)
        mark = opened.group().strip()[:3] if opened else ""
        diff = bool(_DIFF_HEAD.match(line.text)) or (
            diff and (not line.text.strip() or _DIFF_LINE.match(line.text) is not None)
        )
        if fence or mark:
            yield line.start, line.end
            fence = ("" if mark == fence else fence) if fence else mark
        elif (
            diff
            or (changed and _CHANGED.match(line.text))
            or _is_repeated(line.text, before)
            or settings[nth]
            or nth in rows
            or _is_anothers(line.text, author)
        ):
            yield line.start, line.end
        before = line.text if line.text.strip() or not _INDENTED.match(before) else before


def _has_both_signs(lines: Sequence[_Line]) -> bool:
    return {"+", "-"} <= {match[1] for line in lines if (match := _CHANGED.match(line.text))}


def _is_repeated(line: str, before: str) -> bool:
    """Return whether a line is quoted, of a log or a trace, or code; `before`: the line before it."""
    if (
        _ROW.fullmatch(line.strip())
        or _QUOTE_MARK.match(line)
        or _LOGGED.match(line)
        or _TRACED.match(line)
        or _PROMPT.match(line)
    ):
        return True
    if _INDENTED.match(line):
        return not before.strip() or before.rstrip().endswith(":") or _INDENTED.match(before) is not None
    return _CODE_LINE.match(line) is not None


def _count_settings(lines: Sequence[_Line]) -> list[bool]:
    """Return for each line whether it is one of two or more neighbouring lines `key: value` of lower-case keys."""
    keys = [match[1] if (match := _SETTING.match(line.text)) else "" for line in lines]
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
    match = _LABEL.match(line)
    if match is None:
        return False
    label = (match[1] or match[2]).strip()
    low = canonical_name(label)
    first, *others = low.split(" ")
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
    greeted = next((nth for nth, line in enumerate(said) if _GREETING.match(line.text)), None)
    if greeted is None:
        return
    for nth in range(greeted + 1, len(said) - 1):
        if _SIGNED.match(said[nth].text) and canonical_name(said[nth + 1].text.strip(" .,-")) != author:
            yield said[greeted].start, lines[-1].end
            return


def _find_asked_texts(text: str) -> Iterator[Span]:
    """Yield the text that a sentence before or behind it asks to be worked on."""
    if _DEAR.match(text) and (asked := _ASKED_WORK.search(text)):
        yield 0, asked.start()
    if asked := _ASKED_OF_ABOVE.search(text):
        yield 0, asked.start()
    if asked := _ASKED_OF.search(text):
        yield asked.end(), len(text)


def _opened_texts(text: str, lines: Sequence[_Line], author: str) -> Iterator[Span]:
    """Yield the rest of the text behind the head of a mail or of a text to work on, and paragraphs of fiction."""
    whole = len(text)
    if _LISTED.match(text):
        yield 0, whole
    heads = [line for line in lines if _MAIL.match(line.text)]
    if heads:
        yield heads[0].start, whole
    yield from _find_letter(lines, author)
    for line in lines:
        if _HEAD.match(line.text):
            stop = _PARAGRAPH_END.search(text, line.end)
            yield line.start, stop.start() if stop else whole
    yield from _find_asked_texts(text)
    for work in _OPENED_WORK.finditer(text):
        if not _MARKED.match(text, work.end()):
            yield work.end(), whole
            break
    for pattern in (_OPENED_SAYING, _FICTION):
        at = 0
        while (found := pattern.search(text, at)) is not None:
            begin = found.start() if pattern is _FICTION else found.end()
            # "Kim wrote:" and a blank line open the paragraph below.
            said = _SAID.search(text, found.end(), found.end() + 8) if pattern is _OPENED_SAYING else None
            stop = _PARAGRAPH_END.search(text, said.start() if said else found.end())
            at = stop.start() if stop else whole
            yield begin, at
