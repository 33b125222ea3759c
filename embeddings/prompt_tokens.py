"""Counts the tokens of a text for the model that a prompt goes to: by its own tokenizer, or by a conservative estimate.

The estimate knows 38,000 words and pieces of words (`data`) that are one token to each of four public tokenizers:
o200k, cl100k, Tekken and Qwen. For the rest it takes the most tokens that one of them makes of a character. So it is 10
to 15 % too high for English, and two to five times for scripts that new models read well; it is hardly ever too low.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from tokenizers import Tokenizer

from embeddings.errors import EmbeddingError
from embeddings.protocol import TokenCounter

#: Letters of an unknown word that count as one token more than its pieces.
_LETTERS_OF_DOUBT = 8
#: Characters of three bytes that none of these tokenizers makes three tokens of: Indic scripts and Thai, kana.
_TWO_TOKENS = (range(0x0900, 0x0B00), range(0x0B80, 0x0D80), range(0x0E00, 0x0E80), range(0x3000, 0x3100))
#: What English shortens, full stops at the end of a line, words with the space before them, digits, rules of one sign,
#: gaps, and what is left.
_PART = re.compile(
    r"'(?:s|t|m|d|re|ve|ll)\b|\.\n{1,2}"
    r"| ?(?:[A-Za-z]+|[^\W\d_]+)|[0-9]|-{4,}|={4,}|\*{4,}|_{4,}|#{4,}|\.{4,}|~{4,}|/{4,}| +|\s+|.",
    re.DOTALL,
)
_RULES = frozenset("-=*_#.~/")
_SIGNS_OF_RULE = 4
#: Most parts whose tokens are remembered, and most lines, by their hashes.
PARTS_KEPT, LINES_KEPT = 65_536, 65_536
#: Characters of a text that are counted at a time: about a millisecond, after which other threads may run.
PIECE_CHARACTERS = 8_192
#: Where a part certainly ends: after a letter that a sign or a gap follows, after a digit, after a sign of no rule.
_END = re.compile(r"(?<=[^\W\d_])(?=\W)|(?<=[0-9])|(?<=[^\w\s'.=*#~/-])")
#: Where a line begins, and where its words do behind a handle ("[12]"): a part ends there, too.
_LINE = re.compile(r"(?<=\n)(?=\S)")
_HANDLE = re.compile(r"\[[0-9]{1,4}\]")


class _Costs(dict[str, int]):
    """The tokens of parts that were met."""

    def __missing__(self, part: str) -> int:
        if len(self) >= PARTS_KEPT:
            self.clear()
        cost = self[part] = _estimate_part(part)
        return cost


_COSTS = _Costs()
# The tokens of lines that were met without their handles: the same units are told in one answer after the other.
_LINE_COSTS: dict[int, int] = {}


class EstimatedTokens:
    """The conservative estimate, for a model whose tokenizer is not known."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return each text's number of tokens. Takes time in proportion to the text."""
        return [sum(map(_count_piece, _cut_pieces(text))) for text in texts]


class OwnTokens:
    """The tokenizer of a model, from its `tokenizer.json`."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises EmbeddingError where it is no tokenizer."""
        found = path / "tokenizer.json" if path.is_dir() else path
        try:
            self._tokenizer = Tokenizer.from_file(str(found))
        except Exception as error:  # noqa: BLE001 - the library raises no narrower one
            raise EmbeddingError(
                f"recall.tokenizer: {found} is not a tokenizer.json ({type(error).__name__})"
            ) from None

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return each text's number of tokens, without those that mark its beginning and end."""
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(one.ids) for one in encoded]


ESTIMATE: TokenCounter = EstimatedTokens()


def choose_counter(tokenizer: Path | None) -> TokenCounter:
    """Return the counter of a tokenizer's file or folder, or the estimate without one. Raises EmbeddingError."""
    return ESTIMATE if tokenizer is None else OwnTokens(tokenizer)


def _cut_pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces that have its parts; a text without such an end is one piece."""
    begin = 0
    while begin + PIECE_CHARACTERS < len(text) and (found := _END.search(text, begin + PIECE_CHARACTERS)):
        yield text[begin : found.start()]
        begin = found.start()
    yield text[begin:]


def _count_piece(piece: str) -> int:
    return sum(map(_count_line, _LINE.split(piece)))


def _count_line(line: str) -> int:
    handle = _HANDLE.match(line)
    begin = handle.end() if handle else 0
    words = line[begin:]
    key = hash(words)
    cost = _LINE_COSTS.get(key)
    if cost is None:
        if len(_LINE_COSTS) >= LINES_KEPT:
            _LINE_COSTS.clear()
        cost = _LINE_COSTS[key] = _count_parts(words)
    return begin + cost  # each sign of a handle is a token


def _count_parts(text: str) -> int:
    return sum(map(_COSTS.__getitem__, _PART.findall(text)))


def _estimate_part(part: str) -> int:
    word = part.removeprefix(" ")
    if word.isalpha():
        return _estimate_word(word, spaced=word != part)
    if len(part) > 1:
        return len(part) // _SIGNS_OF_RULE + 1 if part[0] in _RULES and part[1] == part[0] else 1
    return _most_tokens(part)


def _estimate_word(word: str, *, spaced: bool) -> int:
    words, pieces, _ = _read_common()
    if word in (words if spaced else pieces):
        return 1
    if word in words or word in pieces:
        return max(2, min(3, _count_pieces(word)))
    by_character = sum(map(_most_tokens, word)) + spaced
    return min(_count_pieces(word) + 1 + len(word) // _LETTERS_OF_DOUBT, by_character)


def _count_pieces(word: str) -> int:
    """Return how many pieces a word has when the longest known one is taken each time."""
    _, pieces, longest = _read_common()
    tokens = at = 0
    while at < len(word):
        end = next((end for end in range(min(at + longest, len(word)), at, -1) if word[at:end] in pieces), at)
        tokens += 1 if end > at else _most_tokens(word[at])
        at = max(end, at + 1)
    return tokens


def _most_tokens(sign: str) -> int:
    """Return the most tokens that a character is by itself: mostly its bytes in UTF-8."""
    number = ord(sign)
    return 2 if any(number in script for script in _TWO_TOKENS) else len(sign.encode(errors="replace"))


@cache
def _read_common() -> tuple[frozenset[str], frozenset[str], int]:
    """Return words that are one token behind a space, pieces that are one by themselves, and the longest piece."""
    data = files("embeddings").joinpath("data")
    words, pieces = (
        frozenset(data.joinpath(name).read_text(encoding="utf-8").split())
        for name in ("common_words.txt", "common_pieces.txt")
    )
    return words, pieces, max(map(len, pieces))
