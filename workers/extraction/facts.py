"""Durable facts people say of themselves: the opening phrase, then the value up to where it ends."""

import re
from collections.abc import Iterator
from itertools import islice

from workers.extraction.canonical import canonical
from workers.extraction.dates import dates
from workers.extraction.fact_rules import DIETS, RULES, SPACE, Rule, Shape
from workers.extraction.model import Fact, MessageText, Span
from workers.extraction.runs import runs
from workers.extraction.tokens import tokens

MAX_VALUE_BYTES = 128
#: So many times a phrase is looked at in one message: who says "my sister" more often says nothing new.
MOST_OPENINGS = 32
#: Facts come from what people say, never from what the agent or a tool answers.
MINED_ROLE = "user"

_SOMEBODY = "The user"
_SUBJECTS = r"(?:i|i'm|i've|my|we|our|she|he|they|it|it's|you)"
_VALUE_END = re.compile(r"[\n\r\0.!?,;]")
# "my name is Ana and I live in Ghent" says two things: a value ends where the next clause begins.
_NEXT_CLAUSE = re.compile(rf"{SPACE}(?:and|but|because|so|while|when){SPACE}{_SUBJECTS}\b", re.IGNORECASE)
_SUPPOSED = re.compile(r"\b(?:if|when|whether|wish|unless|should|would|do|did|can|could|might)\s{1,3}$", re.IGNORECASE)
_SUPPOSED_LENGTH = 12
_ARTICLE = re.compile(r"(?:the|a|an|our)\b", re.IGNORECASE)
_ARTICLE_LENGTH = 4
_AFTER_THING = re.compile(rf"{SPACE}(?:in|as|since|with|near|and|on|from){SPACE}", re.IGNORECASE)
_DOING = re.compile(r"(?:to\s|[^\W_]{2,30}ing\b)", re.IGNORECASE)
_DIET = re.compile(DIETS, re.IGNORECASE)


def facts(message: MessageText, ordinal: int) -> list[Fact]:
    """Return the facts of a message in the order of the rules, at most one for each slug.

    Only messages of role `user` have any. Values keep their case and are cut at 128 bytes between
    characters. Takes time in proportion to the text, never raises.
    """
    if message.role != MINED_ROLE:
        return []
    low = message.content.lower()
    return [
        fact for rule in RULES if any(need in low for need in rule.needs) for fact in _found(rule, message, ordinal)
    ]


def _found(rule: Rule, message: MessageText, ordinal: int) -> Iterator[Fact]:
    """Yield what a rule finds first; a rule whose key is in the text yields the first of each key."""
    slugs: set[str] = set()
    for match in islice(rule.opening.finditer(message.content), MOST_OPENINGS):
        if (span := _value(rule, message.content, match)) is None:
            continue
        fact = _fact(rule, message, ordinal, match, span)
        if fact.slug not in slugs:
            slugs.add(fact.slug)
            yield fact
        if rule.key is not None:
            return


def _fact(rule: Rule, message: MessageText, ordinal: int, match: re.Match[str], span: Span) -> Fact:
    value = message.content[span.start : span.end]
    named = {name: found.casefold() for name, found in match.groupdict().items() if found}
    key = rule.key or named.get("key") or canonical(value)
    subject = (message.name or "").strip() or None
    return Fact(
        fact_id=rule.fact_id.format(**named),
        key=key,
        slug=rule.slug if rule.key else f"{rule.slug}-{'-'.join((*named.values(), canonical(value)))}",
        value=value,
        tier=rule.tier,
        confidence=rule.confidence,
        subject=subject,
        statement=rule.says.format(who=subject or _SOMEBODY, value=value, **named),
        ordinal=ordinal,
        span=span,
    )


def _value(rule: Rule, text: str, match: re.Match[str]) -> Span | None:
    """Return where the value stands, None when what follows is no value of the rule's shape."""
    start = match.end()
    window = text[start : start + 2 * MAX_VALUE_BYTES]
    end = _VALUE_END.search(window)
    if not rule.contracted and (_supposed(text, match.start()) or (end and end.group() == "?")):
        return None
    if rule.shape is Shape.DAY:
        return _day(window, start)
    said = window[: end.start()] if end else window
    clause = _NEXT_CLAUSE.search(said)
    shaped = _shaped(rule.shape, said[: clause.start()] if clause else said)
    kept = cut(shaped).rstrip()
    return Span(start, start + len(kept)) if kept else None


def _supposed(text: str, start: int) -> bool:
    """Whether the sentence only asks or supposes: "if I moved to", "when I live in"."""
    return _SUPPOSED.search(text[max(0, start - _SUPPOSED_LENGTH) : start]) is not None


def _day(window: str, start: int) -> Span | None:
    found = dates(window, None)
    near = found and found[0].span.start <= _ARTICLE_LENGTH
    return Span(start + found[0].span.start, start + found[0].span.end) if near else None


def _shaped(shape: Shape, value: str) -> str:
    """Return as much of the value as has the shape, nothing if its beginning has not."""
    match shape:
        case Shape.NAME:
            return _leading_name(value)
        case Shape.THING:
            thing = _ARTICLE.match(value) or _leading_name(value)
            return _AFTER_THING.split(value, maxsplit=1)[0] if thing else ""
        case Shape.DOING:
            return value if _DOING.match(value) else ""
        case Shape.DIET:
            found = _DIET.match(value)
            return found.group() if found else ""
        case _:
            return value


def _leading_name(value: str) -> str:
    name = next(runs(tokens(value)), None)
    if name is None or name.start > _ARTICLE_LENGTH:
        return ""
    before = value[: name.start]
    return value[: name.end] if not before or _ARTICLE.match(before) else ""


def cut(value: str) -> str:
    """Return as many whole characters as fit into the allowed bytes."""
    while len(value.encode("utf-8", "surrogatepass")) > MAX_VALUE_BYTES:
        value = value[:-1]
    return value
