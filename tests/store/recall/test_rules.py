"""What moves a score besides words and meaning, and the order that comes of it."""

import itertools
from typing import Any
from uuid import UUID, uuid5

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.recall import rules
from store.recall.dense import compute_products
from store.recall.fusion import fuse_scores
from store.recall.pool import Candidate, CandidatePool
from store.recall.question import find_asked_people, find_named_speakers, parse_question, put_in_first_person
from store.recall.rules import apply_identifier
from store.recall.short_questions import ShortQuestions, split_questions
from tests.store.conftest import NOON
from tests.tables import each_row

SPACE = UUID(int=3)


def _unit(number: int, text: str = "we talk", **more: Any) -> Candidate:
    session = more.pop("session", "s")
    known: dict[str, Any] = {
        "unit_id": UUID(int=number),
        "kind": "experience",
        "text": text,
        "whole": True,
        "session_id": None if session is None else uuid5(SPACE, session),
        "session_name": session,
        "turn_name": f"t{number}",
        "seq": number,
        "role": "user",
        "name": None,
        "occurred_at": NOON,
        "sources": (),
    }
    return Candidate(**{**known, **more})


def _pool(*units: Candidate) -> CandidatePool:
    nothing = np.zeros((len(units), 4), dtype=np.float32)
    return CandidatePool(units, compute_products(np.zeros(4, dtype=np.float32), nothing, nothing, nothing))


def _moved(rule: rules.Rule, pool: CandidatePool, question: str = "anything") -> list[float]:
    before = np.linspace(1.0, 0.5, len(pool))
    after = rule(before, pool, parse_question(question))
    assert after.shape == before.shape
    return [round(float(value), 6) for value in after - before]


def test_the_one_speaker_named_is_raised() -> None:
    pool = _pool(_unit(1, name="Marta"), _unit(2, name="Igor"))
    assert _moved(rules.apply_speaker, pool, "What did Marta cook?") == [0.13, 0]
    assert _moved(rules.apply_speaker, pool, "what did marta's guests eat?") == [0.13, 0]
    assert _moved(rules.apply_speaker, pool, "What did Marta and Igor cook?") == [0, 0]
    assert _moved(rules.apply_speaker, pool, "What was cooked?") == [0, 0]


def test_a_session_with_several_good_units_raises_them_all() -> None:
    pool = _pool(_unit(1, session="a"), _unit(2, session="a"), _unit(3, session="a"), _unit(4, session="b"))
    a, _, _, b = _moved(rules.apply_session, pool)
    assert a > b > 0


def test_what_has_no_session_is_not_moved_by_one() -> None:
    assert _moved(rules.apply_session, _pool(_unit(1, session=None), _unit(2, session=None))) == [0, 0]


def test_what_only_asks_is_held_back_by_its_share() -> None:
    pool = _pool(_unit(1, "Where is it?"), _unit(2, "Where is it? It is here now."), _unit(3, "It is here."))
    asks, half, tells = _moved(rules.apply_short_question, pool)
    assert asks < half < tells == 0


def test_what_asks_for_the_same_is_held_back_most_and_an_echo_of_it_too() -> None:
    told, other = "I moved to Celje last week.", "When is the ferry due in Split?"
    texts = ("Where does my sister live?", "You ask me this: Where does my sister live? I do not know.", other, told)
    same, echo, different, tells = _moved(
        rules.apply_short_question, _pool(*(_unit(n, one) for n, one in enumerate(texts))), "Where does my sister live?"
    )
    assert same < echo < different < tells == 0


def test_a_title_ends_no_sentence_that_asks() -> None:
    for asked in ("What does Ms. Oblak care about?", "Did Dr. Hribar and Mrs. Vidmar meet Prof. Kranjc?"):
        assert split_questions(asked) == ShortQuestions([asked], 1.0)
    assert split_questions("I met Ms. Oblak. Where is she?") == ShortQuestions(["Where is she?"], 3 / 7)


def test_a_long_question_also_tells() -> None:
    assert split_questions(" ".join(["word"] * 30) + "?").share == 0


@given(st.text())
def test_the_share_of_asking_is_a_share(text: str) -> None:
    assert 0 <= split_questions(text).share <= 1


