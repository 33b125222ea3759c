"""The time that stands with a message is its time, on every way in and in every unit."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic_core import PydanticCustomError

from producers.service.fields import parse_moment
from producers.turns.message_times import find_moment, read_time
from tests.producers.conftest import Tenant
from tests.producers.turns.test_message_forms import hand_in

AT = datetime(2023, 5, 24, 10, tzinfo=UTC)
SECONDS = 1684922400


@pytest.mark.parametrize(
    "value",
    [
        "2023-05-24T10:00:00Z",
        "2023-05-24T12:00:00+02:00",
        "2023-05-24T10:00:00",
        SECONDS,
        float(SECONDS),
        SECONDS * 1000,
        SECONDS * 10**6,
        SECONDS * 10**9,
        str(SECONDS),
        f"{SECONDS}.000000",
    ],
)
def test_every_form_of_a_time_is_the_same_time(value: Any) -> None:
    assert read_time(value) == AT


@pytest.mark.parametrize(
    "value", ["yesterday", "", 0, True, None, 1e300, float("nan"), float("inf"), "9" * 30, -(10**25)]
)
def test_what_is_no_time_is_none(value: Any) -> None:
    assert read_time(value) is None


@pytest.mark.parametrize(
    "field", ["timestamp", "created_at", "createdAt", "create_time", "date", "ts", "time", "sent_at"]
)
def test_a_time_is_found_under_the_names_that_programs_give_it(field: str) -> None:
    assert find_moment({"role": "user", "content": "x", field: SECONDS}) == AT
    assert find_moment({"role": "user", "content": "x", "metadata": {field: SECONDS}}) == AT


@pytest.mark.parametrize("value", [SECONDS, SECONDS * 1000, "2023-05-24T10:00:00Z"])
def test_seconds_and_milliseconds_of_the_api_are_the_same_time(value: Any) -> None:
    assert parse_moment(value) == AT


@pytest.mark.parametrize("value", [0, 1, 99_999_999, SECONDS * 10**6, True, 1.5])
def test_a_number_that_would_be_the_first_day_of_1970_is_refused(value: Any) -> None:
    with pytest.raises(PydanticCustomError):
        parse_moment(value)


def test_times_before_1973_are_still_milliseconds() -> None:
    assert parse_moment(20_000_000_000).year == 1970
    assert parse_moment(-1_000_000_000_000).year == 1938


@pytest.mark.parametrize("field", ["timestamp", "created_at"])
@pytest.mark.parametrize("way", ["after", "mcp"])
async def test_an_item_keeps_the_time_it_has(ana: Tenant, field: str, way: str) -> None:
    item = {"type": "message", "role": "user", "content": "I was in Evora last week.", field: "2023-05-24T10:00:00Z"}
    assert (await hand_in(ana, item, way)).status_code == 200
    assert await said_at(ana) == {item["content"]: "2023-05-24T10:00:00+00:00"}


@pytest.mark.parametrize("seconds", [SECONDS, SECONDS * 1000])
async def test_a_turn_s_time_counts_for_items_without_one(ana: Tenant, seconds: int) -> None:
    items = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two", "timestamp": SECONDS + 60}]
    body = {"session_id": "s", "turn_id": "1", "input_items": items, "occurred_at": seconds}
    assert (await ana.http.post("/api/v1/turns/after", json=body)).status_code == 200
    assert await said_at(ana) == {"one": "2023-05-24T10:00:00+00:00", "two": "2023-05-24T10:01:00+00:00"}


async def said_at(ana: Tenant) -> dict[str, str]:
    units = (await ana.http.get("/api/v1/units", params={"bank": "default"})).json()["units"]
    return {one["text"]: one["occurred_at"] for one in units if one["origin"] == "message"}
