"""Turns that came by a snapshot without the digest of their bodies: such a one, sent again, is compared with the log.

The log holds user, messages, metadata and times, and not whether a gateway was asked for. A turn that differs in
anything that it holds is another turn.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import bindparam, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.log.catalog import aggregate_id
from store.memory.offered_turns import NewTurn, OfferedTurn
from store.schema import EVENT_STORE, TURN

_EVENT, _TURN = EVENT_STORE.c, TURN.c
HELD = select(_EVENT.id, _EVENT.user_id, _EVENT.data).where(
    _EVENT.host_id == bindparam("host"), _EVENT.id.in_(bindparam("events", expanding=True))
)
POSITIONS = select(_TURN.turn_id, _TURN.position).where(
    _TURN.host_id == bindparam("host"), _TURN.turn_id.in_(bindparam("turns", expanding=True))
)

#: The answer for a turn that differs from the one that came by a snapshot.
DIFFERS = (
    "this turn came by a snapshot, without the digest of its body, and differs from what the log holds of it: it was "
    "accepted elsewhere with another body, or the snapshot was masked; send it with another turn_id to store it anew"
)


async def compare_with_log(
    connection: AsyncConnection, host: UUID, turns: Sequence[tuple[NewTurn, OfferedTurn]]
) -> Mapping[UUID, int | None]:
    """Return, of these turns, those that came without a digest: their position where they are the same, else None."""
    histories = {_event_of(host, of.bank, of.session, of.turn): (new, of) for new, of in turns}
    held = await connection.execute(HELD, {"host": host, "events": list(histories)})
    came = {row.id: row for row in held if "bodyDigest" not in row.data and "erased" not in row.data}
    if not came:
        return {}
    concerned = [histories[event] for event in came]
    units = {
        _event_of(host, of.bank, identity.unit_id(of.turn, n)): None
        for new, of in concerned
        for n in range(len(new.messages))
    }
    said = {row.id: row for row in await connection.execute(HELD, {"host": host, "events": list(units)})}
    asked = {"host": host, "turns": [of.turn for _, of in concerned]}
    places = {row.turn_id: int(row.position) for row in await connection.execute(POSITIONS, asked)}
    return {
        of.turn: places.get(of.turn) if _is_same(host, new, of, row.data, said) else None
        for event, row in came.items()
        for new, of in (histories[event],)
    }


def _event_of(host: UUID, bank: UUID, thing: UUID, nth: object = "1") -> UUID:
    """Return the id of an event that a turn brings: of its session's history, or of one of its units."""
    return identity.event_id(host, aggregate_id(host, bank, thing), str(nth))


def _is_same(host: UUID, new: NewTurn, of: OfferedTurn, history: Mapping[str, Any], said: Mapping[UUID, Any]) -> bool:
    if len(history.get("messages", ())) != len(new.messages) or history.get("metadata", {}) != _as_json(new.metadata):
        return False
    for n, message in enumerate(new.messages):
        held = said.get(_event_of(host, of.bank, identity.unit_id(of.turn, n)))
        at = message.occurred_at or new.occurred_at
        if held is None or held.user_id != of.user:
            return False
        offered = {
            "role": message.role,
            "name": message.name,
            "content": message.content,
            "parts": _as_json(message.parts) or None,
            **({"eventDate": at.timestamp()} if at else {}),
            "expiresAt": new.expires_at and new.expires_at.timestamp(),
        }
        if any(_read_held(held.data, name) != value for name, value in offered.items()):
            return False
    return True


def _read_held(data: Mapping[str, Any], name: str) -> Any:
    value = data.get(name)
    if name == "parts" and isinstance(value, str):
        return orjson.loads(value)
    return datetime.fromisoformat(value).timestamp() if name in {"eventDate", "expiresAt"} and value else value


def _as_json(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value))
