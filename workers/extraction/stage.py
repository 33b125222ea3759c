"""The extraction stage: reads the turns of a session, applies the rules, writes their findings once."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import ClassVar
from uuid import UUID

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import NO_SYNC, Database
from store.derived import locks, postings
from store.derived.implied_facts import ImplyingMessages, SaidMessage
from store.derived.readings import FollowUp, open_follow_ups
from store.ledger.ledger import Claim, LedgerRow, Outcome, close_claims, lock_held_claims
from store.ledger.stages import Stage
from store.log.append import append_events
from store.log.envelope import Origin
from store.memory.session_digests import LEAST, SessionDigests
from store.memory.session_summaries import SummaryLimits, find_due
from store.memory.turn_messages import TurnMessage, read_messages
from store.retention import TierRetention
from store.tenancy.languages import Languages, rules_for_writing
from store.text.rules import ExtractedFact, Extraction, MessageText, TurnText, extract_turn
from store.text.word_rules import AUTO, WordRules, rules_of
from workers.extraction.events import ExtractedEvents, derive_events, follow_up_id, reading_id, summary_id
from workers.extraction.llm.rights import ModelRights
from workers.extraction.reextraction import build_follow_ups, find_corrected_unit, resume_ended
from workers.metrics import FACT_WRITE
from workers.places import Places
from workers.stage_work import ClaimSize, Worked

log = structlog.get_logger(__name__)

_USUAL, _USUAL_RETENTION = rules_of(AUTO), TierRetention()
_NO_FACTS: Mapping[UUID, Sequence[ExtractedFact]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ExtractionStage:
    """The extraction stage: writes entities, mentions and facts of turns; opens rows to embed, enrich and summarise."""

    database: Database
    #: The extractor version of the model that reads the turns next; None: no model does.
    model_version: str | None = None
    #: When a session of a tenant's bank is summarised; None: never.
    limit_summaries: Callable[[UUID, UUID], SummaryLimits] | None = None
    #: What the model may do in each bank.
    rights: ModelRights = field(default_factory=ModelRights)
    #: The digests of sessions, extended as these grow; None: maintenance alone extends them.
    digests: SessionDigests | None = None
    languages: Languages = field(init=False)
    #: One thread applies rules at a time: several would only compete for the interpreter lock. Beside a long piece, one
    #: more does for another tenant.
    rules_place: Places = field(init=False, default_factory=lambda: Places(1))
    stage: ClassVar[Stage] = Stage.EXTRACTION
    #: While the rules are applied to one bank's turns, another's are written.
    claim_size: ClassVar[ClaimSize] = ClaimSize(streams=16, rows=16, by_bank=True, at_once=2)

    def __post_init__(self) -> None:
        object.__setattr__(self, "languages", Languages(self.database))

    async def work(self, claims: Sequence[Claim]) -> Worked:
        """Extract from the claimed turns of one bank's sessions; write all findings in one transaction."""
        host, bank = claims[0].host_id, claims[0].rows[0].bank_id
        rows = [row for claim in claims for row in claim.rows]
        turns = await read_messages(self.database, host, [(bank, row.turn_id) for row in rows])
        rules = rules_for_writing(await self.languages.of(host), bank)
        implied = await self._read_implied(host, bank, turns)
        async with self.rules_place.hold(host):
            retention = self.database.retention.of(host, bank)
            derived = await asyncio.to_thread(_derive_all, host, rows, turns, rules, implied, retention=retention)
        async with self.database.tenant(host, NO_SYNC) as connection:
            await locks.lock_bank(connection, bank)
            ours = await lock_held_claims(connection, claims)
            rows = [row for claim in ours for row in claim.rows]
            again = {
                row.item_id: unit for row in rows if (unit := find_corrected_unit(row, turns[row.turn_id])) is not None
            }
            facts = await self._write(connection, host, rows, derived, again)
            long = await self._open_summaries(connection, host, rows)
            outcomes = [Outcome(row.item_id) for row in rows]
            await close_claims(connection, ours, outcomes)
        await self._extend_digests(host, bank, [row for row in rows if row.item_id not in again], again)
        for row in rows:
            for tier in derived[row.turn_id].tiers if row.turn_id in derived else ():
                FACT_WRITE.labels(tier).inc()
        ready_stages = {Stage.PROJECTION}
        ready_stages |= {Stage.EMBEDDING} if facts else set()
        ready_stages |= {Stage.ENRICHMENT} if self._find_version(host, bank) is not None or long else set()
        return Worked(outcomes, frozenset(ready_stages))

    async def _read_implied(
        self, host: UUID, bank: UUID, turns: Mapping[UUID, Sequence[TurnMessage]]
    ) -> Mapping[UUID, Sequence[ExtractedFact]]:
        """Return the facts that corrections and denials in these turns state of earlier messages; most have none."""
        turn_of = {message.unit_id: turn for turn, messages in turns.items() for message in messages}
        implying = ImplyingMessages(
            [
                SaidMessage(bank, one.unit_id, one.user_id, nth, MessageText(one.role, one.content, one.name))
                for messages in turns.values()
                for nth, one in enumerate(messages)
            ]
        )
        facts = defaultdict[UUID, list[ExtractedFact]](list)
        if implying:
            async with self.database.tenant(host) as connection:
                for message, fact in await implying.find_implied(connection, host):
                    facts[turn_of[message.unit_id]].append(fact)
        return facts

    async def _write(
        self,
        connection: AsyncConnection,
        host: UUID,
        rows: Sequence[LedgerRow],
        derived: Mapping[UUID, ExtractedEvents],
        again: Mapping[UUID, UUID],
    ) -> bool:
        """Write the findings of these turns of one bank, and their follow-up rows; return whether there are facts.

        `again`: corrected messages by row id; their findings that had ended are resumed.
        """
        bank, found = rows[0].bank_id, [derived[t] for t in dict.fromkeys(r.turn_id for r in rows) if t in derived]
        entities = {subject: event for one in found for subject, event in one.entities.items()}
        named = await locks.build_beginnings(
            connection, host, bank, [entities[subject] for subject in sorted(entities)]
        )
        events = [event for one in found for event in one.events]
        events = await resume_ended(connection, host, bank, events, again.values())
        await append_events(connection, host, [*named, *events], if_absent=True)
        await postings.insert_postings(connection, host, bank, [words for one in found for words in one.words])
        with_facts = [one.turn_id for one in found if one.facts]
        first = await locks.find_first_facts(connection, host, bank, with_facts) if with_facts else {}
        read = [row for row in rows if row.item_id not in again]
        wanted = [_embedding_row(row, first[row.turn_id]) for row in read if row.turn_id in first]
        wanted += [follow for row in rows if row.item_id in again for follow in build_follow_ups(row)]
        version = self._find_version(host, bank)
        wanted += [] if version is None else [_reading_row(row, version) for row in rows]
        await open_follow_ups(connection, host, wanted)
        return bool(with_facts)

    async def _extend_digests(
        self, host: UUID, bank: UUID, rows: Sequence[LedgerRow], again: Mapping[UUID, UUID]
    ) -> None:
        """Read the messages of these turns' sessions into their digests, where enough wait, and corrected ones again.

        The rows are done by now: what fails here, maintenance makes good.
        """
        if self.digests is None:
            return
        try:
            sessions = {(bank, row.session_id) for row in rows}
            for place in await self.digests.find_behind(host, sorted(sessions), LEAST):
                await self.digests.extend(place, pages=1)
            if again:
                await self.digests.read_again(host, bank, list(again.values()))
        except Exception as error:  # noqa: BLE001 - the rows are done
            log.warning("session_digest_not_extended", error=type(error).__name__)

    def _find_version(self, host: UUID, bank: UUID) -> str | None:
        """Return the version of the model that reads this bank's turns next; None: none does."""
        return self.model_version if self.rights.read(host, bank) else None

    async def _open_summaries(self, connection: AsyncConnection, host: UUID, rows: Sequence[LedgerRow]) -> bool:
        """Open a row for each session of these turns of one bank that is to be summarised; return whether one is."""
        last = {row.session_id: row for row in rows if row.item_id == row.turn_id}
        if self.limit_summaries is None or not last:
            return False
        bank = rows[0].bank_id
        due = await find_due(connection, host, bank, list(last), self.limit_summaries(host, bank))
        await open_follow_ups(connection, host, [_summary_row(last[session]) for session in due])
        return bool(due)


