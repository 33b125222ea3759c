"""Reads the rules of extraction from the tables in `data/`, and refuses a table that is not well formed.

A table has `rules`, in the order in which they are applied. What a rule does not say, its `kind` says, else the table's
`defaults`. Entries are the fields of `Rule`, and these:

- `opening` and `pattern` are written as for `compile_phrase` and `compile_value`: see
  `pattern_tables.py`. Their pieces are those of the table, of tables before it and of this module.
- `ahead`: the opening looks for the value right behind it.
- `words`, between bars, are `@WORDS@` in the opening. Without `needs`, a text must have one of them behind a space.
- `fact` is the id of the fact. `key` is empty where the value is the key. `among`: a word list, or a section of one.
- `ends` is a function of `rule_values.py`. `means` is a table of patterns, and of what values of them are.

`value_first` are patterns of clauses with the value in front, each with the slug of the rule `of` its fact. A text with
one has one of the `signs`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from store.text.pattern_tables import fill_pieces
from store.text.rules.model import Tier
from store.text.rules.pattern_tables import read_pieces, read_table, read_words
from store.text.rules.rule import (
    BEGINS,
    HAVE_JUST,
    I_HAVE_JUST,
    Rule,
    ValueShape,
    any_of,
    compile_phrase,
    compile_value,
    drop_accents,
)
from store.text.rules.rule_values import ENDS
from store.text.rules.vocabulary import people_nouns

_PIECES: Mapping[str, str] = {
    "BEGINS": BEGINS,
    "HAVE_JUST": HAVE_JUST,
    "I_HAVE_JUST": I_HAVE_JUST,
    "RELATIONS": any_of(people_nouns()),
}
_DEFAULTS: Mapping[str, Any] = {
    "fact": "user_@KIND@",
    "slug": "@KIND@",
    "tier": "L0",
    "shape": "ANY",
    "needs": (),
    **dict.fromkeys(("pattern", "among", "ends", "means", "words"), ""),
    **dict.fromkeys(("contracted", "many", "told", "denies", "ahead", "unaccented"), False),
}
_FIELDS = {*_DEFAULTS, "kind", "key", "opening", "says", "confidence"}


class RuleTable(NamedTuple):
    """The rules of one table, and what tables after it may use."""

    rules: Sequence[Rule]
    value_first: Sequence[tuple[Rule, re.Pattern[str]]]
    signs: str
    pieces: Mapping[str, str]
    means: Mapping[str, Mapping[str, Any]]


def read_rules(name: str, *before: RuleTable) -> RuleTable:
    """Return the table `data/NAME.toml`, which may use pieces, means and rules of those `before`.

    Raises KeyError for a name that is not known, ValueError for an entry that is none.
    """
    told = read_table(name)
    means, pieces = dict[str, Mapping[str, Any]](), dict(_PIECES)
    for table in before:
        means |= table.means
        pieces |= table.pieces
    means |= told.get("means", {})
    pieces = read_pieces(told, pieces)
    rules = tuple(_build_rule(_complete_rule(one, told), pieces, means) for one in told.get("rules", ()))
    known = {rule.slug: rule for rule in reversed((*rules, *(rule for table in before for rule in table.rules)))}
    value_first = tuple(
        (known[one["of"]], compile_value(fill_pieces(one["pattern"], pieces))) for one in told.get("value_first", ())
    )
    return RuleTable(rules, value_first, fill_pieces(told.get("signs", ""), pieces), pieces, means)


def _complete_rule(told: Mapping[str, Any], table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a rule with what its kind and the table say of it."""
    kinds = table.get("kinds")
    of_kind = kinds[told["kind"]] if kinds else {}
    whole = {**_DEFAULTS, **table.get("defaults", {}), **of_kind, **told}
    if unknown := whole.keys() - _FIELDS:
        raise ValueError(f"a rule has no {sorted(unknown)}: {told}")
    if not (whole["needs"] or whole["words"]):
        raise ValueError(f"a rule needs `needs` or `words`: {told}")
    return whole


def _build_rule(told: Mapping[str, Any], pieces: Mapping[str, str], means: Mapping[str, Mapping[str, Any]]) -> Rule:
    pieces = {**pieces, "KIND": told["kind"], "WORDS": told["words"]}
    fact, opening, value = (fill_pieces(told[field], pieces) for field in ("fact", "opening", "pattern"))
    ahead = f"(?= {value.replace('?P<value>', '?:')})" if told["ahead"] else ""
    needs = fill_pieces("|".join(told["needs"] or (f" {word}" for word in told["words"].split("|"))), pieces)
    return Rule(
        compile_phrase(f"(?:{opening}){ahead}"),
        fact,
        told.get("key", fact.removeprefix("user_")) or None,
        fill_pieces(told["slug"], pieces),
        Tier(told["tier"]),
        told["confidence"],
        fill_pieces(told["says"], pieces),
        tuple(needs.split("|")),
        ValueShape[told["shape"]],
        contracted=told["contracted"],
        many=told["many"],
        told=told["told"],
        among=read_words(told["among"]),
        denies=told["denies"],
        pattern=compile_value(value) if value else None,
        ends=_read_ends(means[told["means"]], pieces) if told["means"] else ENDS[told["ends"]],
        unaccented=told["unaccented"],
    )


def _read_ends(means: Mapping[str, Any], pieces: Mapping[str, str]) -> Callable[[str], Sequence[str]]:
    """Return the function that names what a value stands for: itself, where no pattern of the table matches it."""
    known = [
        (compile_value(fill_pieces(pattern, pieces)), (values,) if isinstance(values, str) else tuple(values))
        for pattern, values in means.items()
    ]

    def name_value(said: str) -> Sequence[str]:
        plain = drop_accents(said)
        return next((values for one, values in known if one.fullmatch(said) or one.fullmatch(plain)), (said,))

    return name_value
