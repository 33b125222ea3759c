"""The digest of messages that were read before."""

import pytest

from store.text import session_digest
from store.text.known_texts import KnownTexts
from store.text.session_digest import SaidMessage, digest_messages


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
