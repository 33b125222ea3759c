"""Tells whether a clause states what it says, or asks, supposes, reports or describes."""

import re

_SUPPOSED = re.compile(
    r"\b(?:if|when|whether|wish|unless|should|would|do|did|can|could|might|suppos(?:e|ing)|imagin(?:e|ing)"
    r"|assum(?:e|ing)|pretend(?:ing)?|say|think|thought"
    r"|(?P<of_us>have|has|had|hope|neither|nor|true|sure|says|said|claim(?:s|ed)?|told \w{1,20}|dream(?:t|ed)))"
    r"(?:\s{1,3}that)?\s{1,3}$",
    re.IGNORECASE,
)
_SUPPOSED_LENGTH = 36

# A sentence is read this far to both sides of what it tells.
_AROUND = 240
_ENDS = re.compile(r"[.!?\n\r\0]")
# Where "I" follows another word than these, the clause belongs to that word: "the house we built", "she says I won".
_BEGINS = re.compile(
    r"(?:^|[,;)\-\u2013\u2014\u2026]|\b(?:and|but|so|then|because|after|also|anyway|well|yes|yeah|yep|ok|okay|oh|wow"
    r"|hey|hi|hello|today|yesterday|tonight|now|lately|recently|finally|later|afterwards|meanwhile|ago|(?:19|20)\d\d"
    r"|day|night|morning|afternoon|evening|week|weekend|month|year|spring|summer|autumn|winter|(?:mon|tues|wednes|thurs"
    r"|fri|satur|sun)days?|january|february|march|april|may|june|july|august|september|october|november|december))\s*$",
    re.IGNORECASE,
)
_DOUBTED = re.compile(
    r"^\W*(?:have|has|had|do|does|did|is|are|was|were|am|can|could|will|would|shall|should|may|might|must"
    r"|not|never|only|until|till)\b|\bin (?:an?|the|this|my|our) (?:game|film|movie|book)\b"
    r"|\b(?:if|whether|unless|lest|wish\w*|hop(?:e|es|ed|ing)|would|should|could|neither|nor|suppos\w*|imagin\w*"
    r"|assum\w*|pretend\w*|dream\w*|nightmare|maybe|perhaps|probably|allegedly|apparently|according|rumou?rs?|lies?"
    r"|lied|false|untrue|says?|said|saying|claim\w*|tells?|told|think\w*|thought|believ\w*|insists?|swears?|accus\w*"
    r"|sentence|phrase|story|novel|poem|song|lyrics|joke|character|translate\w*|repeat\w*|rewrite)\b",
    re.IGNORECASE,
)
# What was said or thought before does not reach behind these.
_ON_ITS_OWN = re.compile(r"[,;\-\u2013\u2014]\s*(?:so|but)\s*$", re.IGNORECASE)
_TAKEN_BACK = re.compile(
    r"^\s*(?:not|never)\b|\bnever\W*$"
    r"|\b(?:i (?:think|guess|believe|hope|wish|suppose|doubt)|if (?:i|memory)|says?|said|claim(?:s|ed)?|told|according"
    r"|allegedly|apparently|dream\w*|kidding|joking|or not|tomorrow"
    r"|in (?:an?|the|this|my|our) (?:head|mind|imagination|game|film|movie|book))\b",
    re.IGNORECASE,
)


def is_supposed(text: str, start: int) -> bool:
    """Return whether the words before a clause only ask, suppose or report it: "if I", "she says I".

    Some do so only before "I" and "we": "I have my sister Maud here" tells her name.
    """
    found = _SUPPOSED.search(text[max(0, start - _SUPPOSED_LENGTH) : start])
    return found is not None and (found.group("of_us") is None or text[start] in "IiWw")


def is_plainly_told(text: str, start: int, end: int) -> bool:
    """Return whether a sentence states the clause in `start` to `end` of the text, as its own and without a doubt.

    A question, a report of what another person says, and a clause that describes a noun do not.
    """
    before = _ENDS.split(text[max(0, start - _AROUND) : start])[-1]
    if not before.strip() and text[max(0, start - _AROUND) : start].rstrip().endswith(":"):
        return False
    after = text[end : end + _AROUND]
    ends = _ENDS.search(after)
    asked = ends is not None and ends.group() == "?"
    rest = after[: ends.start()] if ends else after
    if asked or not _BEGINS.search(before) or _TAKEN_BACK.search(rest):
        return False
    return not _DOUBTED.search(before) or _ON_ITS_OWN.search(before) is not None
