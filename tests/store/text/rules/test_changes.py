"""A later statement takes the place of an earlier one on the same subject, and of no other."""

import tomllib
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deploy.lab.bench.quality.changes import FILE
from store.text.known_texts import KnownTexts
from store.text.rules import changes
from store.text.rules.changes import MOST_CHARACTERS, leaves_more, read_statement, takes_place
from store.text.terms import split_words
from tests.tables import each_row

TALKS = tomllib.loads(FILE.read_text(encoding="utf-8"))["talks"]


def replaces(later: str, earlier: str) -> bool:
    return takes_place(read_statement(later), read_statement(earlier))


def list_pairs(talk: object, kind: str) -> Iterator[Sequence[str]]:
    assert isinstance(talk, dict)
    for row in talk[kind]:
        yield row[2:] if kind == "changes" else row[1:]


def test_most_of_a_hundred_changes_of_mind_are_seen() -> None:
    changes = [pair for talk in TALKS for pair in list_pairs(talk, "changes")]
    missed = [pair for pair in changes if not replaces(pair[1], pair[0])]
    assert len(changes) == 100
    assert len(missed) <= 10, missed


def test_no_truths_that_hold_beside_each_other_are_taken_for_a_change() -> None:
    pairs = [pair[:2] for talk in TALKS for pair in list_pairs(talk, "parallel") if len(pair) == 2]
    assert len(pairs) == 44
    assert [pair for one in pairs for pair in permutations(one) if replaces(*pair)] == []


def test_no_statement_takes_the_place_of_one_on_another_subject() -> None:
    """Every statement of a conversation against all others but its own other side."""
    for talk in TALKS:
        rows = [[*pair] for pair in list_pairs(talk, "changes")]
        rows += [[*pair[:2]] for pair in list_pairs(talk, "parallel") if len(pair) == 2]
        read = [[read_statement(one) for one in row] for row in rows]
        wrong = [
            (later, earlier)
            for one, other in permutations(range(len(rows)), 2)
            for n, later in enumerate(rows[one])
            for m, earlier in enumerate(rows[other])
            if takes_place(read[one][n], read[other][m])
        ]
        # A row says when the standup is to show that no other meeting is meant, and the change of another row is its.
        assert [pair for pair in wrong if "standup" not in pair[0]] == []


@each_row(
    "earlier, later",
    [
        ("I live in Ghent, and I love the canals.", "I moved to Porto last week."),
        ("The rent is 950 euros.", "Actually, the rent is 980 euros."),
        ("I don\u2019t smoke.", "I smoke."),
        ("I smoke.", "I don't smoke."),
        ("Nina is coming along.", "Nina isn\u2019t coming along any more."),
        ("We meet in room Oslo. The standup is at 9:30.", "We meet in room Lima now. The standup is at 10:15."),
        ("My favourite colour is green.", "My favourite colour is blue."),
        ("Staging db is on port 5433.", "Change the staging db port to 5544, 5433 clashes with my local one."),
        ("We use black for formatting.", "Let's switch from black to ruff format."),
        ("Ticket BILL-204 is blocked by legal.", "BILL-204 is unblocked."),
        ("The build is broken.", "The build is fixed."),
    ],
)
def test_what_takes_the_place(earlier: str, later: str) -> None:
    assert replaces(later, earlier)
    assert not replaces(later, later)


@each_row(
    "earlier, later",
    [
        ("I work at Nordwind.", "I also work at Solaris."),
        ("My sister works at Nordwind.", "I no longer work at Nordwind."),
        ("I work at Nordwind.", "My sister no longer works at Nordwind."),
        ("She works at Nordwind.", "He no longer works at Nordwind."),
        ("I live in Ghent.", "If I win, I live in Porto."),
        ("I live in Ghent.", "Do I live in Porto?"),
        ("I live in Ghent.", "Ann said I live in Porto."),
        ("The rent is 950 euros. My sister is Maud.", "The rent is 1020 euros now."),
        ("The key is in the drawer.", "The key is heavy now."),
        ("The meeting is at ten.", "The meeting is in Ghent."),
        ("The meeting is at 10.", "The meeting is now in room 4."),
        ("My friend is Tom.", "My friend is Ana."),
        ("My sister lives in Porto.", "My sister lives in Lyon."),
        ("A friend is in Bonn.", "A friend is in Ghent."),
        ("Server 3 is in Bonn.", "Server 4 is in Bonn."),
        ("I visited Bonn.", "I visited Ghent."),
        ("I take aspirin in the morning.", "I take ibuprofen for headaches instead of aspirin."),
        ("The release is on 3 June.", "The release is actually called Heron."),
        ("The retro after the standup is at 11.", "The standup was moved to 10."),
        ("I no longer smoke.", "I no longer drink."),
        ("The shop is open on Mondays.", "The shop is closed on Sundays."),
        ("Door 3 is open.", "Door 4 is closed."),
        ("My budget for the bike is 800.", "I sold the bike."),
        ("We live in Lyon.", "We moved from Slack to Teams at work."),
        ("We booked a table and a taxi.", "We cancelled the taxi."),
    ],
)
def test_what_does_not(earlier: str, later: str) -> None:
    assert not replaces(later, earlier)


