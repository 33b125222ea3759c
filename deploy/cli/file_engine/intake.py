"""Imports folders of the file engine: the turns of each session, then the facts that no imported turn says."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from afterturn_client import Afterturn, AfterturnError, UnauthenticatedError

from deploy.cli.file_engine.facts import EngineFact, read_facts
from deploy.cli.file_engine.layout import SessionFolder
from deploy.cli.file_engine.records import BadRecord, Place
from deploy.cli.file_engine.turns import EngineTurn, read_turns
from deploy.cli.turn_sender import TurnSender, call_with_retry, retry_after_s
from deploy.ingest_formats.parsed import Parsed, ParsedTurn, check_turn


@dataclass
class FactCounts:
    """Facts that held in the engine: each is exactly one of those below, or a bad record."""

    from_turns: int = 0
    ended: int = 0
    kept: int = 0
    known: int = 0


@dataclass
class ImportCounts:
    """What was read, and what became of it; `repeated` events are in several files, `own` ones tell no items."""

    sessions: int = 0
    events: int = 0
    repeated: int = 0
    own: int = 0
    turns: int = 0
    facts: FactCounts = field(default_factory=FactCounts)
    bad: list[BadRecord] = field(default_factory=list)


@dataclass
class FolderImport:
    """Reads sessions and sends what they hold; without a client it only reads. `report` is called with each bad record.

    Everything is sent under the names that it has in the files, so a second run changes nothing, and one that was
    interrupted goes on.
    """

    client: Afterturn | None
    bank: str
    report: Callable[[BadRecord], None]
    waiting: Callable[[str], None]
    patience_s: float
    counts: ImportCounts = field(default_factory=ImportCounts)
    _places: list[Place] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Prepare to send turns: their line is the number of their place."""
        self.sender = self.client and TurnSender(
            self.client, self._report_turn, self.waiting, lambda _: None, self.patience_s
        )

    def run(self, sessions: Sequence[SessionFolder], advance: Callable[[int, int], None]) -> None:
        """Import these sessions. Raises ServiceUnresponsive."""
        for number, session in enumerate(sessions, 1):
            self._import_session(session)
            self.counts.sessions = number
            advance(number, len(sessions))

    def _import_session(self, session: SessionFolder) -> None:
        found = read_turns(session, self.bank)
        self.counts.events += found.events
        self.counts.repeated += found.repeated
        self.counts.own += found.own
        self.counts.turns += len(found.turns)
        facts = read_facts(session)
        for one in (*found.bad, *facts.bad):
            self._note_bad(one)
        turns = list(self._check(found.turns))
        if self.sender:
            self.sender.feed(turns)
        said = {one.turn.turn_id for one in turns}
        for fact in facts.facts:
            self._import_fact(fact, session.name, said)

    def _check(self, turns: Sequence[EngineTurn]) -> Iterator[ParsedTurn]:
        """Yield the turns that can be sent, and note the others."""
        for one in turns:
            self._places.append(one.place)
            checked: Parsed = check_turn(one.turn, len(self._places) - 1, 0)
            if isinstance(checked, ParsedTurn):
                yield checked
            else:
                self._note_bad(BadRecord(one.place, checked.error))

    def _import_fact(self, fact: EngineFact, session: str, said: set[str]) -> None:
        counts = self.counts.facts
        if fact.turn in said:
            counts.from_turns += 1
        elif fact.has_ended(datetime.now(UTC)):
            counts.ended += 1
        elif self.client is None:
            counts.kept += 1
        else:
            self._keep_fact(self.client, fact, session)

    def _keep_fact(self, client: Afterturn, fact: EngineFact, session: str) -> None:
        """Keep a fact as a single memory."""
        try:
            receipt = call_with_retry(
                lambda: client.keep_memory(fact.tell(), **fact.describe(session)), retry_after_s, self.patience_s
            )
        except UnauthenticatedError:
            raise
        except AfterturnError as error:
            self._note_bad(BadRecord(fact.place, str(error)))
            return
        self.counts.facts.kept += receipt.changed
        self.counts.facts.known += not receipt.changed

    def _report_turn(self, line: int, error: str) -> None:
        """Note a turn that the service refused; one that it holds already with another request is only counted."""
        if self.sender and any(bad.line == line for bad in self.sender.tally.bad_lines[-1:]):
            self._note_bad(BadRecord(self._places[line], error))

    def _note_bad(self, bad: BadRecord) -> None:
        self.counts.bad.append(bad)
        self.report(bad)

    def as_json(self, relative: Callable[[Place], str]) -> dict[str, Any]:
        """Return the counts as JSON; `relative` names the file of a place."""
        tally, counts = self.sender and self.sender.tally, self.counts
        sent = (
            {name: getattr(tally, name) for name in ("accepted", "duplicates", "conflicts", "erased")} if tally else {}
        )
        return {
            "sessions": counts.sessions,
            "events": counts.events,
            "repeated_events": counts.repeated,
            "own_events": counts.own,
            "turns": {"read": counts.turns, **sent},
            "facts": vars(counts.facts),
            "bad": [{"file": relative(one.place), "line": one.place.line, "reason": one.reason} for one in counts.bad],
            **({"position": tally.position} if tally else {}),
        }