def test_the_assistant_is_held_back_unless_asked_for() -> None:
    pool = _pool(_unit(1, "word " * 31, role="assistant"), _unit(2))
    assert _moved(rules.apply_assistant, pool, "Which hotel was it?") == [-0.2, 0]
    assert _moved(rules.apply_assistant, pool, "Which hotel did you recommend?") == [0, 0]


def test_short_lines_of_agents_and_tools_are_held_back_most_unless_asked_for() -> None:
    pool = _pool(_unit(1, "Noted.", role="assistant"), _unit(2, '{"status": "ok"}', role="tool"), _unit(3, "Noted."))
    assert _moved(rules.apply_assistant, pool, "Which hotel was it?") == [-0.8, -0.6, 0]
    assert _moved(rules.apply_assistant, pool, "Which hotel did you recommend?") == [0, 0, 0]


def test_what_a_user_tells_an_agent_again_and_again_is_an_order_and_held_back() -> None:
    order, told = "Run the tests.", "The tests run on Helsinki."
    said = [*(_unit(n, order) for n in range(3)), _unit(3, told), _unit(4, told)]
    agent = _pool(*said, _unit(5, "Done.", role="assistant"))
    assert _moved(rules.apply_repeated, agent) == [-0.8, -0.72, -0.64, 0, 0, 0]
    assert _moved(rules.apply_repeated, agent, "What did I ask you to run?") == [0] * 6
    assert _moved(rules.apply_repeated, _pool(*said)) == [0] * 5
    assert _moved(rules.apply_repeated, _pool(*said[1:], _unit(5, "Done.", role="assistant"))) == [0] * 5


def test_what_only_asks_loses_more_beside_an_agent_the_fewer_its_words() -> None:
    asks, wish = "When is the bin collected?", "Could you book us the early ferry to Split on the ninth of May?"
    told = "The bin is collected on Mondays."
    said = [_unit(1, asks), _unit(2, wish), _unit(3, told)]
    people = _moved(rules.apply_short_question, _pool(*said, _unit(4, "Noted.")))
    agent = _pool(*said, _unit(4, "Noted.", role="assistant"))
    asked, wished, *tells = _moved(rules.apply_short_question, agent)
    assert asked < people[0] < 0
    assert abs(asked) > 2 * abs(wished)
    assert tells == people[2:] == [0, 0]
    assert _moved(rules.apply_short_question, agent, "What did I ask you about the bin?") == people


def test_short_lines_of_an_agent_neither_lend_nor_borrow_and_what_answers_one_still_borrows() -> None:
    told, line, answer = (
        _unit(1, "I moved to Celje."),
        _unit(2, "Which street is it?", role="assistant"),
        _unit(3, "The long one.", answers=True),
    )
    pool = _pool(told, line, answer)
    assert rules.mute_lines(pool, parse_question("Where do I live?")).unmuted.tolist() == [[1, 0], [0, 0], [1, 1]]
    assert rules.mute_lines(pool, parse_question("What did you ask?")).muted is None
    assert rules.mute_lines(_pool(told, answer), parse_question("Where do I live?")).muted is None


def test_long_output_of_a_tool_is_held_back_in_proportion_unless_the_agents_words_are_asked_for() -> None:
    said = [_unit(3, "word " * 1000), _unit(4, "word " * 1000, role="assistant"), _unit(5, "word " * 30, role="tool")]
    pool = _pool(_unit(1, "word " * 31, role="tool"), _unit(2, "word " * 1000, role="tool"), *said)
    moved = _moved(rules.apply_tool_output, pool)
    assert moved == [-rules.TOOL_OUTPUT, pytest.approx(-rules.TOOL_OUTPUT * 0.875), 0, 0, 0]
    assert _moved(rules.apply_tool_output, pool, "What did you tell me about it?") == [0] * 5


def test_saying_more_counts_a_little_up_to_a_hundred_words() -> None:
    pool = _pool(_unit(1, "word " * 150), _unit(2, "word " * 100), _unit(3, "word " * 5), _unit(4, ""))
    long, enough, short, nothing = _moved(rules.apply_substance, pool)
    assert long == enough > short > nothing == 0


def test_every_rule_takes_an_empty_pool() -> None:
    for name, rule in rules.RULES:
        assert _moved(rule, _pool(), "When did Marta go, and how many?") == [], name


