"""What a turn must be to come in: one rule a case, refused by name and without repeating the value."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.errors import Invalid, ProducerError, TooLarge
from producers.service.framing import frame_message
from producers.service.turns import MAX_METADATA_BYTES_OF_CALL, limit_call, read_turn
from producers.settings import ApiSettings
from store.memory.turns import NewTurn
from tests.tables import each_row

SETTINGS = ApiSettings(max_message_bytes=1024)
SAID = {"role": "user", "content": "hello"}


def turn(**fields: Any) -> dict[str, Any]:
    return {"session_id": "s", "turn_id": "t", "messages": [SAID], **fields}


def message(**fields: Any) -> dict[str, Any]:
    return turn(messages=[{**SAID, **fields}])


def judged(value: Any) -> NewTurn:
    return read_turn(value, SETTINGS)


def echo(text: str = "what was recalled") -> str:
    framed = frame_message([{"text": text}])
    assert framed is not None
    return framed["content"]


BAD = {
    "no object": 5,
    "a list": [turn()],
    "nothing": {},
    "an unknown field": turn(colour="red"),
    "an unknown field of a message": message(colour="red"),
    "no session": {"turn_id": "t", "messages": [SAID]},
    "no turn": {"session_id": "s", "messages": [SAID]},
    "no messages": {"session_id": "s", "turn_id": "t"},
    "an empty list of messages": turn(messages=[]),
    "too many messages": turn(messages=[SAID] * 1025),
    "messages that are no objects": turn(messages=["hello"]),
    "an empty bank": turn(bank=""),
    "a bank of 257 bytes": turn(bank="ä" * 128 + "x"),
    "a bank that is null": turn(bank=None),
    "an empty session": turn(session_id=""),
    "a session of 129 bytes": turn(session_id="x" * 129),
    "a session with a slash": turn(session_id="a/b"),
    "a session with a backslash": turn(session_id="a\\b"),
    "a session that is a dot": turn(session_id="."),
    "a session that is two dots": turn(session_id=".."),
    "a session with a newline": turn(session_id="a\nb"),
    "a session with a C1 control": turn(session_id="a\x85b"),
    "a session with a NUL": turn(session_id="a\x00b"),
    "a session that is a number": turn(session_id=7),
    "an empty turn": turn(turn_id=""),
    "a turn of 257 bytes": turn(turn_id="x" * 257),
    "a turn with a lone surrogate": turn(turn_id="\ud800"),
    "an unknown role": message(role="wizard"),
    "no role": turn(messages=[{"content": "x"}]),
    "no content": turn(messages=[{"role": "user"}]),
    "content null": message(content=None),
    "content that is a number": message(content=1),
    "content that is a boolean": message(content=True),
    "content with a NUL": message(content="a\x00b"),
    "content with a lone surrogate": message(content="a\ud83d"),
    "blank content": message(content=" \n\t"),
    "no parts": message(content=[]),
    "a part that is a number": message(content=[5]),
    "a part without a type or a text": message(content=[{"w": "hello"}]),
    "a text part without a text": message(content=[{"type": "text"}]),
    "a part with a NUL in a key": message(content=[{"type": "image", "a\x00": 1}]),
    "a part with NaN": message(content=[{"type": "image", "w": float("nan")}]),
    "a part with infinity": message(content=[{"type": "image", "w": float("-inf")}]),
    "a part with a huge number": message(content=[{"type": "image", "w": 10**30}]),
    "a part that is bottomless": message(content=[{"type": "x", "y": orjson.loads("[" * 65 + "]" * 65)}]),
    "an empty name": message(name=""),
    "a name with a NUL": message(name="a\x00"),
    "a time without an offset": turn(occurred_at="2023-05-08T13:56:00"),
    "a date": turn(occurred_at="2023-05-08"),
    "a time that does not exist": turn(occurred_at="2023-02-30T00:00:00Z"),
    "a second 61": turn(occurred_at="2023-02-20T00:00:61Z"),
    "a time in words": turn(occurred_at="yesterday"),
    "a time that is a float": turn(occurred_at=1683554160000.5),
    "a time that is a boolean": turn(occurred_at=True),
    "a time that is NaN": turn(occurred_at=float("nan")),
    "a time in nanoseconds": turn(occurred_at=1683554160000 * 10**6),
    "a time beyond every calendar": turn(occurred_at=10**30),
    "a time before the first year": turn(occurred_at=-(10**17)),
    "the first year": turn(occurred_at="0001-01-01T00:00:00+14:00"),
    "the last year": turn(occurred_at="9999-12-31T23:59:59-14:00"),
    "a message's time in words": message(timestamp="now"),
    "metadata that is a list": turn(metadata=[]),
    "metadata with a number": turn(metadata={"a": 1}),
    "metadata with a NUL": turn(metadata={"a": "\x00"}),
    "metadata with a NUL in a key": turn(metadata={"\x00": "a"}),
    "gateway that is a text": turn(gateway="true"),
    "gateway that is a number": turn(gateway=1),
    "a user that is a number": turn(user_id=1),
}


@each_row("value", BAD.values(), ids=BAD.keys())
def test_a_turn_is_refused_for(value: Any) -> None:
    with pytest.raises(Invalid) as refusal:
        judged(value)
    assert refusal.value.problems


def test_a_message_past_its_limit_is_refused_by_the_limits_name() -> None:
    with pytest.raises(TooLarge, match="max_message_bytes") as refusal:
        judged(message(content="ä" * 513))
    assert refusal.value.details["field"] == "messages.0.content"
    judged(message(content="ä" * 512))


def test_parts_count_against_the_limit_with_all_they_carry() -> None:
    with pytest.raises(TooLarge):
        judged(message(content=[{"type": "image", "base64": "A" * 1025}]))


def test_metadata_has_a_limit_because_every_message_keeps_it() -> None:
    with pytest.raises(TooLarge, match="max_metadata_bytes"):
        judged(turn(metadata={str(n): "x" * 100 for n in range(200)}))


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=40)))
def test_a_refusal_repeats_no_value(fields: dict[str, str]) -> None:
    secret = "kJ8xQz-distinctive"
    try:
        judged({**turn(session_id=secret + "/", occurred_at=secret, metadata={"a": 1}), **fields})
    except ProducerError as refusal:
        assert secret not in str(refusal)
        assert secret not in str(refusal.details)


@each_row(
    "moment",
    ["2023-05-08T13:56:00Z", "2023-05-08t15:56:00.000+02:00", "2023-05-08 13:56:00z", 1683554160000],
)
def test_a_time_is_the_same_however_it_is_written(moment: Any) -> None:
    read = judged(turn(occurred_at=moment)).occurred_at
    assert read is not None
    assert read.isoformat() == "2023-05-08T13:56:00+00:00"


def test_defaults_are_the_contracts() -> None:
    read = judged(turn())
    assert (read.bank, read.user_id, read.occurred_at, dict(read.metadata)) == ("default", None, None, {})


@pytest.mark.parametrize("asked, delivered", [(None, True), (False, False), (True, True)])
def test_a_turn_may_go_to_a_gateway_unless_it_says_no(*, asked: bool | None, delivered: bool) -> None:
    assert judged(turn(gateway=asked)).gateway is delivered


def test_text_parts_become_one_text_and_others_are_kept_beside_it() -> None:
    picture = {"type": "image", "name": "map.png", "uri": "s3://x"}
    parts = [{"type": "text", "text": "Look"}, picture, {"type": "text", "text": "there"}]
    said = judged(message(content=parts)).messages[0]
    assert said.content == "Look\n[image: map.png]\nthere"
    assert said.parts == parts
    assert judged(message(content=[{"type": "text", "text": "only"}])).messages[0].parts is None


@pytest.mark.law("L8")
def test_recalled_text_is_taken_out_before_a_turn_is_kept() -> None:
    said = [
        {"role": "user", "content": echo() + "\nWhen do we fly?"},
        {"role": "user", "content": echo()},
        {"role": "user", "content": [{"type": "text", "text": echo() + "And back?"}, {"type": "image"}]},
    ]
    kept = judged(turn(messages=said)).messages
    assert [m.content for m in kept] == ["\nWhen do we fly?", "And back?\n[image]"]
    assert "recalled" not in str(kept)


@pytest.mark.law("L8")
def test_a_turn_that_is_nothing_but_an_echo_is_refused() -> None:
    with pytest.raises(Invalid, match="nothing to remember"):
        judged(message(content=echo()))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_whatever_is_handed_in_is_read_or_refused(value: Any) -> None:
    for offered in (value, turn(messages=value), message(content=value), turn(metadata=value, occurred_at=value)):
        try:
            assert isinstance(judged(offered), NewTurn)
        except ProducerError:
            continue


def test_metadata_that_would_be_kept_with_too_many_messages_are_refused_turn_by_turn() -> None:
    """They are kept with every message: a call of two megabytes would write a hundred of them."""
    large = judged(turn(messages=[SAID] * 64, metadata={"a": "x" * 16_000}))
    small = judged(turn())
    found = limit_call([large] * 100 + [small])
    kept = [one for one in found if isinstance(one, NewTurn)]
    assert kept[-1] is small
    assert sum(len(one.messages) * 16_000 for one in kept[:-1]) <= MAX_METADATA_BYTES_OF_CALL
    [first, *_] = [one for one in found if isinstance(one, TooLarge)]
    assert first.details["limit_bytes"] == MAX_METADATA_BYTES_OF_CALL
    assert len(found) == 101
