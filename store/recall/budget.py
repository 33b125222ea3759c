"""Cuts an answer to its budget of tokens: those that a prompt pays for the block, with frame, dates and directives."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from afterturn_client.contract.knowledge import Directive
from afterturn_client.reference import FrameForm

from embeddings.protocol import TokenCounter
from store.off_loop import Steps, run_off_loop, run_steps_off_loop
from store.recall.passages import CHARACTERS_PER_TOKEN, LATER_TOKENS, SEARCHED, TOKENS, cut_passage
from store.recall.pinned_arm import limit_pinned
from store.recall.printing import AnswerPrinter, print_directive, print_directives
from store.recall.query import Recalled
from store.recall.settings import RecallSettings

#: Characters of a text whose tokens are counted where no budget is kept; beyond them, tokens are estimated.
COUNTED_CHARACTERS = 4_096
#: The first texts are counted that fill the budget this many times, as estimated from their characters.
FILLED = 1.25
#: Number of passages, the best, that have their full size.
FIRST = 10
#: Share of an answer's budget that directives may take.
DIRECTIVE_SHARE = 0.25


def select_fitting(sizes: Sequence[int], room: int) -> list[int]:
    """Return the indexes of the sizes, best first, that together stay within `room`. Pure.

    A size that does not fit is left out; a smaller one after it may still fit.
    """
    kept = []
    for index, size in enumerate(sizes):
        if size <= room:
            room -= size
            kept.append(index)
    return kept


def fit_with_pins(sizes: Sequence[int], pinned: Sequence[bool], room: int) -> list[int]:
    """Return the indexes of the sizes that stay within `room`, those of pinned units within their share of it. Pure."""
    pins = [index for index, is_pinned in enumerate(pinned) if is_pinned]
    first = {pins[n] for n in select_fitting([sizes[index] for index in pins], limit_pinned(room))}
    left = [index for index, is_pinned in enumerate(pinned) if index in first or not is_pinned]
    return [left[n] for n in select_fitting([sizes[index] for index in left], room)]


async def cut_to_budget(
    items: Sequence[Recalled],
    room: int | None,
    weights: Mapping[str, float],
    printer: AnswerPrinter,
    counter: TokenCounter,
) -> tuple[tuple[Recalled, ...], int]:
    """Return the items, best first, as passages whose block has at most `room` tokens, each with its own; and the sum.

    The sum counts the frame around them, too; it is 0 without items. Without `room` the items stay whole. If not even
    the best passage fits, it is cut; where the frame alone has no room, there are none. `weights` are the weights of
    the question's stems.
    """
    if not items:
        return (), 0
    [frame] = counter.count_tokens([printer.print_frame()])
    if room is None:
        kept: Sequence[Recalled] = await _count_whole(items, printer, counter)
    else:
        kept = await _fit_passages(items, room - frame, weights, printer, counter)
    return tuple(kept), frame + sum(item.tokens or 0 for item in kept) if kept else 0


async def _count_whole(items: Sequence[Recalled], printer: AnswerPrinter, counter: TokenCounter) -> Sequence[Recalled]:
    """Return whole items, each with its tokens; those of a very long text are extrapolated from its beginning."""
    shown = [
        item if len(item.text) <= COUNTED_CHARACTERS else replace(item, text=item.text[:COUNTED_CHARACTERS])
        for item in items
    ]
    sizes = await _count_units(shown, printer, counter)
    counted = zip(items, shown, sizes, strict=True)
    return [
        _note_tokens(item, -(-size * max(1, len(item.text)) // max(1, len(cut.text)))) for item, cut, size in counted
    ]


async def _fit_passages(
    items: Sequence[Recalled],
    room: int,
    weights: Mapping[str, float],
    printer: AnswerPrinter,
    counter: TokenCounter,
) -> Sequence[Recalled]:
    effort = sum(min(len(item.text), SEARCHED) for item in items)
    passages = await run_steps_off_loop(effort, _cut_items(items, weights))
    sizes = await _select_passages(passages, room, printer, counter)
    if sizes:
        kept = [_note_tokens(passages[index], size) for index, size in sizes.items()]
        return await _count_again(kept, room, printer, counter)
    return await _shrink_item(items[0], room, weights, printer, counter)


async def _count_again(
    kept: Sequence[Recalled], room: int, printer: AnswerPrinter, counter: TokenCounter
) -> Sequence[Recalled]:
    """Return the passages with the tokens of the lines that are sent, without those that then have no room.

    Passages that are all of one day tell the time of day, which those of several days do not.
    """
    while kept and (sent := printer.turned_to(kept)) != printer:
        printer, sizes = sent, await _count_units(kept, sent, counter)
        kept = [_note_tokens(kept[index], sizes[index]) for index in select_fitting(sizes, room)]
    return kept


async def _select_passages(
    passages: Sequence[Recalled], room: int, printer: AnswerPrinter, counter: TokenCounter
) -> Mapping[int, int]:
    """Return the indexes of the passages, best first, that together stay within `room`, and the tokens of each.

    Of a hundred passages half may not fit: those after the first that fill `room` are counted only if their words,
    each of which is at least one token, would fit.
    """
    first = _count_filling(passages, room)
    sizes = await _count_units(passages[:first], printer, counter)
    kept = fit_with_pins(sizes, [item.pinned for item in passages[:first]], room)
    found = {index: sizes[index] for index in kept}
    left = room - sum(found.values())
    short = [index for index in range(first, len(passages)) if len(passages[index].text.split()) <= left]
    sizes = await _count_units([passages[index] for index in short], printer, counter) if short else ()
    return {**found, **{short[nth]: sizes[nth] for nth in select_fitting(sizes, left)}}


def _count_filling(passages: Sequence[Recalled], room: int) -> int:
    """Return how many of the first passages exceed `room` by their characters; the number covers all pinned ones."""
    characters = accumulate(len(item.text) for item in passages)
    filling = 1 + sum(length <= FILLED * CHARACTERS_PER_TOKEN * room for length in characters)
    return max([filling, *(index + 1 for index, item in enumerate(passages) if item.pinned)])


async def _shrink_item(
    item: Recalled, room: int, weights: Mapping[str, float], printer: AnswerPrinter, counter: TokenCounter
) -> Sequence[Recalled]:
    """Return one item, its passage cut to at most `room` tokens; none if no piece of it fits."""
    tokens = min(room, TOKENS)
    while tokens > 0:
        passage = await run_off_loop(min(len(item.text), SEARCHED), _cut_item, item, weights, tokens)
        [size] = await _count_units([passage], printer, counter)
        if size <= room:
            return [_note_tokens(passage, size)]
        tokens = min(tokens - 1, tokens * room // size)
    return ()


def _note_tokens(item: Recalled, tokens: int) -> Recalled:
    item.tokens = tokens
    return item


def _cut_items(items: Sequence[Recalled], weights: Mapping[str, float]) -> Steps[Sequence[Recalled]]:
    passages = []
    for nth, item in enumerate(items):
        passages.append(_cut_item(item, weights, TOKENS if nth < FIRST else LATER_TOKENS))
        yield
    return passages


def _cut_item(item: Recalled, weights: Mapping[str, float], tokens: int) -> Recalled:
    passage = cut_passage(item.text, weights, tokens)
    return item if passage == item.text else replace(item, text=passage, cut=True)


async def select_directives(
    directives: Sequence[Directive],
    max_tokens: int | None,
    settings: RecallSettings,
    form: FrameForm,
    counter: TokenCounter,
) -> tuple[tuple[Directive, ...], int]:
    """Return the directives, the most important first, that fit into an answer, and the tokens of their frame.

    `directive_tokens` and DIRECTIVE_SHARE limit the directives alone, `max_tokens` their frame with them.
    """
    if not directives:
        return (), 0
    lines = [print_directive(number, one, form) for number, one in enumerate(directives, 1)]
    frame = print_directives(directives[:1], form).replace(lines[0], "", 1)
    note, *sizes = counter.count_tokens([frame, *(f"{line}\n" for line in lines)])
    share = settings.directive_tokens if max_tokens is None else int(max_tokens * DIRECTIVE_SHARE)
    room = min(share, settings.directive_tokens)
    if max_tokens is not None:
        room = min(room, max_tokens - note)
    kept = select_fitting(sizes, room)
    if not kept:
        return (), 0
    return tuple(directives[index] for index in kept), note + sum(sizes[index] for index in kept)


async def _count_units(items: Sequence[Recalled], printer: AnswerPrinter, counter: TokenCounter) -> Sequence[int]:
    """Return the tokens of each item as it is printed."""

    def count() -> Sequence[int]:
        return counter.count_tokens([printer.print_unit(number, item) for number, item in enumerate(items, 1)])

    return await run_off_loop(sum(len(item.text) for item in items), count)
