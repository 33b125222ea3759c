"""Every table and every field of an event has its place in the policy of snapshots."""

from typing import get_args

import pytest
from pydantic import BaseModel

from store.errors import SnapshotRefused
from store.log import event_data
from store.log.catalog import AGGREGATES, EVENTS, Aggregate
from store.schema import METADATA
from store.snapshot.masking import FIELDS
from store.snapshot.policy import Fate, Part, find_policy, parse_parts, refuse_in_production, select_aggregates

#: Tables of the seed that this schema does not have.
SEEDS = ("outbox_message_t", "log_counter", "consumer_offsets", "dead_letter_queue", "command_idempotency_t")


def test_every_table_of_ours_and_the_seeds_is_named() -> None:
    for table in [*(one.name for one in METADATA.tables.values()), *SEEDS]:
        assert find_policy(table).why, table


def test_a_table_that_the_policy_does_not_name_is_an_error_and_snapshot_tables_are_left_out() -> None:
    with pytest.raises(KeyError):
        find_policy("another_t")
    assert find_policy("snapshot_of_something_t").fate is Fate.LEFT


def test_the_tables_of_every_aggregate_are_exported_as_events_and_derived_ones_are_not() -> None:
    for spec in AGGREGATES.values():
        assert find_policy(spec.table).fate is Fate.EVENTS, spec.table
    assert find_policy("agent_memory_entity_cooccur_t").fate is Fate.DERIVED
    assert select_aggregates(frozenset({Part.HISTORY})) == {Aggregate.BANK, Aggregate.UNIT, Aggregate.SESSION}
    assert select_aggregates(frozenset()) == frozenset()


def test_every_field_of_every_event_has_a_treatment() -> None:
    others: set[type[BaseModel]] = {event_data.Erased, event_data.HistoryMessage, event_data.ErasedMessage}
    models = {spec.model for spec in EVENTS.values()} | others
    fields = {field.alias or name for model in models for name, field in model.model_fields.items()}
    assert fields - FIELDS.keys() == set()
    assert get_args(event_data.LinkType)


def test_parts_have_the_names_of_the_seed() -> None:
    assert parse_parts(["agent_memory_t", "agent_session_history"]) == frozenset(Part)
    with pytest.raises(SnapshotRefused, match="agent_memory or agent_session_history"):
        parse_parts(["agent_memory", "everything"])


@pytest.mark.parametrize("environment", ["production", "Production", "prod"])
def test_production_exports_no_history_but_masked_and_overridden(environment: str) -> None:
    history, memory = frozenset({Part.HISTORY}), frozenset({Part.MEMORY})
    for masked, overridden in ((False, False), (True, False), (False, True)):
        with pytest.raises(SnapshotRefused, match="--mask --override"):
            refuse_in_production(environment, history, masked=masked, overridden=overridden)
    refuse_in_production(environment, history, masked=True, overridden=True)
    refuse_in_production(environment, memory, masked=False, overridden=False)
    refuse_in_production("staging", history, masked=False, overridden=False)