@each_row(
    "question, names, told",
    [
        ("What did Marta cook?", ["Marta"], "What did I cook?"),
        ("Is Marta\u2019s dog old?", ["Marta"], "Is my dog old?"),
        ("what did marta say", ["Marta Silva"], "what did I say"),
        ("Where did Marta Silva's aunt meet Igor?", ["Marta Silva", "Igor"], "Where did my aunt meet I?"),
        ("Marta?", ["Marta"], "Marta?"),
        ("Where is Marta?", ["Marta"], "Where is I?"),
        ("Where is the martagon lily?", ["Marta"], "Where is the martagon lily?"),
        ("What did the assistant suggest?", ["assistant"], "What did the suggest?"),
        ("Marta, Hund", ["Marta"], ", Hund"),
        ("\u739b\u5854 Marta \u5403\u4e86\u4ec0\u4e48", ["Marta"], "\u739b\u5854 \u5403\u4e86\u4ec0\u4e48"),
    ],
)
def test_the_model_reads_names_as_their_bearers_speak_of_themselves(question: str, names: list[str], told: str) -> None:
    assert put_in_first_person(question, names) == told


@given(st.text(), st.lists(st.text()))
def test_putting_a_question_in_the_first_person_never_fails_and_never_leaves_nothing(
    question: str, names: list[str]
) -> None:
    told = put_in_first_person(question, names)
    assert bool(told.strip()) == bool(question.strip()) or not question.strip()


def test_only_speakers_whom_the_question_names_count_as_named() -> None:
    assert find_named_speakers(parse_question("What did Jose say?"), ["José Lima", "Josefine", "user"]) == {"José Lima"}


@each_row(
    "question, speakers, told",
    [
        ("When did she move, and why did he stay?", ["Ann", "Igor"], "When did I move, and why did I stay?"),
        ("When did Ann say he moved?", ["Ann", "Igor"], "When did I say he moved?"),
        ("When did she move?", ["Ann"], "When did she move?"),
        ("When did she move?", ["Ann", "assistant"], "When did she move?"),
        ("Wo ist he, wenn es regnet?", ["Ann", "Igor"], "Wo ist he, wenn es regnet?"),
    ],
)
def test_he_and_she_mean_a_speaker_where_people_alone_speak(question: str, speakers: list[str], told: str) -> None:
    assert put_in_first_person(question, find_asked_people(parse_question(question), speakers)) == told


@each_row(
    "question, who",
    [
        ("What did the assistant's list hold?", {"assistant"}),
        ("Who can assist me with my taxes?", set()),
        ("Which columns does the users table have?", set()),
        ("What did the User ask for?", {"user", "User"}),
    ],
)
def test_a_role_is_named_by_its_own_word_alone(question: str, who: set[str]) -> None:
    assert find_named_speakers(parse_question(question), ["assistant", "user", "User", "Marta"]) == who


@pytest.mark.parametrize(
    "question",
    [
        "Can you remind me which hostel was the cheapest?",
        "In our previous conversation, what was the third name?",
        "Which poem have you shown me?",
    ],
)
def test_who_asks_what_he_was_told_wants_the_assistants_words(question: str) -> None:
    assert parse_question(question).wants_assistant


@pytest.mark.parametrize("question", ["Which reminder did I set?", "What did we talk about at the party?"])
def test_who_asks_what_was_said_elsewhere_does_not(question: str) -> None:
    assert not parse_question(question).wants_assistant


def test_equal_scores_are_ordered_by_unit_id() -> None:
    pool = _pool(_unit(9), _unit(2), _unit(5))
    scores = np.full(3, 0.5)
    ranking = fuse_scores(pool, {"lexical": scores}, {"lexical": 1.0}, parse_question("x"))
    assert [pool.candidates[i].unit_id.int for i in ranking.order] == [2, 5, 9]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0, 2))
def test_a_final_score_is_the_weighted_sum_and_what_moved_it(raw: list[float], weight: float) -> None:
    pool = _pool(*(_unit(n, f"I have {n}?", session=f"s{n % 3}") for n in range(len(raw))))
    dense = np.array(raw)
    arms = {"dense": dense, "lexical": dense[::-1].copy()}
    ranking = fuse_scores(pool, arms, {"dense": weight, "lexical": 1.0}, parse_question("how many?"))
    for index in range(len(raw)):
        moved = ranking.explain(index).moved
        expected = weight * arms["dense"][index] + arms["lexical"][index] + sum(moved.values())
        assert float(ranking.scores[index]) == pytest.approx(expected)