def _embedding_row(row: LedgerRow, position: int) -> FollowUp:
    """Return the row by which a turn's facts are embedded; `position` is that of the first of them in the log."""
    item = follow_up_id(row.turn_id)
    return FollowUp(Stage.EMBEDDING, item, item, row.bank_id, row.session_id, row.turn_id, position, row.accepted_at)


def _reading_row(row: LedgerRow, version: str) -> FollowUp:
    """Return the row by which another extractor's version reads a turn after the rules.

    A corrected message has a row of its own.
    """
    item = reading_id(row.turn_id if row.item_id == row.turn_id else row.item_id, version)
    place = row.bank_id, row.session_id, row.turn_id, row.position, row.accepted_at
    return FollowUp(Stage.ENRICHMENT, item, item, *place, reads_texts=True)


def _summary_row(row: LedgerRow) -> FollowUp:
    """Return the row by which a turn's session is summarised."""
    item = summary_id(row.turn_id)
    place = row.bank_id, row.session_id, row.turn_id, row.position, row.accepted_at
    return FollowUp(Stage.ENRICHMENT, item, item, *place)


def _derive_all(
    host: UUID,
    rows: Sequence[LedgerRow],
    turns: Mapping[UUID, Sequence[TurnMessage]],
    rules: WordRules = _USUAL,
    implied: Mapping[UUID, Sequence[ExtractedFact]] = _NO_FACTS,
    *,
    retention: TierRetention = _USUAL_RETENTION,
) -> dict[UUID, ExtractedEvents]:
    """Return what the extraction rules find in every turn that still has messages; words are analysed by `rules`.

    `implied` are the facts that a turn states of earlier messages.
    """
    return {
        row.turn_id: derive_events(
            Origin(host, row.bank_id, turns[row.turn_id][0].user_id, row.accepted_at),
            turns[row.turn_id],
            _find_all(turns[row.turn_id], implied.get(row.turn_id, ())),
            rules=rules,
            retention=retention,
        )
        for row in rows
        if turns[row.turn_id]
    }


def _find_all(turn: Sequence[TurnMessage], implied: Sequence[ExtractedFact]) -> Extraction:
    messages = tuple(MessageText(message.role, message.content, message.name) for message in turn)
    found = extract_turn(TurnText(messages, turn[0].event_date))
    return replace(found, facts=(*found.facts, *implied)) if implied else found
