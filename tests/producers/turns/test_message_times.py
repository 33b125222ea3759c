"""The time that stands with a message is its time, on every way in and in every unit."""

import time
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from afterturn_client.message_times import find_moment, find_unreadable_time, local_times_of, read_time
from pydantic_core import PydanticCustomError

from producers.service.fields import parse_moment
from tests.producers.conftest import Tenant
from tests.producers.turns.test_message_forms import hand_in
from tests.tables import each_row

AT = datetime(2023, 5, 24, 10, tzinfo=UTC)
SECONDS = 1684922400


@each_row(
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
        f"{SECONDS / 1e9}e9",
        "2023-05-24 10:00:00 UTC",
        "2023-05-24 12:00:00 +0200",
        "2023-05-24 10:00:00 +0000 UTC",
        "2023-05-24T10:00:00Z[UTC]",
        "2023/05/24 10:00:00",
        "24.05.2023 10:00",
        "Wed, 24 May 2023 12:00:00 +0200",
        "Wed, 24 May 2023 10:00:00 GMT",
        "Wed May 24 10:00:00 2023",
        "Wed May 24 10:00:00 +0000 2023",
        "Wed May 24 2023 10:00:00 GMT+0000 (Coordinated Universal Time)",
        "May 24, 2023 10:00 AM",
        "Wednesday, May 24, 2023 at 10:00:00\u202fAM UTC",
        "24-May-2023 10:00",
        "2023-05-24T12:00:00[Europe/Berlin]",
        "2023-05-24T12:00:00+02:00[Europe/Berlin]",
        "24. Mai 2023, 10:00 Uhr",
        "Mittwoch, 24. Mai 2023 um 10:00",
        "24 mai 2023 10:00",
        "2023.05.24 10:00",
        "24/May/2023:10:00:00 +0000",
        "Wed, 24 May 2023 12:00:00 CEST",
        "Wed May 24 12:00:00 CEST 2023",
        "2023-05-24 06:00:00 EDT",
        "24. Mai 2023, 12:00 Uhr MESZ",
        "May 24, 2023 at 3:00 AM PDT",
        {"$date": "2023-05-24T10:00:00Z"},
        {"$date": {"$numberLong": str(SECONDS * 1000)}},
        {"_seconds": SECONDS, "_nanoseconds": 0},
        [2023, 5, 24, 10, 0],
    ],
)
def test_every_form_of_a_time_is_the_same_time(value: Any) -> None:
    assert read_time(value) == AT


@each_row(
    "value",
    [
        *("yesterday", "", 0, 5, -1, True, None, 1e300, float("nan"), float("inf"), "9" * 30, -(10**25)),
        *("2023-05-24T10:00:00[Nowhere/Land]", "2023-05-24T10:00:00[../x]"),
        *("2023-05-24 10:00:00 IST", "2023-05-24 10:00:00 XYZ", "2023-05-24T24:01:00", "2023-05-24T25:00:00"),
        *("10:32", "05/06/2023", "Mayday 24, 2023", "31 Feb 2023", "May 24, 2023 25:00", "2023", "x" * 100_000),
        *({"seconds": None}, {}, [2023], [2023, 13, 1], [True, 1, 1]),
        *(638_205_192_000_000_000, 13_329_396_000_000_000),  # ticks of .NET and microseconds of WebKit, of 2023
    ],
)
def test_what_is_no_time_is_none(value: Any) -> None:
    assert read_time(value) is None


