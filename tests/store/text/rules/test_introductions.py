"""Names by which speakers introduce themselves, and sentences that only look like it."""

from collections.abc import Callable
from pathlib import Path

from store.text.rules import MessageText, TurnText, extract_turn
from store.text.rules.called_names import find_own_names
from store.text.rules.facts import find_facts
from store.text.rules.introductions import find_introductions
from tests.figures import FIGURE
from tests.growth import grows_with_its_text
from tests.tables import each_row

#: One sentence a line and the names in it, separated by ";": English, German, French, Spanish, Italian, some others.
SENTENCES = Path(__file__).with_name("introductions.tsv")
LEAST, PRECISION, RECALL = 190, 0.98, 0.9


def read_labels() -> list[tuple[str, set[str]]]:
    rows = (line.partition("\t") for line in SENTENCES.read_text(encoding="utf-8").splitlines())
    return [(said.replace("\\n", "\n"), set(filter(None, wanted.split(";")))) for said, _, wanted in rows]


def introduced(text: str) -> set[str]:
    return {text[one.start : one.end] for one in find_introductions(text)}


def test_introductions_are_found_and_look_alikes_are_not(record_property: Callable[[str, object], None]) -> None:
    rows = read_labels()
    assert min(sum(1 for _, names in rows if bool(names) is some) for some in (True, False)) >= LEAST
    found = [(names, introduced(said)) for said, names in rows]
    right = sum(len(names & ours) for names, ours in found)
    precision = right / sum(len(ours) for _, ours in found)
    recall = right / sum(len(names) for names, _ in found)
    record_property(FIGURE, f"introductions: precision {precision:.3f}, recall {recall:.3f} on {len(rows)} sentences")
    assert precision >= PRECISION
    assert recall >= RECALL


def test_an_introduction_is_a_fact_and_a_name_to_be_found_by() -> None:
    [fact] = find_facts(MessageText("user", "Hallo, ich heisse Petra."), 0)
    assert (fact.fact_id, fact.value, fact.statement) == ("user_name", "Petra", "The user's name is Petra.")
    assert find_own_names("Hallo, ich heisse Petra.") == ["petra"]


@each_row("text", ["Um 17 Uhr Klavier üben.", "17 Uhr Klavier", "Termin: Zahnarzt Dienstag", "Am Abend Kino."])
def test_a_german_noun_is_no_name(text: str) -> None:
    assert extract_turn(TurnText((MessageText("user", text),))).mentions == ()


def test_a_german_text_has_the_names_that_are_known() -> None:
    text = "Ich habe Petra Müller in Bonn getroffen, Herr Vogel war auch da."
    found = extract_turn(TurnText((MessageText("user", text),))).mentions
    assert [one.surface for one in found] == ["Petra Müller", "Bonn", "Herr Vogel"]


@each_row("piece", ["I'm Kate ", "call me ", "Kate here ", "hi, i am ", "A. ", "van "])
def test_reading_takes_time_in_proportion_to_the_text(piece: str) -> None:
    assert grows_with_its_text(find_introductions, piece)
