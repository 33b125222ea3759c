"""How many values JSON holds is known before it is parsed."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.errors import Invalid
from producers.service import json_values
from producers.service.json_values import VALUES, limit_json
from tests.tables import each_row

texts = st.text(st.sampled_from('a"\\,:[]{} \n\u00e9'), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def count(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, inside))


@given(values, st.integers(2, 40), st.sampled_from([None, 0, 2]))
def test_values_are_counted_exactly_in_windows_of_any_size(value: Any, window: int, indent: int | None) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=False).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_values, "WINDOW", window)
        assert 1 + sum(json_values._count_by_window(raw)) == count(value)
    assert 1 + json_values._count_marks(raw) >= count(value)


@each_row("body", [[{}] * VALUES, [[]] * VALUES, [0] * VALUES, {str(n): "" for n in range(VALUES)}])
async def test_one_value_too_many_is_refused(body: Any) -> None:
    with pytest.raises(Invalid) as refused:
        await limit_json(orjson.dumps(body))
    assert f"more than {VALUES} JSON values" in refused.value.problems[0].problem


@each_row("body", [[0] * (VALUES - 1), [",[]{}" * VALUES], ['\\",' * VALUES], 'a\\"' * VALUES])
async def test_a_value_less_and_marks_within_texts_are_no_more_values(body: Any) -> None:
    await limit_json(orjson.dumps(body))


@each_row("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
async def test_a_text_in_another_encoding_is_counted_before_it_is_parsed(encoding: str) -> None:
    # Each of these characters has a byte that is a comma in UTF-8.
    few, many = ["\u2c2c\u4e2c" * 2 * VALUES], [0] * VALUES
    await limit_json(json.dumps(few, ensure_ascii=False).encode(encoding))
    with pytest.raises(Invalid):
        await limit_json(json.dumps(many).encode(encoding))
    await limit_json(b"\xff\xfe\x00")


async def test_values_are_counted_no_further_than_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    read, counted = list[int](), json_values._count_marks

    def note(part: bytes) -> int:
        read.append(len(part))
        return counted(part)

    monkeypatch.setattr(json_values, "_count_marks", note)
    with pytest.raises(Invalid):
        await limit_json(b'{"turns":[%s0]}' % (b"0," * 900_000))
    # Once for the bound, and then window by window.
    assert sum(read[1:]) < 400_000
