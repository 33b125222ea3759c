"""Finds the few words that name a thing or a place behind a verb: "red kettle" of "red kettle at the market"."""

import re

from store.text.rules.gazetteer import word_list
from store.text.rules.rule import SPACE
from store.text.rules.vocabulary import is_given_name

#: Most words of a thing: what takes more to name is a clause.
MOST_WORDS = 5
# A thing is named up to where the sentence goes on with a place, a time, a manner or a reason.
_END = re.compile(
    rf"(?:{SPACE}|^)(?P<word>at|in|on|for|from|with|to|near|by|before|after|about|during|into|as|along|without|until"
    r"|since|and|or|but|because|when|while|who|which|that|where|named|called|if|so|than|then|today|tonight|yesterday"
    r"|tomorrow|last"
    r"|this|next|again|once|twice|here|there|together|outside|ago|ages|a few|a while|a long|a (?:week|month|year)"
    r"|years|months|i|i'm|we|you|it|he|she|they|is|are|was|were"
    r"|not|never|just|too|all|only|live|recently|alone|somewhere|few|couple|several|every|two|three|four|five|myself"
    r"|ourselves|came|has|have|had|made|mondays?|tuesdays?|wednesdays?|thursdays?|fridays?|saturdays?|sundays?"
    r"|fluently|professionally|competitively|casually|badly|heavily|quickly|late|early|daily"
    r"|weekly|regularly|occasionally|sometimes|often|usually|always"
    r"|earlier|already|aloud|afterwards|first(?=\s*$))\b"
    r"|\s[-\u2013\u2014(\[]|[:()\[\]]|-\s",
    re.IGNORECASE,
)
# What names nothing by itself, and what names something else than the verb's own sense would have.
_NO_NAME = re.compile(
    r"(?:its?|these|those|them|him|hers?|his|your|us|me|of|up|out|off|down|over|through|onto|back|sure|lots?|bit|share"
    r"|number|bunch|much|many|more|most|any|how|what|whatever|no|neither|none|nothing|never|both|either|each|enough"
    r"|plenty|very|quite|almost|nearly|hardly|barely|zero|less|little of|an?|the|my|our|something|anything|everything"
    r"|one another|like|wrong)\b"
    r"|(?:one|little|days?|days? off|nights?|breaks?|fun|hard|well|short|big|lasted|st|mt|dr|mr|mrs|ms|prof"
    r"|\d+|town red)$",
    re.IGNORECASE,
)
# "Kim flowers" and "Kim a letter" name two things, "museum of the city" one.
_SECOND = re.compile(r"(?<!\bof)\s(?:an?|the|some|another|my|our|his|her|their|your)\s", re.IGNORECASE)
_TITLE_GOES_ON = re.compile(rf"{SPACE}\w+(?:{SPACE}(?:the|an?))?{SPACE}[A-Z]")


def name_object(value: str, *, title: bool = False) -> str:
    """Return the name at the beginning of a value, empty where there is none or it may go on behind its end.

    Titles hold any words: one that may be longer than what is found ("Beauty and the Beast") is none.
    """
    end = _END.search(value)
    name = (value[: end.start()] if end else value).rstrip()
    words = name.lower().split()
    if not 0 < len(words) <= MOST_WORDS or words[-1] in word_list("deed", "nothing"):
        return ""
    if _NO_NAME.match(name) or _SECOND.search(name) or _names_recipient(name):
        return ""
    return "" if end and _goes_on(name, value, end, title=title) else name


# "nuts, eggs and milk", "penicillin and to bee stings", not "nuts and hate it".
_ITEM = (
    r"(?:to )?(?!(?:i|i'm|so|but|my|we|it|which|please|not|am|was|will|would|can|cannot|can't|don't|have|hate|love"
    r"|like|live|work"
    r"|need|carry|get|take|vegetarian|vegan|lactose|also|always|usually|that|this|then)\b)[\w'\u2019-]+(?: (?!(?:and"
    r"|or|so|but|because)\b)[\w'\u2019-]+){0,3}"
)
_ITEMS = re.compile(
    rf"{_ITEM}(?:(?:, {_ITEM}){{0,8}},? (?:and|or|as well as|plus) {_ITEM})?(?=\s*(?:$|[,()\u2013\u2014-]))",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r",? (?:and|or|as well as|plus) (?:to )?|, (?:to )?", re.IGNORECASE)
_CUT = re.compile(r",| and\b| or\b", re.IGNORECASE)


def cut_list(value: str) -> str:
    """Return the things that a value begins with: "nuts, eggs and milk" of it, or its first thing alone."""
    found = _ITEMS.match(value)
    return found.group() if found else _CUT.split(value, maxsplit=1)[0].rstrip()


def split_list(value: str) -> tuple[str, ...]:
    """Return each of the things of a list."""
    return tuple(_BETWEEN.split(value))


def _names_recipient(name: str) -> bool:
    """Return whether another thing follows a given name: "Kim flowers"."""
    first, *others = name.split()
    return bool(others) and first[0].isupper() and others[0].islower() and is_given_name(first.lower())


def _goes_on(name: str, value: str, end: re.Match[str], *, title: bool) -> bool:
    """Return whether a name in capitals goes on behind its end: "Doctors Without Borders"."""
    word = end.group("word") or ""
    if not word or word.lower().rstrip("s").endswith("day") or not name.rsplit(maxsplit=1)[-1][0].isupper():
        return False
    return (word[0].isupper() and word[0] != "I") or (title and _TITLE_GOES_ON.match(value, end.start()) is not None)
