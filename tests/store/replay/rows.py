"""The tables and the model's rows in one form, to be compared."""

import re
from typing import Any
from uuid import UUID

from store import identity
from store.log.catalog import Aggregate
from tests.store.log.samples import named
from tests.store.replay.model import Key, Model, Offer

A = Aggregate

TABLES = """
    select cast(c.oid as regclass)::text from pg_class c join pg_attribute a on a.attrelid = c.oid
     where c.relnamespace = 'afterturn'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
       and a.attname = 'host_id' and has_table_privilege(c.oid, 'select')"""
SAID = re.compile(r"<said \d+>")
#: Events that say what they were offered with.
WORDLESS = {A.UNIT_ENTITY, A.LINK}

STATE = """
    select 'AgentMemoryBank' as kind, array[bank_id]::text[] as ids, aggregate_version as version, active,
           bank_name::text as said, null::text as more from agent_memory_bank_t
    union all
    select 'AgentMemoryDoc', array[bank_id, doc_id]::text[], aggregate_version, active, original_text, null
      from agent_memory_doc_t
    union all
    select 'AgentMemoryUnit', array[bank_id, unit_id]::text[], aggregate_version, active, content, doc_id::text
      from agent_memory_unit_t
    union all
    select 'AgentMemoryEntity', array[bank_id, entity_id]::text[], aggregate_version, active, canonical_name, null
      from agent_memory_entity_t
    union all
    select 'AgentMemoryUnitEntity', array[bank_id, unit_id, entity_id]::text[], aggregate_version, removed_at is null,
           null, extract(epoch from removed_at - '2026-03-01T00:00Z')::int::text from agent_memory_unit_entity_t
    union all
    select 'AgentMemoryLink', array[bank_id, from_unit_id, to_unit_id]::text[], aggregate_version, active, weight::text,
           null from agent_memory_link_t
    union all
    select 'AgentMemoryDirective', array[bank_id, directive_id]::text[], aggregate_version, active, content, null
      from agent_memory_directive_t
    union all
    select 'AgentMemoryReflection', array[bank_id, reflection_id]::text[], aggregate_version, active, content, null
      from agent_memory_reflection_t
    union all
    select 'AgentSessionHistory', array[bank_id, session_id]::text[], aggregate_version, active, null,
           (select string_agg(m->>'content', '|' order by n) from hindsight.agent_session_history_t h,
                   jsonb_array_elements(h.messages) with ordinality x(m, n)
             where h.bank_id = s.bank_id and h.session_id = s.session_id) from agent_session_history_t s"""

PREFIXES = {
    A.BANK: (),
    A.DOC: ("doc",),
    A.UNIT: ("unit",),
    A.ENTITY: ("entity",),
    A.UNIT_ENTITY: ("unit", "entity"),
    A.LINK: ("unit", "unit"),
    A.DIRECTIVE: ("directive",),
    A.REFLECTION: ("reflection",),
}


def expected(model: Model, host: UUID) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """The model's rows as `STATE` shows them."""

    def ids(key: Key) -> tuple[str, ...]:
        bank = identity.bank_id(host, key[1])
        if key[0] == A.SESSION:
            return str(bank), str(identity.session_id(bank, key[2]))
        kinds = PREFIXES[Aggregate(key[0])]
        return str(bank), *(named(f"{kind} {name}") for kind, name in zip(kinds, key[2:], strict=True))

    def more(key: Key) -> str | None:
        row = model.rows[key]
        match Aggregate(key[0]):
            case A.UNIT:
                return named(f"doc {row.doc}") if row.doc else None
            case A.UNIT_ENTITY:
                return None if row.ended is None else str(row.ended)
            case A.SESSION:
                shown = [said for said in row.messages[row.first_seq :] if said is not None]
                return "|".join(shown[-40:]) or None
            case _:
                return None

    return {
        (key[0], *ids(key)): (row.version, row.active, None if row.said is None else str(row.said), more(key))
        for key, row in model.rows.items()
    }


def says(offer: Offer) -> bool:
    """Whether the event holds its text."""
    return not offer.erased and offer.aggregate not in WORDLESS and not offer.kind.endswith("DeletedEvent")


def meant(state: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    """Derived state but for the line of a bank without a counted unit, which need not be there."""
    return state | {"bank_statistics_t": [row for row in state["bank_statistics_t"] if row != (0, 0)]}
