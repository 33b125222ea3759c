"""Assembles the model's input of a prepared turn: recalled context, stored history and a summary, within a budget.

Pure: stored content comes as arguments, and long work gives way to other requests between its steps.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

from embeddings.protocol import TokenCounter
from producers import metrics
from producers.mcp.settings import TurnMemorySettings
from producers.turns.history import cut_history, keep_paired
from producers.turns.items import KEPT, Item, count_tokens, measure_value, render_item
from producers.turns.recalled import RecalledContext, build_rule, chunk_json, insight_json
from producers.turns.requests import TurnReference
from producers.turns.summaries import MOST_TOKENS, SHARE, EarlierMessages, choose_entries, frame_summary
from store.memory.held_facts import HoldingFact
from store.memory.session_history import KeptMessage, RecentHistory
from store.off_loop import Steps
from store.recall.query import Recalled
from store.recall.users import INSIGHT_KINDS, name_speaker

#: Stored items that are read to choose the shown ones: a call may be far before its output.
READ_ITEMS = 128
#: Characters of items that are compared in the time in which one character is cut into words.
COMPARED_CHARACTERS = 8
#: Tokens that are counted before other requests have their turn.
TOKENS_A_STEP = 2_048


@dataclass(frozen=True, slots=True)
class LaterMessages:
    """The newest messages of a session that stand behind its summary, and the item of each."""

    session: RecentHistory
    kept: Sequence[KeptMessage]
    items: Sequence[Item]

    @classmethod
    def of(cls, session: RecentHistory) -> "LaterMessages":
        """Restore the items of a session's messages."""
        first = session.summary.first_seq if session.summary is not None and session.summary.made else 0
        kept = [one for one in session.kept if one.seq >= first]
        return cls(session, kept, [restore_item(one) for one in kept])

    def without(self, stored: Sequence[Item], chosen: Sequence[Item]) -> "LaterMessages":
        """Return the messages without those of `stored` that the caller sends, too, and so are not `chosen`."""
        sent = {id(item) for item in stored} - {id(item) for item in chosen}
        kept = [(one, item) for one, item in zip(self.kept, self.items, strict=True) if id(item) not in sent]
        return replace(self, kept=[one for one, _ in kept], items=[item for _, item in kept])

    def order(self, chosen: Sequence[Item], awaited: Sequence[Item]) -> Sequence[Item]:
        """Return these items in the order in which they were said."""
        return _select([*chosen, *awaited], self.items) if awaited else chosen

    def before(self, shown: Sequence[Item]) -> EarlierMessages:
        """Return the content of a summary beside these items."""
        seen = {id(item) for item in shown}
        unshown = [one for one, item in zip(self.kept, self.items, strict=True) if id(item) not in seen]
        return EarlierMessages(self.session.summary, unshown)

    def is_cut(self, shown: Sequence[Item]) -> bool:
        """Return whether the session has messages besides these."""
        summary = self.session.summary
        return len(shown) < len(self.items) or (summary is not None and summary.made)


@dataclass(frozen=True, slots=True)
class ShownMessages:
    """What the model sees without recall: units of the history, and texts that the caller sent."""

    units: frozenset[UUID]
    texts: frozenset[str]

    def has(self, one: Recalled) -> bool:
        """Return whether the model sees this recalled unit already."""
        return one.unit_id in self.units or one.text in self.texts


class Conversation(NamedTuple):
    """The items of a prepared turn: the caller's history, the stored one, the current input.

    `earlier`: the messages of which a summary may tell; None: no summary is wanted. `awaited`: those of the stored
    items that stay, since the caller sends their outputs.
    """

    history: Sequence[Item]
    stored: Sequence[Item]
    current: Sequence[Item]
    earlier: LaterMessages | None = None
    awaited: Sequence[Item] = ()

    def list_loose(self) -> list[Item]:
        """Return the stored items that a budget may drop."""
        held = {id(item) for item in self.awaited}
        return [item for item in self.stored if id(item) not in held]

    def order(self, shown: Sequence[Item]) -> list[Item]:
        """Return these stored items and those that stay, in their order."""
        return _select([*shown, *self.awaited], self.stored)


class TurnCounters(NamedTuple):
    """The counter of the recalled context, and that of the conversation, whose items come back with each turn."""

    recalled: TokenCounter
    conversation: TokenCounter


def restore_item(kept: KeptMessage) -> Item:
    """Return a stored message as an item: the original one, unless its text was corrected since."""
    if len(kept.parts) == 1 and kept.parts[0].get("type") == KEPT:
        item = kept.parts[0].get("item")
        if isinstance(item, dict) and render_item(item) == kept.content:
            return item
    assistant = kept.role in ("assistant", "tool")
    part = {"type": "output_text" if assistant else "input_text", "text": kept.content}
    return {"type": "message", "role": "assistant" if assistant else kept.role, "content": [part]}


