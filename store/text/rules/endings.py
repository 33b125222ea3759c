"""Finds denials that name no value: "We no longer have a dog", "I quit my job", "My girlfriend and I broke up".

They end the facts of a kind, whose values stand in earlier messages; "Just kidding" at the beginning of a message ends
those that the speaker's message before it states. Pure; English.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from re import Pattern
from typing import Any, NamedTuple

from store.text.pattern_tables import fill_pieces
from store.text.rules.addresses import mask_spans
from store.text.rules.canonical import canonical_name
from store.text.rules.fact_rules import NAMES_OF_ROLES, SOLE_ROLES
from store.text.rules.facts import MINED_ROLE, UNNAMED_SPEAKER, find_facts, has_new_holder, name_relation
from store.text.rules.gazetteer import word_list
from store.text.rules.model import ExtractedFact, MessageText, TextSpan, Tier
from store.text.rules.pattern_tables import read_pieces, read_table
from store.text.rules.retractions import find_unstated, takes_back_message_before
from store.text.rules.rule import (
    BEGINS,
    HAVE_JUST,
    Needs,
    any_of,
    compile_value,
    drop_accents,
    stop_at_pictures,
)
from store.text.rules.statements import is_stated

#: Most endings of one message that are read.
MOST = 4
_TABLE = read_table("ending_rules")
_KINDS: Mapping[str, Sequence[str]] = _TABLE["kinds"] | {
    "animals": sorted(word_list("people", "animal")),
    "roles": sorted(word_list("people", "sole")),
}
_PIECES = read_pieces(
    _TABLE,
    {
        "BEGINS": BEGINS,
        "HAVE_JUST": HAVE_JUST,
        "PARTNERS": any_of(frozenset((*_KINDS["partners"], *_KINDS["spouses"]))),
    },
)


class _Phrase(NamedTuple):
    """A phrase that ends facts of some kinds; without kinds, those of the relation in it.

    A text with none of the words `needs` is not searched.
    """

    pattern: Pattern[str]
    needs: Sequence[str]
    kinds: tuple[str, ...]


def _read_phrase(told: Mapping[str, Any]) -> _Phrase:
    needs = fill_pieces("|".join(told["needs"]), _PIECES).split("|")
    return _Phrase(
        compile_value(rf"(?<![\w-])(?:{drop_accents(fill_pieces(told['phrase'], _PIECES))})"),
        needs,
        tuple(f"user_{kind}" for group in told.get("ends", ()) for kind in _KINDS[group]),
    )


_PHRASES = tuple(map(_read_phrase, _TABLE["phrases"]))
#: The phrases, and behind them the names of roles.
_NEEDED = Needs([*(one.needs for one in _PHRASES), NAMES_OF_ROLES])
_SAYS = {"user_employer": "{who} has left {value}.", "user_job": "{who} has ceased to work as {value}."}


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of all facts of some kinds; without kinds, of those of the speaker's message before.

    `span` is that of the words that tell it. With a `value` only facts with this value end, in any case. Those with a
    value that it `keeps` hold on: "My new boss is Kim" ends every boss but Kim.
    """

    ordinal: int
    kinds: tuple[str, ...]
    span: TextSpan
    value: str | None = field(default=None, repr=False)
    keeps: tuple[str, ...] = field(default=(), repr=False)

    def ends(self, fact_id: str, value: str) -> bool:
        """Return whether it ends the facts of this kind with this value."""
        is_meant = self.value is None or self.value.casefold() == value.casefold()
        return fact_id in self.kinds and is_meant and not any(_is_same_person(value, kept) for kept in self.keeps)


def _is_same_person(one: str, other: str) -> bool:
    """Return whether two values may name one person: "Dr. Cho" and "Cho", "Kim" and "Kim Lee"."""
    words, others = (set(canonical_name(name).split()) for name in (one, other))
    return words <= others or others <= words


def find_endings(message: MessageText, ordinal: int) -> list[Ending]:
    """Return the endings of a message in the order of its text, of what people say in their own words.

    Takes time in proportion to the text, never raises.
    """
    if message.role != MINED_ROLE:
        return []
    taken_back = takes_back_message_before(message.content)
    first = [] if taken_back is None else [Ending(ordinal, (), TextSpan(*taken_back))]
    content = stop_at_pictures(message.content)
    plain = drop_accents(content)
    needed = _NEEDED.select(content)
    phrases = [one for nth in needed if nth < len(_PHRASES) and (one := _PHRASES[nth]).pattern.search(plain)]
    has_role = len(_PHRASES) in needed
    found = list(_find_replaced(message, ordinal)) if has_role and has_new_holder(content) else []
    if phrases:
        said = mask_spans(content, find_unstated(message.content, message.name))
        found += islice(_iterate_endings(said, ordinal, phrases), MOST)
    return [*first, *sorted(found, key=lambda ending: ending.span)[:MOST]]


def _iterate_endings(said: str, ordinal: int, phrases: Sequence[_Phrase]) -> Iterator[Ending]:
    plain = drop_accents(said)
    for one in phrases:
        for match in islice(one.pattern.finditer(plain), MOST):
            if is_stated(said, match.start(), match.end(), match.end()):
                groups = {name: said[slice(*match.span(name))] for name, found in match.groupdict().items() if found}
                kinds = one.kinds or (f"user_{name_relation(groups['relation'])}",)
                yield Ending(ordinal, kinds, TextSpan(*match.span()), groups.get("value") or groups.get("other"))


def _find_replaced(message: MessageText, ordinal: int) -> Iterator[Ending]:
    """Yield the endings of those who had a role that a message gives to others: "My new boss is Kim"."""
    found = find_facts(message, ordinal)
    for kind in dict.fromkeys(fact.fact_id for fact in found if fact.replaces):
        kept = [fact for fact in found if fact.fact_id == kind and not fact.denied]
        roles = SOLE_ROLES[kind.removeprefix("user_")] - {kind.removeprefix("user_")}
        kinds = (kind, *(f"user_{role}" for role in sorted(roles)))
        yield Ending(ordinal, kinds, kept[0].span, keeps=tuple(fact.value for fact in kept))


def end_fact(ending: Ending, fact_id: str, key: str, value: str, subject: str | None) -> ExtractedFact:
    """Return the denial that ends the fact of this kind, key and value."""
    kind = fact_id.removeprefix("user_")
    says = _SAYS.get(fact_id, "{who} has no {kind} called {value} any more.")
    return ExtractedFact(
        fact_id=fact_id,
        key=key,
        slug=f"ended-{kind}-{key}",
        value=value,
        tier=Tier.L0,
        confidence=0.9,
        subject=subject,
        statement=says.format(who=subject or UNNAMED_SPEAKER, kind=kind, value=value),
        ordinal=ending.ordinal,
        span=ending.span,
        denied=True,
    )


def take_back(ending: Ending, fact: ExtractedFact, subject: str | None) -> ExtractedFact:
    """Return the denial that ends a fact whose speaker takes it back."""
    denial = end_fact(ending, fact.fact_id, fact.key.casefold(), fact.value, subject)
    return replace(denial, statement=f"{subject or UNNAMED_SPEAKER} did not mean it: {fact.statement}")
