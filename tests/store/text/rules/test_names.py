from datetime import UTC, datetime

import pytest

from store.text.rules import Mention, MentionKind, MessageText, TurnText, canonical_name, extract_turn
from tests.tables import each_row

TUESDAY = datetime(2026, 3, 10, 12, tzinfo=UTC)


def _mentions(text: str, *, name: str | None = None) -> list[Mention]:
    return list(extract_turn(TurnText((MessageText("user", text, name),), TUESDAY)).mentions)


def _kinds(text: str) -> dict[str, str]:
    return {mention.surface: mention.kind.value for mention in _mentions(text)}


@each_row(
    "text,surface,kind",
    [
        ("I met Zoë there.", "Zoë", "person"),
        ("We flew to Łódź in winter.", "Łódź", "place"),
        ("She comes from São Paulo.", "São Paulo", "place"),
        ("That was Mrs O'Brien again.", "Mrs O'Brien", "person"),
        ("Then Jean-Luc arrived.", "Jean-Luc", "person"),
        ("A talk at the University of Warsaw.", "University of Warsaw", "organisation"),
        ("We swam in Lake Bohinj.", "Lake Bohinj", "place"),
        ("Our cat Biscuit is grey.", "Biscuit", "name"),
        ("My landlord is Mr Pauwels.", "Mr Pauwels", "person"),
        ("Hanneke de Wit wrote to me.", "Hanneke de Wit", "person"),
        ("She lives in Stara Fužina.", "Stara Fužina", "place"),
        ("We saw the house at Kerkstraat.", "Kerkstraat", "place"),
        ("Write to ana@mail.example, please.", "ana@mail.example", "email"),
        ("Ask @star_gazer.", "@star_gazer", "handle"),
        ("See https://example.org/a_(b).", "https://example.org/a_(b)", "url"),
        ("Kwame is allergic to nuts.", "Kwame", "person"),
        ("Send Hamid the photos.", "Hamid", "person"),
        ("The rest is done, said Xqvarlo.", "Xqvarlo", "person"),
        ("Xqvarlo can't eat nuts.", "Xqvarlo", "person"),
        ("It is Xqvarlo's birthday.", "Xqvarlo", "person"),
        ("Aunt May is here.", "May", "person"),
        ("Our neighbours, the Johnsons, are nice.", "Johnsons", "person"),
        ("i met rafael at the gym", "rafael", "person"),
        ("TELL SVETLANA NOW", "SVETLANA", "person"),
        ("I closed my account at Xqvarlo.", "Xqvarlo", "organisation"),
        ("The contract of Brightwater Energy ends.", "Brightwater Energy", "organisation"),
        ("Flowers from Marks & Spencer.", "Marks & Spencer", "organisation"),
        ("The Gulf of Bothnia freezes.", "Gulf of Bothnia", "place"),
        ("On the way to Xqvarlo it rained.", "Xqvarlo", "place"),
        ("We walked in St. Louis.", "St. Louis", "place"),
        ("we flew to new york", "new york", "place"),
        ("We are moving to GitLab.", "GitLab", "name"),
        ("We listened to Abbey Road twice.", "Abbey Road", "name"),
        ("He plays bass in The Rusty Anchors.", "The Rusty Anchors", "name"),
        ("The vet says Xqvarlo needs rest.", "Xqvarlo", "name"),
    ],
)
def test_a_mention_has_its_characters_and_its_kind(text: str, surface: str, kind: str) -> None:
    assert _kinds(text) == {surface: kind}


@each_row(
    "text",
    [
        "Yes. No. Maybe! Thanks, see you later.",
        "I think so. Dinner was fine. Work is work.",
        "I AM SO ANGRY WITH THE LANDLORD",
        "The PDF and the API of the TV.",
        "I speak French, German and a little Hungarian.",
        "i like it here, in bed or in split shifts",
        "- First point\n- Second point",
        "He said: Perhaps we should go.",
        "You may march in 5 minutes.",
        "## Getting Started With Your Garden",
        "Gardening helped. Tidiness came later.",
        "Call `MyClass.run()` or:\n```\nfrom Paris import Anna  # 3 May 2026\n```",
        "version 1.2.2026.4 and 12:30 and 3.5.10",
        "Black or white? Black, please.",
        "Who wrote that? Will you ask? May I?",
        "the rose, the mark and the will may frank a bill",
    ],
)
def test_a_capital_alone_makes_no_name(text: str) -> None:
    assert _mentions(text) == []