def estimate_effort(kept: Sequence[KeptMessage], items: Sequence[Item]) -> int:
    """Return the effort of comparing stored messages with items, in characters of text to analyse."""
    return (sum(one.size for one in kept) + measure_value(list(items))) // COMPARED_CHARACTERS


def _select(wanted: Sequence[Item], items: Sequence[Item]) -> list[Item]:
    """Return the wanted ones of these items, in their order."""
    ids = {id(item) for item in wanted}
    return [item for item in items if id(item) in ids]


def choose_context(
    found: Sequence[Recalled],
    facts: Sequence[HoldingFact],
    shown: ShownMessages,
    limits: TurnMemorySettings,
    others: Mapping[UUID, str],
    *,
    asked: bool,
) -> RecalledContext:
    """Return the recalled context, without units that the history shows already.

    `others`: what users other than the speaker are called.
    """
    found = [name_speaker(one, others) for one in found]
    insights = [insight_json(one) for one in found if one.kind in INSIGHT_KINDS]
    chunks = [chunk_json(one) for one in found if one.kind not in INSIGHT_KINDS and not shown.has(one) and asked]
    return RecalledContext(facts, insights[: limits.insight_recall_limit], chunks[: limits.search_limit])


def trim_to_budget(
    place: TurnReference,
    context: RecalledContext,
    conversation: Conversation,
    most: int,
    counters: TurnCounters,
) -> Steps[dict[str, Any]]:
    """Return the answer within `most` tokens: the oldest stored history is dropped first, then recalled context.

    A summary tells the history that is dropped, or that is older than what was read. Items of the caller stay, even
    beyond the budget.
    """
    history, _, current, earlier, awaited = conversation
    stored, around = conversation.list_loose(), [*history, *awaited, *current]
    recalled = context.items()
    of_recalled = sum((yield from _count_fitting(recalled, None, counters.recalled)))
    tokens = of_recalled + sum((yield from _count_fitting(around, None, counters.conversation)))
    room = most - tokens if most else None
    sizes = yield from _count_fitting(reversed(stored), room, counters.conversation)
    share = _reserve_for_summary(conversation, stored, sizes, room)
    shown = list(stored)
    if len(sizes) < len(stored):
        metrics.COMPACTION.inc()
        shown = keep_paired(cut_history(stored, len(sizes)), around)
    tokens += sum(sizes[: len(shown)])
    shown = conversation.order(shown)
    summary = list[Item]()
    if earlier is not None and share:
        yield
        summary = _summarise_earlier(earlier.before(shown), context, share, counters.recalled)
        tokens += sum(count_tokens(summary, counters.recalled))
    while 0 < most < tokens and (less := context.shorter()) is not None:
        context, recalled, tokens = less, less.items(), tokens - of_recalled
        of_recalled = sum(count_tokens(recalled, counters.recalled))
        tokens += of_recalled
        yield
    return {
        "project": place.project,
        "input_items": [*recalled, *history, *summary, *shown, *current],
        "recall_fact_ids": list(dict.fromkeys(one.fact_id for one in context.facts)),
        "recall_insight_ids": [str(one["id"]) for one in context.insights],
        "context_token_count": tokens,
    }


def _reserve_for_summary(conversation: Conversation, stored: Sequence[Item], sizes: list[int], room: int | None) -> int:
    """Return the tokens that a summary may take; drops the last of `sizes`, the oldest items, that leave it no room."""
    fitting = stored[len(stored) - len(sizes) :]
    if conversation.earlier is None or not conversation.earlier.is_cut([*conversation.awaited, *fitting]):
        return 0
    if room is None:
        return MOST_TOKENS
    share = min(MOST_TOKENS, max(0, room) // SHARE)
    while share and sizes and sum(sizes) > room - share:
        sizes.pop()
    return share


def _summarise_earlier(
    earlier: EarlierMessages, context: RecalledContext, most: int, counter: TokenCounter
) -> list[Item]:
    """Return the summary of what is not shown, with the rule where nothing else brings it, within `most` tokens."""
    rule = [build_rule()] if context.is_empty else []
    room = most - sum(count_tokens(rule, counter))
    entries = choose_entries(earlier.digest(), room, counter)
    while entries:
        summary = frame_summary(entries, context.form)
        if sum(count_tokens(summary, counter)) <= room:
            return [*rule, *summary]
        entries = entries[1:]
    return []


def _count_fitting(items: Iterable[Item], most: int | None, counter: TokenCounter) -> Steps[list[int]]:
    """Return the tokens of the first items, up to the one with which they would be more than `most`."""
    sizes, total, paused_at = list[int](), 0, 0
    for tokens in count_tokens(items, counter):
        total += tokens
        if most is not None and total > most:
            break
        sizes.append(tokens)
        if total > paused_at + TOKENS_A_STEP:
            paused_at = total
            yield
    return sizes
