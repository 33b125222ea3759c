"""Pure computation of a ranking's figures: the share of the evidence among its first results, and others."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

#: Number of results of each answer; later ones are ignored.
DEPTH = 20

#: Name and column of each figure, in the order they are printed.
NAMES = ("recall@5", "recall@10", "recall@20", "mrr", "session_hit@5", "session_hit@10")
#: Two more figures for answers with a token budget: the share of the evidence, and whether all of it was found.
WITHIN, ALL_WITHIN = "within_tokens", "all_within_tokens"


@dataclass(frozen=True, slots=True)
class QuestionScore:
    """The figures of one question, by name: those of NAMES, and WITHIN and ALL_WITHIN if measured."""

    category: str
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class CategoryMeans:
    """The mean figures of a category's questions."""

    category: str
    questions: int
    means: Mapping[str, float]


def score_answer(
    category: str, found: Sequence[str], evidence: Collection[str], sessions: Mapping[str, str]
) -> QuestionScore:
    """Return the figures of an answer, given as message ids, best first; `sessions` maps messages to sessions.

    recall@k: share of the evidence among the first k. mrr: 1 / rank of the first evidence, 0 without any.
    session_hit@k: 1 if one of the first k belongs to a session that contains evidence.
    """
    order = list(dict.fromkeys(found))[:DEPTH]
    homes = {sessions[one] for one in evidence}
    first = next((place for place, one in enumerate(order, start=1) if one in evidence), None)
    recall = (len(set(order[:k]) & set(evidence)) / len(evidence) for k in (5, 10, 20))
    hits = (float(any(sessions.get(one) in homes for one in order[:k])) for k in (5, 10))
    figures = (*recall, 1 / first if first else 0.0, *hits)
    return QuestionScore(category, dict(zip(NAMES, figures, strict=True)))


def find_share(found: Collection[str], evidence: Collection[str]) -> float:
    """Return the share of the evidence that was found, at any rank."""
    return len(set(evidence).intersection(found)) / len(evidence)


def average_scores(scored: Sequence[QuestionScore]) -> list[CategoryMeans]:
    """Return the means of each category, in alphabetical order, and of all questions."""
    categories = sorted({one.category for one in scored})
    groups = {name: [one for one in scored if one.category == name] for name in categories}
    return [_average_category(name, group) for name, group in {**groups, "all": list(scored)}.items() if group]


def _average_category(category: str, scored: Sequence[QuestionScore]) -> CategoryMeans:
    names = scored[0].figures
    return CategoryMeans(category, len(scored), {name: fmean(one.figures[name] for one in scored) for name in names})