@each_row(
    "zone, value, hour",
    [
        *(("Asia/Kolkata", f"2023-05-24 10:00:00{told}", (4, 30)) for told in (" IST", "")),
        *(("Asia/Jerusalem", f"2023-02-24 10:00{told}", (8, 0)) for told in (" IST", "")),
        *(("Europe/London", f"24 May 2023 10:00{told}", (9, 0)) for told in (" BST", "")),
        ("Asia/Shanghai", "2023-05-24 10:00 CST", (2, 0)),
        ("America/New_York", "2023-05-24 10:00 CST", (16, 0)),
        ("America/New_York", "2023-05-24T10:00:00", (14, 0)),
        ("America/New_York", "2023-01-24T10:00:00", (15, 0)),
        ("America/New_York", [2023, 5, 24, 10], (14, 0)),
        ("Australia/Adelaide", "2023-05-24 10:00 ACST", (0, 30)),
        *(("Europe/Berlin", told, (10, 0)) for told in ("2023-05-24T10:00Z", "2023-05-24 10:00 UTC", SECONDS)),
        *(("Europe/Berlin", told, None) for told in ("2023-05-24 10:00 IST", "2023-05-24 10:00 BST")),
    ],
)
def test_a_local_time_and_its_abbreviation_are_of_the_zone_that_was_told(
    zone: str, value: Any, hour: tuple[int, int] | None
) -> None:
    with local_times_of(ZoneInfo(zone)):
        at = read_time(value)
    assert (at and (at.hour, at.minute)) == hour
    assert read_time("2023-05-24 10:00") == AT


@each_row("value", ["2023-05-23T24:00:00Z", "2023-05-23 24:00", "Tue, 23 May 2023 24:00:00 +0000"])
def test_the_24th_hour_is_the_end_of_the_day(value: str) -> None:
    assert read_time(value) == AT.replace(hour=0)


def test_seconds_in_a_text_are_read_about_as_fast_as_a_number() -> None:
    def took(value: int | str) -> float:
        started = time.process_time()
        for _ in range(20):
            read_time(value)
        return time.process_time() - started

    assert took(str(SECONDS)) < 0.01 + 100 * took(SECONDS)


@pytest.mark.parametrize("value", [20230524, "20230524", 20230524.0])
def test_a_number_of_eight_digits_is_a_date(value: Any) -> None:
    assert read_time(value) == datetime(2023, 5, 24, tzinfo=UTC)


def test_a_time_in_no_known_form_is_told_by_its_field() -> None:
    assert find_unreadable_time({"created_at": "05/06/2023"}) == "created_at"
    for region in ("Europe", "Etc", "Europe/Nowhere", "../../etc/passwd", "zone.tab", "A" * 300):
        assert find_unreadable_time({"created_at": f"2023-05-24T12:00:00[{region}]"}) == "created_at"
    assert find_unreadable_time({"timestamp": "soon", "metadata": {"ts": SECONDS}}) is None
    assert find_unreadable_time({"timestamp": None, "created_at": "", "occurred_at": 0, "date": "soon"}) is None


@pytest.mark.parametrize("way", ["turns", "after", "mcp"])
@pytest.mark.parametrize("form", [{"type": "message", "role": "user"}, {"type": "human"}, {"role": "user"}])
async def test_a_message_whose_time_cannot_be_read_is_refused(ana: Tenant, way: str, form: dict[str, str]) -> None:
    answered = await hand_in(ana, {**form, "content": "I was in Evora last week.", "timestamp": "05/06/2023"}, way)
    assert answered.status_code == (200 if way == "mcp" else 422)
    assert "timestamp" in answered.text
    assert await said_at(ana) == {}


@each_row(
    "field",
    [
        *("timestamp", "created_at", "createdAt", "create_time", "date", "ts", "time", "sent_at", "sentAt", "datetime"),
        *("inserted_at", "create_at", "createTime", "send_date", "posted_at", "received_at", "timestampMs", "at"),
        *("when", "When", "sent_on", "time_sent", "posted", "postedAt", "published_at", "created_time", "created_utc"),
        *("date_created", "creationTime", "dateTime", "time-stamp", "sentDateTime", "internalDate", "written_at"),
    ],
)
def test_a_time_is_found_under_the_names_that_programs_give_it(field: str) -> None:
    assert find_moment({"role": "user", "content": "x", field: SECONDS}) == AT
    assert find_moment({"role": "user", "content": "x", "metadata": {field: SECONDS}}) == AT


@pytest.mark.parametrize("value", [SECONDS, SECONDS * 1000, "2023-05-24T10:00:00Z"])
def test_seconds_and_milliseconds_of_the_api_are_the_same_time(value: Any) -> None:
    assert parse_moment(value) == AT


@each_row("value", [0, 1, -1, 99_999_999, SECONDS * 10**6, True, 1.5])
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
