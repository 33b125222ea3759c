"""Frames the summary of a session for a turn: our own lines, as untrusted data in a message of the user's role. Pure.

A summary tells of the messages before those that are shown. It is framed as what is recalled is, so that it is taken
out where it comes back, and is never kept as something that was said.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from afterturn_client.reference import FrameForm, Printer, escape_line, frame_json, frame_lines

from embeddings.protocol import TokenCounter
from producers.turns.items import Item
from store.memory.session_history import KeptMessage
from store.memory.session_summaries import SessionSummary
from store.text.session_digest import DigestEntry, DigestKind, digest_messages, merge_entries, weigh_entry

#: The most tokens of a summary, and its share of what a turn's budget leaves for the history.
MOST_TOKENS, SHARE = 1_200, 3
#: Messages whose digest is made while a turn is prepared: those behind the last summary that are not shown.
MOST_MESSAGES = 128
#: Tokens of a line beside its text: its number, its kind, its turn.
_LINE_TOKENS, _FRAME_TOKENS = 8, 60
HEADING = "facts: from earlier in this conversation, in the words of those who spoke"
_TOLD = {
    DigestKind.DECIDED: "decided",
    DigestKind.ASKED: "asked",
    DigestKind.STATED: "stated",
    DigestKind.NAMED: "named",
    DigestKind.OPEN: "left open",
    DigestKind.SAID: "summary",
}
_RANK = {kind: rank for rank, kind in enumerate((DigestKind.SAID, *DigestKind))}


@dataclass(frozen=True, slots=True)
class EarlierMessages:
    """What a session holds before the messages that a turn is shown: a stored summary, and messages in none yet."""

    summary: SessionSummary | None = None
    unshown: Sequence[KeptMessage] = field(default=(), repr=False)

    def digest(self) -> list[DigestEntry]:
        """Return the entries of all that is not shown."""
        first = 0 if self.summary is None or not self.summary.made else self.summary.first_seq
        stored = () if self.summary is None else self.summary.entries
        newer = digest_messages(one.said for one in self.unshown[-MOST_MESSAGES:] if one.seq >= first)
        if not stored:
            return newer
        said = [one for one in stored if one.kind is DigestKind.SAID]
        return [*said, *merge_entries([*(one for one in stored if one.kind is not DigestKind.SAID), *newer])]


def choose_entries(entries: Sequence[DigestEntry], most: int, counter: TokenCounter) -> list[DigestEntry]:
    """Return the entries that have room within `most` tokens: of each kind in turn the one worth most."""
    waiting = defaultdict[DigestKind, list[DigestEntry]](list)
    for entry in sorted(entries, key=weigh_entry):
        waiting[entry.kind].append(entry)
    chosen, room = list[DigestEntry](), min(most, MOST_TOKENS) - _FRAME_TOKENS
    while waiting and room > 0:
        for kind in sorted(waiting, key=_RANK.__getitem__):
            entry = waiting[kind].pop()
            size = sum(counter.count_tokens([entry.text, entry.turn])) + _LINE_TOKENS
            if size <= room:
                chosen.append(entry)
                room -= size
            if not waiting[kind]:
                del waiting[kind]
    return sorted(chosen, key=lambda one: (one.seq, _RANK[one.kind]))


def frame_summary(entries: Sequence[DigestEntry], form: FrameForm) -> list[Item]:
    """Return the summary as one item; none without entries."""
    if not entries:
        return []
    if form == "json":
        earlier = [{"kind": _TOLD[one.kind], "text": one.text, "turn": one.turn} for one in entries]
        text = frame_json({"facts": [], "insights": [], "chunks": [], "earlier": earlier})
    else:
        lines = [_print_entry(number, one) for number, one in enumerate(entries, 1)]
        text = frame_lines([HEADING, *lines], Printer())
    return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]


def _print_entry(number: int, entry: DigestEntry) -> str:
    where = f" (turn {escape_line(entry.turn)})" if entry.turn else ""
    return f"[{number}] {_TOLD[entry.kind]}: {escape_line(entry.text)}{where}"
