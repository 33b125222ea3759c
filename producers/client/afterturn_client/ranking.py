"""Ranks texts for a query by BM25. Pure."""

import math
import re
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"\w+")
#: Characters of scripts without spaces, which are compared one by one.
_UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]")
_SATURATION, _LENGTH_WEIGHT = 1.2, 0.75


def split_terms(text: str) -> list[str]:
    """Return the words of a text in lower case, and the single characters of scripts without spaces."""
    found = []
    for word in _WORD.findall(text.casefold()):
        signs = _UNSPACED.findall(word)
        found += signs or [word]
    return found


def rank_texts(query: str, texts: Sequence[str]) -> list[int]:
    """Return the indexes of the texts that share a word with the query, best first; of equals, the later one first."""
    counts = [Counter(split_terms(text)) for text in texts]
    lengths = [sum(count.values()) for count in counts]
    average = sum(lengths) / len(lengths) if any(lengths) else 1.0
    scores = [0.0] * len(texts)
    for term in set(split_terms(query)):
        holding = [at for at, count in enumerate(counts) if term in count]
        rarity = math.log(1 + (len(texts) - len(holding) + 0.5) / (len(holding) + 0.5))
        for at in holding:
            damped = _SATURATION * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * lengths[at] / average)
            scores[at] += rarity * counts[at][term] * (_SATURATION + 1) / (counts[at][term] + damped)
    return sorted((at for at, score in enumerate(scores) if score), key=lambda at: (-scores[at], -at))
