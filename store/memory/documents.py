"""Documents: handed in whole and cut into units, or named as the file that turns came from. One content, one document.

A document passes the stages as a turn does: its guard, its ledger rows and its words are written with its events.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID, uuid5

import orjson
from afterturn_client.contract.knowledge import Document
from afterturn_client.contract.receipts import DocumentReceipt
from sqlalchemy import Row, Select, Text, Uuid, and_, any_, bindparam, cast, func, select, true, tuple_
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.database import Database
from store.derived import bank_state
from store.errors import NotFound, TurnBusy
from store.expiry import BANK_EXPIRED, NOW, bank_lasts, lock_lasting_bank
from store.log.append import append_events
from store.log.catalog import EventType
from store.log.envelope import Origin, build_offer, build_version
from store.log.locks import ENTER_LOG, HOLD_BANK, hold_lock, share_lock
from store.memory import authorship
from store.memory.authorship import Author
from store.memory.offered_turns import OfferedTurn, build_turn_event, index_text
from store.memory.turn_writes import attach_call, write_offered
from store.off_loop import Steps, run_off_loop, run_steps_off_loop
from store.page_bytes import PageRows, build_page, cut_to_bytes
from store.schema import DOC, EVENT_STORE, TURN, UNIT, in_bank, same_bank
from store.sql_constants import ONE
from store.tenancy.banks import bank_created_fields
from store.tenancy.languages import Languages, rules_for_writing
from store.tenancy.quotas import charge_quota, refusal_of, run_within_quota
from store.text.chunks import split_chunks
from store.text.terms import lexical_text
from store.text.word_rules import WordRules

#: The columns of a document that hold what its caller wrote.
TEXTS = ("title", "metadata")
#: Lives of a content that are looked up at a time: it begins another whenever it is added after it was forgotten.
LIVES_AT_ONCE = 64
#: How often an addition that meets others of the same content is tried before it is refused as busy.
MOST_TRIES = 16

LOCK = select(
    ENTER_LOG, share_lock("quota", "host"), share_lock("bank", "bank"), hold_lock("document", "document"), BANK_EXPIRED
)
_DOC, _UNIT, _EVENT = DOC.c, UNIT.c, EVENT_STORE.c
_OF_DOC = same_bank(UNIT, DOC, "doc_id")
# A document ends with its own units, which all have one end. A scalar subquery, not `not exists`: as a join the planner
# would read all units of the bank for a page of documents.
_LASTS = (
    select(true())
    .select_from(UNIT)
    .where(_OF_DOC, _UNIT.origin == "document", _UNIT.expires_at <= NOW)
    .limit(ONE)
    .scalar_subquery()
    .is_(None)
)
# A document of which something was erased is not the content any more, even if most of it is left.
# An expired document does not count: the same content begins anew.
LIVING = select(
    _DOC.doc_id,
    and_(_DOC.active, _DOC.content_hash.is_not(None), _LASTS).label("whole"),
    select(TURN.c.position)
    .where(TURN.c.host_id == _DOC.host_id, TURN.c.turn_id == _DOC.doc_id)
    .scalar_subquery()
    .label("position"),
).where(in_bank(DOC), _DOC.doc_id == any_(bindparam("docs", type_=ARRAY(Uuid))))
POSITION = select(_EVENT.position).where(
    _EVENT.host_id == bindparam("host"),
    _EVENT.bank_id == bindparam("bank"),
    _EVENT.aggregate_key == bindparam("key"),
    _EVENT.aggregate_version == 1,
)
_SHOWN = select(
    _DOC.doc_id,
    _DOC.content_hash,
    _DOC.title,
    cast(_DOC["metadata"], Text).label("metadata"),
    _DOC.occurred_at,
    _DOC.update_ts,
    _DOC.aggregate_version,
    select(func.count()).select_from(UNIT).where(_OF_DOC, _UNIT.active).scalar_subquery().label("units"),
).where(in_bank(DOC), _DOC.active, _LASTS, bank_lasts())
GET = _SHOWN.where(_DOC.doc_id == bindparam("doc"))
LIST = _SHOWN.order_by(_DOC.update_ts.desc(), _DOC.doc_id.desc())


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A validated document to add. Without `text`, its units come with turns that name the document.

    `agent`: the agent whose key hands it in. `expires_at`: from then on no answer holds its text or the document.
    """

    bank: str
    content_hash: str
    text: str | None = field(default=None, repr=False)
    title: str | None = field(default=None, repr=False)
    user_id: str | None = None
    occurred_at: datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=dict, repr=False)
    private_to: str | None = None
    agent: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DocumentPlace:
    """A document's place in the list of its bank; later documents do not change it."""

    updated_at: datetime
    doc_id: UUID


