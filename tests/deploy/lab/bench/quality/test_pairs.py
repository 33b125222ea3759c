"""The pairs of a statement and a question in other words, and the contexts they are said in."""

from collections import Counter

from deploy.lab.bench.quality.paraphrase import (
    CONTEXTS,
    AskingSession,
    PairContext,
    ParaphrasePair,
    PriorContent,
    make_prior_turns,
    read_pairs,
)
from deploy.lab.demo.data import load_demo
from store.text.terms import analyse_text
from tests.tables import each_row


def _words(text: str) -> set[str]:
    return set(analyse_text(text).counts)


def test_there_are_two_hundred_pairs_of_many_fields_no_two_alike() -> None:
    told = read_pairs()
    assert len(told) == 200
    for texts in ([pair.said for pair in told], [pair.asked for pair in told]):
        assert len({frozenset(_words(text)) for text in texts}) == 200
    fields = Counter(pair.about for pair in told)
    assert len(fields) >= 15
    assert max(fields.values()) <= 20


def test_a_question_hardly_shares_a_word_with_its_statement() -> None:
    shared = [_words(pair.said) & _words(pair.asked) for pair in read_pairs()]
    assert max(map(len, shared)) <= 1
    assert sum(map(len, shared)) <= 10


def test_no_statement_stands_in_the_talk_before_it() -> None:
    demo = {message.content for turn in load_demo().turns for message in turn.messages}
    assert not demo & {pair.said for pair in read_pairs()}


def test_there_are_ten_contexts_and_a_bank_for_each() -> None:
    assert len({context.name for context in CONTEXTS}) == len(CONTEXTS) == 10
    assert len({repr(context).replace(context.name, "") for context in CONTEXTS}) == 10


@each_row("context", CONTEXTS, ids=lambda context: context.name)
def test_a_context_says_the_statement_first_and_asks_where_it_says(context: PairContext) -> None:
    pair = ParaphrasePair("pair-0", "home", "The roof leaks.", "What is wet?")
    told, *after = context.turns(pair, "bank")
    assert (told.turn_id, len(told.messages), len(after)) == ("pair-0", 1 + context.replied, context.after)
    assert {turn.session_id for turn in after} <= {told.session_id}
    assert (context.asking(pair) == told.session_id) is (context.asked_from is AskingSession.SAME)
    assert bool(make_prior_turns(context, "bank")) is (context.before is not PriorContent.NOTHING)
