"""Derives uuids from names: equal on every machine and in every replay."""

import hashlib
from enum import StrEnum
from functools import lru_cache
from uuid import UUID, uuid5

NAMESPACE = UUID("6f1b2c1e-6c1d-5f0e-9a57-8c8a0f2d7b11")
#: How many names' ids are cached, for each kind of name.
NAMES_KEPT = 4096
#: How many bytes of a name that is too long are kept before its digest.
KEPT_BYTES = 64


class NamedKind(StrEnum):
    """Kinds of things of a bank, beside sessions, whose ids are derived from names: from the text `KIND:NAME`."""

    ENTITY = "entity"
    DOCUMENT = "document"
    DIRECTIVE = "directive"
    REFLECTION = "reflection"
    LIST = "list"
    RECOUNT = "recount"
    COMMAND = "command"


#: A session's name that begins like one of these would be the name of another thing.
_TAKEN = tuple(f"{kind}:" for kind in NamedKind)


def host_id(name: str) -> UUID:
    """Return the id of the host (tenant) called `name`."""
    return uuid5(NAMESPACE, name)


@lru_cache(maxsize=NAMES_KEPT)
def bank_id(host: UUID, name: str) -> UUID:
    """Return the id of a bank of `host`; names longer than a column are told apart by this id alone."""
    return uuid5(host, name)


@lru_cache(maxsize=NAMES_KEPT)
def session_id(bank: UUID, name: str) -> UUID:
    """Return the id of the session an agent calls `name` in `bank`; nothing else of the bank has it."""
    # No name of a session holds a line break.
    return uuid5(bank, f"session\n{name}" if name.startswith(_TAKEN) else name)


def memory_session(bank: UUID, memory_id: str) -> UUID:
    """Return the id of the session of a memory's lives; no session's name gives the same id."""
    return uuid5(bank, f"memory\n{memory_id}")


@lru_cache(maxsize=NAMES_KEPT)
def user_id(host: UUID, name: str | None) -> UUID:
    """Return the id of a user of `host`; without a name, of the host's system user."""
    return uuid5(host, name or "")


def agent_id(host: UUID, name: str) -> UUID:
    """Return the id of the agent (definition) called `name` at `host`; no name is another agent's id."""
    return uuid5(host, f"agent:{name}")


@lru_cache(maxsize=NAMES_KEPT)
def turn_id(session: UUID, name: str) -> UUID:
    """Return the id of the turn an agent calls `name` in `session`."""
    return uuid5(session, name)


def unit_id(turn: UUID, ordinal: int) -> UUID:
    """Return the id of the unit that holds message `ordinal` (from 0) of `turn` verbatim."""
    return uuid5(turn, f"message:{ordinal}")


def named_id(bank: UUID, kind: NamedKind, name: object) -> UUID:
    """Return the id of what a bank has of this kind and name."""
    return uuid5(bank, f"{kind}:{name}")


def entity_id(bank: UUID, normalised: str) -> UUID:
    """Return the id of a bank's entity of this normalised name."""
    return named_id(bank, NamedKind.ENTITY, normalised)


def directive_id(bank: UUID, name: str) -> UUID:
    """Return the id of a bank's directive of this name."""
    return named_id(bank, NamedKind.DIRECTIVE, name)


def event_id(host: UUID, aggregate_id: str, version: str) -> UUID:
    """Return the id of the event that brought the aggregate to `version`."""
    return uuid5(host, f"{aggregate_id}@{version}")


def digest_name(shown: str, name: str | None = None) -> str:
    """Return a short form of a name: the first 64 bytes of its shown form, `~`, and 32 hex of the name's sha256."""
    kept = shown.encode()[:KEPT_BYTES].decode(errors="ignore")
    return f"{kept}~{hashlib.sha256((shown if name is None else name).encode()).hexdigest()[:32]}"
