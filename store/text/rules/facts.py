"""Finds durable facts that people state about themselves: an opening phrase, then the value up to its end."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from store.text.rules.addresses import mask_spans
from store.text.rules.canonical import canonical_name
from store.text.rules.dates import find_dates
from store.text.rules.fact_rules import (
    ALIASES,
    DENIALS,
    OWN_NAME,
    RULES,
    SOLE_ROLES,
    VALUE_FIRST,
    VALUE_FIRST_SIGNS,
)
from store.text.rules.gazetteer import name_list
from store.text.rules.introductions import find_introductions
from store.text.rules.low_names import find_low_employer, find_low_name, find_low_place
from store.text.rules.model import ExtractedFact, MessageText, TextSpan
from store.text.rules.objects import cut_list, name_object, split_list
from store.text.rules.pattern_tables import Patterns
from store.text.rules.retractions import find_unstated
from store.text.rules.rule import (
    SPACE,
    Needs,
    Rule,
    ValueShape,
    drop_accents,
    stop_at_pictures,
)
from store.text.rules.runs import NameRun, find_runs
from store.text.rules.statements import denies_partly, is_plainly_told, is_stated, is_supposed
from store.text.rules.tokens import tokenize_text
from store.text.rules.vocabulary import is_given_name, is_word, known_places, known_things

_PATTERN = Patterns("fact_patterns", SPACE=SPACE)

MAX_VALUE_BYTES = 128
#: Ids of passing facts: tasks of a day or a week, which are no trait of a person.
PASSING = frozenset({"today_task", "weekly_task"})
#: Most occurrences of a phrase in one message that are read: who says "my sister" more often says nothing new.
MOST_OPENINGS = 32
#: Facts come from what people say, never from what the agent or a tool answers.
MINED_ROLE = "user"

_NAMES = frozenset({ValueShape.NAME, ValueShape.PLACE, ValueShape.KNOWN_PLACE})
#: Shapes of values that are a name where they begin a clause.
_NAMED = _NAMES | {ValueShape.THING}
#: The subject of a fact whose speaker has no name.
UNNAMED_SPEAKER = "The user"
_ARTICLE_LENGTH = 4
_BLANKS = re.compile(r" {2,}")
_THOUGHTS, _DASH = frozenset({ValueShape.TOPIC, ValueShape.DOING}), re.compile(r"\s+[-\u2013\u2014]\s+")
_ENDS = {ValueShape.THING: _PATTERN.thing_end, ValueShape.LIST: _PATTERN.list_end}
_ALL_RULES = (*RULES, *DENIALS)
_NEEDED = Needs([rule.needs for rule in _ALL_RULES])


def find_facts(message: MessageText, ordinal: int) -> list[ExtractedFact]:
    """Return the facts of a message in the order of its text, those that it places long ago first.

    Only messages of role `user` have any; quoted text has none. No two have the same slug. Values keep their case and
    are cut at 128 bytes between characters. Takes time in proportion to the text, never raises.
    """
    if message.role != MINED_ROLE:
        return []
    unstated = message.content
    message = replace(message, content=stop_at_pictures(message.content))
    plain = drop_accents(message.content)
    needed = (_ALL_RULES[nth] for nth in _NEEDED.select(message.content))
    rules = [rule for rule in needed if rule.opening.search(plain if rule.unaccented else message.content)]
    said = mask_spans(message.content, find_unstated(unstated, message.name)) if rules else ""
    found = [fact for rule in rules for fact in _apply_rule(rule, message, ordinal, said)]
    if rules or VALUE_FIRST_SIGNS.search(plain):
        found += _find_inverse(
            message, ordinal, said or mask_spans(message.content, find_unstated(unstated, message.name))
        )
    for one in find_introductions(message.content, message.name)[:1]:
        found += _build_facts(OWN_NAME, message, ordinal, {}, TextSpan(one.start, one.end))
    unique: dict[str, ExtractedFact] = {}
    for fact in sorted(found, key=lambda fact: (not _long_ago(message.content, fact), fact.span)):
        unique.setdefault(fact.slug, fact)
    return list(unique.values())


def _find_inverse(message: MessageText, ordinal: int, said: str) -> list[ExtractedFact]:
    """Return the facts whose value stands before their phrase: "Dune is my favourite book", "Tom is my boss"."""
    found = list[ExtractedFact]()
    plain = drop_accents(said)
    openings = (one for signs, patterns in VALUE_FIRST if signs is None or signs.search(plain) for one in patterns)
    for rule, opening in openings:
        for match in islice(opening.finditer(plain if rule.unaccented else said), MOST_OPENINGS):
            start, end = match.span("value")
            if rule.shape in _NAMED and not _may_be_named(rule, said[start:end]):
                continue
            if _PATTERN.no_topic.match(said, start) is None and is_stated(said, start, start, match.end()):
                groups = {**match.groupdict(), "value": None}
                facts = _build_facts(rule, message, ordinal, groups, TextSpan(start, end))
                found += _mark_new_holders(facts, message.content, TextSpan(*match.span()))
    return found


def _may_be_named(rule: Rule, said: str) -> bool:
    """Return whether what begins a clause is a name of the rule's kind: "Tom", not "This"; no place is an employer."""
    low = said.lower()
    if low in known_places():
        return rule.shape is not ValueShape.THING or low in name_list("organisations")
    first = low.split(maxsplit=1)[0]
    return "." in first or is_given_name(first) or not is_word(first)


