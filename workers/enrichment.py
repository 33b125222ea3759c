"""The enrichment stage: reads turns again, with an LLM or with newer rules; summarises long sessions.

A stage of its own, with ledger rows of its own: the rules have written their findings before a model is asked, so
a failing or slow model cannot lose or delay them. The result is written once for each turn and version, in one
transaction with the record of the run; if the model is asked a second time and answers differently, nothing changes.
Turns are read in no order: the result depends on the turn alone.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar

from sqlalchemy.ext.asyncio import AsyncConnection

from embeddings.endpoint import EndpointError
from producers.service.session_summaries import Summariser
from store.database import Database
from store.derived.readings import record_reading
from store.ledger.circuit_breakers import Gate, GatePolicy, Passage, gate_name, put_off
from store.ledger.deliveries import write_audit_row
from store.ledger.ledger import Claim, LedgerRow, Outcome, close_claim
from store.ledger.stages import Stage
from store.memory.session_summaries import SessionPlace
from store.memory.turn_messages import TurnMessage, read_messages
from store.text.rules import VERSION, Extraction, MessageText, TurnText, extract_turn
from workers.errors import Permanent, Transient
from workers.extraction.deletions import Deletions
from workers.extraction.events import reading_id, summary_id
from workers.extraction.known_facts import read_known_facts
from workers.extraction.llm.answer import ModelReading, NoAnswer
from workers.extraction.llm.reader import LlmReader, has_user_words
from workers.extraction.llm.rights import ModelRights
from workers.extraction.reextraction import find_corrected_unit
from workers.extraction.writing import reading_name, write_reading
from workers.metrics import FACT_WRITE, MODEL_DELETIONS
from workers.settings import EnrichmentSettings
from workers.stage_work import ClaimSize, Worked

SUCCEEDED, FAILED = "extraction_model_succeeded", "extraction_model_failed"
#: How long a row waits for the model's rate limit, in seconds; one that would wait longer is put back into the ledger.
PATIENCE_S = 2.0
NOTHING = ModelReading(Extraction((), (), ()), 0)


@dataclass(frozen=True, slots=True)
class Reading:
    """One turn that is being read."""

    claim: Claim
    row: LedgerRow
    turn: Sequence[TurnMessage]
    text: TurnText


@dataclass(frozen=True, slots=True)
class EnrichmentStage:
    """Reads turns by `reader` (None: no model is configured) or by the rules, as the row's id says."""

    database: Database
    reader: LlmReader | None
    gate: Gate
    #: Summarises long sessions; None: none is.
    summariser: Summariser | None = None
    #: What the model may do in each bank.
    rights: ModelRights = field(default_factory=ModelRights)
    stage: ClassVar[Stage] = Stage.ENRICHMENT
    claim_size: ClassVar[ClaimSize] = ClaimSize(streams=8, rows=1)

    def at_most(self, streams: int) -> int:
        """Return how many turns to claim: none while the model's circuit breaker is open."""
        return self.gate.at_most(streams)

    async def work(self, claims: Sequence[Claim]) -> Worked:
        """Extract from one turn by the version its row names: a model's, or the rules'."""
        claim, row = claims[0], claims[0].rows[0]
        if row.item_id == summary_id(row.turn_id):
            return await self._summarise(claim, row)
        by_rules = row.item_id == reading_id(row.turn_id, VERSION)
        reader = self.reader
        turn = (await read_messages(self.database, claim.host_id, [(row.bank_id, row.turn_id)]))[row.turn_id]
        if not by_rules and (reader is None or not _is_for(row, turn, reader.version)):
            reason = "no extractor of this version is configured"
            return await self._end(claim, Outcome(row.item_id, "skipped", None, reason))
        if not by_rules and not self.rights.read(claim.host_id, row.bank_id):
            reason = "the model may not read this bank (model_reads)"
            return await self._end(claim, Outcome(row.item_id, "skipped", None, reason))
        messages = tuple(MessageText(one.role, one.content, one.name) for one in turn)
        reading = Reading(claim, row, turn, TurnText(messages, turn[0].event_date if turn else None))
        if by_rules or reader is None:
            found = await asyncio.to_thread(extract_turn, reading.text)
            return await self._write(reading, VERSION, ModelReading(found, 0))
        if not has_user_words(reading.text):
            return await self._write(reading, reader.version, NOTHING)
        return await self._by_model(reading, reader)

    async def _summarise(self, claim: Claim, row: LedgerRow) -> Worked:
        """Summarise the turn's session. Killed after that and before the row ends, it finds nothing to do."""
        if self.summariser is None:
            return await self._end(claim, Outcome(row.item_id, "skipped", None, "sessions are not summarised here"))
        await self.summariser.summarise(SessionPlace(claim.host_id, row.bank_id, row.session_id))
        return await self._end(claim, Outcome(row.item_id))

    async def _by_model(self, reading: Reading, reader: LlmReader) -> Worked:
        passage = await self.gate.enter(PATIENCE_S)
        if not passage.granted:
            return await self._put_off(reading, passage.wait_s)
        await asyncio.sleep(passage.wait_s)
        known = await read_known_facts(self.database, reading.claim.host_id, reading.row, reading.turn, reader.settings)
        try:
            read = await reader.read(reading.text, known)
        except NoAnswer as error:
            return await self._unanswered(reading, reader, error)
        except EndpointError as error:
            return await self._unreached(reading, error, passage)
        await self.gate.report(well=True)
        payload = {"version": reader.version, "facts": len(read.found.facts), "dropped": read.dropped}
        return await self._write(reading, reader.version, read, payload)

    async def _unanswered(self, reading: Reading, reader: LlmReader, error: NoAnswer) -> Worked:
        """Skip a turn that the model refuses, since it would refuse again; retry after an answer of the wrong shape."""
        await self.gate.report(well=True)
        await self._note_failure(reading, {"operation": "extract", "category": error.fault})
        if error.fault == "refused":
            return await self._refused(reading, reader, error.fault)
        raise Transient(error.fault, "the model's answer has not the shape asked for") from None

    async def _refused(self, reading: Reading, reader: LlmReader, fault: str) -> Worked:
        claim, row = reading.claim, reading.row
        outcome = Outcome(row.item_id, "skipped", fault, "the model refused to read it")
        async with self.database.tenant(claim.host_id) as connection:
            version = reading_name(row, reader.version, find_corrected_unit(row, reading.turn, reader.version))
            await record_reading(connection, claim.host_id, row.bank_id, row.turn_id, version)
            await close_claim(connection, claim, [outcome])
        return Worked([outcome])

    async def _unreached(self, reading: Reading, error: EndpointError, passage: Passage) -> Worked:
        """Retry later after a failed call; while the circuit breaker is open, that counts as no attempt."""
        away = error.category in {"timeout", "connection", "unavailable"}
        await self.gate.report(well=not away, pause_s=error.retry_after)
        status = {} if error.status is None else {"http_status": error.status}
        await self._note_failure(reading, {"operation": "extract", "category": error.category, **status})
        if away and (passage.probing or self.gate.failing):
            return await self._put_off(reading, self.gate.shut_s)
        if error.passing:
            raise Transient(error.category, "the model could not be asked", error.retry_after) from None
        raise Permanent(error.category, "the model cannot be asked") from None

    async def _put_off(self, reading: Reading, wait_s: float) -> Worked:
        wait = timedelta(seconds=wait_s)
        await put_off(self.database, reading.claim, reading.row.item_id, "pending", wait)
        return Worked([Outcome(reading.row.item_id, "pending", None, None, wait)])

    async def _end(self, claim: Claim, outcome: Outcome) -> Worked:
        """End a row of which nothing is written."""
        async with self.database.tenant(claim.host_id) as connection:
            await close_claim(connection, claim, [outcome])
        return Worked([outcome])

    async def _note_failure(self, reading: Reading, payload: Mapping[str, Any]) -> None:
        async with self.database.tenant(reading.claim.host_id) as connection:
            await _audit_call(connection, reading, FAILED, payload)

    async def _write(
        self, reading: Reading, version: str, read: ModelReading, payload: Mapping[str, Any] | None = None
    ) -> Worked:
        claim, row, found = reading.claim, reading.row, read.found
        deletions = Deletions(read.deleted, self.rights.delete(claim.host_id, row.bank_id))
        outcome = Outcome(row.item_id)
        async with self.database.tenant(claim.host_id) as connection:
            retention = self.database.retention.of(claim.host_id, row.bank_id)
            written = await write_reading(
                connection,
                claim,
                row,
                reading.turn,
                version=version,
                found=found,
                retention=retention,
                deletions=deletions,
            )
            if payload is not None:
                await _audit_call(connection, reading, SUCCEEDED, payload)
            await close_claim(connection, claim, [outcome])
        for fact in found.facts:
            FACT_WRITE.labels(fact.tier).inc()
        for name, number in (("proposed", written.proposed), ("applied", written.applied)):
            MODEL_DELETIONS.labels(name).inc(number)
        MODEL_DELETIONS.labels("unmatched").inc(len(read.deleted) - written.proposed - written.applied)
        return Worked([outcome], written.ready_stages)


async def _audit_call(connection: AsyncConnection, reading: Reading, event: str, payload: Mapping[str, Any]) -> None:
    row, host = reading.row, reading.claim.host_id
    about = {"bank": row.bank_id, "session": row.session_id, "turn": row.turn_id}
    await write_audit_row(connection, host, event, **about, payload=payload)


def _is_for(row: LedgerRow, turn: Sequence[TurnMessage], version: str) -> bool:
    """Return whether a row has a turn, or one of its messages that was corrected, read by this version."""
    return row.item_id == reading_id(row.turn_id, version) or find_corrected_unit(row, turn, version) is not None


def model_gate(database: Database, settings: EnrichmentSettings) -> Gate:
    """Return the gate (circuit breaker and rate limit) of the model that these settings name."""
    policy = GatePolicy(rate=settings.turns_per_second, burst=8.0)
    return Gate(database, gate_name("model", settings.base_url, settings.model), policy)
