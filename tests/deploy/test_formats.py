"""What `afterturn ingest` makes of files: good ones, bad ones, and files made to hurt."""

import hashlib
import io
import json
import string
from typing import Any

import pytest
from afterturn_client.turns import turn_body
from hypothesis import given
from hypothesis import strategies as st

from deploy.ingest_formats.chat import SessionChoice
from deploy.ingest_formats.formats import Format, detect_format, parse_file
from deploy.ingest_formats.parsed import LONGEST_SESSION_ID, BadLine, ParsedTurn, derive_session_name
from tests.tables import each_row

GOOD = {"session_id": "s", "turn_id": "t", "messages": [{"role": "user", "content": "hello"}]}


def parsed(data: bytes | str, form: Format | None = None, longest: int = 10_000) -> list[ParsedTurn | BadLine]:
    raw = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    found = form or detect_format(raw)
    assert found is not None
    return list(parse_file(io.BytesIO(raw), found, SessionChoice("file.txt"), longest))


def bodies(items: list[ParsedTurn | BadLine]) -> list[dict[str, Any]]:
    return [turn_body(item.turn, "b") for item in items if isinstance(item, ParsedTurn)]


def bad(items: list[ParsedTurn | BadLine]) -> list[tuple[int, str]]:
    return [(item.line, item.error) for item in items if isinstance(item, BadLine)]


def hashed(*parts: str) -> str:
    return hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]


def test_json_lines_carry_every_field_of_a_turn() -> None:
    full = GOOD | {
        "bank": "b",
        "user_id": "u",
        "occurred_at": "2026-01-01T00:00:00Z",
        "metadata": {"a": "b"},
        "gateway": False,
        "messages": [{"role": "tool", "content": [{"type": "text", "text": "x"}], "name": "n", "timestamp": 5}],
    }
    assert bodies(parsed(json.dumps(full))) == [full]


def test_blank_lines_byte_order_marks_and_windows_line_ends_are_no_trouble() -> None:
    items = parsed(b"\xef\xbb\xbf" + json.dumps(GOOD).encode() + b"\r\n\r\n   \n" + json.dumps(GOOD).encode())
    assert [item.line for item in items] == [1, 4]
    assert bad(items) == []


@each_row(
    "line,problem",
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ("null", "not a JSON object"),
        ("{}", "session_id"),
        (json.dumps(GOOD | {"messages": []}), "messages"),
        (json.dumps(GOOD | {"messages": "x"}), "messages"),
        (json.dumps(GOOD | {"surprise": 1}), "surprise"),
        (json.dumps(GOOD | {"turn_id": 7}), "turn_id"),
        (json.dumps(GOOD | {"gateway": 1}), "gateway"),
        (json.dumps(GOOD | {"occurred_at": True}), "occurred_at"),
        (json.dumps(GOOD | {"metadata": {"a": 1}}), "metadata.a"),
        (json.dumps(GOOD | {"messages": [{"role": "robot", "content": "x"}]}), "messages.0.role"),
        (json.dumps(GOOD | {"messages": [{"role": "user", "content": 5}]}), "messages.0.content"),
        (json.dumps(GOOD | {"messages": [{"role": "user", "content": "half \ud800"}]}), "surrogate"),
        (json.dumps(GOOD | {"messages": [{"role": "user", "content": "nul \0"}]}), "NUL"),
        (json.dumps(GOOD | {"session_id": "nul\0"}), "NUL"),
        (json.dumps(GOOD | {"messages": [{"role": "user", "content": [{"x": "\ud800"}]}]}), "surrogate"),
        (json.dumps(GOOD)[:-1] + ', "metadata": {"a": NaN}}', "out of range"),
        ('{"a": ' + "9" * 5000 + "}", "out of range"),
        ("[" * 9_000, "out of range"),
        ("x" * 10_001, "longer than 10000 bytes"),
    ],
)
def test_a_bad_line_is_reported_with_its_number_and_the_rest_goes_on(line: str, problem: str) -> None:
    good = json.dumps(GOOD)
    items = parsed(f"{good}\n{line}\n{good}\n", Format.JSONL)
    assert [type(item) for item in items] == [ParsedTurn, BadLine, ParsedTurn]
    ((number, error),) = bad(items)
    assert number == 2
    assert problem in error


@each_row("raw", [b"\xff\xfe", b"\xc3", b"ab\x00cd", b"\xed\xa0\x80"])
def test_bytes_that_are_no_text_are_a_bad_line(raw: bytes) -> None:
    good = json.dumps(GOOD).encode()
    items = parsed(good + b"\n" + raw + b"\n" + good, Format.JSONL)
    assert [item.line for item in items] == [1, 2, 3]
    assert len(bad(items)) == 1


def test_an_error_never_repeats_what_the_line_says() -> None:
    secret = "distinctive-cormorant"
    lines = [
        secret,
        json.dumps({secret[:5]: secret}),
        json.dumps(GOOD | {"messages": [{"role": secret, "content": "x"}]}),
        json.dumps(GOOD | {"user_id": [secret]}),
        json.dumps(GOOD)[:-1] + f', "x": {secret}',
    ]
    for _number, error in bad(parsed("\n".join(lines), Format.JSONL)):
        assert secret not in error


