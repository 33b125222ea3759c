"""Words that are near a question's words in meaning: who asks for pets is also told of dogs.

The table is made once from the sentence model's own vocabulary (`python -m deploy.kin`), one row for each of the
commonest English stems: the stem, and its nearest stems with their cosines in hundredths. It says nothing about any
bank; which of these words a bank has is asked of the bank.
"""

from collections.abc import Collection, Mapping
from functools import cache
from itertools import islice
from pathlib import Path

from store.recall.lexical import Statistics
from store.recall.question import Question
from store.recall.settings import RankingSettings

_FOLDER = Path(__file__).parent / "data"
TABLES = ("kin_english",)
#: More related words of one word tell less than they cost.
MOST = 5
#: A question's words beyond so many have none.
MOST_WORDS = 24

Nearest = tuple[tuple[str, float], ...]


def kin(question: Question) -> Mapping[str, Nearest]:
    """Return the related words of a question's words, nearest first, with their cosines.

    What is written like a name has none; words beyond the first MOST_WORDS have none either.
    """
    words = islice((word for word in question.words if word not in question.proper), MOST_WORDS)
    return {word: near for word in words if (near := _nearest(word))}


def related(
    nearest: Mapping[str, Nearest],
    question: Question,
    statistics: Statistics,
    ranking: RankingSettings,
    names: Collection[str] = (),
) -> Mapping[str, float]:
    """Return the importance of the related words that the bank has: of each question word the five nearest.

    `names` are words that turned out to name somebody: they have no kin. A word that is rarer than the question's own
    would outweigh it; its importance is held back by as much.
    """
    found: dict[str, float] = {}
    for word, others in ((word, others) for word, others in nearest.items() if word not in names):
        own = statistics.idf(word)
        known = [pair for pair in others if statistics.frequency.get(pair[0]) and pair[0] not in question.words]
        for other, cosine in known[:MOST]:
            share = ranking.kin_weight * cosine * min(1.0, own / statistics.idf(other))
            found[other] = max(found.get(other, 0.0), share)
    return found


def _nearest(word: str) -> Nearest:
    return next((row for table in TABLES if (row := _table(table).get(word))), ())


@cache
def _table(name: str) -> Mapping[str, Nearest]:
    rows = (row.split("\t") for row in (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines())
    return {stem: tuple(_pair(one) for one in others.split()) for stem, others in rows}


def _pair(text: str) -> tuple[str, float]:
    stem, _, hundredths = text.partition(":")
    return stem, int(hundredths) / 100