def content_hash(content: bytes) -> str:
    """Return the hash that identifies a document: sha256, hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def doc_id(bank: UUID, digest: str, life: int = 0) -> UUID:
    """Return the document id of a content in a bank; a forgotten content that is added again begins another life."""
    return identity.named_id(bank, identity.NamedKind.DOCUMENT, f"{digest}:{life}")


def chunk_id(doc: UUID, nth: int) -> UUID:
    """Return the id of the unit that holds piece `nth` (from 0) of a document."""
    return uuid5(doc, f"chunk:{nth}")


class Documents:
    """Adds, reads and forgets documents."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._languages = Languages(database)

    async def add(self, host: UUID, document: NewDocument) -> DocumentReceipt:
        """Add a document with its text: durable, readable and on its way through the stages when this returns.

        The same content again is the same document, and changes nothing. Raises QuotaExceeded, RateLimited, TurnBusy.
        """
        now = self._clock()
        return await run_within_quota(self._database, host, now, partial(self._add, host, document, now))

    async def _add(self, host: UUID, document: NewDocument, now: datetime) -> DocumentReceipt:
        text = document.text or ""
        chunks = await run_off_loop(len(text), split_chunks, text)
        bank = identity.bank_id(host, document.bank)
        for _ in range(MOST_TRIES):
            doc, known = await self._life(host, bank, document)
            if known is not None:
                return DocumentReceipt(doc_id=doc, position=known, duplicate=True, units=len(chunks))
            rules = rules_for_writing(await self._languages.of(host), bank)
            offered = await run_steps_off_loop(
                len(text), _prepare_document(host, document, doc, chunks, now, rules=rules)
            )
            [(outcome, position, _)] = await write_offered(self._database, host, [attach_call(offered)])
            if error := refusal_of(outcome):
                raise error
            if outcome in ("accepted", "duplicate") and position is not None:
                return DocumentReceipt(
                    doc_id=doc, position=position, duplicate=outcome == "duplicate", units=len(chunks)
                )
        raise TurnBusy("this document is being written by another request")

    async def register(self, host: UUID, document: NewDocument) -> DocumentReceipt:
        """Add a document whose text comes as turns, in an existing bank; the same content again changes nothing.

        Raises TurnEnded, QuotaExceeded.
        """
        now = self._clock()
        return await run_within_quota(self._database, host, now, partial(self._register, host, document, now))

    async def _register(self, host: UUID, document: NewDocument, now: datetime) -> DocumentReceipt:
        bank = identity.bank_id(host, document.bank)
        origin = Origin(host, bank, identity.user_id(host, document.user_id), now)
        doc, _ = await self._life(host, bank, document)
        event = build_offer(origin, EventType.DOC_CREATED, (doc,), _document_data(host, doc, document))
        async with self._database.tenant(host) as connection:
            await lock_lasting_bank(connection, LOCK, {"host": host, "bank": bank, "document": doc, "now": now})
            position = await append_events(connection, host, [event], if_absent=True)
            known = (await connection.execute(POSITION, {"host": host, "bank": bank, "key": str(doc)})).scalar_one()
            if position is not None:
                await charge_quota(connection, host, bank, measure_title_and_metadata(document))
        return DocumentReceipt(doc_id=doc, position=known, duplicate=position is None, units=0)

    async def get(self, host: UUID, bank: str, doc: UUID) -> Document:
        """Return a document of a bank. Raises NotFound for what is unknown, forgotten or foreign."""
        async with self._database.tenant(host) as connection:
            return _build_document(await self._find(connection, host, identity.bank_id(host, bank), doc))

    async def list(self, host: UUID, bank: str, after: DocumentPlace | None, limit: int) -> PageRows[Document]:
        """Return a page of at most `limit` documents of a bank after `after`, the last written first."""
        place = {"host": host, "bank": identity.bank_id(host, bank), "now": self._clock()}
        async with self._database.tenant(host) as connection:
            rows = (await connection.execute(select_page(after, limit + 1), place)).all()
        return build_page(rows, limit, _build_document)

    async def authors(self, host: UUID, bank: str, doc: UUID) -> set[Author]:
        """Return the authors of a document of a bank, and of the units that are forgotten with it.

        Raises NotFound.
        """
        async with self._database.tenant(host) as connection:
            return await authorship.find_document_authors(connection, host, identity.bank_id(host, bank), doc)

    async def forget(self, host: UUID, bank: str, doc: UUID, user: str | None = None) -> int:
        """Forget a document with all its units, as `user`; return the event's position. Raises NotFound."""
        bank_id = identity.bank_id(host, bank)
        origin = Origin(host, bank_id, identity.user_id(host, user), self._clock())
        async with self._database.tenant(host) as connection:
            # Units of the document come with turns; a writer that names or links them would leave that behind.
            await connection.execute(HOLD_BANK, {"bank": bank_id})
            found = await self._find(connection, host, bank_id, doc)
            event = build_version(origin, EventType.DOC_DELETED, (doc,), found.aggregate_version + 1)
            position = await append_events(connection, host, [event])
            if position is None:
                raise NotFound("no such document")
            await bank_state.request_recount(connection, origin, position)
        return position

    async def _life(self, host: UUID, bank: UUID, document: NewDocument) -> tuple[UUID, int | None]:
        """Return the id of the content's living document and its position, or a free id and None."""
        place, first = {"host": host, "bank": bank, "now": self._clock()}, 0
        async with self._database.tenant(host) as connection:
            while True:
                lives = range(first, first + LIVES_AT_ONCE)
                ids = [doc_id(bank, document.content_hash, life) for life in lives]
                rows = {row.doc_id: row for row in await connection.execute(LIVING, {**place, "docs": ids})}
                for one in ids:
                    if one not in rows or rows[one].whole:
                        return one, rows[one].position if one in rows else None
                first += LIVES_AT_ONCE

    async def _find(self, connection: AsyncConnection, host: UUID, bank: UUID, doc: UUID) -> Any:
        asked = {"host": host, "bank": bank, "doc": doc, "now": self._clock()}
        row = (await connection.execute(GET, asked)).one_or_none()
        if row is None:
            raise NotFound("no such document")
        return row


