"""Published formats, read from small files written here."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from deploy.lab.bench.quality.formats import read_dialogues
from deploy.lab.bench.quality.material import DialogueMessage, UnreadableData
from deploy.lab.bench.quality.run import CHARACTERS_TOGETHER, TURNS_TOGETHER, split_batches

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def _file(folder: Path, name: str, value: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def test_locomo_is_sessions_of_named_speakers_with_evidence_by_dialog_id(tmp_path: Path) -> None:
    turns = [
        {"dia_id": "D1:1", "speaker": "Marta", "text": "Look!", "blip_caption": "a lamp"},
        {"dia_id": "D1:2", "speaker": "Igor", "text": "Fine."},
    ]
    questions = [
        {"question": "What is it?", "category": 1, "evidence": ["D1:01; D:1:2", "D"]},
        {"question": "And this?", "category": 4, "evidence": ["D9:9"]},
    ]
    talk = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": turns}
    (found,) = read_dialogues(
        _file(tmp_path, "l", [{"sample_id": "c", "conversation": talk, "qa": questions}]), "locomo"
    )
    assert [(one.id, one.name, one.text) for one in found.said] == [
        ("D1:1", "Marta", "Look! [shares a photo: a lamp]"),
        ("D1:2", "Igor", "Fine."),
    ]
    assert found.said[0].at == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert [(one.category, one.evidence) for one in found.asked] == [("multi-hop", frozenset({"D1:1", "D1:2"}))]


def test_longmemeval_is_one_dialogue_a_question_and_abstentions_are_left_out(tmp_path: Path) -> None:
    one = {
        "question_id": "q1",
        "question_type": "multi-session",
        "question": "Which?",
        "haystack_session_ids": ["s1"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [[{"role": "user", "content": "This.", "has_answer": True}]],
    }
    (found,) = read_dialogues(_file(tmp_path, "m", [one, {**one, "question_id": "q2_abs"}]), "longmemeval")
    assert [(said.session, said.role, said.name) for said in found.said] == [("s1", "user", None)]
    assert [asked.evidence for asked in found.asked] == [{"s1#0"}]


def test_a_history_may_hold_a_session_twice_and_a_turn_without_words(tmp_path: Path) -> None:
    one = {
        "question_id": "q1",
        "question_type": "temporal-reasoning",
        "question": "When?",
        "haystack_session_ids": ["s1", "s1"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/06/01 (Thu) 10:00"],
        "haystack_sessions": [
            [{"role": "user", "content": " "}],
            [{"role": "user", "content": "Then.", "has_answer": True}],
        ],
    }
    (found,) = read_dialogues(_file(tmp_path, "m", [one]), "longmemeval")
    assert [(said.id, said.text) for said in found.said] == [("s1#0", "(no text)"), ("s1~2#0", "Then.")]
    assert [asked.evidence for asked in found.asked] == [{"s1~2#0"}]


def test_beam_is_a_folder_of_chats_whose_questions_name_messages(tmp_path: Path) -> None:
    messages = [
        {"id": 0, "role": "user", "content": "Hello ->-> 1,2", "time_anchor": "March-15-2024"},
        {"id": 1, "role": "assistant", "content": "Yes?"},
    ]
    _file(tmp_path, "1.chat.json", [{"batch_number": 1, "turns": [messages]}])
    questions = {
        "multi_session": [{"question": "What?", "source_chat_ids": {"first": [0], "then": ["1"]}}],
        "abstention": [{"question": "Who?", "source_chat_ids": [0]}],
        "event_ordering": [{"question": "When?", "source_chat_ids": [99]}],
    }
    _file(tmp_path, "1.probing_questions.json", questions)
    (found,) = read_dialogues(tmp_path, "beam")
    assert [(one.id, one.text, one.role) for one in found.said] == [
        ("M0", "Hello", "user"),
        ("M1", "Yes?", "assistant"),
    ]
    assert found.said[0].at == datetime(2024, 3, 15, tzinfo=UTC)
    assert [(one.category, one.evidence) for one in found.asked] == [("multi_session", frozenset({"M0", "M1"}))]


@pytest.mark.parametrize("kind", ["locomo", "longmemeval", "beam"])
def test_what_is_something_else_is_told_without_what_it_says(tmp_path: Path, kind: str) -> None:
    path = tmp_path if kind == "beam" else _file(tmp_path, "f", [{"secret": "lamp"}])
    with pytest.raises(UnreadableData) as caught:
        read_dialogues(path, kind)
    assert "lamp" not in str(caught.value)


def test_what_is_written_together_fits_a_request_and_nothing_is_left_out() -> None:
    lengths = [10] * 120 + [CHARACTERS_TOGETHER * 2, 10, CHARACTERS_TOGETHER - 5, 10]
    said = [DialogueMessage(f"t{n}", "s", "user", None, "x" * length, NOON) for n, length in enumerate(lengths)]
    parts = list(split_batches(said))
    assert [one for part in parts for one in part] == said
    assert [len(part) for part in parts] == [TURNS_TOGETHER, TURNS_TOGETHER, 20, 1, 1, 1, 1]
