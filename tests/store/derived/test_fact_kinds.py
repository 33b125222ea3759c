"""The page's table of one-valued and many-valued facts is the code's."""

import re
from pathlib import Path

from store.derived.facts import MANY_VALUED, OPPOSITES
from store.text.rules.fact_rules import OWN_NAME, RULES

PAGE = Path(__file__).parents[3] / "docs/turns.md"


def test_the_table_of_kinds_names_every_fact_of_the_rules() -> None:
    rows = re.findall(r"^\| ([a-z -]+) \|[^|]*\| (`user_.*|`today_.*) \|$", PAGE.read_text(), re.MULTILINE)
    table = {kind: set(re.findall(r"`([a-z_{}]+)`", facts)) for kind, facts in rows}
    one = {rule.fact_id for rule in (*RULES, OWN_NAME) if rule.key and rule.fact_id not in MANY_VALUED}
    by_key = {rule.fact_id for rule in RULES if rule.key is None and "key" in rule.opening.groupindex}
    lists = {rule.fact_id for rule in RULES if rule.key is None} - by_key
    assert table == {
        "one-valued": one,
        "one-valued by key": by_key,
        "many-valued": set(MANY_VALUED),
        "list": lists,
        "opposites": set(OPPOSITES),
    }