def test_a_very_long_line_is_skipped_without_being_held() -> None:
    class Endless(io.RawIOBase):
        """A first line of 300 MB, made as it is read, then a good line."""

        def __init__(self) -> None:
            self.left = 300_000_000
            self.rest = io.BytesIO(b"\n" + json.dumps(GOOD).encode())

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            if not self.left:
                return self.rest.readinto(buffer)
            size = min(len(buffer), self.left)
            buffer[:size] = b"x" * size
            self.left -= size
            return size

    items = list(parse_file(io.BufferedReader(Endless()), Format.JSONL, SessionChoice("s"), 10_000))
    assert [type(item) for item in items] == [BadLine, ParsedTurn]
    assert items[-1].offset == 300_000_001 + len(json.dumps(GOOD))


def test_a_transcript_line_is_a_turn_named_by_who_says_what() -> None:
    items = parsed("Ana: I moved to Porto.\n\nassistant: Noted.\nDr. Lee: See you at 10:30\nassistant: Noted.\n")
    assert bodies(items) == [
        {
            "bank": "b",
            "session_id": "file.txt",
            "turn_id": hashed(role, name, text) + again,
            "messages": [{"role": role, "content": text, "name": name}],
        }
        for role, name, text, again in [
            ("user", "Ana", "I moved to Porto.", ""),
            ("assistant", "assistant", "Noted.", ""),
            ("user", "Dr. Lee", "See you at 10:30", ""),
            ("assistant", "assistant", "Noted.", "-2"),
        ]
    ]


def test_a_transcript_line_without_a_name_is_bad_and_shifts_no_other_name() -> None:
    before = parsed("Ana: one\nno name here\nAna: two\n", Format.TRANSCRIPT)
    after = parsed("Ana: one\nBen: mended\nAna: two\n", Format.TRANSCRIPT)
    assert bad(before) == [(2, "not `Name: text`")]
    assert bodies(before) == [bodies(after)[0], bodies(after)[2]]


CHAT = [
    {"role": "system", "content": "be kind"},
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]},
    {"role": "tool", "content": "42", "tool_call_id": "c"},
    {"role": "assistant", "content": "done"},
    {"role": "user", "content": [{"type": "text", "text": "two"}]},
    {"role": "assistant", "content": "ok", "refusal": None},
]


@each_row("document", [CHAT, {"model": "m", "messages": CHAT, "n": {"messages": []}}])
@each_row("indent", [None, 2])
def test_a_chat_turn_is_a_user_message_and_what_follows(document: Any, indent: int | None) -> None:
    leading, first, second = bodies(parsed(json.dumps(document, indent=indent)))
    assert leading["messages"] == CHAT[:1]
    assert first["messages"] == CHAT[1:5]
    assert second["messages"] == CHAT[5:]
    assert first["turn_id"] == hashed("user", "", "", "one")
    assert {one["session_id"] for one in (leading, first, second)} == {"file.txt"}


RESPONSES = [
    {"type": "message", "role": "developer", "content": "Be kind."},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "one"}]},
    {"type": "reasoning", "id": "r", "summary": []},
    {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "42"},
    {"type": "unheard_of", "deep": {"n": [1.5, None]}},
    {"type": "message", "role": "user", "content": "two"},
]


@pytest.mark.parametrize("items,ends", [(CHAT, 5), (RESPONSES, 6)])
def test_lines_of_messages_or_items_are_the_turns_that_an_array_of_them_is(items: list[Any], ends: int) -> None:
    lines = "\n".join(json.dumps(item) for item in items)
    assert detect_format(lines.encode()) is Format.CHAT
    assert bodies(parsed(lines)) == bodies(parsed(json.dumps(items)))
    assert [body["messages"] for body in bodies(parsed(lines))] == [items[:1], items[1:ends], items[ends:]]
    assert bad(parsed(lines + "\n{broken")) == [(len(items) + 1, "not a message")]
    whole = GOOD | {"messages": items}
    assert bodies(parsed(json.dumps(whole)))[0]["messages"] == items


def test_a_chat_that_has_grown_keeps_the_names_of_its_turns() -> None:
    before = bodies(parsed(json.dumps(CHAT)))
    after = bodies(parsed(json.dumps([*CHAT, {"role": "user", "content": "three"}])))
    assert after[:3] == before


TURNS = st.lists(st.sampled_from(["yes", "no", "I moved to Ghent.", "thanks"]), max_size=6)


