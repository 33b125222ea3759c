"""Reads realistic conversations with agents: statements among questions, echoes, orders and tool output.

Each conversation has four days. First the user states facts that will be outdated; then they ask for facts that the
agent does not know yet; then they state them; then they ask again, in the words of the question that is scored. The
agent echoes every question. One message is the evidence: the last statement. The first file is for tuning, the second
for checking rules, the third is scored only when nothing changes any more (`UNTOUCHED_SHA256`).
"""

import tomllib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from deploy.lab.bench.quality.material import Dialogue, DialogueMessage, DialogueQuestion

TUNING, CHECKING, UNTOUCHED = (
    Path(__file__).parent / f"agents_{part}.toml" for part in ("tuning", "checking", "untouched")
)
#: Digest of the file on which nothing was tuned, as it was before it was scored.
UNTOUCHED_SHA256 = "ce91b904942982ba97836918f03c12ef9468f3bd86b719c334b24c0df0291d57"

BEGIN, DAYS, STEP = datetime(2026, 1, 5, 9, tzinfo=UTC), 7, timedelta(seconds=40)
HEARD = ("Thanks, I will keep that in mind.", "Noted.", "Good to know, thank you.", "All right, I have that.")
ECHOES = (
    "You want to know: {} I have nothing on that yet.",
    "{} That is something you have not told me so far.",
    "Let me see. {} I could not find it, sorry.",
)
Said = tuple[str, str]


def read_agents(path: Path) -> Iterator[Dialogue]:
    """Yield the conversations of one of our files."""
    for talk in tomllib.loads(path.read_text(encoding="utf-8"))["talks"]:
        yield _make_talk(talk)


def _make_talk(talk: Any) -> Dialogue:
    facts: Sequence[Sequence[str]] = talk["facts"]
    days = (
        [(old[0], _pick_choice(HEARD, nth)) for nth, (_, _, _, *old) in enumerate(facts) if old],
        [(one[2], _pick_choice(ECHOES, nth).format(one[2])) for nth, one in enumerate(facts)],
        [(one[1], _pick_choice(HEARD, nth)) for nth, one in enumerate(facts)],
        [(one[0], _pick_choice(ECHOES, nth + 1).format(one[0])) for nth, one in enumerate(facts)],
    )
    said = [message for day, pairs in enumerate(days) for message in _make_day(talk, day, pairs)]
    outdated = [nth for nth, (_, _, _, *old) in enumerate(facts) if old]
    stale = {nth: frozenset({_name_message(0, place, "user")}) for place, nth in enumerate(outdated)}
    asked = [
        DialogueQuestion(one[0], "agent", frozenset({_name_message(2, nth, "user")}), stale.get(nth, frozenset()))
        for nth, one in enumerate(facts)
    ]
    return Dialogue(f"agent {talk['agent']}", said, asked)


def _make_day(talk: Any, day: int, pairs: Sequence[Said]) -> Iterator[DialogueMessage]:
    at = BEGIN + timedelta(days=DAYS * day)
    session = f"day-{day}"
    yield DialogueMessage(f"{session}-order", session, "user", None, talk["order"], at)
    yield DialogueMessage(f"{session}-tool", session, "tool", None, talk["tool"], at + STEP)
    for nth, (user, assistant) in enumerate(pairs):
        for place, (role, words) in enumerate((("user", user), ("assistant", assistant))):
            moment = at + (2 + 2 * nth + place) * STEP
            yield DialogueMessage(_name_message(day, nth, role), session, role, None, words, moment)


def _name_message(day: int, nth: int, role: str) -> str:
    return f"day-{day}-{nth}-{role}"


def _pick_choice(choices: Sequence[str], nth: int) -> str:
    return choices[nth % len(choices)]
