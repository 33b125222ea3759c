from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.text.rules import Extraction, MentionKind, MessageText, TurnText, canonical_name, extract_turn
from store.text.rules.extract import MAX_MENTIONS
from tests.growth import grows_with_its_text
from tests.tables import each_row
from workers.extraction.llm.answer import parse_answer as judged
from workers.extraction.llm.request import TOOL

#: Characters of a long text; nightly one is four times as long.
LONG = 32_768

FRAGMENTS = st.sampled_from(
    [
        *("I visited Porto. ", "we went to Porto ", "I bought a ", "never. ", "and I ", "She says "),
        *("I like ", "my name is ", "I moved to ", "my sister ", "our cat is called ", "I'm allergic to "),
        *("Zoë ", "Łódź ", "São Paulo ", "O'Brien ", "Dr. ", "in ", "to ", "and ", "the ", "of ", "Anna's "),
        *("new york ", "rafael ", "The ", "della ", "Marks & ", "Bank ", "April told ", "call maria ", "in lisbon "),
        *("next Friday ", "three weeks ago ", "14 May 2026 ", "2026-02-31 ", "31/12/2025 ", "May ", "the 3rd "),
        *("https://a.example/x?(y) ", "a@b.example ", "@handle ", "@", "://", "www.", ". ", ", ", "\n", "'", "\u2019"),
        *("I ", "你好", "😀", "\u0308", "\0", "\ud800", "İ", "ß", "ﬁ", "١٢ May", "\u00a0", "\u200d", "A" * 70),
    ]
)
TEXTS = st.one_of(st.text(max_size=200), st.lists(FRAGMENTS, max_size=30).map("".join))
MOMENTS = st.one_of(st.none(), st.datetimes(timezones=st.just(UTC)))
MESSAGES = st.builds(
    MessageText,
    role=st.sampled_from(["user", "assistant", "tool", "system"]),
    content=TEXTS,
    name=st.one_of(st.none(), st.text(max_size=20), st.sampled_from(["Ines", "Zoë"])),
)
TURNS = st.builds(TurnText, st.lists(MESSAGES, max_size=4).map(tuple), MOMENTS)


@settings(deadline=None)
@given(TURNS)
def test_any_text_is_read_and_every_mention_stands_where_it_says(turn: TurnText) -> None:
    found = extract_turn(turn)
    for mention in found.mentions:
        message = turn.messages[mention.ordinal]
        if mention.span is None:
            assert mention.surface == (message.name or "").strip()
        else:
            assert 0 <= mention.span.start < mention.span.end <= len(message.content)
            assert message.content[mention.span.start : mention.span.end] == mention.surface


@settings(deadline=None)
@given(TURNS)
def test_every_fact_is_what_its_message_says_and_fits(turn: TurnText) -> None:
    for fact in extract_turn(turn).facts:
        message = turn.messages[fact.ordinal]
        assert message.role == "user"
        assert message.content[fact.span.start : fact.span.end] == fact.value
        assert fact.value.strip() == fact.value != ""
        assert len(fact.value.encode("utf-8", "surrogatepass")) <= 128
        assert 0 < fact.confidence <= 1
        assert fact.value in fact.statement


@settings(deadline=None)
@given(TURNS)
def test_slugs_are_unique_within_a_message(turn: TurnText) -> None:
    slugs = [(fact.ordinal, fact.slug) for fact in extract_turn(turn).facts]
    assert len(slugs) == len(set(slugs))


@settings(deadline=None)
@given(TURNS)
def test_the_same_turn_gives_the_same_answer(turn: TurnText) -> None:
    assert extract_turn(turn) == extract_turn(TurnText(tuple(turn.messages), turn.occurred_at))


@settings(deadline=None)
@given(TURNS, TURNS)
def test_what_was_read_before_changes_nothing(one: TurnText, other: TurnText) -> None:
    alone = extract_turn(one)
    extract_turn(other)
    assert extract_turn(one) == alone


@settings(deadline=None)
@given(TURNS)
def test_spans_of_a_message_come_in_order_and_do_not_overlap(turn: TurnText) -> None:
    mentions = extract_turn(turn).mentions
    for ordinal in range(len(turn.messages)):
        spans = [mention.span for mention in mentions if mention.ordinal == ordinal and mention.span]
        assert all(before.end <= after.start for before, after in pairwise(spans))
        assert len(spans) <= MAX_MENTIONS


@settings(deadline=None)
@given(TURNS)
def test_entities_are_just_the_names_of_the_mentions_once_each(turn: TurnText) -> None:
    found = extract_turn(turn)
    named = {mention.entity for mention in found.mentions if mention.entity is not None}
    assert [entity.normalised for entity in found.entities] == sorted(named)
    assert all(entity.name for entity in found.entities)


@settings(deadline=None)
@given(TEXTS)
def test_a_normalised_name_is_its_own_normalised_name(text: str) -> None:
    for entity in extract_turn(TurnText((MessageText("user", text),))).entities:
        if entity.kind is not MentionKind.URL:
            assert canonical_name(entity.normalised) == entity.normalised


def _extract(text: str) -> Extraction:
    return extract_turn(TurnText((MessageText("user", text, "Ines"),), datetime(2026, 3, 10, tzinfo=UTC)))


@each_row(
    "piece",
    [
        *("a", "A ", "1 ", "1. ", "@", "a@", "a@a.", "www.", "http://a/www.", "May ", "3 ", "in ", " ", "\n"),
        *("De La ", "I like ", "my sister ", "my sister called ", "Anna and ", "Anna, ", "'s ", "O'", "\u0308"),
        *("Zoë ", "中", "in a ", "20", "2026-", "1/", "Dr. ", "I. ", "University of the ", "my birthday is "),
        *("I visited Porto ", "I ordered a to ", "and I ", "I bought ", "if I sold the "),
        *("my favourite ", "we moved from ", "Monday, ", "The Hague ", "-", "12 March, ", "a.", "😀"),
        *("Anna and Ben met in Oslo on 3 May. ", "my sister Maud said I like tea. "),
        *("\u0301\u0323", "A\u0301\u0323", "\uff9e\u0301", "\ufdfa ", "my sister A\u0301\u0323"),
    ],
)
@pytest.mark.parametrize("long", [LONG, pytest.param(4 * LONG, marks=pytest.mark.nightly)])
def test_the_time_of_reading_grows_with_the_text(piece: str, long: int) -> None:
    def read(text: str) -> None:
        assert len(_extract(text).mentions) <= MAX_MENTIONS + 1

    assert grows_with_its_text(read, piece, long=long)


@each_row("piece", ["a", "a ", "Ann ", "\u0301\u0323", "(", "\\", "é"])
def test_the_time_of_judging_a_models_answer_grows_with_the_turn(piece: str) -> None:
    def read(text: str) -> None:
        said = {"message": 0, "key": "k", "fact_id": "f", "value": text[:4096]}
        facts = [{**said, "quote": text[:length] + end} for length in (50, 4000) for end in ("", "\0")]
        entities = [
            {"name": text[:length] + end, "kind": "person", "message": 0} for length in (9, 250) for end in "b!"
        ]
        arguments = {"updated_facts": facts, "entities": entities}
        reply = {"output": [{"type": "function_call", "name": TOOL, "arguments": arguments}]}
        judged(reply, TurnText((MessageText("user", text),)))

    assert grows_with_its_text(read, piece, long=4 * LONG)
