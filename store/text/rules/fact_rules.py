"""The rules of durable facts and of denials, in the order in which they are applied: tables in `data/`.

The rules of name, preference, like and tasks are the contract's (rule-based extraction of the turn tools).
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from store.text.rules.rule_tables import read_rules
from store.text.rules.vocabulary import people_nouns

_LISTS, _FACTS, _GERMAN = map(read_rules, ("list_rules", "fact_rules", "german_rules"))
_DENIALS = read_rules("denial_rules", _FACTS)
_VALUE_FIRST = read_rules("value_first", _FACTS, _DENIALS)

RULES = (*_LISTS.rules, *_FACTS.rules, *(rule for rule in _GERMAN.rules if not rule.denies))
DENIALS = (*_DENIALS.rules, *(rule for rule in _GERMAN.rules if rule.denies))
#: The rule of the speaker's own name, which introductions state as well (`introductions.py`).
OWN_NAME = next(rule for rule in RULES if rule.slug == "name")
#: Rules, and the patterns of clauses that state their facts with the value in front: "Ghent is where I live".
VALUE_FIRST, GERMAN_VALUE_FIRST = _VALUE_FIRST.value_first, _GERMAN.value_first
#: What a text with such a clause has.
GERMAN_VALUE_FIRST_SIGNS = re.compile(_GERMAN.signs, re.IGNORECASE)
VALUE_FIRST_SIGNS = re.compile(f"{_VALUE_FIRST.signs}|{_GERMAN.signs}", re.IGNORECASE)
#: What people call those for whom there is another word.
ALIASES: Mapping[str, str] = {
    word: named
    for table in ("relations", "german_people", "german_animals")
    for word, named in _FACTS.means[table].items()
}


def _iterate_list_phrases() -> Iterator[tuple[str, str]]:
    for rule in RULES:
        groups = rule.opening.groupindex
        if rule.many and rule.key is None and "key" not in groups:
            phrase = rule.says.removeprefix("{who}").removesuffix("{value}.")
            for relation in people_nouns() if "relation" in groups else ("",):
                yield rule.fact_id.format(relation=relation), phrase.format(relation=relation)


#: Kinds of facts whose key is their value, of which a person has many, and what stands between person and value in a
#: statement of each: `user_visited`, " visited ".
LIST_PHRASES: Mapping[str, str] = MappingProxyType(dict(_iterate_list_phrases()))
