"""What commands print for people: tables without a frame, one value a line."""

import pytest

from deploy.cli.output import print_fields, print_rows

KEY = {"label": "bot", "banks": ["a", "b"], "limits": {"turns": 3, "bytes": None}, "ended": None}


def test_a_list_in_a_row_is_one_value_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows({"keys": [KEY]}, "keys", as_json=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["label", "banks", "limits", "ended"], ["bot", "a", "turns", "3"], ["b"]]


def test_a_time_is_shown_to_the_second(capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "begun": "2026-11-28T22:45:43.246760+00:00",
        "ended": "2026-11-28T22:45:44Z",
        "text": "at 2026-11-28T22:45:44Z",
    }
    print_rows({"rows": [row]}, "rows", as_json=False)
    [_, shown] = capsys.readouterr().out.splitlines()
    assert shown.split("  ")[:3] == ["2026-11-28 22:45:43", "2026-11-28 22:45:44", "at 2026-11-28T22:45:44Z"]


def test_the_fields_of_one_are_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    print_fields(KEY, as_json=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["label", "bot"], ["banks", "a"], ["b"], ["limits", "turns", "3"], ["ended"]]
