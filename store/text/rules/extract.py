"""A turn's text in, everything that follows from it out: the one way into the rules."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from itertools import islice

from store.text.rules.addresses import addresses, masked
from store.text.rules.canonical import canonical, shown
from store.text.rules.dates import dates
from store.text.rules.facts import facts
from store.text.rules.model import Entity, Extraction, Mention, MentionKind, MessageText, TurnText
from store.text.rules.names import names_in

#: Output is write-once for each (turn, stage, version): a change of the rules is a new version.
VERSION = "rules-2"
#: The first so many mentions of a message are kept: what names more is a list, and pairs grow with the square.
MAX_MENTIONS = 256
#: What one turn or document gives at most, the first of it: each is an event, and rows beside it.
MAX_MENTIONS_OF_TURN, MAX_FACTS_OF_TURN = 4096, 512


_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]{1,200}`", re.DOTALL)


def extract(turn: TurnText) -> Extraction:
    """Return the mentions, entities and facts of a turn; what it returns depends on the turn alone.

    Never raises, whatever the text; takes time in proportion to the text; keeps the first 256 mentions of a
    message, 4,096 mentions and 512 facts of a turn. Mentions come in the order of the text (the speaker of a
    message first) and no two overlap; entities are sorted by normalised name. Facts come from messages of role
    `user` only.
    """
    said = _day(turn.occurred_at)
    mentions = [*_speakers(turn.messages), *_first(_written(turn.messages, said))]
    mentions = sorted(mentions, key=_place)[:MAX_MENTIONS_OF_TURN]
    found = (fact for ordinal, message in enumerate(turn.messages) for fact in facts(message, ordinal))
    return Extraction(tuple(mentions), as_entities(mentions), tuple(islice(found, MAX_FACTS_OF_TURN)))


def _day(moment: datetime | None) -> date | None:
    if moment is None:
        return None
    return (moment.astimezone(UTC) if moment.tzinfo else moment).date()


def _place(mention: Mention) -> tuple[int, int]:
    return mention.ordinal, -1 if mention.span is None else mention.span.start


def _first(mentions: Iterable[Mention]) -> Iterator[Mention]:
    kept: Counter[int] = Counter()
    for mention in sorted(mentions, key=_place):
        kept[mention.ordinal] += 1
        if kept[mention.ordinal] <= MAX_MENTIONS:
            yield mention


def _speakers(messages: Sequence[MessageText]) -> Iterable[Mention]:
    for ordinal, message in enumerate(messages):
        if name := canonical(message.name or ""):
            yield Mention(MentionKind.PERSON, ordinal, None, (message.name or "").strip(), name)


def _written(messages: Sequence[MessageText], said: date | None) -> Iterable[Mention]:
    """Addresses first, then dates and names outside of code: each in what is left of the text."""
    left: list[str] = []
    for ordinal, message in enumerate(messages):
        found = [*_addresses(ordinal, message.content)]
        bare = masked(_without(message.content, found), [match.span() for match in _CODE.finditer(message.content)])
        found_dates = [*_dates(ordinal, message.content, bare, said)]
        left.append(_without(bare, found_dates))
        yield from (*found, *found_dates)
    yield from _names(messages, left)


def _addresses(ordinal: int, text: str) -> Iterable[Mention]:
    for kind, span, name in addresses(text):
        yield Mention(kind, ordinal, span, text[span.start : span.end], name)


def _dates(ordinal: int, text: str, bare: str, said: date | None) -> Iterable[Mention]:
    for dated in dates(bare, said):
        name = dated.day.isoformat() if dated.day else None
        surface = text[dated.span.start : dated.span.end]
        yield Mention(MentionKind.DATE, ordinal, dated.span, surface, name, dated.day)


def _names(messages: Sequence[MessageText], left: Sequence[str]) -> Iterable[Mention]:
    people = [message.name for message in messages if message.name]
    for named in names_in(left, people):
        text = messages[named.ordinal].content
        surface = text[named.span.start : named.span.end]
        yield Mention(named.kind, named.ordinal, named.span, surface, named.normalised)


def _without(text: str, mentions: Iterable[Mention]) -> str:
    return masked(text, [(m.span.start, m.span.end) for m in mentions if m.span is not None])


def as_entities(mentions: Iterable[Mention]) -> tuple[Entity, ...]:
    """Return the entities mentioned, each once, by normalised name."""
    found: dict[str, Entity] = {}
    for mention in mentions:
        if mention.entity is not None and mention.entity not in found:
            found[mention.entity] = Entity(mention.entity, shown_as(mention), mention.kind)
    return tuple(found[name] for name in sorted(found))


def shown_as(mention: Mention) -> str:
    """Return what a mention calls its entity, as people read it."""
    written = mention.kind in {MentionKind.DATE, MentionKind.URL, MentionKind.EMAIL, MentionKind.HANDLE}
    return mention.entity or "" if written else shown(mention.surface)
