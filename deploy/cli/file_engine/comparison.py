"""Compares the file engine's answers and files with this service's: ids, order and numbers, never content."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar, cast

from afterturn_client import Afterturn, AfterturnError, ListedTurn
from afterturn_client.contract.turns import PreparedTurn
from afterturn_client.lifecycle import BeforeTurnOptions
from afterturn_client.lists import Page

from deploy.cli.file_engine.facts import rank_facts, read_facts
from deploy.cli.file_engine.layout import SessionFolder
from deploy.cli.file_engine.records import BadRecord, Record
from deploy.cli.file_engine.turns import read_turns
from deploy.cli.turn_sender import call_with_retry, retry_after_s

T = TypeVar("T")
#: The engine's folders that hold files, by their name below a session's.
FOLDERS = ("meta", "events/raw", "events/archive", "events/compact", "runtime", "indexes", "insights", "memory_tiers")
#: Most facts of a prepared turn, of the engine and here by default.
MOST_FACTS = 20
#: What a call of memory_before_turn is compared by: the same arguments are sent to both.
_ARGUMENTS = ("user_id", "conversation_items", "current_input_start", "current_input_count", "max_input_tok")
_PAGE = 200
#: What a session's facts are asked for with: words that no fact holds.
_NO_WORDS = "?"


@dataclass(frozen=True, slots=True)
class ComparedIds:
    """Ids of both sides in their order, each once."""

    theirs: Sequence[str]
    ours: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        """Return the ids of each side, those of one side alone, and whether the common ones have one order."""
        common = [one for one in self.theirs if one in self.ours]
        return {
            "theirs": list(self.theirs),
            "ours": list(self.ours),
            "only_theirs": [one for one in self.theirs if one not in common],
            "only_ours": [one for one in self.ours if one not in common],
            "same_order": common == [one for one in self.ours if one in common],
        }


@dataclass
class Comparison:
    """What was compared: sessions, recorded turns, and the records that could not be."""

    sessions: list[dict[str, Any]] = field(default_factory=list)
    turns: list[dict[str, Any]] = field(default_factory=list)
    bad: list[BadRecord] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        """Whether no turn of a session is missing here, and each recorded turn has the same facts in the same order."""
        missing = any(one["missing_turns"] for one in self.sessions)
        facts = [one["facts"] for one in self.turns]
        return not missing and all(not one["only_theirs"] and one["same_order"] for one in facts)


@dataclass(frozen=True, slots=True)
class Comparer:
    """Asks the service what it makes of the same sessions and turns; it writes nothing there."""

    client: Afterturn
    bank: str
    patience_s: float

    def compare_session(self, session: SessionFolder) -> tuple[dict[str, Any], list[BadRecord]]:
        """Return a session's turns, items, facts and files beside those of this service, and its bad records."""
        found, facts = read_turns(session, self.bank), read_facts(session)
        ours = dict(self._list_turns(session.name))
        theirs = {one.turn.turn_id: len(one.turn.messages) for one in found.turns}
        now = datetime.now(UTC)
        held = [one for one in rank_facts(facts.facts, now) if not one.has_ended(now)]
        users = [one.turn.user_id for one in found.turns if one.turn.user_id]
        told = self._ask(
            session.name, {"current_input": [_say(_NO_WORDS)], **({"user_id": users[-1]} if users else {})}
        )
        ids = ComparedIds(_each_once(one.fact_id for one in held)[:MOST_FACTS], told.recall_fact_ids)
        compared = {
            "session_id": session.name,
            "turns": {"theirs": len(theirs), "ours": len(ours)},
            "items": {"theirs": sum(theirs.values()), "ours": sum(ours.values())},
            "missing_turns": [one for one in theirs if one not in ours],
            "facts": ids.as_json(),
            "files": {name: session.count_files(name) for name in FOLDERS},
        }
        return compared, [*found.bad, *facts.bad]

    def compare_turn(self, record: Record) -> dict[str, Any] | BadRecord:
        """Return the answer to a recorded call beside this service's to the same call."""
        call, answer = record.value, record.value.get("output")
        ids = answer.get("recall_fact_ids") if isinstance(answer, dict) else None
        tokens = answer.get("context_token_count") if isinstance(answer, dict) else None
        if not isinstance(call.get("session_id"), str) or not isinstance(call.get("turn_id"), str):
            return BadRecord(record.place, "a recorded turn without session_id and turn_id")
        if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
            return BadRecord(record.place, "a recorded turn whose output has no list of recall_fact_ids")
        if not isinstance(tokens, int):
            return BadRecord(record.place, "a recorded turn whose output has no context_token_count")
        given = {name: call[name] for name in (*_ARGUMENTS, "current_input") if call.get(name) is not None}
        try:
            ours = self._ask(call["session_id"], given, call["turn_id"], scope="project")
        except AfterturnError as error:
            if retry_after_s(error) is not None:
                raise
            return BadRecord(record.place, str(error))
        return {
            "session_id": call["session_id"],
            "turn_id": call["turn_id"],
            "facts": ComparedIds(_each_once(ids), ours.recall_fact_ids).as_json(),
            "tokens": {"theirs": tokens, "ours": ours.context_token_count},
        }

    def _ask(
        self, session: str, given: Mapping[str, Any], turn: str = "compare", scope: str = "session"
    ) -> PreparedTurn:
        options = {name: value for name, value in given.items() if name != "current_input"}
        asked = cast(BeforeTurnOptions, {"bank": self.bank, "scope": scope, **options})
        current = given.get("current_input") or ()
        return self._call(lambda: self.client.before_turn(session, turn, current, **asked))

    def _list_turns(self, session: str) -> Iterator[tuple[str, int]]:
        cursor = None
        while True:
            ask = partial(self.client.list_turns, session, cursor=cursor, limit=_PAGE, bank=self.bank)
            page: Page[ListedTurn] = self._call(ask)
            yield from ((one.turn_id, one.messages) for one in page.rows if one.turn_id is not None)
            cursor = page.cursor
            if cursor is None:
                return

    def _call(self, call: Callable[[], T]) -> T:
        return call_with_retry(call, retry_after_s, self.patience_s)


def _say(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def _each_once(ids: Any) -> list[str]:
    return list(dict.fromkeys(ids))
