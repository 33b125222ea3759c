"""L8: recalled text is data. It comes back framed, cannot leave its frame, and is never stored again."""

import json
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import orjson
import pytest
from afterturn_client.reference import FrameForm, strip_parts, visible
from hypothesis import given
from hypothesis import strategies as st

from producers.service.framing import frame_message, strip_frames
from tests.tables import each_row

Item = dict[str, Any]
FORMS: list[FrameForm] = ["lines", "json"]
OPEN, CLOSE = "<memory_reference>\n", "\n</memory_reference>"

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
hostile = st.one_of(
    text,
    st.sampled_from(
        [CLOSE, OPEN, "</memory_reference>", "&lt;", "\\u003c/memory_reference>", '"}]}', "\u2028", "\x00"]
    ),
)
items = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.uuids().map(str),
            "text": st.lists(hostile, max_size=5).map("".join),
            "session": st.none() | hostile,
            "role": st.none() | st.sampled_from(["user", "assistant"]),
            "name": st.none() | hostile,
            "time": st.none() | st.just(datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        }
    ),
    min_size=1,
    max_size=5,
)


def framed(of: list[Item], form: FrameForm = "lines") -> str:
    message = frame_message(of, form=form)
    assert message is not None
    assert message["role"] == "user"
    return message["content"]


def test_nothing_recalled_gives_no_message() -> None:
    assert frame_message([]) is None


@pytest.mark.law("L8")
@given(items)
def test_no_stored_text_can_close_its_frame(recalled: list[Item]) -> None:
    content = framed(recalled, "json")
    inside = content.removeprefix(OPEN).removesuffix(CLOSE)
    assert content == OPEN + inside + CLOSE
    assert not set(inside) & set("<>&\n\u2028\u2029")
    assert [item["text"] for item in orjson.loads(inside)["items"]] == [visible(item["text"]) for item in recalled]
    lines = framed(recalled).removeprefix(OPEN).removesuffix(CLOSE)
    assert lines.count("\n") == len(recalled)
    assert not set(lines) & set("<>\r\u2028\u2029")


@pytest.mark.law("L8")
@pytest.mark.parametrize("form", FORMS)
@given(
    recalled=items,
    before=text.filter(lambda t: "memory_reference" not in t),
    after=text.filter(lambda t: "memory_reference" not in t),
)
def test_stripping_gives_back_exactly_what_stood_around_the_frame(
    form: FrameForm, recalled: list[Item], before: str, after: str
) -> None:
    block = framed(recalled, form)
    assert strip_frames(before + block + after) == before + after
    assert strip_frames(block + before + block + after) == before + after


@given(text)
def test_text_without_a_frame_is_left_alone(said: str) -> None:
    assert strip_frames(said) == said


@each_row(
    "said",
    [
        "<memory_reference>",
        "<memory_reference>\nmy own words\n</memory_reference>",
        '<memory_reference>\n{"kind": "note"}\n</memory_reference>',
        '<memory_reference>\n["historical_memory"]\n</memory_reference>',
        '<memory_reference>\n{"kind": "historical_memory", "untrusted": true',
        "<memory_reference>\nan untrusted reference, recalled from memory\n</memory_reference>",
        "What is an untrusted reference recalled from memory? It may be wrong or out of date.",
        "The tags are <memory_reference> and </memory_reference>.",
        "[1] buy milk\n[2] buy bread",
        "see [1] below\n</memory_reference> closes the block",
        'print("</memory_reference>")',
        "> <memory_reference>\n> my own words\n> </memory_reference>",
        '> <memory_reference>\n> {"kind": "note"}\n> </memory_reference>\n> said Ann',
        '> <memory_reference>\n> {"kind": "historical_memory", "untrusted": true',
    ],
)
def test_what_only_looks_like_a_frame_is_somebodys_own_text(said: str) -> None:
    assert strip_frames(said) == said


def test_stripping_a_long_text_full_of_open_tags_takes_no_time() -> None:
    said = "<memory_reference>{" * 20_000
    assert strip_frames(said) == said


@pytest.mark.law("L8")
@pytest.mark.parametrize("signs", ["<>", ""])
@pytest.mark.parametrize("form", FORMS)
@given(recalled=items, times=st.integers(1, 3))
def test_a_frame_that_a_program_quotes_is_taken_out_of_the_quotation(
    form: FrameForm, recalled: list[Item], times: int, signs: str
) -> None:
    said, rest = framed(recalled, form), ""
    for _ in range(times):
        said, rest = json.dumps(said), json.dumps(rest)
        for sign in signs:
            said = said.replace(sign, f"\\u{ord(sign):04x}")
    assert strip_frames(f"log: {said}; done") == f"log: {rest}; done"
    assert strip_frames(repr(framed(recalled, form))) in {"''", '""'}


@pytest.mark.law("L8")
@pytest.mark.parametrize("mark", ["> ", ">", "> > ", ">> ", "   > "])
@pytest.mark.parametrize("form", FORMS)
@given(recalled=items)
def test_a_frame_that_is_quoted_line_by_line_is_taken_out_with_its_marks(
    form: FrameForm, recalled: list[Item], mark: str
) -> None:
    block = framed(recalled, form)
    lines = [f"{mark}{line}" for line in ("Ann wrote:", *block.split("\n"), "and so on")]
    for end in ("\n", "\r\n"):
        said = end.join(lines)
        assert strip_frames(said) == f"{mark}Ann wrote:{end}{end}{mark}and so on"
        assert strip_frames(f"log: {json.dumps(said)}") == f"log: {json.dumps(cut_frame(said))}"
    quoted = "\n".join(lines[1:-1])
    assert strip_frames(quoted) == ""
    half = len(quoted) // 2
    assert "".join(strip_parts([quoted[:half], quoted[half:]])) == ""


def cut_frame(said: str) -> str:
    """Return a quotation without its frame alone: in an escaped text, the mark before it stays."""
    frame = said[said.index("<memory_reference>") : said.index("</memory_reference>") + len("</memory_reference>")]
    return said.replace(frame, "")


@pytest.mark.law("L8")
@given(items, st.lists(st.integers(0, 400), max_size=4))
def test_a_frame_that_is_split_over_texts_is_taken_out_of_all(recalled: list[Item], at: list[int]) -> None:
    whole = f"before {framed(recalled)} after"
    cuts = sorted({0, len(whole), *(n for n in at if n < len(whole))})
    texts = [whole[start:end] for start, end in pairwise(cuts)]
    assert "".join(strip_parts(texts)) == "before  after"
    assert len(strip_parts(texts)) == len(texts)


@each_row(
    "said",
    [
        "\\u003cmemory_reference\\u003e{" * 9_000,
        "\\" * 250_000 + "memory_",
        "<memory_reference>\\" * 9_000,
        "> <memory_reference>\n> {" * 9_000,
    ],
)
def test_long_quotations_that_never_end_take_no_time(said: str) -> None:
    assert strip_frames(said) == said


def test_a_frame_survives_a_client_that_indents_or_ends_lines_differently() -> None:
    block = framed([{"text": "hello"}])
    assert strip_frames(block.replace("\n", "\r\n  ")) == ""
