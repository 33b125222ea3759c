"""What stands in a session, newest last, with the items as agents handed them in; and the facts that hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import text

from store import identity
from store.database import Database

# The item itself is kept in the log alone: once, and where an erasure takes it away.
RECENT = text("""
    select u.unit_id, u.role, u.content, cast(e.payload->'data'->'parts' as text) as parts
      from afterturn.agent_memory_unit_t u
      left join afterturn.event_store_t e
        on e.host_id = u.host_id and e.bank_id = u.bank_id and e.position = u.position
     where u.host_id = :host and u.bank_id = :bank and u.session_id = :session and u.origin = 'message' and u.active
     order by u.seq desc limit :most""")
# A fact of a turn that was forgotten holds no more: its unit has ended with it.
HOLDING = text("""
    select f.fact_id, f.key, f.value, f.subject
      from afterturn.fact_t f
      join afterturn.agent_memory_unit_t u using (host_id, bank_id, unit_id)
     where f.host_id = :host and f.bank_id = :bank and f.valid_to is null and u.active
       and (cast(:session as uuid) is null or u.session_id = cast(:session as uuid))
     order by f.valid_from desc, f.position desc limit :most""")


@dataclass(frozen=True, slots=True)
class KeptMessage:
    """One message of a session; `parts` are what its door handed in beside the text."""

    unit_id: UUID
    role: str
    content: str = field(repr=False)
    parts: Sequence[Mapping[str, Any]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class HoldingFact:
    """A fact that holds now."""

    fact_id: str
    key: str
    value: str = field(repr=False)
    subject: str = field(repr=False)


class SessionHistory:
    """Reads what was said in a session."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def recent(self, host: UUID, bank: str, session_id: str, most: int) -> list[KeptMessage]:
        """Return the newest messages of a session, oldest first; none of a session that is not there."""
        bank_id = identity.bank_id(host, bank)
        session = identity.session_id(bank_id, session_id)
        async with self._database.tenant(host) as connection:
            asked = {"host": host, "bank": bank_id, "session": session, "most": most}
            rows = (await connection.execute(RECENT, asked)).all()
        return [
            KeptMessage(row.unit_id, row.role, row.content, orjson.loads(row.parts) if row.parts else ())
            for row in reversed(rows)
        ]

    async def holding(self, host: UUID, bank: str, session_id: str | None, most: int) -> list[HoldingFact]:
        """Return the newest facts that hold in a bank, of one session where one is named."""
        bank_id = identity.bank_id(host, bank)
        session = None if session_id is None else identity.session_id(bank_id, session_id)
        async with self._database.tenant(host) as connection:
            asked = {"host": host, "bank": bank_id, "session": session, "most": most}
            rows = (await connection.execute(HOLDING, asked)).all()
        return [HoldingFact(row.fact_id, row.key, row.value, row.subject) for row in rows]
