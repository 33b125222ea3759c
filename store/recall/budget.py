"""Cuts an answer to its token budget."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate

from embeddings.errors import EmbeddingError
from embeddings.protocol import Embedder, TokenCounter
from store.memory.directives import Directive
from store.off_loop import Steps, run_off_loop, run_steps_off_loop
from store.recall.passages import CHARACTERS_PER_TOKEN, SEARCHED, TOKENS, cut_passage
from store.recall.pinned_arm import limit_pinned
from store.recall.query import Recalled
from store.recall.settings import RecallSettings

#: Characters of a text whose tokens are counted; beyond them, tokens are estimated. With 16,384, one answer of very
#: long texts kept both cores busy for 0.2 s.
COUNTED_CHARACTERS = 4_096
#: The first texts are tokenised that fill the budget this many times, as estimated from their characters.
FILLED = 1.25


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
    items: Sequence[Recalled], room: int | None, weights: Mapping[str, float], embedder: Embedder
) -> tuple[Recalled, ...]:
    """Return the items, best first, as passages of together at most `room` tokens, each with its number of tokens.

    Without `room` the items are returned unchanged. If not even the best passage fits, it is cut to `room`. `weights`
    are the weights of the question's stems.
    """
    if room is None:
        return tuple(items)
    effort = sum(min(len(item.text), SEARCHED) for item in items)
    passages = await run_steps_off_loop(effort, _cut_items(items, weights))
    sizes = await _select_passages(passages, room, embedder)
    if sizes or not items:
        return tuple(replace(passages[index], tokens=size) for index, size in sizes.items())
    return await _shrink_item(items[0], room, weights, embedder)


async def _select_passages(passages: Sequence[Recalled], room: int, embedder: Embedder) -> Mapping[int, int]:
    """Return the indexes of the passages, best first, that together stay within `room`, and the tokens of each.

    Of a hundred passages half may not fit: those after the first that fill `room` are tokenised only if their words,
    each of which is at least one token, would fit.
    """
    first = _count_filling(passages, room)
    sizes = await _count_tokens([item.text for item in passages[:first]], embedder)
    kept = fit_with_pins(sizes, [item.pinned for item in passages[:first]], room)
    found = {index: sizes[index] for index in kept}
    left = room - sum(found.values())
    short = [index for index in range(first, len(passages)) if len(passages[index].text.split()) <= left]
    sizes = await _count_tokens([passages[index].text for index in short], embedder) if short else ()
    return {**found, **{short[nth]: sizes[nth] for nth in select_fitting(sizes, left)}}


def _count_filling(passages: Sequence[Recalled], room: int) -> int:
    """Return how many of the first passages exceed `room` by their characters; the number covers all pinned ones."""
    characters = accumulate(len(item.text) for item in passages)
    filling = 1 + sum(length <= FILLED * CHARACTERS_PER_TOKEN * room for length in characters)
    return max([filling, *(index + 1 for index, item in enumerate(passages) if item.pinned)])


async def _shrink_item(
    item: Recalled, room: int, weights: Mapping[str, float], embedder: Embedder
) -> tuple[Recalled, ...]:
    """Return one item, its passage cut to at most `room` tokens; an empty tuple if no piece of it fits."""
    tokens = min(room, TOKENS)
    while tokens:
        passage = await run_off_loop(min(len(item.text), SEARCHED), _cut_item, item, weights, tokens)
        [size] = await _count_tokens([passage.text], embedder)
        if size <= room:
            return (replace(passage, tokens=size),)
        tokens = min(tokens - 1, tokens * room // size)
    return ()


def _cut_items(items: Sequence[Recalled], weights: Mapping[str, float]) -> Steps[Sequence[Recalled]]:
    passages = []
    for item in items:
        passages.append(_cut_item(item, weights, TOKENS))
        yield
    return passages


def _cut_item(item: Recalled, weights: Mapping[str, float], tokens: int) -> Recalled:
    passage = cut_passage(item.text, weights, tokens)
    return item if passage == item.text else replace(item, text=passage, cut=True)


async def select_directives(
    directives: Sequence[Directive], max_tokens: int | None, settings: RecallSettings, embedder: Embedder
) -> tuple[tuple[Directive, ...], int]:
    """Return the directives, the most important first, that fit into an answer, and the sum of their tokens."""
    if not directives:
        return (), 0
    share = None if max_tokens is None else int(max_tokens * settings.directive_share)
    room = settings.directive_tokens if share is None else min(share, settings.directive_tokens)
    sizes = await _count_tokens([f"{one.name}: {one.content}" for one in directives], embedder)
    kept = select_fitting(sizes, room)
    return tuple(directives[index] for index in kept), sum(sizes[index] for index in kept)


async def _count_tokens(texts: Sequence[str], embedder: Embedder) -> Sequence[int]:
    """Return the tokens of each text; those of a very long text are extrapolated from its beginning."""
    if isinstance(embedder, TokenCounter):
        with suppress(EmbeddingError):
            counted = await asyncio.to_thread(embedder.count_tokens, [text[:COUNTED_CHARACTERS] for text in texts])
            return [
                -(-tokens * len(text) // min(len(text), COUNTED_CHARACTERS)) if text else tokens
                for tokens, text in zip(counted, texts, strict=True)
            ]
    return [-(-len(text) // CHARACTERS_PER_TOKEN) for text in texts]
