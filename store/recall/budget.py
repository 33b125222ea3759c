"""Cuts an answer to its token budget."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate

from embeddings.errors import EmbeddingError
from embeddings.protocol import Embedder, TokenCounter
from store.memory.directives import Directive
from store.recall.passages import CHARACTERS_PER_TOKEN, TOKENS, cut_passage
from store.recall.pinned_arm import most_first
from store.recall.query import Recalled
from store.recall.settings import RecallSettings

#: Tokens are counted in the first characters of a text up to this number, and estimated beyond. With 16,384, one answer
#: of very long texts kept both cores busy for 0.2 s.
COUNTED_CHARACTERS = 4_096
#: Texts are tokenised in batches that fill the budget this many times, as estimated from their characters.
FILLED = 1.25


def select_fitting(sizes: Sequence[int], room: int) -> list[int]:
    """Return which of these, the best first, together stay within `room`. Pure.

    One that does not fit is left out, and a smaller one behind it may still be in.
    """
    kept = []
    for index, size in enumerate(sizes):
        if size <= room:
            room -= size
            kept.append(index)
    return kept


def fitting_with_pins(sizes: Sequence[int], pinned: Sequence[bool], room: int) -> list[int]:
    """Return which of these, the best first, together stay within `room`, what is pinned within its share. Pure."""
    pins = [index for index, is_pinned in enumerate(pinned) if is_pinned]
    first = {pins[n] for n in select_fitting([sizes[index] for index in pins], most_first(room))}
    left = [index for index, is_pinned in enumerate(pinned) if index in first or not is_pinned]
    return [left[n] for n in select_fitting([sizes[index] for index in left], room)]


async def cut_to_budget(
    items: Sequence[Recalled], room: int | None, weights: Mapping[str, float], embedder: Embedder
) -> tuple[Recalled, ...]:
    """Return the items, best first, as passages that together have no more tokens than `room`, and their tokens.

    Without a room they stay as they are. Where there is none for the best passage, as much of it as there is room for
    is told. `weights` says how much each of the question's stems is worth.
    """
    if room is None:
        return tuple(items)
    passages = [_cut_item(item, weights, TOKENS) for item in items]
    sizes = await _select_passages(passages, room, embedder)
    if sizes or not items:
        return tuple(replace(passages[index], tokens=size) for index, size in sizes.items())
    return await _shrink_item(items[0], room, weights, embedder)


async def _select_passages(passages: Sequence[Recalled], room: int, embedder: Embedder) -> Mapping[int, int]:
    """Return which passages, the best first, together stay within `room`, and the tokens of each.

    Half of a hundred have no room: what is behind those that fill it is counted only if it has few enough words, each
    of which is a token at least.
    """
    first = _count_filling(passages, room)
    sizes = await _count_tokens([item.text for item in passages[:first]], embedder)
    kept = fitting_with_pins(sizes, [item.pinned for item in passages[:first]], room)
    found = {index: sizes[index] for index in kept}
    left = room - sum(found.values())
    short = [index for index in range(first, len(passages)) if len(passages[index].text.split()) <= left]
    sizes = await _count_tokens([passages[index].text for index in short], embedder) if short else ()
    return {**found, **{short[nth]: sizes[nth] for nth in select_fitting(sizes, left)}}


def _count_filling(passages: Sequence[Recalled], room: int) -> int:
    """Return how many passages, the first of all, are more than `room` by their characters; all pinned ones are in."""
    characters = accumulate(len(item.text) for item in passages)
    filling = 1 + sum(length <= FILLED * CHARACTERS_PER_TOKEN * room for length in characters)
    return max([filling, *(index + 1 for index, item in enumerate(passages) if item.pinned)])


async def _shrink_item(
    item: Recalled, room: int, weights: Mapping[str, float], embedder: Embedder
) -> tuple[Recalled, ...]:
    """Return one item with as much of its best passage as there is room for, nothing where that is nothing."""
    tokens = min(room, TOKENS)
    while tokens:
        passage = _cut_item(item, weights, tokens)
        [size] = await _count_tokens([passage.text], embedder)
        if size <= room:
            return (replace(passage, tokens=size),)
        tokens = min(tokens - 1, tokens * room // size)
    return ()


def _cut_item(item: Recalled, weights: Mapping[str, float], tokens: int) -> Recalled:
    passage = cut_passage(item.text, weights, tokens)
    return item if passage == item.text else replace(item, text=passage, cut=True)


async def select_directives(
    directives: Sequence[Directive], max_tokens: int | None, settings: RecallSettings, embedder: Embedder
) -> tuple[tuple[Directive, ...], int]:
    """Return the directives, the most important first, that have room in an answer, and their tokens together."""
    if not directives:
        return (), 0
    share = None if max_tokens is None else int(max_tokens * settings.directive_share)
    room = settings.directive_tokens if share is None else min(share, settings.directive_tokens)
    sizes = await _count_tokens([f"{one.name}: {one.content}" for one in directives], embedder)
    kept = select_fitting(sizes, room)
    return tuple(directives[index] for index in kept), sum(sizes[index] for index in kept)


async def _count_tokens(texts: Sequence[str], embedder: Embedder) -> Sequence[int]:
    """Return the tokens of each text; a very long one has as many as its beginning has, in proportion."""
    if isinstance(embedder, TokenCounter):
        with suppress(EmbeddingError):
            counted = await asyncio.to_thread(embedder.count_tokens, [text[:COUNTED_CHARACTERS] for text in texts])
            return [
                -(-tokens * len(text) // min(len(text), COUNTED_CHARACTERS)) if text else tokens
                for tokens, text in zip(counted, texts, strict=True)
            ]
    return [-(-len(text) // CHARACTERS_PER_TOKEN) for text in texts]
