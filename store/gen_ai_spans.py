"""Spans by OpenTelemetry's conventions for generative AI: operations on memory and embeddings; ids only.

The conventions are in development (semantic-conventions-genai 0.1). Query, text and records, which are opt-in there,
are never recorded.
"""

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from uuid import UUID

from opentelemetry.trace import INVALID_SPAN, Span

from store import identity
from store.tracing import Attribute, is_tracing, trace_operation

OPERATION = "gen_ai.operation.name"
RECORDS = "gen_ai.memory.record.count"


class MemoryOperation(StrEnum):
    """The operations on memory, by the conventions' names."""

    UPSERT = "upsert_memory"
    SEARCH = "search_memory"
    DELETE = "delete_memory"


def trace_memory(
    operation: MemoryOperation,
    host: UUID,
    places: Collection[tuple[str, str | None, str | None]] = (),
    *,
    records: int | None = None,
) -> AbstractContextManager[Span]:
    """Trace an operation on a tenant's memory.

    `places`: the names of bank, session and turn that it concerns, the last two where they are known. The span has an
    id where all places share it. `records` is the number of memories concerned.
    """
    if not is_tracing():
        return nullcontext(INVALID_SPAN)
    named: dict[str, Attribute] = {
        OPERATION: operation.value,
        "gen_ai.provider.name": "afterturn",
        "afterturn.tenant.id": str(host),
    }
    ids = list(zip(*(_make_ids(host, *place) for place in places), strict=True))
    keys = ("gen_ai.memory.store.id", "gen_ai.conversation.id", "afterturn.turn.id")
    for key, of_all in zip(keys, ids, strict=False):
        if len({*of_all}) == 1 and of_all[0] is not None:
            named[key] = str(of_all[0])
    if records is not None:
        named[RECORDS] = records
    return trace_operation(operation.value, named)


def trace_embedding(model: str, texts: int) -> AbstractContextManager[Span]:
    """Trace a call of an embedding model."""
    named: dict[str, Attribute] = {OPERATION: "embeddings", "gen_ai.request.model": model, "afterturn.texts": texts}
    return trace_operation(f"embeddings {model}", named)


def _make_ids(host: UUID, bank: str, session: str | None, turn: str | None) -> tuple[UUID, UUID | None, UUID | None]:
    bank_id = identity.bank_id(host, bank)
    session_id = None if session is None else identity.session_id(bank_id, session)
    return bank_id, session_id, None if session_id is None or turn is None else identity.turn_id(session_id, turn)
