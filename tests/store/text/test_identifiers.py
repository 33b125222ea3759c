"""What is an identifier in a question, and how much of it a text holds."""

from hypothesis import given
from hypothesis import strategies as st

from store.text.identifiers import LONGEST, MOST, Held, SearchedText, find_identifiers
from tests.tables import each_row


def _find(question: str) -> list[str]:
    return [one.text for one in find_identifiers(question)]


def _held(question: str, text: str) -> Held:
    [identifier] = find_identifiers(question)
    where = SearchedText(text.casefold())
    return identifier.find(where) or (Held.NEAR if identifier.is_near(where) else Held.NOTHING)


@each_row(
    "question, found",
    [
        ("What is E4041?", ["e4041"]),
        ("(PROJ-1187), please", ["proj-1187"]),
        ("Is v2024.10.2 out?", ["2024.10.2"]),
        ("What does --dry-run do with config.prod.yaml?", ["--dry-run", "config.prod.yaml"]),
        ("getUserName or user_name", ["getusername", "user_name"]),
        ("Call +49 171 2004455 or 555-0199", ["491712004455", "555-0199"]),
        ("order #20177", ["20177"]),
        ("Wer sitzt in Zimmer 12?", ["12"]),
        ("in /etc/hosts on 2024-10-02", ["/etc/hosts", "2024-10-02"]),
        ("E4041/E4042", ["e4041", "e4042"]),
        ("版本3.12.1吗", ["3.12.1"]),
        ("our well-being", ["well-being"]),
        ("Was INV-2023 paid, and 12-ABC?", ["inv-2023", "12-abc"]),
    ],
)
def test_what_is_an_identifier(question: str, found: list[str]) -> None:
    assert _find(question) == found


@each_row(
    "question",
    [
        "Where did Ann go on 12 July 2023?",
        "Who came 3rd at 9:30pm in the 1990s?",
        "How did she run 10km in 45 minutes?",
        "Does he speak and/or write? It was great.It was.",
        "What did the 2-year-old eat, and what did I buy 12 of?",
        "What happened in 2022-2023?",
        "The U.S. team, e.g. Ann's",
        "",
    ],
)
def test_times_counts_and_words_are_no_identifiers(question: str) -> None:
    assert _find(question) == []


@each_row(
    "question, text, held",
    [
        ("E4041", "Then E4041, again.", Held.WHOLE),
        ("E4041", "E404 again", Held.NEAR),
        ("E404", "E4041 again", Held.NEAR),
        ("E404", "E7 again", Held.NEAR),
        ("E404", "nothing of it in 2024", Held.NOTHING),
        ("PROJ-1187", "see proj-1187-fix", Held.PART),
        ("PROJ-1187", "PROJ-1187's owner", Held.WHOLE),
        ("PROJ-1187", "the proj board", Held.NEAR),
        ("2024.10", "v2024.10", Held.WHOLE),
        ("2024.10", "2024.10.2", Held.PART),
        ("2024.10.2", "2024.10", Held.NEAR),
        ("1.10.2", "3.1", Held.NEAR),
        ("commit 3fa9c1d", "3fa9c1d8e0b2a4", Held.PART),
        ("commit 3fa9c1d8e0b2a4", "3fa9c1d", Held.PART),
        ("commit 3fa9c1d", "3fa9c1e", Held.NEAR),
        ("commit 3fa9c1d", "defaced the facade", Held.NOTHING),
        ("030 5550143", "030/555 01 43", Held.WHOLE),
        ("+49 30 5550143", "030 5550143", Held.PART),
        ("030 5550143", "030 5550134", Held.NEAR),
        ("order 88412", "Orders 17 and 18", Held.NEAR),
        ("order 88412", "in 2023 and 2024", Held.NOTHING),
        ("user_group_id", "the user is new", Held.NEAR),
        ("on_the_fly", "the end", Held.NOTHING),
        ("--force", "--force-all", Held.PART),
        ("well-being", "being well", Held.NOTHING),
        ("/etc/hosts", "root/etc/hosts", Held.PART),
    ],
)
def test_how_much_of_an_identifier_a_text_holds(question: str, text: str, held: Held) -> None:
    assert _held(question, text) is held


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_question_and_text_are_compared(question: str, text: str) -> None:
    found = find_identifiers(question)
    assert len(found) <= MOST
    assert all(0 < len(one.text) <= 2 * LONGEST for one in found)
    for one in found:
        assert one.is_near(SearchedText(text.casefold())) in {True, False}
        assert one.find(SearchedText(text.casefold())) is not Held.NEAR


@given(st.from_regex(r"[A-Z]{2,4}-[1-9][0-9]{2,4}", fullmatch=True), st.text(alphabet="ab ,.()\n", max_size=20))
def test_an_identifier_between_other_words_is_whole(identifier: str, around: str) -> None:
    assert _held(identifier, f"{around} {identifier} {around}") is Held.WHOLE
