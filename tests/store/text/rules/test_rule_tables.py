"""The tables of rules and patterns: what is not well formed is refused, and all that is in them is used."""

import re
import tomllib
from pathlib import Path

import pytest

import store
from store.text.rules import pattern_tables
from store.text.rules.rule_tables import read_rules

TABLES = sorted((Path(pattern_tables.__file__).parent / "data").glob("*.toml"))
ROOT = Path(store.__file__).parents[1]
#: Folders beside those of the rules whose `data` has tables of patterns.
PLACES = ("store/text", "deploy/cli")
RULE = """
[pieces]
VERY = '(?: very| really)?'
[kinds.like]
says = '{who} likes {value}.'
confidence = 0.9
[[rules]]
kind = 'like'
opening = 'i@VERY@ like'
needs = ['like']
"""


def write_table(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (folder / "table.toml").write_text(text)
    monkeypatch.setattr(pattern_tables, "_FOLDER", folder)


def test_a_rule_has_what_it_its_kind_and_the_defaults_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(tmp_path, monkeypatch, f"{RULE}contracted = true\n[defaults]\ntier = 'L2'\nconfidence = 0.5")
    (rule,) = read_rules("table").rules
    assert (rule.fact_id, rule.key, rule.slug, rule.tier, rule.confidence) == ("user_like", "like", "like", "L2", 0.9)
    assert rule.contracted
    assert rule.opening.search("I really like tea")


@pytest.mark.parametrize(
    "place, instead, error",
    [
        ("kind = 'like'", "kind = 'love'", KeyError),
        ("@VERY@", "@QUITE@", KeyError),
        ("needs = ['like']", "", ValueError),
        ("needs = ['like']", "needs = ['like']\nneed = 1", ValueError),
        ("needs = ['like']", "needs = ['like']\nshape = 'ROUND'", KeyError),
        ("needs = ['like']", "needs = ['like']\nends = 'vary'", KeyError),
        ("needs = ['like']", "needs = ['like']\nmeans = 'diets'", KeyError),
        ("i@VERY@ like", "i(", re.error),
    ],
)
def test_a_table_that_is_not_well_formed_is_refused(
    place: str, instead: str, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert place in RULE
    write_table(tmp_path, monkeypatch, RULE.replace(place, instead))
    with pytest.raises(error):
        read_rules("table")


def test_every_piece_kind_and_meaning_is_used() -> None:
    whole = "".join(table.read_text() for table in TABLES)
    for table in TABLES:
        told = tomllib.loads(table.read_text())
        idle = [name for name in told.get("pieces", {}) if f"@{name}@" not in whole]
        if "rules" in told:
            idle += set(told.get("kinds", {})) - {rule["kind"] for rule in told["rules"]}
        assert not idle, table.name


def test_the_patterns_of_a_table_are_those_that_its_module_uses() -> None:
    modules = [one.read_text() for package in ("store", "deploy/cli") for one in (ROOT / package).rglob("*.py")]
    for table in [*TABLES, *(one for place in PLACES for one in (ROOT / place / "data").glob("*.toml"))]:
        patterns = tomllib.loads(table.read_text()).get("patterns")
        if patterns is not None:
            of_table = re.compile(rf'Patterns\(.*"{table.stem}(?:\.toml)?"')
            (module,) = (text for text in modules if of_table.search(text))
            assert set(re.findall(r"\b_PATTERN\.(\w+)", module)) == patterns.keys(), table.name