def _apply_rule(rule: Rule, message: MessageText, ordinal: int, said: str) -> Collection[ExtractedFact]:
    """Return the facts of a rule in the message's own words, without quotations (`said`)."""
    found: dict[str, ExtractedFact] = {}
    for match in islice(rule.opening.finditer(drop_accents(said) if rule.unaccented else said), MOST_OPENINGS):
        span = _find_value(rule, message.content, match)
        if span is not None and _is_told(rule, said, match, span):
            facts = _build_facts(rule, message, ordinal, match.groupdict(), span)
            for fact in _mark_new_holders(facts, message.content, TextSpan(match.start(), span.end)):
                found.setdefault(fact.slug + canonical_name(fact.value), fact)
            if rule.contracted:
                break
    if rule.many or rule.ends is not None:
        return _make_slugs_unique(found.values())
    return [max(found.values(), key=lambda fact: (not _long_ago(message.content, fact), fact.span))] if found else []


def _make_slugs_unique(found: Iterable[ExtractedFact]) -> list[ExtractedFact]:
    """Return the facts with unique slugs; the first of equals keeps the slug of its rule."""
    slugs: dict[str, ExtractedFact] = {}
    for fact in found:
        slug = f"{fact.slug}-{canonical_name(fact.value)}" if fact.slug in slugs else fact.slug
        slugs[slug] = replace(fact, slug=slug)
    return list(slugs.values())


def _long_ago(text: str, fact: ExtractedFact) -> bool:
    return _PATTERN.long_ago.match(text, fact.span.end) is not None


def _build_facts(
    rule: Rule, message: MessageText, ordinal: int, groups: Mapping[str, str | None], span: TextSpan
) -> list[ExtractedFact]:
    """Return the fact of the value in `span`; a denial in other words is one of each value that it ends."""
    said = _BLANKS.sub(" ", message.content[span.start : span.end])
    named = {name: name_relation(found) for name, found in groups.items() if found}
    subject = (message.name or "").strip() or None
    return [
        ExtractedFact(
            fact_id=rule.fact_id.format(**named),
            key=rule.key or named.get("key") or canonical_name(value),
            slug=rule.slug if rule.key else f"{rule.slug}-{'-'.join((*named.values(), canonical_name(value)))}",
            value=value,
            tier=rule.tier,
            confidence=rule.confidence,
            subject=subject,
            statement=rule.says.format(who=subject or UNNAMED_SPEAKER, value=value, **named),
            ordinal=ordinal,
            span=span,
            denied=rule.denies,
        )
        for value in _list_values(rule, said)
    ]


def name_relation(found: str) -> str:
    """Return what a person, an animal or a thing is in the ids of facts, by the word of any language for it."""
    low = " ".join(found.casefold().split())
    return ALIASES.get(drop_accents(low), low)


def has_new_holder(text: str) -> bool:
    """Return whether a text has a word by which a fact may replace another."""
    return _PATTERN.new_holder.search(text) is not None or _PATTERN.holder_now.search(text) is not None


def _mark_new_holders(found: Sequence[ExtractedFact], text: str, clause: TextSpan) -> Sequence[ExtractedFact]:
    """Return facts, those that replace others marked: "my new boss is Kim", "Kim is my boss now"."""
    has_role = any(fact.fact_id.removeprefix("user_") in SOLE_ROLES and not fact.denied for fact in found)
    if not has_role or not (
        _PATTERN.new_holder.search(text, clause.start, clause.end) or _PATTERN.holder_now.match(text, clause.end)
    ):
        return found
    return [replace(fact, replaces=True) for fact in found]


def _list_values(rule: Rule, said: str) -> Sequence[str]:
    if rule.ends is not None:
        return rule.ends(said)
    return split_list(said) if rule.shape is ValueShape.LIST else (said,)


def _is_told(rule: Rule, text: str, match: re.Match[str], span: TextSpan) -> bool:
    """Return whether a value is among those of its rule and its sentence states it.

    "My sister Maud" tells a name in any sentence.
    """
    words = text[span.start : span.end].lower().split()
    # "I quit football practice" is not about football.
    if rule.among and rule.among.isdisjoint(words[-1:] if rule.denies else words):
        return False
    if rule.shape is ValueShape.NAME and not _PATTERN.copula.search(match.group()):
        return not is_supposed(text, match.start())
    if rule.denies and denies_partly(text, match.group(), span.end):
        return False
    if _is_no_value(rule, text[span.start : span.end]):
        return False
    stated = is_stated(text, match.start(), span.start, span.end)
    return stated and (not rule.told or is_plainly_told(text, match.start(), span.end))