def test_an_arm_that_found_nothing_in_a_unit_is_not_named() -> None:
    pool = _pool(_unit(1), _unit(2))
    arms = {"dense": np.array([0.5, 0.0]), "lexical": np.array([0.0, 0.4])}
    ranking = fuse_scores(pool, arms, {"dense": 1.0, "lexical": 1.0}, parse_question("x"))
    assert [ranking.found_by(0), ranking.found_by(1)] == [("dense",), ("lexical",)]


@each_row(
    "asked, told, other",
    [
        ("When did she get into an accident?", "I hit a tree last Friday.", "I hit a tree."),
        ("When did he start playing?", "I've been playing for a month now", "I've been playing for fun now"),
        ("How long has he lived there?", "For three years.", "With three cats."),
        ("Wann ist sie umgezogen?", "Ich bin am Freitag umgezogen.", "Ich bin ohne Hilfe umgezogen."),
        ("In which year did it open?", "It opened in 2019.", "It opened in 20 towns."),
    ],
)
def test_a_text_that_tells_a_time_is_raised_where_one_is_asked_for(asked: str, told: str, other: str) -> None:
    pool = _pool(_unit(1, text=told), _unit(2, text=other))
    assert _moved(rules.apply_time_told, pool, asked) == [rules.TIME_TOLD, 0]
    assert _moved(rules.apply_time_told, pool, "What did she tell him?") == [0, 0]


def test_a_unit_with_the_identifier_is_raised_just_above_one_with_a_near_one_and_no_further() -> None:
    texts = (
        "Lunch is at one.",
        "PROJ-1188 is done.",
        "The bus is late.",
        "PROJ-1187-fix",
        "PROJ-1187 is open.",
        "1187",
    )
    scores = np.linspace(1.0, 0.5, len(texts))
    pool = _pool(*(_unit(n, one) for n, one in enumerate(texts)))
    after = apply_identifier(scores, pool, parse_question("What about PROJ-1187?"))
    lunch, near, bus, part, exact, piece = after
    assert lunch > exact > part > near > bus > piece
    assert [lunch, near, bus, piece] == [scores[at] for at in (0, 1, 2, 5)]
    assert exact - near < 1e-9


def test_of_two_identifiers_a_unit_that_holds_one_does_not_precede_one_that_holds_the_other() -> None:
    pool = _pool(_unit(1, "PROJ-1188 is done."), _unit(2, "PROJ-1187 is open."), _unit(3, "PROJ-1187, PROJ-1188"))
    both, first, second = _moved(apply_identifier, pool, "PROJ-1187 or PROJ-1188?")[::-1]
    assert both > first == second == 0


def test_what_only_asks_for_an_identifier_is_not_raised() -> None:
    pool = _pool(_unit(1, "PROJ-1188 is done."), _unit(2, "What about PROJ-1187?"))
    assert _moved(apply_identifier, pool, "PROJ-1187") == [0, 0]


def test_the_rest_of_a_text_that_was_cut_may_hold_the_identifier() -> None:
    pool = _pool(_unit(1, "PROJ-1188 is done.", whole=False), _unit(2, "PROJ-1187 is open."))
    assert _moved(apply_identifier, pool, "PROJ-1187") == [0, 0]


@given(
    st.lists(
        st.sampled_from(["A-101", "A-102", "A-101-b", "101", "x", "A-101 A-102", "A-101?"]), min_size=1, max_size=9
    ),
    st.data(),
)
def test_no_score_falls_and_units_that_hold_the_same_keep_their_order(texts: list[str], data: st.DataObject) -> None:
    numbers = st.floats(0, 2, allow_subnormal=False)
    scores = np.array(data.draw(st.lists(numbers, min_size=len(texts), max_size=len(texts), unique=True)))
    pool = _pool(*(_unit(n, one) for n, one in enumerate(texts)))
    after = apply_identifier(scores, pool, parse_question("A-101"))
    assert (after >= scores).all()
    for one, other in itertools.permutations(range(len(texts)), 2):
        if texts[one] == texts[other] and scores[one] > scores[other]:
            assert after[one] > after[other]
        if texts[one].startswith("A-101 ") or texts[one] == "A-101":
            assert texts[other] not in {"A-102", "101", "A-101-b"} or after[one] > after[other]
