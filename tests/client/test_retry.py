"""The retry policy as arithmetic: no sockets, no clocks."""

import json
import time

import pytest
from afterturn_client import calls
from afterturn_client.errors import ApiError, RateLimitedError, UnknownOutcomeError, UnreachableError
from afterturn_client.retry import Pause, RetryPolicy, plan_attempts
from afterturn_client.transport import Lost, Reply, Request, parse_retry_after
from afterturn_client.turns import Message, NewTurn

from tests.tables import each_row

TURN = calls.add_turn(NewTurn("s", [Message("user", "x")]), "b", 1.0)
BUSY = json.dumps({"error": {"code": "RESOURCE_BUSY", "message": "", "retryable": True}}).encode()


def pauses(policy: RetryPolicy, outcome: Reply | Lost) -> tuple[list[float], type[BaseException]]:
    """Run a turn's attempts against a service that always answers the same."""
    steps = plan_attempts(TURN, policy, "key")
    seen: list[float] = []
    answer: Reply | Lost | None = None
    try:
        while True:
            step = steps.send(answer)
            answer = outcome if isinstance(step, Request) else None
            seen += [step.seconds] if isinstance(step, Pause) else []
    except (ApiError, UnknownOutcomeError, UnreachableError) as error:
        return seen, type(error)


def test_a_busy_turn_is_asked_again_after_200_500_1000_and_2000_ms() -> None:
    assert pauses(RetryPolicy(), Reply(409, BUSY))[0] == [0.2, 0.5, 1.0, 2.0]


def test_retry_after_lengthens_a_pause_and_never_shortens_it() -> None:
    assert pauses(RetryPolicy(), Reply(503, b"", retry_after=1.5))[0] == [1.5, 1.5, 1.5, 2.0]
    assert pauses(RetryPolicy(), Reply(503, b"", retry_after=0.0))[0] == [0.2, 0.5, 1.0, 2.0]


def test_a_retry_after_beyond_the_longest_pause_is_not_waited_for() -> None:
    assert pauses(RetryPolicy(longest_pause_s=30), Reply(429, b"", retry_after=31.0)) == (
        [],
        RateLimitedError,
    )


def test_with_patience_the_last_pause_repeats_until_it_is_used_up() -> None:
    seen, error = pauses(RetryPolicy((0.5, 1.0), patience_s=10), Lost("connection", sent=False, seconds=0.5))
    assert seen == [0.5, *[1.0] * 6]
    assert error is UnreachableError


@pytest.mark.parametrize("sent", [True, False])
def test_a_lost_turn_is_sent_again_whether_it_left_or_not(sent: bool) -> None:  # noqa: FBT001 - a parameter
    assert len(pauses(RetryPolicy(), Lost("timeout", sent=sent))[0]) == 4


@each_row(
    "value,seconds",
    [
        (None, None),
        ("7", 7.0),
        (" 0 ", 0.0),
        ("-1", None),
        ("soon", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("٣", None),
        ("9" * 400, 999999999.0),
        ("Wed, 21 Oct 2015 07:28:00 +" + "9" * 30, None),
        (f"Wed, 21 Oct 2015 {'9' * 30}:28:00 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value) == seconds


def test_a_date_without_a_zone_is_utc_wherever_the_agent_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "XXX-12")
    time.tzset()
    try:
        told = parse_retry_after("Wed, 21 Oct 2999 07:28:00 -0000")
        assert told == pytest.approx(parse_retry_after("Wed, 21 Oct 2999 07:28:00 GMT"), abs=3600)
    finally:
        monkeypatch.undo()
        time.tzset()
