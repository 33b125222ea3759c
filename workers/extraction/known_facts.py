"""Reads the facts that a model is told beside a turn, so that it can name them again.

They hold, were stated before the turn by those who speak as its user, and stand in its bank; the model has got the
texts that they follow from. So nothing leaves that had not left before.
"""

from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from sqlalchemy import text

from store.database import Database
from store.ledger.ledger import LedgerRow
from store.memory.held_facts import build_patterns
from store.memory.turn_messages import TurnMessage
from store.text.normal_forms import fold_name
from workers.extraction.llm.reader import KNOWN_CHARACTERS
from workers.extraction.llm.request import MINED_ROLE, SECRET, KnownFact
from workers.settings import EnrichmentSettings

KNOWN = text("""
    select f.fact_id, u.metadata->>'key' as key, u.metadata->>'value' as value, u.metadata->>'subject' as subject
      from afterturn.fact_t f
      join afterturn.agent_memory_unit_t u
        on u.host_id = f.host_id and u.bank_id = f.bank_id and u.unit_id = f.unit_id
     where f.host_id = :host and f.bank_id = :bank
       and f.subject = any(array(select afterturn.folded(s) from unnest(cast(:subjects as text[])) s))
       and f.valid_to is null and not f.denied and f.consolidated_by is null and f.said < :position
       and u.active and (u.expires_at is null or u.expires_at > now())
       and exists (select from afterturn.reading_t r
                    where r.host_id = f.host_id and r.turn_id = u.turn_id
                      and substr(r.version, strpos(r.version, ':') + 1) = :model)
     order by (select count(*) from unnest(cast(:patterns as text[])) p
                where concat_ws(' ', f.fact_id, f.key, f.value) like p) desc,
              f.valid_from desc, f.position desc, f.unit_id
     limit :most""")


async def read_known_facts(
    database: Database, host: UUID, row: LedgerRow, turn: Sequence[TurnMessage], settings: EnrichmentSettings
) -> list[KnownFact]:
    """Return the first known facts of a turn's speakers: those that its words name, then the newest; no secrets."""
    said = [one for one in turn if one.role == MINED_ROLE]
    if not settings.max_known_facts or not said:
        return []
    asked = {
        "host": host,
        "bank": row.bank_id,
        "subjects": sorted({(one.name or "").strip() or str(one.user_id) for one in said}),
        "position": row.position,
        "model": settings.model,
        "patterns": build_patterns(fold_name("\n".join(one.content for one in said)[: settings.max_input_characters])),
        "most": settings.max_known_facts,
    }
    async with database.tenant(host) as connection:
        found = (await connection.execute(KNOWN, asked)).all()
    facts = (KnownFact(one.fact_id, one.key or "", one.value or "", one.subject or None) for one in found)
    return list(_take_fitting(one for one in facts if not SECRET.search(f"{one.fact_id} {one.key}")))


def _take_fitting(facts: Iterable[KnownFact]) -> Iterator[KnownFact]:
    """Yield the facts that have room within KNOWN_CHARACTERS."""
    room = KNOWN_CHARACTERS
    for one in facts:
        size = sum(map(len, one.as_json().values()))
        if size <= room:
            room -= size
            yield one
