"""Writes a further extraction of a turn: new facts, the record of the reading, follow-up work."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived import locks, postings, readings
from store.derived.readings import FollowUp
from store.derived.said_facts import fact_unit_id
from store.ledger.ledger import Claim, LedgerRow
from store.ledger.stages import Stage
from store.log.append import append_events
from store.log.envelope import Origin
from store.memory.turn_messages import TurnMessage
from store.retention import TierRetention
from store.tenancy import languages
from store.text.rules.model import Extraction
from workers.extraction.deletions import Deletions, build_proposals, match_deletions
from workers.extraction.events import ExtractedEvents, derive_events, follow_up_id
from workers.extraction.llm.answer import select_new
from workers.extraction.reextraction import build_follow_ups, find_corrected_unit, resume_ended

_NO_DELETIONS = Deletions()


@dataclass(frozen=True, slots=True)
class WrittenReading:
    """What a reading wrote: the stages to notify, and how many facts are proposed to be deleted, and were ended."""

    ready_stages: frozenset[Stage] = frozenset()
    proposed: int = 0
    applied: int = 0


async def write_reading(
    connection: AsyncConnection,
    claim: Claim,
    row: LedgerRow,
    turn: Sequence[TurnMessage],
    *,
    version: str,
    found: Extraction,
    retention: TierRetention,
    deletions: Deletions = _NO_DELETIONS,
) -> WrittenReading:
    """Write what a version found in a turn, once, in the transaction that closes the row.

    `retention`: how long passing facts of the bank hold; `deletions`: what a model says is to be deleted. Facts that an
    earlier version found in the turn are not repeated. A second call for the same text writes nothing, even with other
    findings; a corrected text counts as another text.
    """
    host, bank = claim.host_id, row.bank_id
    again = find_corrected_unit(row, turn, version)
    await locks.lock_bank(connection, bank)
    if (
        not await readings.record_reading(connection, host, bank, row.turn_id, reading_name(row, version, again))
        or not turn
    ):
        return WrittenReading()
    # No other version brings back a fact that has ended; but a corrected text may state again what it stated before.
    known = await readings.read_known_facts(connection, host, bank, row.turn_id, ended=again is None)
    matched = await match_deletions(connection, host, row, turn, deletions.denials)
    denials = tuple(one.denial for one in matched) if deletions.applied else ()
    found = select_new(replace(found, facts=(*found.facts, *denials)), known)
    rules = languages.rules_for_writing(await languages.read_languages(connection, host), bank)
    origin = Origin(host, bank, turn[0].user_id, row.accepted_at)
    derived = derive_events(origin, turn, found, version, rules=rules, retention=retention)
    entities = await locks.build_beginnings(
        connection, host, bank, [derived.entities[subject] for subject in sorted(derived.entities)]
    )
    proposals = build_proposals(origin, turn, matched)
    events = [*derived.events, *proposals]
    events = await resume_ended(connection, host, bank, events, () if again is None else (again,))
    position = await append_events(connection, host, [*entities, *events], if_absent=True)
    if position is None:
        return WrittenReading()
    await postings.insert_postings(connection, host, bank, derived.words)
    units = [fact_unit_id(row.turn_id, fact, version) for fact in found.facts]
    first = await readings.find_first_position(connection, host, bank, units) or position
    wanted = _follow_ups(row, derived, version, first) if again is None else build_follow_ups(row)
    await readings.open_follow_ups(connection, host, wanted)
    applied = sum(one in found.facts for one in denials)
    return WrittenReading(frozenset(one.stage for one in wanted), len(proposals) - applied, applied)


def reading_name(row: LedgerRow, version: str, again: UUID | None) -> str:
    """Return the name of a version's reading of a turn, or of a corrected message of it."""
    return version if again is None else f"{version}@{row.position}"


def _follow_ups(row: LedgerRow, derived: ExtractedEvents, version: str, position: int) -> list[FollowUp]:
    """Return the rows by which the findings are counted and, where there are facts, embedded."""
    item = follow_up_id(row.turn_id, version)
    streams = {Stage.PROJECTION: row.bank_id, **({Stage.EMBEDDING: item} if derived.facts else {})}
    return [
        FollowUp(stage, item, stream, row.bank_id, row.session_id, row.turn_id, position, row.accepted_at)
        for stage, stream in streams.items()
    ]
