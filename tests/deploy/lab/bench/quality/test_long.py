"""Long messages made of short ones: nothing is lost, and evidence moves along."""

from datetime import UTC, datetime

from deploy.lab.bench.quality.material import Dialogue, DialogueMessage, DialogueQuestion, join_messages
from tests.tables import each_row

SAID = [
    DialogueMessage(
        f"m{n}",
        "a" if n < 5 else "b",
        "user",
        ("Marta", None)[n % 2],
        f"text {n}",
        datetime(2023, 5, n + 1, tzinfo=UTC),
    )
    for n in range(8)
]
DIALOGUE = Dialogue("talk", SAID, [DialogueQuestion("Which?", "any", frozenset({"m1", "m2", "m7"}))])


def test_messages_of_a_session_are_joined_and_sessions_are_not() -> None:
    found = join_messages(DIALOGUE, 2)
    assert [(one.id, one.session) for one in found.said] == [
        ("m0", "a"),
        ("m2", "a"),
        ("m4", "a"),
        ("m5", "b"),
        ("m7", "b"),
    ]
    assert found.said[0].text == "Marta: text 0\nuser: text 1"
    assert found.said[0].at == SAID[0].at


def test_evidence_is_the_message_that_holds_it() -> None:
    assert join_messages(DIALOGUE, 2).asked[0].evidence == {"m0", "m2", "m7"}


@each_row("turns", [1, 2, 3, 100])
def test_every_text_is_told_once(turns: int) -> None:
    told = "\n".join(one.text for one in join_messages(DIALOGUE, turns).said)
    assert [told.count(one.text) for one in SAID] == [1] * len(SAID)
