"""Finds denials that name no value: "We no longer have a dog", "I quit my job", "My girlfriend and I broke up".

They end the facts of a kind, whose values stand in earlier messages; "Just kidding" at the beginning of a message ends
those that the speaker's message before it states. Pure; English.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from re import Pattern
from typing import NamedTuple

from store.text.rules.addresses import mask_spans
from store.text.rules.facts import MINED_ROLE, SOMEBODY
from store.text.rules.gazetteer import word_list
from store.text.rules.model import ExtractedFact, MessageText, TextSpan, Tier
from store.text.rules.retractions import find_unstated, takes_back_message_before
from store.text.rules.rule import HAVE_JUST, any_of, compile_value, drop_apostrophes, stop_at_pictures
from store.text.rules.statements import is_stated

#: Most endings of one message that are read.
MOST = 4
_PARTNERS = ("girlfriend", "boyfriend", "partner", "fianc\u00e9", "fianc\u00e9e", "fiance", "fiancee")
_SPOUSES = ("wife", "husband")
_JOB = ("user_employer", "user_job")
#: The group that names the relation which has ended.
_ANIMAL = rf"(?P<relation>{any_of(word_list('people', 'animal'))})(?![\w-])"
_PARTNER = rf"(?P<relation>{any_of(frozenset((*_PARTNERS, *_SPOUSES)))})(?![\w-])"
_OUR = "(?:my|our)(?: (?:old|little|dear|beloved|poor|late|sweet|younger|older|eldest|youngest))?"
_NAME = r"(?-i:[A-Z])\w{1,20}"
_ANY_MORE = r"any(?: |)(?:more|longer)\b"
# A phrase ends its clause, or goes on with a time or another clause: "left me last year", not "left me a note".
_TIME = (
    "last|this|yesterday|today|now|recently|again|at the moment|right now|for good|years ago|unfortunately|sadly"
    "|peacefully|(?:a|an|one|two|three|four|five|six|some|several|many|a few) (?:hour|day|week|month|year)s?"
    r"|in (?:january|february|march|april|may|june|july|august|september|october|november|december|(?:19|20)\d\d)"
    f"|on (?:mon|tues|wednes|thurs|fri|satur|sun)day|and|but|so|because|since|after|when|{_ANY_MORE}"
)
_END = rf"(?=\s*(?:[.!?,;:)\n\u2013\u2014]|$)| (?:{_TIME})\b)"
_HAVE_NO = (
    "(?:i|we)(?: no longer (?:have|own|keep)| (?:don't|do not|haven't|have not) (?:have|own|keep|got)"
    rf"(?=[^.,;!?\n]{{1,40}} {_ANY_MORE}))(?: an?| the| my| our| any)?"
)
_DEAD = "died|passed away|(?:was|been|had to be) put (?:down|to sleep)"
_LEFT = f"(?:broke|broken|split) up{_END}|separated{_END}|(?:got )?divorced{_END}|are no longer together{_END}"
_JOBLESS = "retired|unemployed|jobless|out of work|out of a job|between jobs"
_OUT_OF_WORK = "in (?:rente|pension)|rentner(?:in)?|pension\u00e4r(?:in)?|pensioniert|arbeitslos"
_LET_GO = "laid off|fired|made redundant|let go"
_HAVE = tuple(
    f"{no} {verb}" for no in ("n't", "n\u2019t", "not", "no longer") for verb in ("have", "own", "keep", "got")
)


class _Phrase(NamedTuple):
    """A phrase that ends facts of some kinds; without kinds, those of the relation in it.

    A text with none of the words `needs` is not searched.
    """

    phrase: str
    needs: tuple[str, ...]
    kinds: tuple[str, ...] = ()


_ANIMALS = tuple(f"user_{one}" for one in sorted(word_list("people", "animal")))
_LOVED = tuple(f"user_{one}" for one in (*_PARTNERS, *_SPOUSES))
#: A name of which a phrase tells the end, of facts with this value alone: "Biscuit died", "Hannah and I broke up".
_ITS_NAME = (
    r"(?P<value>(?-i:(?:(?:Dr|Mr|Mrs|Ms|Prof)\.? )?[A-Z])[\w\x27\u2019-]{1,24}(?: (?-i:[A-Z])[\w\x27\u2019-]{1,24})?)"
)
_RELATION = rf"(?P<relation>{any_of(word_list('people', 'person'))})(?![\w-])"
_APART = rf"(?:broke|broken|split) up{_END}|separated{_END}|(?:got )?divorced{_END}"
_NO_MORE = "(?:is|was) (?:no longer|not)|(?:is|was)n't"
_PHRASES = (
    _Phrase(f"{_HAVE_NO} (?:{_ANIMAL}){_END}", _HAVE),
    _Phrase(f"{_HAVE_NO} (?:{_PARTNER}){_END}", _HAVE),
    _Phrase(
        f"{_OUR} {_ANIMAL}(?: has| had)?(?: just| sadly)? (?:{_DEAD}){_END}",
        (" died", "passed away", "put down", "put to sleep"),
    ),
    _Phrase(
        f"(?:i|we){HAVE_JUST}(?: had to)? (?:put|gave|give|given) {_OUR} {_ANIMAL} (?:down|to sleep|away){_END}",
        tuple(f" {verb} {whose} " for verb in ("put", "gave", "give", "given") for whose in ("our", "my")),
    ),
    _Phrase(f"(?:i|we){HAVE_JUST} rehomed {_OUR} {_ANIMAL}", ("rehomed",)),
    _Phrase(
        f"(?:i|we){HAVE_JUST} (?:broke|broken|split|separated)(?: up)? (?:with|from) my {_PARTNER}",
        ("broke", "split", "separated"),
    ),
    _Phrase(f"my {_PARTNER}(?: {_NAME})? and i{HAVE_JUST} (?:{_LEFT})", (" and i ", " and i've ")),
    _Phrase(
        f"my {_PARTNER}(?: {_NAME})?{HAVE_JUST} (?:broke up with|left|dumped|divorced) me{_END}",
        ("broke up with me", "left me", "dumped me", "divorced me"),
    ),
    _Phrase(
        f"(?:we|{_NAME} and i){HAVE_JUST} (?:broke|broken|split) up{_END}",
        ("broke up", "broken up", "split up"),
        tuple(f"user_{one}" for one in _PARTNERS),
    ),
    _Phrase(
        f"(?:(?:i'm|i am|we're|we are)(?: now)?|(?:i|we){HAVE_JUST} (?:got|gotten)) divorced{_END}",
        ("divorced",),
        tuple(f"user_{one}" for one in _SPOUSES),
    ),
    _Phrase(
        f"i{HAVE_JUST} (?:quit|left|lost|resigned from|gave up|given up|had to (?:quit|leave|give up))"
        f" my(?: old)? job{_END}",
        (" my job", " my old job"),
        _JOB,
    ),
    _Phrase(
        f"(?:i was|i got|i(?:'ve| have)(?: just| recently)? been)(?: just| recently)? (?:{_LET_GO}){_END}",
        tuple(_LET_GO.split("|")),
        _JOB,
    ),
    _Phrase(f"i{HAVE_JUST} (?:retired|resigned){_END}", ("retired", "resigned"), _JOB),
    _Phrase(f"(?:i'm|i am)(?: now| currently)? (?:{_JOBLESS}){_END}", tuple(_JOBLESS.split("|")), _JOB),
    _Phrase(
        f"(?:ich bin|(?:jetzt|nun|inzwischen|seit [^.,;!?\\n]{{1,24}}?) bin ich)(?: (?:jetzt|nun|inzwischen|endlich"
        f"|auch|seit [^.,;!?\\n]{{1,24}}?)){{0,2}} (?:{_OUT_OF_WORK}){_END}",
        (" rente", "rentner", "pension", "arbeitslos"),
        _JOB,
    ),
    _Phrase(
        f"{_ITS_NAME}(?: just| has| recently){{0,2}} (?:let me go|fired me|sacked me|laid me off"
        f"|made me redundant){_END}",
        ("let me go", "fired me", "sacked me", "laid me off", "made me redundant"),
        ("user_employer",),
    ),
    _Phrase(
        f"my (?:contract|time|stint|internship|job) (?:at|with) {_ITS_NAME} (?:has )?(?:ended|ran out|run out"
        f"|is over|finished|expired|came to an end){_END}",
        ("my contract", "my time", "my stint", "my internship", "my job"),
        ("user_employer",),
    ),
    _Phrase(f"my last day (?:at|with) {_ITS_NAME} was", ("my last day",), ("user_employer",)),
    _Phrase(
        f"{_ITS_NAME}(?: has| had)?(?: just| sadly)? (?:{_DEAD}){_END}",
        (" died", "passed away", "put down", "put to sleep"),
        _ANIMALS,
    ),
    _Phrase(
        f"(?:i|we){HAVE_JUST}(?: had to)? (?:put|gave|give|given) {_ITS_NAME} (?:down|to sleep|away){_END}",
        ("put ", "gave ", "give ", "given "),
        _ANIMALS,
    ),
    _Phrase(f"(?:i|we){HAVE_JUST}(?: had to)? (?:rehomed?|lost) {_ITS_NAME}{_END}", ("rehome", "lost "), _ANIMALS),
    _Phrase(
        f"(?:i|we) (?:no longer have|(?:don't|do not) have(?= [^.,;!?\n]{{1,30}} {_ANY_MORE})) {_ITS_NAME}{_END}",
        ("n't have", "not have", "longer have"),
        _ANIMALS,
    ),
    _Phrase(f"me and {_ITS_NAME}{HAVE_JUST} (?:{_APART})", ("me and ",), _LOVED),
    _Phrase(
        f"(?:me and {_ITS_NAME}|{_ITS_NAME.replace('value', 'other')} and (?:i|me)) (?:are no longer|aren't"
        f"|are not) together{_END}",
        (" together",),
        _LOVED,
    ),
    _Phrase(
        f"{_ITS_NAME}(?: has| just){{0,2}} (?:dumped me|broke up with me|left me|divorced me){_END}", (" me",), _LOVED
    ),
    _Phrase(f"{_ITS_NAME} (?:{_NO_MORE}) my {_RELATION}", ("not my", "n't my", "longer my")),
    _Phrase(
        f"{_ITS_NAME} (?:{_NO_MORE}) (?:my|our) favou?rite \\w",
        ("favo",),
        ("user_favourite",),
    ),
    _Phrase(
        f"i(?: no longer work|{HAVE_JUST} stopped working| (?:don't|do not) work(?= {_ANY_MORE})){_END}",
        ("no longer work", "stopped working", "n't work any", "n\u2019t work any", "not work any"),
        _JOB,
    ),
)
_READY = tuple(
    (compile_value(rf"(?<![\w-])(?:{one.phrase})"), frozenset(map(drop_apostrophes, one.needs)), one)
    for one in _PHRASES
)
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
    needed = ((pattern, one) for pattern, needs, one in _READY if any(need in low for need in needs))
    patterns = [(pattern, one) for pattern, one in needed if pattern.search(content)]
    if not patterns:
        return first
    said = mask_spans(content, find_unstated(message.content, message.name))
    found = islice(_iterate_endings(said, ordinal, patterns), MOST)
    return [*first, *sorted(found, key=lambda ending: ending.span)]


def _iterate_endings(said: str, ordinal: int, patterns: Sequence[tuple[Pattern[str], _Phrase]]) -> Iterator[Ending]:
    for pattern, one in patterns:
        for match in islice(pattern.finditer(said), MOST):
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
        statement=says.format(who=subject or SOMEBODY, kind=kind, value=value),
        ordinal=ending.ordinal,
        span=ending.span,
        denied=True,
    )


def take_back(ending: Ending, fact: ExtractedFact, subject: str | None) -> ExtractedFact:
    """Return the denial that ends a fact whose speaker takes it back."""
    denial = end_fact(ending, fact.fact_id, fact.key.casefold(), fact.value, subject)
    return replace(denial, statement=f"{subject or SOMEBODY} did not mean it: {fact.statement}")
