"""Rules that replace names and ids in an import, and the fields of events that they touch."""

from typing import Any, get_args
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel

from store import identity
from store.errors import SnapshotRefused
from store.log import event_data
from store.log.catalog import EVENTS
from store.snapshot.replacements import MOST_RULES, Replaced, parse_replacements
from store.snapshot.rewriting import MESSAGES, NAMES, PEOPLE, THINGS, UNITS
from tests.tables import each_row

A, B = uuid4(), uuid4()


def rule(field: str | None, replaced: object, by: object) -> dict[str, object]:
    return {**({"field": field} if field else {}), "from": replaced, "to": by}


def test_names_are_replaced_by_their_field_alone_and_once() -> None:
    rules = parse_replacements([rule("userName", "ana", "ben"), rule("userName", "ben", "ana")])
    assert rules.rename(Replaced.USER, "ana") == "ben"
    assert rules.rename(Replaced.USER, "ben") == "ana"
    assert rules.rename(Replaced.TURN, "ana") == "ana"
    assert rules.rename_bank("~ana@planner/notes") == "~ben@planner/notes"
    assert rules.rename_bank("ana") == "ana"


def test_a_bank_is_replaced_by_its_whole_name_before_its_owner_is() -> None:
    rules = parse_replacements([rule("bankName", "~ana/notes", "notes"), rule("agentName", "planner", "scribe")])
    assert rules.rename_bank("~ana/notes") == "notes"
    assert rules.rename_bank("@planner/notes") == "@scribe/notes"


def test_the_seeds_spellings_and_its_pairs_of_uuids_are_read() -> None:
    pair = {"fromValue": str(A), "toValue": str(B)}
    assert parse_replacements([pair]).ids == {A: B}
    assert parse_replacements([{"fieldName": "agentDefId", **pair}]).ids == {A: B}


@each_row(
    "rules, why",
    [
        (["x"], "rule 1 is no object"),
        ([rule("userName", "a", "b"), rule("content", "a", "b")], "rule 2 field: is one of .* never replaced"),
        ([rule("userName", "a", 1)], "both texts"),
        ([rule("userName", "a", "")], "1 to 256"),
        ([rule("userName", "a", "b" * 257)], "1 to 256"),
        ([rule(None, "a", "b")], "two UUIDs"),
        ([{**rule("userName", "a", "b"), "where": "x"}], "rule 1 is no object"),
        ([rule("userName", "a", "b"), rule("userName", "a", "c")], "another rule"),
        ([rule("userId", str(A), str(B)), rule(None, str(A), str(A))], "another rule"),
        ([rule("userName", str(n), "b") for n in range(MOST_RULES + 1)], "at most"),
    ],
)
def test_another_rule_is_refused_by_its_number(rules: list[Any], why: str) -> None:
    with pytest.raises(SnapshotRefused, match=why):
        parse_replacements(rules)


def test_a_mapping_is_of_one_tenant_and_of_one_set_of_rules_in_any_order() -> None:
    host = identity.host_id("acme")
    one, two = rule("userName", "a", "b"), rule("turnName", "a", "b")
    mapping = parse_replacements([one, two]).identify(host)
    assert mapping == parse_replacements([two, one]).identify(host)
    others = [parse_replacements([one]).identify(host), parse_replacements([one, two]).identify(identity.host_id("b"))]
    assert mapping not in others


def test_every_field_of_every_event_that_holds_ids_is_rewritten() -> None:
    models: set[type[BaseModel]] = {spec.model for spec in EVENTS.values()} | {event_data.Erased}
    fields = [(field.alias or name, field.annotation) for model in models for name, field in model.model_fields.items()]

    def holds_ids(annotation: Any) -> bool:
        return annotation is UUID or any(holds_ids(one) for one in get_args(annotation))

    found = {name for name, annotation in fields if holds_ids(annotation)}
    assert found - {"hostId", "bankId"} == THINGS | PEOPLE | {UNITS}
    names = {name for name, _ in fields}
    assert {*NAMES, MESSAGES, "bankName"} <= names