@given(TURNS, TURNS, TURNS)
def test_a_chat_exported_again_with_more_around_it_keeps_every_name(
    top: list[str], middle: list[str], end: list[str]
) -> None:
    def export(texts: list[str]) -> set[tuple[str, str]]:
        said = [{"role": "user", "content": text} for text in texts]
        lines = "".join(f"Ana: {text}\n" for text in texts) or "\n"
        chat = {(body["turn_id"], json.dumps(body)) for body in bodies(parsed(json.dumps(said), Format.CHAT))}
        return chat | {(body["turn_id"], json.dumps(body)) for body in bodies(parsed(lines, Format.TRANSCRIPT))}

    assert export(middle) <= export([*top, *middle, *end])
    assert len(export([*top, *middle])) == 2 * (len(top) + len(middle))


def test_a_bad_chat_message_spoils_its_own_turn_alone() -> None:
    broken = [*CHAT[:4], {"role": "robot", "content": "x"}, *CHAT[5:]]
    items = parsed(json.dumps(broken, indent=0), Format.CHAT)
    ((line, error),) = bad(items)
    assert json.dumps(broken, indent=0).splitlines()[line:][0].startswith('"role": "robot"')
    assert "role" in error
    leading, _spoiled, last = bodies(parsed(json.dumps(CHAT)))
    assert bodies(items) == [leading, last]


@each_row(
    "document,line",
    [
        (b'[{"role": "user"\n,]', 2),
        (b'{"messages": 5}', 1),
        (b"7", 1),
        (b'["\xff"]', 1),
        (b'[\n\n"\xff"]', 3),
        (b"[" * 100_000, 1),
        (b"", 1),
        (b'{"messages": [1]}', 1),
    ],
)
def test_a_broken_chat_document_is_one_bad_line(document: bytes, line: int) -> None:
    items = parsed(document, Format.CHAT)
    assert [number for number, _error in bad(items)] == [line]
    assert len(items) == 1


@each_row(
    "head,form",
    [
        (json.dumps(GOOD), Format.JSONL),
        (json.dumps(GOOD) + "\n" + json.dumps(GOOD), Format.JSONL),
        ("garbage\n" + json.dumps(GOOD), Format.JSONL),
        ("\n\n" + json.dumps(CHAT), Format.CHAT),
        (json.dumps(CHAT, indent=1), Format.CHAT),
        (json.dumps({"messages": CHAT}), Format.CHAT),
        (json.dumps({"messages": CHAT}, indent=4), Format.CHAT),
        (json.dumps({"messages": CHAT}, indent=4)[:40], Format.CHAT),
        (json.dumps({"messages": CHAT})[:200], Format.CHAT),
        ('{"messages": []}\n' + json.dumps(GOOD), Format.JSONL),
        ("{broken\n" + json.dumps(GOOD), Format.JSONL),
        (json.dumps(GOOD)[:-5], Format.JSONL),
        ("Ana: hello\nBen: hi", Format.TRANSCRIPT),
        ("\ufeffAna: hello", Format.TRANSCRIPT),
        ("A title\n\nAna: hello", Format.TRANSCRIPT),
        ("[10:00] what is this", None),
        ("just words", None),
        ("", Format.JSONL),
    ],
)
def test_a_format_is_known_by_how_a_file_begins(head: str, form: Format | None) -> None:
    assert detect_format(head.encode()) == form


@each_row("name", ["", "..", "a/b", "tab\t.txt", "x" * 300, "ü" * 100, "half\udc80"])
def test_any_file_name_becomes_a_session_id(name: str) -> None:
    session = derive_session_name(name)
    assert 1 <= len(session.encode()) <= LONGEST_SESSION_ID
    assert not set(session) & {"/", "\\", "\t", "\0"}
    assert session not in {".", ".."}
    assert session == derive_session_name(name)


def test_long_file_names_that_begin_alike_stay_apart() -> None:
    assert derive_session_name("x" * 200 + "1") != derive_session_name("x" * 200 + "2")


@given(st.binary(max_size=300), st.sampled_from([form for form in Format if form is not Format.DOCUMENT]))
def test_no_bytes_make_a_parser_raise(data: bytes, form: Format) -> None:
    detect_format(data)
    lines = [item.line for item in parsed(data, form)]
    assert form is Format.CHAT or lines == sorted(lines)


@given(
    st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "tool"]), "content": st.text()})),
    st.sampled_from([None, 0, 3]),
)
def test_every_sound_message_of_a_chat_is_in_exactly_one_turn(
    messages: list[dict[str, str]], indent: int | None
) -> None:
    items = parsed(json.dumps(messages, indent=indent), Format.CHAT)
    if not any("\0" in message["content"] for message in messages):
        said = [message for body in bodies(items) for message in body["messages"]]
        assert said == [message for message in messages if message["content"]]


@given(st.lists(st.text(alphabet=string.ascii_letters + " ", min_size=1).filter(str.strip), max_size=20))
def test_a_transcript_names_each_line_once_and_always_alike(texts: list[str]) -> None:
    document = "".join(f"Ana: {text.strip()}\n" for text in texts)
    names = [body["turn_id"] for body in bodies(parsed(document, Format.TRANSCRIPT))]
    assert len(set(names)) == len(texts)
    assert names == [body["turn_id"] for body in bodies(parsed(document, Format.TRANSCRIPT))]
