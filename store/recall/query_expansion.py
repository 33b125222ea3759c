"""Query expansion: a question about pets also finds dogs, one about sports finds tennis.

Two tables hold related words; they say nothing about any bank, and only words that a bank has are used. Words near in
meaning come from the sentence model's vocabulary (`python -m deploy.lab.build_related_terms`): a row for each of the
commonest English stems, with its nearest stems and their cosines in hundredths. Hyponyms come from WordNet
(`python -m deploy.lab.build_hyponyms`): a stem, and the stems of its kinds.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

from store.recall.lexical import Statistics
from store.recall.question import Question
from store.recall.settings import RankingSettings

_FOLDER = Path(__file__).parent / "data"
NEAR, KINDS = "kin_english", "kinds_english"
#: More words near one word tell less than they cost.
MOST = 5
#: What can add less than this share of all that is asked is not worth reading.
LEAST = 0.03
#: A question's words beyond so many have none.
MOST_WORDS = 24


@dataclass(frozen=True, slots=True)
class Kin:
    """One word's related words: `near` in meaning with their cosines, nearest first; `kinds` the commonest first."""

    near: tuple[tuple[str, float], ...] = ()
    kinds: tuple[str, ...] = ()

    def words(self) -> Iterator[str]:
        """Yield all of them."""
        yield from (word for word, _ in self.near)
        yield from self.kinds


def related_words(question: Question) -> Mapping[str, Kin]:
    """Return the related words of a question's words.

    What is written like a name has none; words beyond the first MOST_WORDS have none either.
    """
    words = islice((word for word in question.words if word not in question.proper), MOST_WORDS)
    known = ((word, Kin(_load_related().get(word, ()), _load_hyponyms().get(word, ()))) for word in words)
    return {word: row for word, row in known if row != Kin()}


def weigh_related(
    rows: Mapping[str, Kin],
    question: Question,
    statistics: Statistics,
    ranking: RankingSettings,
    names: Collection[str] = (),
) -> Mapping[str, float]:
    """Return the importance of the related words that the bank has: of each question word the five nearest, all kinds.

    `names` are words that turned out to name somebody: they have no kin. A word that is rarer than the question's own
    would outweigh it; its importance is held back by as much. What then counts hardly anything is left out.
    """
    least = LEAST * sum(count * statistics.idf(word) for word, count in question.words.items())
    found: dict[str, float] = {}
    for word, row in ((word, row) for word, row in rows.items() if word not in names):
        own = statistics.idf(word)
        for other, share in _known_related(row, question, statistics, ranking):
            held = share * min(1.0, own / statistics.idf(other))
            if held * statistics.idf(other) >= least:
                found[other] = max(found.get(other, 0.0), held)
    return found


def _known_related(
    row: Kin, question: Question, statistics: Statistics, ranking: RankingSettings
) -> Iterator[tuple[str, float]]:
    """Yield the words of a row that the bank has and the question has not, with their shares of the word asked for."""
    has = {word for word in row.words() if statistics.frequency.get(word)} - question.words.keys()
    near = [(word, ranking.kin_weight * cosine) for word, cosine in row.near if word in has]
    yield from near[:MOST]
    yield from ((word, ranking.kind_weight) for word in row.kinds if word in has)


@cache
def _load_related() -> Mapping[str, tuple[tuple[str, float], ...]]:
    return {stem: tuple(map(_parse_pair, others)) for stem, others in _read_table(NEAR)}


@cache
def _load_hyponyms() -> Mapping[str, tuple[str, ...]]:
    return {stem: tuple(others) for stem, others in _read_table(KINDS)}


def _read_table(name: str) -> Iterator[tuple[str, Sequence[str]]]:
    lines = (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    for stem, others in (line.split("\t") for line in lines if not line.startswith("#")):
        yield stem, others.split()


def _parse_pair(text: str) -> tuple[str, float]:
    stem, _, hundredths = text.partition(":")
    return stem, int(hundredths) / 100
