"""Audit events of the second memory layer, hidden in the session; never content.

An event is no part of the conversation (`context_visible` is False): it is not shown to the model, not searched and
not persisted. Payloads hold names, categories, statuses and counts; no text, no credentials, no bodies.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal


class EventName(StrEnum):
    """The six events of seed 000, and four for an agent that leaves the second layer to Afterturn."""

    #: `scopes`, `results` (how many usable ones)
    GATEWAY_RECALL_SUCCEEDED = "memory_gateway_recall_succeeded"
    #: `operation`, `category`, `http_status` if there was one
    GATEWAY_RECALL_FAILED = "memory_gateway_recall_failed"
    #: `gateway_session`, `messages` (how many)
    GATEWAY_ADD_SUCCEEDED = "memory_gateway_add_succeeded"
    #: `gateway_session`, `operation`, `category`, `http_status` if any, `outcome_unknown` if it is not known
    GATEWAY_ADD_FAILED = "memory_gateway_add_failed"
    #: `gateway_session`
    GATEWAY_FLUSH_SUCCEEDED = "memory_gateway_flush_succeeded"
    #: as a failed add, and `add_succeeded`, always true
    GATEWAY_FLUSH_FAILED = "memory_gateway_flush_failed"
    #: `results` (how many)
    RECALL_SUCCEEDED = "memory_recall_succeeded"
    #: `operation`, `category`, `http_status` if any
    RECALL_FAILED = "memory_recall_failed"
    #: `position`: the turn is durable; what becomes of it is in Afterturn's own audit
    HANDOVER_SUCCEEDED = "memory_handover_succeeded"
    #: as a failed recall, and `outcome_unknown` if it is not known
    HANDOVER_FAILED = "memory_handover_failed"


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One hidden audit event of a session."""

    name: EventName
    session_id: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    context_visible: Literal[False] = False
