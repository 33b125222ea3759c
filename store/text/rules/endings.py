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
from store.text.rules.facts import MINED_ROLE, UNNAMED_SPEAKER
from store.text.rules.gazetteer import word_list
from store.text.rules.model import ExtractedFact, MessageText, TextSpan, Tier
from store.text.rules.pattern_tables import read_pieces, read_table
from store.text.rules.retractions import find_unstated, takes_back_message_before
from store.text.rules.rule import HAVE_JUST, any_of, compile_value, drop_apostrophes, stop_at_pictures
from store.text.rules.statements import is_stated

#: Most endings of one message that are read.
MOST = 4
_TABLE = read_table("ending_rules")
_KINDS: Mapping[str, Sequence[str]] = _TABLE["kinds"] | {"animals": sorted(word_list("people", "animal"))}
_PIECES = read_pieces(
    _TABLE, {"HAVE_JUST": HAVE_JUST, "PARTNERS": any_of(frozenset((*_KINDS["partners"], *_KINDS["spouses"])))}
)


class _Phrase(NamedTuple):
    """A phrase that ends facts of some kinds; without kinds, those of the relation in it.

    A text with none of the words `needs` is not searched.
    """

    pattern: Pattern[str]
    needs: frozenset[str]
    kinds: tuple[str, ...]


def _read_phrase(told: Mapping[str, Any]) -> _Phrase:
    needs = fill_pieces("|".join(told["needs"]), _PIECES).split("|")
    return _Phrase(
        compile_value(rf"(?<![\w-])(?:{fill_pieces(told['phrase'], _PIECES)})"),
        frozenset(map(drop_apostrophes, needs)),
        tuple(f"user_{kind}" for group in told.get("ends", ()) for kind in _KINDS[group]),
    )


_PHRASES = tuple(map(_read_phrase, _TABLE["phrases"]))
_SAYS = {"user_employer": "{who} has left {value}.", "user_job": "{who} has ceased to work as {value}."}


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of all facts of some kinds; without kinds, of those of the speaker's message before.

    `span` is that of the words that tell it. With a `value` only facts with this value end, in any case.
    """

    ordinal: int
    kinds: tuple[str, ...]
    span: TextSpan
    value: str | None = field(default=None, repr=False)

    def ends(self, fact_id: str, value: str) -> bool:
        """Return whether it ends the facts of this kind with this value."""
        return fact_id in self.kinds and (self.value is None or self.value.casefold() == value.casefold())


def find_endings(message: MessageText, ordinal: int) -> list[Ending]:
    """Return the endings of a message in the order of its text, of what people say in their own words.

    Takes time in proportion to the text, never raises.
    """
    if message.role != MINED_ROLE:
        return []
    taken_back = takes_back_message_before(message.content)
    first = [] if taken_back is None else [Ending(ordinal, (), TextSpan(*taken_back))]
    content = stop_at_pictures(message.content)
    low = drop_apostrophes(content.lower())
    needed = (one for one in _PHRASES if any(need in low for need in one.needs))
    phrases = [one for one in needed if one.pattern.search(content)]
    if not phrases:
        return first
    said = mask_spans(content, find_unstated(message.content, message.name))
    found = islice(_iterate_endings(said, ordinal, phrases), MOST)
    return [*first, *sorted(found, key=lambda ending: ending.span)]


def _iterate_endings(said: str, ordinal: int, phrases: Sequence[_Phrase]) -> Iterator[Ending]:
    for one in phrases:
        for match in islice(one.pattern.finditer(said), MOST):
            if is_stated(said, match.start(), match.end(), match.end()):
                groups = match.groupdict()
                kinds = one.kinds or (f"user_{match['relation'].casefold()}",)
                yield Ending(ordinal, kinds, TextSpan(*match.span()), groups.get("value") or groups.get("other"))


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
