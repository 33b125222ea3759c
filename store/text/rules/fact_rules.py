"""The rules of durable facts and of denials, in the order in which they are applied: tables in `data/`.

The rules of name, preference, like and tasks are the contract's (rule-based extraction of the turn tools).
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from store.text.rules.gazetteer import word_groups
from store.text.rules.rule import drop_accents
from store.text.rules.rule_tables import read_rules
from store.text.rules.vocabulary import people_nouns

_LISTS, _FACTS = map(read_rules, ("list_rules", "fact_rules"))
_GERMAN = read_rules("german_rules", _FACTS)
_DENIALS = read_rules("denial_rules", _FACTS)
_ROMANCE = read_rules("romance_rules", _FACTS)
_VALUE_FIRST = read_rules("value_first", _FACTS, _DENIALS)

_OTHERS = (*_GERMAN.rules, *_ROMANCE.rules)
RULES = (*_LISTS.rules, *_FACTS.rules, *(rule for rule in _OTHERS if not rule.denies))
DENIALS = (*_DENIALS.rules, *(rule for rule in _OTHERS if rule.denies))
#: The rule of the speaker's own name, which introductions state as well (`introductions.py`).
OWN_NAME = next(rule for rule in RULES if rule.slug == "name")
#: Rules, and the patterns of clauses that state their facts with the value in front: "Ghent is where I live"; each
#: table behind the signs of its language, None for English.
VALUE_FIRST = (
    (None, _VALUE_FIRST.value_first),
    *((re.compile(drop_accents(table.signs), re.IGNORECASE), table.value_first) for table in (_GERMAN, _ROMANCE)),
)
#: What a text with such a clause has.
VALUE_FIRST_SIGNS = re.compile(
    drop_accents("|".join(one.signs for one in (_VALUE_FIRST, _GERMAN, _ROMANCE))), re.IGNORECASE
)
#: Roles that one person has at a time, each with its other names: "boss", "landlord".
SOLE_ROLES: Mapping[str, frozenset[str]] = {role: group for group in word_groups("people", "sole") for role in group}
_NAMES_OF_KINDS = (
    *("relations", "german_people", "german_animals", "german_groups", "german_things"),
    *("romance_people", "romance_groups", "romance_animals", "romance_things"),
)
#: What people call those for whom there is another word.
ALIASES: Mapping[str, str] = {
    drop_accents(word): named
    for means in (_FACTS.means, _ROMANCE.means)
    for table, words in means.items()
    if table in _NAMES_OF_KINDS
    for word, named in words.items()
}

#: What the roles that one person has at a time are called in any language.
NAMES_OF_ROLES = (*SOLE_ROLES, *(name for name, role in ALIASES.items() if role in SOLE_ROLES))


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
