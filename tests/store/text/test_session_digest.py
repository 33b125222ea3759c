"""The digest of messages that were read before."""

import pytest

from store.text import session_digest
from store.text.known_texts import KnownTexts
from store.text.session_digest import SaidMessage, digest_messages
from tests.tables import each_row


def test_a_message_is_read_once_until_its_text_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[tuple[str, str]]()
    find = session_digest._find_sentences

    def count_reads(role: str, text: str) -> object:
        read.append((role, text))
        return find(role, text)

    monkeypatch.setattr(session_digest, "_SENTENCES", KnownTexts[object](8))
    monkeypatch.setattr(session_digest, "_find_sentences", count_reads)
    said = "We decided to fly.\n - TODO: book\u2003the hotel!"
    asked = SaidMessage(0, 1, "t", "user", said)
    first = digest_messages([asked])
    assert [(one.kind, one.text, one.turn, one.seq, one.version) for one in first] == [
        ("decided", "We decided to fly.", "t", 0, 1),
        ("open", "TODO: book the hotel!", "t", 0, 1),
    ]
    assert digest_messages([asked]) == first
    again = digest_messages([SaidMessage(7, 2, "u", "user", said)])
    assert [(one.text, one.turn, one.seq, one.version) for one in again] == [
        ("We decided to fly.", "u", 7, 2),
        ("TODO: book the hotel!", "u", 7, 2),
    ]
    assert read == [("user", said)]
    assert digest_messages([SaidMessage(0, 1, "t", "tool", said)]) == []
    assert digest_messages([SaidMessage(0, 2, "t", "user", "We decided to stay.")])[0].text == "We decided to stay."
    assert len(read) == 3


@each_row(
    "role, said, entries",
    [
        ("user", "My birthday is on 4. Februar. We meet.", ["stated My birthday is on 4. Februar."]),
        ("user", "Ich bin am 3. Mai in Ulm.", ["stated Ich bin am 3. Mai in Ulm."]),
        ("user", "My doctor is Dr. Meyer. She is kind.", ["stated My doctor is Dr. Meyer.", "stated She is kind."]),
        ("user", 'A mail: "I am Sven. I live in Bonn."', ['stated A mail: "I am Sven. I live in Bonn."']),
        ("user", "> I moved to Lisbon.\nIs it on topic?", ["asked Is it on topic?"]),
        ("user", "Update: we moved to Ulm.", ["stated Update: we moved to Ulm."]),
        ("user", "Update the plan for Ulm.", ["asked Update the plan for Ulm."]),
        ("user", 'The file "auth.py" is broken.', ['stated The file "auth.py" is broken.']),
        ("user", '"auth.py" is broken.', ['stated "auth.py" is broken.']),
        ("user", 'She said "wait. We live in Bonn.', ["stated We live in Bonn."]),
        ("user", "We paid 3.5 percent. Our rent is due.", ["stated Our rent is due.", "named We paid 3.5 percent."]),
        ("assistant", '"I\'m Marta, a guide in Bologna. I love pasta at Rosa."', []),
        ("assistant", "\u201eIch bin Seemann. Ich wohne in Kiel.\u201c", []),
        ("user", "Ich wohne in Ulm und bin Schreiner.", ["stated Ich wohne in Ulm und bin Schreiner."]),
    ],
)
def test_an_entry_is_a_whole_sentence_of_the_one_who_spoke(role: str, said: str, entries: list[str]) -> None:
    found = digest_messages([SaidMessage(0, 1, "t", role, said)])
    assert [f"{one.kind} {one.text}" for one in found] == entries