def select_page(after: DocumentPlace | None, limit: int) -> Select[*tuple[Any, ...]]:
    """Return the statement of a page of the documents of `bank`."""
    found = LIST
    if after is not None:
        found = LIST.where(tuple_(_DOC.update_ts, _DOC.doc_id) < tuple_(after.updated_at, after.doc_id))
    return cut_to_bytes(found.limit(limit), lambda rows: (rows.c.update_ts.desc(), rows.c.doc_id.desc()), TEXTS)


def _build_document(row: Row[Any]) -> Document:
    return Document(
        doc_id=row.doc_id,
        content_hash=row.content_hash,
        title=row.title,
        metadata=orjson.loads(row.metadata),
        occurred_at=row.occurred_at,
        updated_at=row.update_ts,
        units=row.units,
    )


def measure_title_and_metadata(document: NewDocument) -> int:
    """Return the bytes of a document's title and metadata, without its text, which its units hold."""
    return len((document.title or "").encode()) + (len(orjson.dumps(document.metadata)) if document.metadata else 0)


def _document_data(host: UUID, doc: UUID, document: NewDocument) -> dict[str, Any]:
    told = {"originalText": document.text, "title": document.title, "occurredAt": document.occurred_at}
    return {
        "docId": str(doc),
        "contentHash": document.content_hash,
        **{name: value for name, value in told.items() if value is not None},
        **({"metadata": document.metadata} if document.metadata else {}),
        "bytes": measure_title_and_metadata(document),
        **_by_agent(host, document),
    }


def _by_agent(host: UUID, document: NewDocument) -> dict[str, str]:
    return {"agentDefId": str(identity.agent_id(host, document.agent))} if document.agent else {}


def _prepare_document(
    host: UUID, document: NewDocument, doc: UUID, chunks: Sequence[str], now: datetime, *, rules: WordRules
) -> Steps[OfferedTurn]:
    """Return a document in the form `append_turns` takes, as one turn of a session of its own; works in steps."""
    bank = identity.bank_id(host, document.bank)
    origin = Origin(host, bank, identity.user_id(host, document.user_id), now)
    at = document.occurred_at or now
    bank_created = bank_created_fields(host, document.bank, document.private_to)
    events = [
        build_turn_event(origin, EventType.BANK_CREATED, (), bank_created),
        build_turn_event(origin, EventType.DOC_CREATED, (doc,), _document_data(host, doc, document)),
    ]
    for n, chunk in enumerate(chunks):
        unit = chunk_id(doc, n)
        data = {
            **_retained_event(document, doc, unit, n, chunk),
            "eventDate": at.isoformat(),
            **_by_agent(host, document),
            **({"userName": document.user_id} if document.user_id else {}),
            **({"expiresAt": document.expires_at} if document.expires_at else {}),
        }
        said = index_text(lexical_text(document.title, at, chunk, rules), rules)
        events.append(build_turn_event(origin, EventType.UNIT_RETAINED, (unit,), data, indexed=said))
        yield
    return OfferedTurn(
        turn=doc,
        bank=bank,
        session=doc,
        user=origin.user,
        digest=bytes.fromhex(document.content_hash),
        gateway=False,
        accepted_at=now,
        size=measure_title_and_metadata(document) + sum(len(chunk.encode()) for chunk in chunks),
        begins=True,
        events=events,
    )


def _retained_event(document: NewDocument, doc: UUID, unit: UUID, n: int, chunk: str) -> dict[str, Any]:
    return {
        "unitId": str(unit),
        "docId": str(doc),
        "sessionId": str(doc),
        "turnId": str(doc),
        "content": chunk,
        "context": document.title,
        "factType": "world",
        "origin": "document",
        "bytes": len(chunk.encode()),
        "ordinal": n,
    }