def test_the_speaker_is_mentioned_without_a_place_in_the_text() -> None:
    mention, *_ = _mentions("good morning", name=" Ines ")
    assert mention == Mention(MentionKind.PERSON, 0, None, "Ines", "ines")


def test_a_speaker_is_known_to_be_a_person_even_at_a_sentence_beginning() -> None:
    said = MessageText("user", "Juniper, note that.", "Ines"), MessageText("assistant", "Noted.", "Juniper")
    found = extract_turn(TurnText(said))
    assert [m.surface for m in found.mentions if m.span] == ["Juniper"]
    assert {entity.kind for entity in found.entities} == {MentionKind.PERSON}


def test_a_name_is_judged_once_for_the_whole_turn() -> None:
    said = MessageText("user", "My cousin Tarek is here."), MessageText("assistant", "Tarek is welcome.")
    found = extract_turn(TurnText(said))
    assert [(m.surface, m.kind.value, m.ordinal) for m in found.mentions] == [
        ("Tarek", "person", 0),
        ("Tarek", "person", 1),
    ]


@each_row(
    "one,other",
    [
        ("Zoe\u0308", "Zoë"),
        ("Dr. Okonjo", "Okonjo"),
        ("Mr Pauwels", "pauwels"),
        ("O\u2019Brien", "O'Brien"),
        ("Caroline's", "Caroline"),
        ("New  York", "new york"),
        ("STRASSE", "straße"),
    ],
)
def test_two_ways_to_write_a_name_are_one_entity(one: str, other: str) -> None:
    assert canonical_name(one) == canonical_name(other)


@pytest.mark.parametrize(
    "one,other", [("https://www.example.org/a/", "http://example.org/a"), ("Ana@Mail.Example", "ana@mail.example")]
)
def test_two_ways_to_write_an_address_are_one_entity(one: str, other: str) -> None:
    first, second = (extract_turn(TurnText((MessageText("user", f"see {text} now"),))) for text in (one, other))
    assert [e.normalised for e in first.entities] == [e.normalised for e in second.entities] != []


@each_row(
    "text,day",
    [
        ("It was yesterday.", "2026-03-09"),
        ("It is the day after tomorrow.", "2026-03-12"),
        ("Three weeks ago it rained.", "2026-02-17"),
        ("We start in ten days.", "2026-03-20"),
        ("The date is 14 May 2026.", "2026-05-14"),
        ("The date is May 14th, 2026.", "2026-05-14"),
        ("The date is 2026-05-14.", "2026-05-14"),
        ("The date is 14.05.2026.", "2026-05-14"),
        ("The date is 5/14/2026.", "2026-05-14"),
        ("On Saturday, 11 April we go.", "2026-04-11"),
        ("It was on 20 December.", "2025-12-20"),
        ("It is on 1 September.", "2026-09-01"),
        ("Until last Sunday.", "2026-03-08"),
        ("We meet this Friday.", "2026-03-13"),
        ("We meet next Tuesday.", "2026-03-17"),
        # Said on a Tuesday, this may be the 13th or the 20th.
        ("We meet next Friday.", None),
        ("We met last Monday.", None),
        ("It may be 3/4/2026.", None),
        ("We meet on Friday.", None),
        ("My birthday is 21 November.", None),
        ("It was a month ago.", None),
        ("In March 2019 it was cold.", None),
        ("It was on Monday, 14 May 2026.", None),
    ],
)
def test_a_date_means_one_day_or_none(text: str, day: str | None) -> None:
    (mention,) = _mentions(text)
    assert mention.kind is MentionKind.DATE
    assert (mention.day.isoformat() if mention.day else None) == day
    assert mention.entity == day


@each_row("text", ["31 February 2026", "2026-13-01", "it may 5", "99.99.2026", "chapter 3 of 4", "1/2"])
def test_what_only_looks_like_a_date_is_none(text: str) -> None:
    assert _mentions(text) == []


def test_without_a_time_relative_dates_mean_no_day() -> None:
    (mention,) = extract_turn(TurnText((MessageText("user", "it was yesterday"),))).mentions
    assert mention.day is None
    assert mention.entity is None


@each_row("text", ["next \u017funday", "la\u017ft monday", "next fr\u0131day", "5 day\u017f ago"])
def test_a_date_whose_letters_are_equal_only_without_case_is_read(text: str) -> None:
    assert [mention.kind for mention in _mentions(text)] == [MentionKind.DATE]
