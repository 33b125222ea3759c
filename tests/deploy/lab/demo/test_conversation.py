from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.lab.demo.data import FOLDER, DemoData, DemoDataError, Wording, load_demo
from store.text.terms import analyse_text, split_words
from tests.deploy.lab.demo.search import Index

pytestmark = pytest.mark.xdist_group("demo's conversation")  # its indexes are made once, for ten seconds

SPEAKERS = {"Ines", "Rowan", "Juniper"}
FIRST_FIVE = 5


def _runs(text: str) -> set[tuple[str, ...]]:
    words = split_words(text)
    return set(zip(words, words[1:], words[2:], words[3:], strict=False))


def test_the_conversation_is_long_enough_to_be_worth_remembering(demo: DemoData) -> None:
    assert len(demo.sessions) >= 8
    assert len(demo.turns) >= 140
    first, last = demo.turns[0].occurred_at, demo.turns[-1].occurred_at
    assert (last - first).days > 200


def test_every_turn_is_two_people_and_an_agent_talking(demo: DemoData) -> None:
    messages = [message for turn in demo.turns for message in turn.messages]
    assert {message.name for message in messages} == SPEAKERS
    assert {message.role for message in messages} == {"user", "assistant"}
    for turn in demo.turns:
        assert turn.messages[0].role == "user"
        assert turn.messages[-1].role == "assistant"
        assert turn.user_id == turn.messages[0].name.lower()


def test_time_only_moves_forward_within_a_session(demo: DemoData) -> None:
    for session in demo.sessions:
        times = [turn.occurred_at for turn in demo.turns if turn.session_id == session]
        assert times == sorted(times)


def test_questions_are_many_and_of_several_kinds(demo: DemoData) -> None:
    assert len(demo.questions) >= 40
    kinds = Counter(question.kind for question in demo.questions)
    assert len(kinds) == 5
    assert min(kinds.values()) >= 3


def test_no_question_repeats_four_words_in_a_row_of_its_evidence(demo: DemoData) -> None:
    said = {turn.name: " ".join(message.content for message in turn.messages) for turn in demo.turns}
    for question in demo.questions:
        for name in question.evidence:
            assert not _runs(question.question) & _runs(said[name]), question.question


def test_at_least_nine_of_ten_questions_find_evidence_among_the_first_five(
    demo: DemoData, conversation_index: Index
) -> None:
    missed = [
        question.question
        for question in demo.questions
        if not {conversation_index.turns[i] for i in conversation_index.fused(question.question)[:FIRST_FIVE]}
        & set(question.evidence)
    ]
    assert len(missed) <= len(demo.questions) // 10, missed


def test_half_of_the_fresh_texts_are_asked_by_word_and_half_by_paraphrase(demo: DemoData) -> None:
    assert Counter(write.how for write in demo.writes) == {Wording.WORD: 25, Wording.PARAPHRASE: 25}
    assert len({write.text for write in demo.writes}) == len(demo.writes)
    assert len({write.ask for write in demo.writes}) == len(demo.writes)


def test_a_word_question_has_exactly_one_word_of_its_text_and_no_other_text_has_it(
    demo: DemoData, full_index: Index
) -> None:
    frequency = full_index.document_frequency()
    for write in (write for write in demo.writes if write.how is Wording.WORD):
        shared = set(analyse_text(write.ask).counts) & set(analyse_text(write.text).counts)
        assert len(shared) == 1, write.ask
        assert frequency[shared.pop()] == 1, write.ask


def test_a_paraphrase_shares_no_content_word_with_any_text(demo: DemoData, full_index: Index) -> None:
    """So nothing but meaning can find its text, and no word can lead elsewhere."""
    frequency = full_index.document_frequency()
    for write in (write for write in demo.writes if write.how is Wording.PARAPHRASE):
        asked = set(analyse_text(write.ask).counts)
        assert asked, write.ask
        assert not [term for term in asked if frequency[term]], write.ask


def test_a_paraphrase_is_among_the_first_three_by_meaning_alone(demo: DemoData, full_index: Index) -> None:
    for write in (write for write in demo.writes if write.how is Wording.PARAPHRASE):
        assert full_index.cosine_rank(write.ask, write.text) <= 3, write.ask


def test_every_fresh_text_is_well_among_the_first_ten_when_both_arms_are_joined(
    demo: DemoData, full_index: Index
) -> None:
    for write in demo.writes:
        assert full_index.fused_rank(write.ask, write.text) <= 3, write.ask


@pytest.mark.parametrize(
    "file,spoil,reason",
    [
        ("conversation.jsonl", lambda text: text + '{"bank": 1}\n', "conversation.jsonl, line 154"),
        ("conversation.jsonl", lambda text: text + text.splitlines()[0] + "\n", "same session_id"),
        ("questions.json", lambda _: "[", "questions.json"),
        ("questions.json", lambda text: text.replace('"t01"', '"t99"'), "do not exist"),
        ("read_your_writes.json", lambda text: text.replace('"word"', '"guess"'), "how"),
    ],
)
def test_spoiled_files_are_refused_by_name(tmp_path: Path, file: str, spoil: Callable[[str], str], reason: str) -> None:
    for path in FOLDER.glob("*.json*"):
        text = path.read_text(encoding="utf-8")
        (tmp_path / path.name).write_text(spoil(text) if path.name == file else text, encoding="utf-8")
    with pytest.raises(DemoDataError, match=reason):
        load_demo(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DemoDataError, match=r"conversation\.jsonl cannot be read"):
        load_demo(tmp_path)
