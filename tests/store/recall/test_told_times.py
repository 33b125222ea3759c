"""Words of time are told as the days they mean, where only one can be meant."""

from datetime import UTC, datetime

from store.recall.told_times import MOST, resolve_times
from tests.store.recall.conftest import Memory
from tests.tables import each_row

SAID = datetime(2023, 5, 8, 23, 30, tzinfo=UTC)


@each_row(
    "text, times",
    [
        ("I hit a tree last Friday.", ("2023-05-05",)),
        ("Yesterday evening we ate at home", ("2023-05-07",)),
        ("We went to the lake last week", ("2023-05-01/2023-05-07",)),
        ("It opened on 12 July 2021", ("2021-07-12",)),
        ("It opens on 12 July", ("2023-07-12",)),
        ("We met in April", ("2023-04-01/2023-04-30",)),
        ("We met in November", ()),
        ("I moved last year", ("2022-01-01/2022-12-31",)),
        ("I have worked here since 2019", ()),
        ("Ich bin gestern umgezogen.", ("2023-05-07",)),
        ("We may march on", ()),
        ("We fly to Lisbon on Friday", ()),
        ("We fly to Lisbon next Friday", ("2023-05-12",)),
        ("I was there at the weekend", ()),
        ("We went to the lake", ()),
    ],
)
def test_words_of_time_are_told_as_days(text: str, times: tuple[str, ...]) -> None:
    assert resolve_times(text, SAID) == times


def test_a_list_of_dates_is_told_in_part() -> None:
    listed = ", ".join(f"{day} March 2023" for day in range(1, 30))
    assert resolve_times(listed, SAID) == tuple(f"2023-03-{day:02}" for day in range(1, MOST + 1))


async def test_an_answer_tells_the_days_only_where_the_question_asks_when(memory: Memory) -> None:
    await memory.say("I hit a tree on 3 March 2023.")
    [asked] = (await memory.ask("When did I hit a tree?")).items
    [other] = (await memory.ask("What did I hit?")).items
    assert (asked.times, other.times) == (("2023-03-03",), ())
