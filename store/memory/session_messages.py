"""Reads a session with its newest messages: those of turns, and those that commands brought into its history."""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from afterturn_client.contract.sessions import SessionDetails, SessionMessage
from sqlalchemy import Integer, Text, Uuid, and_, bindparam, case, cast, exists, func, null, or_, select, union_all
from sqlalchemy.dialects.postgresql import JSONB

from store import identity
from store.database import Database
from store.errors import NotFound
from store.expiry import bank_lasts, row_lasts
from store.memory.session_history import MOST_BYTES
from store.schema import SESSION_HISTORY, SESSION_MESSAGE, TIME, UNIT, in_bank

_SESSION, _UNIT, _BROUGHT = SESSION_HISTORY.c, UNIT.c, SESSION_MESSAGE.c
_MOST = bindparam("most", type_=Integer)
_SUMMARISED = exists().where(
    in_bank(SESSION_MESSAGE),
    _BROUGHT.session_id == bindparam("session"),
    _BROUGHT.seq == func.afterturn.summary_seq(_SESSION.first_seq),
)
SESSION = select(
    _SESSION.session_name,
    _SESSION.turn_count,
    _SESSION.message_count,
    # A summary of ours hides nothing here: the messages that it tells of are there.
    case((_SUMMARISED, 0), else_=_SESSION.first_seq).label("first_seq"),
    _SESSION.aggregate_version,
    _SESSION.update_ts,
).where(in_bank(SESSION_HISTORY), _SESSION.session_id == bindparam("session"), _SESSION.active, bank_lasts())
_REMEMBERED = and_(UNIT.c.active, row_lasts(UNIT))
_OF_TURNS = (
    select(
        _UNIT.seq,
        _UNIT.unit_id,
        _UNIT.role,
        _UNIT.name,
        _UNIT.content.label("said"),
        null().cast(JSONB).label("told"),
        _UNIT.event_date.label("occurred_at"),
    )
    .where(
        in_bank(UNIT),
        _UNIT.session_id == bindparam("session"),
        _UNIT.seq >= bindparam("first"),
        _UNIT.origin == "message",
        _REMEMBERED,
    )
    .order_by(_UNIT.seq.desc())
    .limit(_MOST)
)
_MESSAGE = _BROUGHT.message
_KEPT = UNIT.alias("kept")
_OF_COMMANDS = (
    select(
        _BROUGHT.seq,
        cast(_MESSAGE["unitId"].astext, Uuid).label("unit_id"),
        _MESSAGE["role"].astext.label("role"),
        _MESSAGE["name"].astext.label("name"),
        _KEPT.c.content.label("said"),
        cast(_MESSAGE["content"], JSONB).label("told"),
        cast(_MESSAGE["timestamp"].astext, TIME).label("occurred_at"),
    )
    .outerjoin_from(
        SESSION_MESSAGE,
        _KEPT,
        and_(
            _KEPT.c.host_id == _BROUGHT.host_id,
            _KEPT.c.bank_id == _BROUGHT.bank_id,
            _KEPT.c.unit_id == cast(_MESSAGE["unitId"].astext, Uuid),
            _KEPT.c.active,
            row_lasts(_KEPT),
        ),
    )
    .where(
        in_bank(SESSION_MESSAGE),
        _BROUGHT.session_id == bindparam("session"),
        _BROUGHT.seq >= bindparam("first"),
        or_(_MESSAGE["content"].is_not(None), _KEPT.c.content.is_not(None)),
    )
    .order_by(_BROUGHT.seq.desc())
    .limit(_MOST)
)
_BOTH = union_all(select(_OF_TURNS.subquery("of_turns")), select(_OF_COMMANDS.subquery("of_commands"))).subquery("both")
# The length of a text is known without reading it; as JSON it is made only of what is returned.
_BYTES = func.coalesce(func.octet_length(cast(_BOTH.c.told, Text)), func.octet_length(_BOTH.c.said))
_MEASURED = select(
    _BOTH,
    (func.sum(_BYTES).over(order_by=_BOTH.c.seq.desc()) - _BYTES).label("newer"),
    func.count().over().label("found"),
).subquery("m")
# `found` in each row: how many messages there are, of turns and of commands, each counted to one beyond `most`.
NEWEST = (
    select(
        *(column for column in _MEASURED.c if column.name not in {"newer", "said", "told"}),
        func.coalesce(_MEASURED.c.told, func.to_jsonb(_MEASURED.c.said), type_=JSONB).label("content"),
    )
    .where(_MEASURED.c.newer < bindparam("most_bytes"))
    .order_by(_MEASURED.c.seq.desc())
    .limit(_MOST)
)


class SessionMessages:
    """Reads sessions with their messages."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def get(self, host: UUID, bank: str, session_name: str, most: int) -> SessionDetails:
        """Return a session with at most `most` of its newest messages, within MOST_BYTES. Raises NotFound."""
        bank_id = identity.bank_id(host, bank)
        place: dict[str, Any] = {
            "host": host,
            "bank": bank_id,
            "session": identity.session_id(bank_id, session_name),
            "now": self._clock(),
        }
        async with self._database.tenant(host) as connection:
            session = (await connection.execute(SESSION, place)).one_or_none()
            if session is None:
                raise NotFound("no such session")
            asked = {**place, "first": session.first_seq, "most": most + 1, "most_bytes": MOST_BYTES}
            rows = (await connection.execute(NEWEST, asked)).mappings().all()
        shown = [{name: value for name, value in row.items() if name != "found"} for row in reversed(rows[:most])]
        return SessionDetails(
            session_id=session.session_name,
            turns=session.turn_count,
            messages=session.message_count,
            version=session.aggregate_version,
            updated_at=session.update_ts,
            history=tuple(SessionMessage(**message) for message in shown),
            has_more=bool(rows) and rows[0]["found"] > len(shown),
        )
