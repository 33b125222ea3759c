"""Make the table of hyponyms (store/recall/query_expansion.py) from WordNet's files.

Run as `python -m deploy.lab.build_hyponyms WORDNET FILE`; WORDNET is a folder as Debian's
package wordnet-base brings it (data.noun, index.noun, ..).
"""

import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from deploy.lab.build_related_terms import read_vocabulary
from embeddings.settings import EmbeddingSettings
from store.text.terms import analyse_text

#: What has more kinds than that says nothing ("thing"); a sense that a word seldom has is none of it.
MOST_HYPONYMS = 1500
LEAST_SHARE = 0.1
#: The commonest kinds of each.
MOST = 80

HEADER = """\
# Made from WordNet 3.0 by `python -m deploy.lab.build_hyponyms`; its licence is in wordnet_license.txt.
# A stem, and the stems of what is a kind of it, the commonest first.
"""

Sense = str
Shares = Mapping[str, Mapping[Sense, float]]


def main(wordnet: Path, target: Path) -> None:
    """Write the table."""
    with tempfile.TemporaryDirectory() as data:
        stems = list(read_vocabulary(EmbeddingSettings(), Path(data)))
    target.write_text(HEADER + "".join(f"{row}\n" for row in build_rows(wordnet, stems)), encoding="utf-8")


def build_rows(wordnet: Path, stems: Sequence[str]) -> Iterator[str]:
    """Yield the table's rows; `stems` are the words that matter, the commonest first."""
    shares = _read_sense_shares(wordnet)
    below = _read_hyponyms(wordnet / "data.noun")
    having: dict[Sense, dict[str, float]] = defaultdict(dict)
    for stem in stems:
        for sense, share in shares.get(stem, {}).items():
            having[sense][stem] = share
    order = {stem: nth for nth, stem in enumerate(stems)}
    for stem in stems:
        found: dict[str, float] = defaultdict(float)
        for sense, share in shares.get(stem, {}).items():
            kinds = below(sense)
            if share >= LEAST_SHARE and len(kinds) < MOST_HYPONYMS:
                for kind, of_kind in ((kind, of) for one in kinds for kind, of in having[one].items()):
                    found[kind] += share * of_kind
        known = sorted(
            (kind for kind, of in found.items() if of >= LEAST_SHARE and kind != stem), key=order.__getitem__
        )
        if known:
            yield f"{stem}\t{' '.join(known[:MOST])}"


def _read_sense_shares(wordnet: Path) -> Shares:
    """Return how much of a stem's use each noun sense is, as far as WordNet counted; all parts of speech together."""
    counts = _read_counts(wordnet / "cntlist.rev")
    found: dict[str, dict[Sense, float]] = defaultdict(lambda: defaultdict(float))
    total: dict[str, float] = defaultdict(float)
    for part, name in (("1", "noun"), ("2", "verb"), ("3", "adj"), ("4", "adv")):
        for word, senses in _read_index(wordnet / f"index.{name}"):
            if stem := _stem_word(word):
                for nth, sense in enumerate(senses, start=1):
                    count = counts.get((word, part, nth), 0) + 0.3 / nth
                    total[stem] += count
                    if part == "1":
                        found[stem][sense] += count
    return {stem: {sense: count / total[stem] for sense, count in of.items()} for stem, of in found.items()}


def _stem_word(word: str) -> str | None:
    """Return the stem of a single word that is none of the stop words."""
    return next(iter(analyse_text(word).counts), None) if word.isalpha() and word.isascii() else None


def _read_index(file: Path) -> Iterator[tuple[str, Sequence[Sense]]]:
    for fields in _read_lines(file):
        yield fields[0], fields[-int(fields[2]) :]


def _read_counts(file: Path) -> Mapping[tuple[str, str, int], int]:
    """Read `word%part:..  number  count`; adjective satellites count as adjectives."""
    found = {}
    for key, number, count in _read_lines(file):
        word, _, kind = key.partition("%")
        found[word, {"5": "3"}.get(kind[0], kind[0]), int(number)] = int(count)
    return found


def _read_hyponyms(file: Path) -> "HyponymTree":
    return HyponymTree({fields[0]: list(_parse_hyponyms(fields)) for fields in _read_lines(file)})


class HyponymTree:
    """All senses that are a kind of one, however far down."""

    def __init__(self, kinds: Mapping[Sense, Sequence[Sense]]) -> None:
        self._kinds = kinds
        self._found = cache(self._walk)

    def __call__(self, sense: Sense) -> frozenset[Sense]:
        """Return them, the sense itself not among them."""
        return self._found(sense) - {sense}

    def _walk(self, sense: Sense) -> frozenset[Sense]:
        return frozenset({sense}).union(*(self._found(kind) for kind in self._kinds[sense]))


def _parse_hyponyms(fields: Sequence[str]) -> Iterator[Sense]:
    """Yield what a line of data points at as its kinds or instances: signs `~` and `~i`."""
    at = 4 + 2 * int(fields[3], 16)
    pointers = (fields[at + 1 + 4 * n : at + 5 + 4 * n] for n in range(int(fields[at])))
    yield from (offset for sign, offset, part, _ in pointers if sign in ("~", "~i") and part == "n")


def _read_lines(file: Path) -> Iterator[list[str]]:
    """Yield the fields of each line, without the licence at its head and the glosses."""
    lines: Iterable[str] = file.read_text(encoding="utf-8").splitlines()
    yield from (line.split(" | ")[0].split() for line in lines if not line.startswith(" "))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