def _is_no_value(rule: Rule, value: str) -> bool:
    """Return whether a value of a contracted rule is a mere pronoun."""
    return (
        rule.contracted and rule.fact_id in {"user_like", "user_preference"} and _PATTERN.meant.match(value) is not None
    )


def _find_value(rule: Rule, text: str, match: re.Match[str]) -> TextSpan | None:
    """Return the value's span, None when the text after the opening has not the rule's shape."""
    start, text = match.end(), drop_accents(text) if rule.unaccented and rule.pattern is not None else text
    window = text[start : start + 2 * MAX_VALUE_BYTES]
    end = _ENDS.get(rule.shape, _PATTERN.value_end).search(window)
    if rule.shape is ValueShape.DAY:
        return _find_day(window, start) if rule.pattern is None else _find_pattern(rule.pattern, window, start)
    if rule.shape in _NAMES:
        name = cut_value(_match_name(rule, match.group(), _PATTERN.line_end.split(window, maxsplit=1)[0])).rstrip()
        return TextSpan(start, start + len(name)) if name else None
    said = window[: end.start()] if end else window
    if rule.pattern is not None:
        return _find_pattern(rule.pattern, said, start)
    clause = _PATTERN.next_clause.search(said)
    if rule.shape in _THOUGHTS:
        said = _DASH.split(said, maxsplit=1)[0]
    shaped = _match_shape(rule.shape, _PATTERN.trailing.sub("", said[: clause.start()] if clause else said))
    kept = cut_value(shaped).rstrip()
    return TextSpan(start, start + len(kept)) if kept else None


def _find_day(window: str, start: int) -> TextSpan | None:
    found = find_dates(window, None)
    near = found and found[0].span.start <= _ARTICLE_LENGTH
    return TextSpan(start + found[0].span.start, start + found[0].span.end) if near else None


def _find_pattern(pattern: re.Pattern[str], said: str, start: int) -> TextSpan | None:
    found = pattern.match(said)
    if found is None:
        return None
    begin, end = found.span("value" if "value" in pattern.groupindex else 0)
    return TextSpan(start + begin, start + end)


def _match_shape(shape: ValueShape, value: str) -> str:
    """Return the beginning of the value that has the shape, empty if there is none."""
    match shape:
        case ValueShape.THING:
            thing = _PATTERN.article.match(value) or _leading_name(value) or find_low_employer(value)
            return _PATTERN.after_thing.split(value, maxsplit=1)[0] if thing else ""
        case ValueShape.DOING:
            return value if _PATTERN.doing.match(value) else ""
        case ValueShape.ROLE:
            return "" if _PATTERN.no_role.match(value) else _PATTERN.after_role.split(value, maxsplit=1)[0]
        case ValueShape.TOPIC:
            return "" if _PATTERN.no_topic.match(value) else value
        case ValueShape.OBJECT | ValueShape.TITLE:
            return name_object(value, title=shape is ValueShape.TITLE)
        case _:
            return cut_list(value) if shape is ValueShape.LIST else value


def _leading_name(value: str) -> NameRun | None:
    """Return the name at the beginning of a value, perhaps after an article; None where there is none."""
    name = next(find_runs(tokenize_text(value)), None)
    if name is None or name.start > _ARTICLE_LENGTH:
        return None
    before = value[: name.start]
    return name if not before or _PATTERN.article.match(before) else None


def _match_name(rule: Rule, opening: str, value: str) -> str:
    """Return the name at the beginning of a value, empty where it does not fit the opening phrase."""
    name = _leading_name(value)
    if name is None:
        return find_low_place(value) if rule.shape is not ValueShape.NAME else find_low_name(opening, value)
    # "My sister is Ana's friend" tells no name.
    word = opening.rsplit(maxsplit=1)[-1].lower()
    owner = name.parts[-1].possessive and word == "is"
    wrong = rule.shape is ValueShape.PLACE and not _may_be_place(
        name, strict=rule.told or not (word == "in" or rule.unaccented)
    )
    wrong = wrong or (rule.shape is ValueShape.KNOWN_PLACE and name.name not in known_places())
    return "" if owner or wrong or (rule.told and _is_somebodys(name)) else value[: name.end]


def _is_somebodys(name: NameRun) -> bool:
    """Return whether a name is a person's or possessive: "we went to Kim", "to Kim's"."""
    return name.parts[-1].possessive or (name.name not in known_places() and is_given_name(name.lows[0]))


def _may_be_place(name: NameRun, *, strict: bool) -> bool:
    """Return whether a name may be a place: not listed as another kind and, where `strict`, no ordinary word."""
    if name.name in known_places():
        return True
    mere = strict and len(name.parts) == 1 and is_word(name.lows[0])
    return not mere and name.name not in known_things()


def cut_value(value: str) -> str:
    """Return the beginning of a value: as many whole characters as fit into MAX_VALUE_BYTES."""
    while len(value.encode("utf-8", "surrogatepass")) > MAX_VALUE_BYTES:
        value = value[:-1]
    return value