MIA = "Hi! I'm Mia, I live in Graz and I have two cats, Pixel and Byte."


@each_row(
    "earlier, later, question",
    [
        (MIA, "I moved to Vienna last week.", "What are my cats called?"),
        (MIA, "I moved to Vienna last week.", "What's my name?"),
        ("I live in Graz with my sister Tina.", "I moved to Vienna.", "Who is Tina?"),
        ("I live in Graz, and my dentist is Dr. Huber.", "I moved to Vienna.", "Who is my dentist?"),
        ("I live in Graz and work at Solvion.", "I moved to Vienna.", "Where do I work?"),
        ("I'm 30 and live in Graz.", "I moved to Vienna.", "How old am I?"),
        ("I work at Nordwind and I play the cello.", "I work at Solvion now.", "What instrument do I play?"),
        ("My name is Ana and I have two kids.", "My name is Anna, not Ana.", "How many kids do I have?"),
        ("I drink coffee every morning and I run at six.", "I don't drink coffee any more.", "When do I run?"),
    ],
)
def test_what_is_asked_for_and_was_not_replaced_is_not_former(earlier: str, later: str, question: str) -> None:
    assert replaces(later, earlier)
    assert leaves_more(read_statement(later), read_statement(earlier), frozenset(split_words(question)))


@each_row(
    "earlier, later, question",
    [
        (MIA, "I moved to Vienna last week.", "Where do I live?"),
        (MIA, "I moved to Vienna last week.", "In which city does Mia live now?"),
        ("I live in Graz.", "I moved to Vienna.", "Who is Tina?"),
        ("I live in Ghent, and I love the canals.", "I moved to Porto last week.", "Where does Ann live now?"),
        ("I work at Nordwind and I play the cello.", "I work at Solvion now.", "Who do I work for?"),
        ("My name is Ana and I have two kids.", "My name is Anna, not Ana.", "What's my name?"),
        ("I drink coffee every morning and I run at six.", "I don't drink coffee any more.", "Do I drink coffee?"),
        ("The standup is at 9:30.", "The standup is at 10:15.", "Who is Tina?"),
    ],
)
def test_what_is_asked_for_and_was_replaced_is_former(earlier: str, later: str, question: str) -> None:
    assert replaces(later, earlier)
    assert not leaves_more(read_statement(later), read_statement(earlier), frozenset(split_words(question)))


#: Words that the rules look for, and some between them.
VOCABULARY = (
    "they i we the a now actually , not no longer moved set make put is are be will to from for at on in 5 ten monday "
    "june new my our budget port turned there it that works and but so cancelled booked of mg used anymore instead "
    "went up let's switched Ann . \u00b2 7pm \u00bd"
)


@given(*[st.lists(st.sampled_from(VOCABULARY.split()), min_size=1, max_size=9).map(" ".join)] * 2)
@example("They now", "The budget is 5.")
@example("I used to, but not any more.", "I smoke.")
def test_words_of_the_rules_in_any_order_are_read_without_an_error(later: str, earlier: str) -> None:
    assert isinstance(replaces(later, earlier), bool)


def test_a_long_text_and_nothing_have_no_sentences() -> None:
    assert not read_statement("").sentences
    assert not read_statement("a " * MOST_CHARACTERS).sentences
    assert not takes_place(read_statement(""), read_statement(""))


def test_messages_are_read_once_and_their_words_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    marks, pairs = KnownTexts[changes.Marks](8), KnownTexts[bool](8)
    monkeypatch.setattr(changes, "_MARKS", marks)
    monkeypatch.setattr(changes, "_TAKES_PLACE", pairs)
    read, read_sentences = list[str](), changes._read_sentences

    def note(text: str, name: str | None) -> Sequence[changes.Sentence]:
        read.append(text)
        return read_sentences(text, name)

    monkeypatch.setattr(changes, "_read_sentences", note)
    older, newer, beside = "The standup is at 9:30.", "The standup is at 10:15.", "I water the plants."
    for _ in range(2):
        assert [replaces(newer, older), replaces(older, newer), replaces(beside, older)] == [True, True, False]
    assert sorted(read) == sorted([older, newer, beside, older, newer])  # the first two for either order
    assert "standup" not in repr((vars(marks), vars(pairs)))


def test_the_same_words_of_a_speaker_of_another_name_are_another_statement() -> None:
    """Who is called Ann tells by "Ann lives in Bonn" where she lives herself."""
    assert read_statement("Ann lives in Bonn", "Ann").digest != read_statement("Ann lives in Bonn").digest


def test_plain_changes_are_seen_and_plain_statements_stay_beside_each_other() -> None:
    """Rules were written for the tuning part; when they first saw the checking part, they saw 35 of its changes."""
    lines = Path(__file__).with_name("plain_changes.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    sizes = {"tuning": 283, "checking": 64}
    seen = {part: [replaces(new, old) for p, kind, old, new in rows if (p, kind) == (part, "change")] for part in sizes}
    assert {part: len(found) for part, found in seen.items()} == sizes
    assert sum(seen["tuning"]) >= 238
    assert sum(seen["checking"]) >= 35
    assert [(old, new) for _, kind, old, new in rows if kind == "beside" and replaces(new, old)] == []
