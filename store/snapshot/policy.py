"""The policy of snapshots: for every table of ours and of the seed's, whether a snapshot holds it, and why.

Export, import and conversion read this registry alone. Content is exported only where its part is named.
Source: the seed's snapshot policy (memory opt-in, history opt-in and refused in production, derived tables left out).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from store.errors import SnapshotRefused
from store.log.catalog import AGGREGATES, EVENTS, Aggregate, EventType


class Part(StrEnum):
    """The parts of a snapshot, each of which is named to be in it."""

    #: Banks, documents, pieces of them, single memories, facts, entities, links, directives, reflections.
    MEMORY = "agent_memory"
    #: Banks, sessions and their messages, word for word.
    HISTORY = "agent_session_history"


#: Other names by which a part is asked for.
ALIASES: Mapping[str, Part] = MappingProxyType(
    {**{part.value: part for part in Part}, **{f"{part.value}_t": part for part in Part}}
)
#: The setting `environment` of deployments that export no history without an override and masking.
PRODUCTION = frozenset({"production", "prod"})
#: Tables of this prefix are never in a snapshot.
SKIPPED_PREFIX = "snapshot_"


class Fate(StrEnum):
    """The treatment of a table's rows in a snapshot."""

    #: They are in it, as the events that made them.
    EVENTS = "events"
    #: They are made again after an import.
    DERIVED = "derived"
    #: They stay where they are.
    LEFT = "left out"


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """What a snapshot does with a table: `parts` that hold it, and why it is treated so."""

    fate: Fate
    why: str
    parts: frozenset[Part] = frozenset()


_BOTH = frozenset(Part)
_MEMORY, _HISTORY = frozenset({Part.MEMORY}), frozenset({Part.HISTORY})


def _in_events(parts: frozenset[Part], why: str) -> TablePolicy:
    return TablePolicy(Fate.EVENTS, why, parts)


def _name_all(fate: Fate, why: str, *tables: str) -> dict[str, TablePolicy]:
    return dict.fromkeys(tables, TablePolicy(fate, why))


#: The policy of each table.
TABLES: Mapping[str, TablePolicy] = MappingProxyType(
    {
        "agent_memory_bank_t": _in_events(_BOTH, "every other event belongs to a bank"),
        "agent_memory_doc_t": _in_events(_MEMORY, "content"),
        "agent_memory_unit_t": _in_events(_BOTH, "messages are history, all others are memory"),
        "agent_memory_entity_t": _in_events(_MEMORY, "content: names"),
        "agent_memory_unit_entity_t": _in_events(_MEMORY, "which unit names which entity"),
        "agent_memory_link_t": _in_events(_MEMORY, "links between units"),
        "agent_memory_directive_t": _in_events(_MEMORY, "content"),
        "agent_memory_reflection_t": _in_events(_MEMORY, "content"),
        "agent_session_history_t": _in_events(_HISTORY, "conversations"),
        "session_message_t": _in_events(_HISTORY, "messages that no unit keeps; their event holds them"),
        "event_store_t": _in_events(_BOTH, "the log: a snapshot is a copy of its events"),
        **_name_all(
            Fate.DERIVED,
            "made again from the events",
            "agent_memory_entity_cooccur_t",
            "turn_t",
            "unit_word_t",
            "posting_t",
            "term_t",
            "bank_statistics_t",
            "bank_language_t",
            "unit_vector_t",
            "entity_name_t",
            "entity_profile_t",
            "fact_t",
            "session_digest_t",
            "forgotten_unit_t",
            "stale_entity_t",
        ),
        **_name_all(Fate.LEFT, "keys and identities", "api_key_t", "host_t", "afterturn_operator_key"),
        **_name_all(Fate.LEFT, "decisions of this deployment's operator", "quota_t", "gateway_target_t"),
        **_name_all(
            Fate.LEFT,
            "memories of the plugin: `afterturn plugin export` has them with their vectors",
            "plugin_namespace_t",
            "plugin_vector_t",
        ),
        **_name_all(
            Fate.LEFT,
            "work under way, and what was done here",
            "ledger_t",
            "claim_t",
            "pruned_turns_t",
            "reading_t",
            "recall_job_t",
            "open_turn_t",
            "subscription_t",
            "erasure_t",
            "audit_event_t",
            "call_audit_t",
            "snapshot_t",
            "imported_id_t",
            "afterturn_cluster",
            "afterturn_console_session",
            "afterturn_gate",
            "afterturn_generation",
            "afterturn_maintenance",
            "afterturn_outside_model",
            "afterturn_version",
            "afterturn_worker",
        ),
        **_name_all(
            Fate.LEFT,
            "the seed's, which has no rows here: the log, its ledger and its guards replace it",
            "outbox_message_t",
            "log_counter",
            "consumer_offsets",
            "dead_letter_queue",
            "command_idempotency_t",
            "agent_session_event_t",
            "agent_memory_t",
        ),
    }
)


def find_policy(table: str) -> TablePolicy:
    """Return the policy of a table. Raises KeyError for one that the registry does not name."""
    if table.startswith(SKIPPED_PREFIX):
        return TablePolicy(Fate.LEFT, "tables of snapshots themselves")
    return TABLES[table]


def parse_parts(names: Iterable[str]) -> frozenset[Part]:
    """Return the parts of these names. Raises SnapshotRefused for another."""
    unknown = sorted(name for name in names if name not in ALIASES)
    if unknown:
        raise SnapshotRefused(f"a snapshot has no part {unknown[0]!r}: name {' or '.join(Part)}")
    return frozenset(ALIASES[name] for name in names)


def refuse_in_production(environment: str, parts: frozenset[Part], *, masked: bool, overridden: bool) -> None:
    """Raise SnapshotRefused for history in production, unless it is masked and an operator overrides."""
    if Part.HISTORY in parts and environment.lower() in PRODUCTION and not (masked and overridden):
        raise SnapshotRefused(
            "this deployment is production, which exports no session history: leave agent_session_history out, "
            "or ask for it masked and with the override (--mask --override)"
        )


def select_aggregates(parts: frozenset[Part]) -> frozenset[Aggregate]:
    """Return the aggregates whose events are in a snapshot of these parts."""
    return frozenset(one for one, spec in AGGREGATES.items() if TABLES[spec.table].parts & parts)


def select_events(parts: frozenset[Part]) -> frozenset[EventType]:
    """Return the types of events in a snapshot of these parts."""
    chosen = select_aggregates(parts)
    return frozenset(event for event, spec in EVENTS.items() if spec.aggregate in chosen)
