"""The arm of times: what was said then, what tells of then, and nothing where no time is asked for."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from afterturn_client.contract.recall import Explanation
from hypothesis import given
from hypothesis import strategies as st

from store.recall import time_arm
from store.recall.dense import compute_products
from store.recall.pool import Candidate, CandidatePool
from store.recall.time_arm import LONGER, TEXTS, TOLD_LATER, mentions_time, score_moments, score_timeliness, split_days
from store.text.known_texts import KnownTexts
from store.text.times import DAY, TimeSpan, find_spans
from tests.store.recall.conftest import Memory
from tests.tables import each_row

MAY = TimeSpan(datetime(2023, 5, 1, tzinfo=UTC), datetime(2023, 6, 1, tzinfo=UTC))
FIFTH = TimeSpan(datetime(2023, 5, 5, tzinfo=UTC), datetime(2023, 5, 6, tzinfo=UTC))


def _unit(text: str, at: datetime) -> Candidate:
    return Candidate(UUID(int=1), "experience", text, True, None, None, None, None, "user", None, at, ())


def _fit(text: str, at: datetime, *times: TimeSpan) -> float:
    nothing = np.zeros((1, 4), dtype=np.float32)
    pool = CandidatePool([_unit(text, at)], compute_products(np.zeros(4, dtype=np.float32), nothing, nothing, nothing))
    return float(score_timeliness(pool, times)[0])


def test_what_was_said_then_fits_and_what_was_said_soon_after_fits_less() -> None:
    inside, after, long_after, before = (
        _fit("we talked", at, MAY) for at in (MAY.begin + 3 * DAY, MAY.end + DAY, MAY.end + 60 * DAY, MAY.begin - DAY)
    )
    assert inside == LONGER
    assert 0.5 * LONGER < after < TOLD_LATER * LONGER
    assert 0 < long_after < 0.01
    assert before == 0


def test_a_day_says_more_of_what_is_asked_for_than_a_longer_time() -> None:
    at = FIFTH.begin + timedelta(hours=9)
    assert _fit("we talked", at, FIFTH) == _fit("we talked", at, FIFTH, MAY) == 1
    assert _fit("we talked", at, MAY) == _fit("we talked", at - DAY, FIFTH, MAY) == LONGER


@each_row(
    "text, fits",
    [
        ("Yesterday we went to the lake", True),
        ("on Friday we went to the lake", True),
        ("we went to the lake on 5 May", True),
        ("two days ago we went to the lake", False),
        ("we went to the lake last year", False),
        ("we went to the lake", False),
    ],
)
def test_what_tells_of_the_day_fits_whenever_it_was_said(text: str, fits: bool) -> None:  # noqa: FBT001 - a table
    assert mentions_time(text, FIFTH.end + timedelta(hours=9), [FIFTH]) is fits


def test_a_text_that_tells_of_a_much_longer_time_does_not_tell_of_a_day() -> None:
    assert not mentions_time("In May we went to the lake", MAY.end, [FIFTH])
    assert mentions_time("In May we went to the lake", MAY.end, [MAY])


def test_of_many_texts_those_told_nearest_in_time_are_read() -> None:
    told = [_unit("we went to the lake on 5 May", FIFTH.end + days * DAY) for days in range(100, 60, -1)]
    nothing = np.zeros((len(told), 4), dtype=np.float32)
    pool = CandidatePool(told, compute_products(np.zeros(4, dtype=np.float32), nothing, nothing, nothing))
    assert list(score_timeliness(pool, [FIFTH]) == 1) == [False] * (len(told) - TEXTS) + [True] * TEXTS


@given(st.integers(-4000, 4000), st.integers(-100, 100), st.integers(1, 400))
def test_a_fit_lies_between_nothing_and_one_and_is_best_within(at: int, begin: int, length: int) -> None:
    span = TimeSpan(MAY.begin + begin * DAY, MAY.begin + (begin + length) * DAY)
    [fit] = score_moments([MAY.begin + at * DAY], [span])
    assert 0 <= fit <= 1
    assert (fit == 1) == (begin <= at < begin + length)
    assert score_moments([MAY.begin + at * DAY], [span, FIFTH])[0] >= fit


def test_a_short_time_is_looked_up_day_by_day_and_a_long_one_not_at_all() -> None:
    assert split_days([FIFTH]) == [FIFTH]
    days = split_days([MAY])
    assert [days[0].begin, days[-1].end] == [MAY.begin, MAY.end]
    assert all(one.end == then.begin and one.length == DAY for one, then in pairwise(days))
    assert split_days(find_spans("in 2023", MAY.end)) == []


def test_the_last_day_of_a_time_ends_with_it() -> None:
    noon = TimeSpan(FIFTH.begin + DAY / 2, FIFTH.end + DAY / 4)
    assert split_days([noon]) == [noon]
    longer = TimeSpan(noon.begin, noon.end + DAY)
    assert [day.length for day in split_days([longer])] == [DAY, 0.75 * DAY]


async def test_a_time_without_other_words_finds_what_was_said_then(memory: Memory) -> None:
    for day in range(1, 28):
        at = datetime(2023, 5, day, 12, tzinfo=UTC)
        await memory.say(f"Nothing much happened, number {day}.", session=f"s{day}", occurred_at=at)
    await memory.embed_all()
    answer = await memory.ask("What about yesterday?", as_of=datetime(2023, 5, 20, 9, tzinfo=UTC), explain=True)
    first, *others = answer.items
    assert first.occurred_at.day == 19
    assert "time" in first.arms
    assert isinstance(first.explain, Explanation)
    assert first.explain.arms["time"].score == 1
    assert all("time" not in other.arms for other in others)
    assert "time" in answer.took


@pytest.mark.parametrize(
    "question, said",
    [
        ("Was war gestern?", "Es ist nicht viel geschehen, Nummer {}."),
        ("Qu'est-ce qu'il y avait hier ?", "Il ne s'est pas pass\u00e9 grand-chose, num\u00e9ro {}."),
        ("\u00bfQu\u00e9 hubo ayer?", "No pas\u00f3 mucho, n\u00famero {}."),
    ],
    ids=["German", "French", "Spanish"],
)
async def test_yesterday_is_found_in_the_language_it_is_asked_in(memory: Memory, question: str, said: str) -> None:
    for day in range(10, 28):
        at = datetime(2023, 5, day, 12, tzinfo=UTC)
        await memory.say(said.format(day), session=f"s{day}", occurred_at=at)
    await memory.embed_all()
    first, *_ = (await memory.ask(question, as_of=datetime(2023, 5, 20, 9, tzinfo=UTC))).items
    assert (first.occurred_at.day, "time" in first.arms) == (19, True)


async def test_where_no_time_is_asked_for_the_arm_of_times_says_nothing(memory: Memory) -> None:
    await memory.say("A heron stood in the pond.", "The pond froze.")
    answer = await memory.ask("What about the pond?", explain=True)
    assert all("time" not in item.arms for item in answer.items)
    without = await memory.ask("What about the pond?", without=["time"])
    assert [item.unit_id for item in answer.items] == [item.unit_id for item in without.items]


def test_the_times_of_a_text_are_read_once_and_its_words_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[str]()

    def note(text: str, at: datetime) -> list[TimeSpan]:
        read.append(text)
        return find_spans(text, at)

    monkeypatch.setattr(time_arm, "find_spans", note)
    known = KnownTexts[Any](2048)
    monkeypatch.setattr(time_arm, "_KNOWN", known)
    text = "In May we went to a quiet lake"
    for at in (MAY.end, MAY.end, MAY.end + DAY):
        assert mentions_time(text, at, [MAY])
    assert read == [text, text]
    assert "lake" not in repr(vars(known))
