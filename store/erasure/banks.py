"""Erases a bank: first it ends for every reader, then its log is rewritten page by page."""

from sqlalchemy import Uuid, bindparam, delete, func, select, text

from store import schema
from store.erasure.units import (
    END_TURNS,
    ERASE_AT,
    ERASE_GUARDS,
    FORGET_JOBS,
    ORIGINS,
    SCRUB,
    SCRUB_SESSIONS,
    LockedBank,
    count_delivered,
)
from store.errors import NotFound
from store.log.append import append_events
from store.log.catalog import Aggregate, EventType
from store.schema import LEDGER, PLUGIN_NAMESPACE, PLUGIN_VECTOR, TURN
from store.tenancy.external_models import count_sent

#: Events of one transaction.
PAGE_EVENTS = 500

_BANK = schema.BANK.c
_SUBJECT = func.concat_ws("|", _BANK.host_id, _BANK.bank_id)
BANK = select(_BANK.active, func.afterturn.logged_version(_BANK.host_id, _SUBJECT).label("version")).where(
    schema.in_bank(schema.BANK)
)
WEIGHT = text("""
    select (select count(*) from afterturn.unit_word_t w, jsonb_object_keys(w.terms)
             where w.host_id = :host and w.bank_id = :bank) as words,
           (select count(*) from afterturn.unit_vector_t v where v.host_id = :host and v.bank_id = :bank) as vectors""")
ISSUED = text("select last_value from afterturn.log_position_seq")
_PLACE = {"host_id": bindparam("host", type_=Uuid), "bank_id": bindparam("bank", type_=Uuid)}
TURNS = select(TURN.c.turn_id).filter_by(**_PLACE).where(TURN.c.position > bindparam("since"))
UNDONE = select(LEDGER.c.turn_id).distinct().filter_by(**_PLACE).where(LEDGER.c.undone)
PAGE = text("""
    select e.position, e.aggregate_type,
           afterturn.aggregate_id(e.host_id, e.bank_id, e.aggregate_key) as aggregate_id,
           afterturn.begins(e.event_type) as begins, e.data->>'origin' as origin,
           cast(case e.aggregate_type when 'AgentSessionHistory' then e.data->>'turnId'
                                      when 'AgentMemoryDoc' then e.data->>'docId' end as uuid) as turn_id,
           cast(e.data->>'sessionId' as uuid) as session_id, e.data ? 'erased' as erased
      from afterturn.event_store_t e
     where e.host_id = :host and e.bank_id = :bank and e.position > :reached and e.position <= :upto
     order by e.position limit :limit""")

# Deletes the bank's namespace record of the memory plugin, and the vectors that callers sent.
FORGET_VECTORS = delete(PLUGIN_VECTOR).filter_by(**_PLACE)
FORGET_NAMESPACE = delete(PLUGIN_NAMESPACE).filter_by(**_PLACE)

#: The names of aggregates in a receipt.
KINDS = {
    Aggregate.BANK.value: "banks",
    Aggregate.DOC.value: "documents",
    Aggregate.ENTITY.value: "entities",
    Aggregate.UNIT_ENTITY.value: "mentions",
    Aggregate.LINK.value: "links",
    Aggregate.DIRECTIVE.value: "directives",
    Aggregate.REFLECTION.value: "reflections",
    Aggregate.SESSION.value: "sessions",
}


async def begin_bank(place: LockedBank) -> None:
    """End the bank and all its undone work. Raises NotFound."""
    rows = await place.ask(BANK)
    if not rows:
        raise NotFound("no such bank")
    [weight] = await place.ask(WEIGHT)
    place.erasure.counts.update({"words": weight.words, "vectors": weight.vectors})
    place.erasure.counts.update(await count_sent(place.connection, place.erasure.host, place.bank))
    await count_delivered(place, [row.turn_id for row in await place.ask(TURNS, since=place.erasure.upto)])
    undone = [row.turn_id for row in await place.ask(UNDONE)]
    await place.count("work", END_TURNS, turns=undone, ended=undone)
    await place.count("recall_jobs", FORGET_JOBS)
    await place.count("callers_vectors", FORGET_VECTORS)
    await place.count("namespaces", FORGET_NAMESPACE)
    if rows[0].active:
        event = place.marked(EventType.BANK_DELETED, rows[0].version + 1)
        await append_events(place.connection, place.erasure.host, [event])
    place.erasure.upto = int((await place.ask(ISSUED))[0][0])


async def erase_page(place: LockedBank) -> bool:
    """Erase the content of the bank's next events; return whether there may be more."""
    erasure = place.erasure
    page = await place.ask(PAGE, reached=erasure.reached, upto=erasure.upto, limit=PAGE_EVENTS)
    left = [row for row in page if not row.erased]
    for row in left:
        if row.begins:
            erasure.counts[KINDS.get(row.aggregate_type) or ORIGINS.get(row.origin, "facts")] += 1
    await place.count("events", ERASE_AT, positions=[row.position for row in left])
    await place.ask(SCRUB, subjects=sorted({row.aggregate_id for row in left}))
    histories = [row for row in left if row.aggregate_type == Aggregate.SESSION.value]
    await place.count("history_messages", SCRUB_SESSIONS, sessions=sorted({row.session_id for row in histories}))
    await place.count("turns", ERASE_GUARDS, turns=sorted({row.turn_id for row in left if row.turn_id}))
    erasure.reached = page[-1].position if page else erasure.upto
    return len(page) == PAGE_EVENTS
