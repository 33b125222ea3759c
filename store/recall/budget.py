"""How much of an answer fits the asker's budget of tokens."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from embeddings.errors import EmbeddingError
from embeddings.protocol import Embedder, TokenCounter
from store.recall.query import Recalled

#: English text, where the embedder does not count.
CHARACTERS_PER_TOKEN = 4


async def within(items: Sequence[Recalled], max_tokens: int | None, embedder: Embedder) -> tuple[Recalled, ...]:
    """Return the items, best first, whose texts together stay within `max_tokens` (None: all).

    An item that does not fit is left out, and a shorter one behind it may still be in.
    """
    if max_tokens is None:
        return tuple(items)
    left = max_tokens
    kept = []
    for item, tokens in zip(items, await _tokens([item.text for item in items], embedder), strict=True):
        if tokens <= left:
            left -= tokens
            kept.append(item)
    return tuple(kept)


async def _tokens(texts: Sequence[str], embedder: Embedder) -> Sequence[int]:
    if isinstance(embedder, TokenCounter):
        with suppress(EmbeddingError):
            return await asyncio.to_thread(embedder.count_tokens, texts)
    return [-(-len(text) // CHARACTERS_PER_TOKEN) for text in texts]
