"""A bare correction is one that says so and names two values; an opinion, an order and a question are none."""

from store.text.rules.corrections import correct_fact, find_corrections
from store.text.rules.model import MessageText
from tests.tables import each_row


def find(text: str, role: str = "user") -> list[tuple[str, str]]:
    return [(one.wrong, one.right) for one in find_corrections(MessageText(role, text), 0)]


@each_row(
    "text",
    [
        "Correction: not Bonn, Cologne.",
        "Not Bonn, I meant Cologne.",
        "Sorry, Cologne, not Bonn.",
        "I meant Cologne, not Bonn.",
        "Not Bonn but Cologne.",
        "Sorry, not Bonn - Cologne!",
        "It\u2019s late. Oops: Cologne, not Bonn",
        "No, not Bonn, Cologne.",
        "Hello. Sorry, Cologne, not Bonn. Bye.",
    ],
)
def test_a_correction_names_the_wrong_value_and_the_right_one(text: str) -> None:
    assert find(text) == [("Bonn", "Cologne")]


@each_row(
    "text",
    [
        "Not bad, thanks.",
        "Tea, not coffee.",
        "Is it Cologne, not Bonn?",
        "Sorry, I am not sure.",
        "Sorry, not today, maybe tomorrow.",
        "Not only Bonn but Cologne.",
        "Sorry, not now, later.",
        'She wrote "Not Bonn, I meant Cologne."',
        "> Sorry, Cologne, not Bonn.",
        "",
    ],
)
def test_what_is_none(text: str) -> None:
    assert find(text) == []


def test_an_agent_corrects_nothing() -> None:
    assert find("Correction: not Bonn, Cologne.", role="assistant") == []


def test_the_right_value_is_of_the_kind_of_the_fact() -> None:
    [day, _] = find_corrections(MessageText("user", "Sorry, not 4 May, 5 May. No, not Bonn, Cologne."), 0)
    [place] = find_corrections(MessageText("user", "Sorry, not Bonn, Cologne."), 0)
    born = correct_fact(day, "user_birthday", "birthday", "Kim")
    home = correct_fact(place, "user_home", "home", None)
    assert born is not None
    assert home is not None
    assert (born.value, born.statement) == ("5 May", "Kim's birthday is 5 May.")
    assert (home.value, home.statement) == ("Cologne", "The user lives in Cologne.")
    assert correct_fact(place, "user_birthday", "birthday", "Kim") is None
    assert correct_fact(place, "user_like", "bonn", "Kim") is None
