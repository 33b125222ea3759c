"""A message of which a fact was forgotten: whether a question is about that fact."""

import pytest

from store.recall.supersession import asks_for_withdrawn

BOTH = "I live in Ghent and my cats are called Mia and Tom. I work at Nordwind."


@pytest.mark.parametrize(
    "text, withdrawn, question, asks",
    [
        ("I live in Ghent.", "Ghent", "Where do I live?", True),
        ("I live in Ghent.", "Ghent", "What is the weather?", True),
        ("My dentist is Dr. Nys.", "Dr. Nys", "Who is my dentist?", True),
        ("My dentist is Dr. Nys. The winch is at pier 4.", "Dr. Nys", "Where is the winch?", False),
        (BOTH, "Ghent", "Where do I live?", True),
        (BOTH, "Ghent", "What are my cats called?", False),
        (BOTH, "Ghent", "Where do I work?", False),
        (BOTH, "Ghent\nNordwind", "Where do I work?", True),
        ("I live   in\nCape  Town, and I like tea", "Cape Town", "What do I like?", False),
        ("I live in St. Ives", "an island", "Where do I live?", True),
    ],
)
def test_a_question_is_about_the_clause_of_a_forgotten_fact_or_about_another(
    text: str,
    withdrawn: str,
    question: str,
    asks: bool,  # noqa: FBT001
) -> None:
    assert asks_for_withdrawn(text, withdrawn, question) is asks
