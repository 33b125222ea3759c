"""The extraction stage: reads the turns of a session, applies the rules, writes what follows from them once."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from store import derivation, postings
from store.database import Database
from store.events.envelope import Origin
from store.events.log import append_events
from store.ledger import Claim, LedgerRow, Outcome, Stage, close, open_follow_up
from store.readings import FollowUp, open_follow_ups
from store.turn_units import TurnMessage, messages
from workers.extraction import MessageText, TurnText, extract
from workers.extraction.events import Derived, derive, follow_up_id, reading_id
from workers.runner import Shape, Worked


@dataclass(frozen=True, slots=True)
class ExtractionStage:
    """Turns become entities, mentions and facts; their projection may begin, and facts are to be embedded."""

    database: Database
    #: The version of a model that reads the turns next, if one does.
    then: str | None = None
    stage: ClassVar[Stage] = Stage.EXTRACTION
    shape: ClassVar[Shape] = Shape(streams=8, rows=16)

    async def work(self, claims: Sequence[Claim]) -> Worked:
        """Extract the first turns of a session; all of them are written in one transaction."""
        claim = claims[0]
        bank = claim.rows[0].bank_id
        turns = await messages(self.database, claim.host_id, [(bank, row.turn_id) for row in claim.rows])
        derived = await asyncio.to_thread(_derive, claim, turns)
        outcomes = [Outcome(row.item_id) for row in claim.rows]
        await self._write(claim, bank, derived, outcomes)
        facts = any(one.facts for one in derived)
        rings = {Stage.PROJECTION}
        rings |= {Stage.EMBEDDING} if facts else set()
        rings |= {Stage.ENRICHMENT} if self.then is not None else set()
        return Worked(outcomes, frozenset(rings))

    async def _write(self, claim: Claim, bank: UUID, derived: Sequence[Derived], outcomes: Sequence[Outcome]) -> None:
        host = claim.host_id
        entities = {subject: event for one in derived for subject, event in one.entities.items()}
        named = [entities[subject] for subject in sorted(entities)]
        events = [event for one in derived for event in one.events]
        with_facts = {one.turn_id for one in derived if one.facts}
        async with self.database.tenant(host) as connection:
            if named or events:
                await derivation.lock(connection, bank)
                named = await derivation.begun_again(connection, host, bank, named)
                await append_events(connection, host, [*named, *events], if_absent=True)
            if with_facts:
                await postings.insert(connection, host, bank, [words for one in derived for words in one.words])
                first = await derivation.first_facts(connection, host, bank, list(with_facts))
                for row in claim.rows:
                    if row.turn_id in first:
                        await open_follow_up(
                            connection,
                            claim,
                            row,
                            stage=Stage.EMBEDDING,
                            item=follow_up_id(row.turn_id),
                            position=first[row.turn_id],
                        )
            if self.then is not None:
                await open_follow_ups(connection, host, [_reading(row, self.then) for row in claim.rows])
            await close(connection, claim, outcomes)


def _reading(row: LedgerRow, version: str) -> FollowUp:
    """Return the row that has a turn read by a version of another extractor, when the rules are through with it."""
    item = reading_id(row.turn_id, version)
    return FollowUp(
        Stage.ENRICHMENT, item, item, row.bank_id, row.session_id, row.turn_id, row.position, row.accepted_at
    )


def _derive(claim: Claim, turns: Mapping[UUID, Sequence[TurnMessage]]) -> list[Derived]:
    """Apply the rules to every turn that still has messages."""
    return [_derive_one(claim, row, turns[row.turn_id]) for row in claim.rows if turns[row.turn_id]]


def _derive_one(claim: Claim, row: LedgerRow, turn: Sequence[TurnMessage]) -> Derived:
    said = tuple(MessageText(message.role, message.content, message.name) for message in turn)
    found = extract(TurnText(said, turn[0].event_date))
    origin = Origin(claim.host_id, row.bank_id, turn[0].user_id, row.accepted_at)
    return derive(origin, turn, found)
