"""The entry point of the extraction rules: a turn's text in, mentions, entities and facts out."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from itertools import islice

from store.text.rules.addresses import find_addresses, mask_spans
from store.text.rules.canonical import canonical_name, display_name
from store.text.rules.dates import find_dates
from store.text.rules.facts import find_facts
from store.text.rules.model import ExtractedEntity, Extraction, Mention, MentionKind, MessageText, TurnText
from store.text.rules.names import find_names

#: Output is write-once for each (turn, stage, version): a change of the rules is a new version.
VERSION = "rules-18"
#: Most mentions of a message that are kept: what names more is a list, and pairs grow with the square.
MAX_MENTIONS = 256
#: The most mentions and facts of one turn or document, the first of them: each is an event with rows of its own.
MAX_MENTIONS_OF_TURN, MAX_FACTS_OF_TURN = 4096, 512
#: Mentions that any turn may have, and characters of text for one more: a turn of 24 KiB that names a person every
#: seven characters would fill a thousand times its size on disk.
FREE_MENTIONS, CHARACTERS_A_MENTION = 512, 256


_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]{1,200}`", re.DOTALL)


def extract_turn(turn: TurnText) -> Extraction:
    """Return the mentions, entities and facts of a turn; what it returns depends on the turn alone.

    Never raises, for any text; takes time in proportion to the text. It keeps the first mentions: 256 of a message, of
    a turn 512 and one more for each 256 characters, up to 4,096; and the first 512 facts of a turn. Mentions come in
    the order of the text (the speaker of a message first) and no two overlap; entities are sorted by normalised name.
    Facts come from messages of role `user` only.
    """
    said = _day_of(turn.occurred_at)
    mentions = [*_speaker_mentions(turn.messages), *_first_mentions(_text_mentions(turn.messages, said))]
    mentions = sorted(mentions, key=_mention_place)[: _count_allowed(turn.messages)]
    found = (fact for ordinal, message in enumerate(turn.messages) for fact in find_facts(message, ordinal))
    return Extraction(tuple(mentions), list_entities(mentions), tuple(islice(found, MAX_FACTS_OF_TURN)))


def _count_allowed(messages: Sequence[MessageText]) -> int:
    """Return how many mentions of a turn are kept."""
    characters = sum(len(message.content) for message in messages)
    return min(FREE_MENTIONS + characters // CHARACTERS_A_MENTION, MAX_MENTIONS_OF_TURN)


def _day_of(moment: datetime | None) -> date | None:
    if moment is None:
        return None
    return (moment.astimezone(UTC) if moment.tzinfo else moment).date()


def _mention_place(mention: Mention) -> tuple[int, int]:
    return mention.ordinal, -1 if mention.span is None else mention.span.start


def _first_mentions(mentions: Iterable[Mention]) -> Iterator[Mention]:
    kept: Counter[int] = Counter()
    for mention in sorted(mentions, key=_mention_place):
        kept[mention.ordinal] += 1
        if kept[mention.ordinal] <= MAX_MENTIONS:
            yield mention


def _speaker_mentions(messages: Sequence[MessageText]) -> Iterable[Mention]:
    for ordinal, message in enumerate(messages):
        if name := canonical_name(message.name or ""):
            yield Mention(MentionKind.PERSON, ordinal, None, (message.name or "").strip(), name)


def _text_mentions(messages: Sequence[MessageText], said: date | None) -> Iterable[Mention]:
    """Yield addresses first, then dates and names outside of code, each found in the rest of the text."""
    left: list[str] = []
    for ordinal, message in enumerate(messages):
        found = [*_address_mentions(ordinal, message.content)]
        bare = mask_spans(
            _mask_mentions(message.content, found), [match.span() for match in _CODE.finditer(message.content)]
        )
        found_dates = [*_date_mentions(ordinal, message.content, bare, said)]
        left.append(_mask_mentions(bare, found_dates))
        yield from (*found, *found_dates)
    yield from _name_mentions(messages, left)


def _address_mentions(ordinal: int, text: str) -> Iterable[Mention]:
    for kind, span, name in find_addresses(text):
        yield Mention(kind, ordinal, span, text[span.start : span.end], name)


def _date_mentions(ordinal: int, text: str, bare: str, said: date | None) -> Iterable[Mention]:
    for dated in find_dates(bare, said):
        name = dated.day.isoformat() if dated.day else None
        surface = text[dated.span.start : dated.span.end]
        yield Mention(MentionKind.DATE, ordinal, dated.span, surface, name, dated.day)


def _name_mentions(messages: Sequence[MessageText], left: Sequence[str]) -> Iterable[Mention]:
    people = [message.name for message in messages if message.name]
    for named in find_names(left, people):
        text = messages[named.ordinal].content
        surface = text[named.span.start : named.span.end]
        yield Mention(named.kind, named.ordinal, named.span, surface, named.normalised)


def _mask_mentions(text: str, mentions: Iterable[Mention]) -> str:
    return mask_spans(text, [(m.span.start, m.span.end) for m in mentions if m.span is not None])


def list_entities(mentions: Iterable[Mention]) -> tuple[ExtractedEntity, ...]:
    """Return the entities mentioned, each once, by normalised name."""
    found: dict[str, ExtractedEntity] = {}
    for mention in mentions:
        if mention.entity is not None and mention.entity not in found:
            found[mention.entity] = ExtractedEntity(mention.entity, format_entity_name(mention), mention.kind)
    return tuple(found[name] for name in sorted(found))


def format_entity_name(mention: Mention) -> str:
    """Return the entity's name as the mention writes it, for people to read."""
    written = mention.kind in {MentionKind.DATE, MentionKind.URL, MentionKind.EMAIL, MentionKind.HANDLE}
    return mention.entity or "" if written else display_name(mention.surface)
