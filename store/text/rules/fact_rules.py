"""Opening phrases of durable facts, and the fact each one states.

The first five are the contract's (rule-based extraction of the turn tools); the others are ours.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType

from store.text.rules.gazetteer import word_list
from store.text.rules.model import Tier

SPACE = r"[ \t\u00a0]{1,3}"
_APOSTROPHE = "['\u2019]"


class ValueShape(Enum):
    """The required form of a fact's value."""

    ANY = auto()
    NAME = auto()  # a capitalised name: what comes behind it is cut off
    PLACE = auto()  # a name that may be a place's: "I moved to Porto", not "I moved to Python"
    THING = auto()  # a name or something with an article: "I work at the library", not "I work at night"
    DAY = auto()  # holds a date
    DOING = auto()  # "hiking", "to hike": "I love hiking", not "I love you"
    ROLE = auto()  # "a nurse", not "hard as I can"
    TOPIC = auto()  # "coriander", not "to bother you", "it when it rains"
    DIET = auto()  # a way of eating, and no more
    MARRIAGE = auto()  # a word for being married or not, and no more
    OBJECT = auto()  # a few words for a thing or a place: "red kettle at the market" is "red kettle"
    TITLE = auto()  # an object that may have a title of any words


@dataclass(frozen=True, slots=True)
class Rule:
    """An opening phrase and the fact it opens.

    `key` None means that the matched group `key`, or else the value, is the key. `says` is the fact as a
    sentence with {who}, {key}, {relation} and {value}. A text with none of the words `needs` is not searched.
    A contracted rule takes its first value as it comes. Other rules take every value where they are `many`, else the
    value that was said last. A rule of what is `told` takes only what a sentence states plainly and, unless `among` is
    empty, only values with one of its words. One that `denies` ends the fact with this value.
    """

    opening: re.Pattern[str]
    fact_id: str
    key: str | None
    slug: str
    tier: Tier
    confidence: float
    says: str
    needs: tuple[str, ...]
    shape: ValueShape = ValueShape.ANY
    contracted: bool = False
    many: bool = False
    told: bool = False
    among: frozenset[str] = frozenset()
    denies: bool = False


def compile_phrase(text: str) -> re.Pattern[str]:
    """Return the pattern of a phrase: whole words, any case, either apostrophe, gaps of one to three blanks."""
    pattern = text.replace(" ", SPACE).replace("'", _APOSTROPHE)
    return re.compile(rf"(?<![\w'\u2019])(?:{pattern}){SPACE}(?=\S)", re.IGNORECASE)


def _any_of(found: frozenset[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(found))


_HAVE_JUST = "(?:'ve| have)?(?: just| recently| finally)?"
_RELATION_WORDS = word_list("people", "person") | word_list("people", "animal")
RELATIONS = _any_of(_RELATION_WORDS)
#: Words for being married or not; each ends the other.
MARRIAGES = r"married|divorced|separated|widowed|engaged(?! (?:in|with|on|by)\b)|single"
DIETS = "vegetarian|vegan|pescatarian|pescetarian|coeliac|celiac|diabetic|lactose intolerant|gluten intolerant"

# What people did, by kind: each makes a list of its own. The kind's verb stands for all that tell the same. A verb of
# many senses ("made", "lost", "broke", "picked up") is none.
_DONE = {
    "bought": "bought|purchased|treated myself to|splurged on",
    "built": "built",
    "baked": "baked",
    "cooked": "cooked",
    "painted": "painted",
    "wrote": "wrote",
    "repaired": "repaired|fixed|mended",
    "replaced": "replaced",
    "joined": "joined|signed up for",
    "attended": "attended",
    "adopted": "adopted",
    "planted": "planted",
    "sold": "sold",
    "borrowed": "borrowed",
    "climbed": "climbed|hiked up",
    "hired": "hired",
}
_TITLED = {"read": "read|finished reading", "watched": "watched|finished watching"}
_OTHER, _NOT = r"[^\s,;.!?]{1,40}", "i (?:don't|do not|no longer)"
_DETERMINER = "(?: an?| the| some| another| my| our| two| three| four| five| six)?"


def _list_rule(
    kind: str,
    opening: str,
    needs: str,
    shape: ValueShape = ValueShape.OBJECT,
    among: frozenset[str] = frozenset(),
) -> Rule:
    """Return the rule for one kind of what people did or do; a text with none of `needs` is not searched."""
    return Rule(
        compile_phrase(opening),
        f"user_{kind}",
        None,
        kind,
        Tier.L0,
        0.85,
        f"{{who}} {kind} {{value}}.",
        needs=tuple(f" {need}" for need in needs.split("|")),
        shape=shape,
        many=True,
        told=True,
        among=among,
    )


_DID = rf"(?:i|we){_HAVE_JUST}(?: also| already| even)?"
_DO = "i(?: also| still| usually)?"
_LIST_RULES = (
    *(_list_rule(kind, f"{_DID} (?:{verbs}){_DETERMINER}", verbs) for kind, verbs in _DONE.items()),
    *(_list_rule(kind, f"{_DID} (?:{verbs}){_DETERMINER}", verbs, ValueShape.TITLE) for kind, verbs in _TITLED.items()),
    _list_rule(
        "visited",
        rf"{_DID} (?:visited|toured)(?![^.,;!?\n]{{1,40}}\b(?:website|page|site|link|url)\b){_DETERMINER}",
        "visited|toured",
    ),
    # Not "ordered Kim to leave" and "ordered the files by date".
    _list_rule("bought", rf"{_DID} ordered(?! my\b)(?![^.,;!?\n]{{1,80}} (?:to|by)\b){_DETERMINER}", "ordered"),
    _list_rule("won", f"{_DID} won (?:an?|the|two|three)", "won"),
    _list_rule(
        "visited",
        f"{_DID} (?:(?:went|been|flew|travell?ed|drove) to|(?:was|were|stayed) in|(?:got|came|am|are) back from)",
        "went to|been to|flew to|travelled to|traveled to|drove to|was in|were in|stayed in|back from",
        ValueShape.PLACE,
    ),
    _list_rule(
        "visited", f"{_DID} (?:went|been) to (?:an?|the)", "went to|been to", among=word_list("deed", "visited")
    ),
    _list_rule(
        "goes",
        f"{_DID} (?:go|went|took up|started)(?= [^\\W\\d_]{{2,30}}ing\\b)",
        "go |went |took up|started",
        among=word_list("deed", "goes"),
    ),
    *(
        _list_rule(kind, f"{_DID} (?:started|began) {doing}(?: the| some)?", doing, among=word_list("deed", kind))
        for kind, doing in (("plays", "playing"), ("collects", "collecting"), ("drinks", "drinking"))
    ),
    _list_rule("plays", f"{_DO} play(?: the| some| a little| a bit of)?", "play", among=word_list("deed", "plays")),
    _list_rule("collects", f"{_DO} collect", "collect", among=word_list("deed", "collects")),
    _list_rule("owns", f"{_DO} own (?:an?|two|three|four|five|six)", "own"),
    _list_rule("speaks", f"{_DO} speak(?: fluent| some| a little| a bit of)?(?= (?-i:[A-Z]))", "speak"),
    _list_rule("drinks", f"{_DO} drink(?: an?| some)?", "drink", among=word_list("deed", "drinks")),
)

#: The rule of the speaker's own name, which introductions state as well (`introductions.py`).
OWN_NAME = Rule(
    compile_phrase(
        rf"my name(?: is|'s) not {_OTHER},? (?:it is|it's|but|i'm|i am)"
        rf"|my name isn't {_OTHER},? (?:it is|it's|but)"
    ),
    "user_name",
    "name",
    "name",
    Tier.L0,
    0.95,
    "{who}'s name is {value}.",
    needs=("name",),
    shape=ValueShape.NAME,
)
RULES = (
    *_LIST_RULES,
    OWN_NAME,
    Rule(
        compile_phrase("i prefer"),
        "user_preference",
        "preference",
        "prefer",
        Tier.L0,
        0.92,
        "{who} prefers {value}.",
        needs=("prefer",),
        contracted=True,
    ),
    Rule(
        compile_phrase("i like"),
        "user_like",
        "like",
        "like",
        Tier.L2,
        0.85,
        "{who} likes {value}.",
        needs=("like",),
        contracted=True,
    ),
    Rule(
        compile_phrase("today i need"),
        "today_task",
        "today_task",
        "today-task",
        Tier.L1,
        0.80,
        "{who} needs {value} today.",
        needs=("today",),
        contracted=True,
    ),
    Rule(
        compile_phrase("this week i need"),
        "weekly_task",
        "weekly_task",
        "week-task",
        Tier.L2,
        0.82,
        "{who} needs {value} this week.",
        needs=("week",),
        contracted=True,
    ),
    Rule(
        compile_phrase(rf"(?:i|we)(?: now| currently| actually)? live in|{_NOT} live in {_OTHER},? but in"),
        "user_home",
        "home",
        "home",
        Tier.L0,
        0.90,
        "{who} lives in {value}.",
        needs=("live",),
        shape=ValueShape.PLACE,
    ),
    Rule(
        compile_phrase(f"(?:i|we){_HAVE_JUST} moved(?: from [^\\s.,;!?]{{1,40}})? to"),
        "user_home",
        "home",
        "moved",
        Tier.L0,
        0.90,
        "{who} moved to {value}.",
        needs=("moved",),
        shape=ValueShape.PLACE,
    ),
    Rule(
        compile_phrase("(?:(?:i am|i'm|i come) from|(?:i was born|i grew up) in)"),
        "user_origin",
        "origin",
        "origin",
        Tier.L0,
        0.85,
        "{who} comes from {value}.",
        needs=(
            "from",
            "born",
            "grew",
        ),
        shape=ValueShape.PLACE,
    ),
    Rule(
        compile_phrase(
            rf"i(?: now| currently| actually)? work (?:at|for)|{_NOT} work (?:at|for) {_OTHER},? but (?:at|for)"
            rf"|i{_HAVE_JUST} started(?: working)? (?:at|for)"
        ),
        "user_employer",
        "employer",
        "employer",
        Tier.L0,
        0.88,
        "{who} works at {value}.",
        needs=("work", "started"),
        shape=ValueShape.THING,
    ),
    Rule(
        compile_phrase("i(?: now| currently)? work as"),
        "user_job",
        "job",
        "job",
        Tier.L0,
        0.88,
        "{who} works as {value}.",
        needs=("work",),
        shape=ValueShape.ROLE,
    ),
    Rule(
        compile_phrase("my birthday is(?: on)?"),
        "user_birthday",
        "birthday",
        "birthday",
        Tier.L0,
        0.95,
        "{who}'s birthday is {value}.",
        needs=("birthday",),
        shape=ValueShape.DAY,
    ),
    Rule(
        compile_phrase("(?:i'm|i am)(?: very| severely| badly)? allergic to"),
        "user_allergy",
        "allergy",
        "allergy",
        Tier.L0,
        0.95,
        "{who} is allergic to {value}.",
        needs=("allergic",),
        many=True,
    ),
    Rule(
        compile_phrase(rf"(?:i'm|i am)(?: now)?(?: an?)?(?= (?:{DIETS})\b)"),
        "user_diet",
        "diet",
        "diet",
        Tier.L0,
        0.88,
        "{who} is {value}.",
        needs=(
            "vegan",
            "tarian",
            "liac",
            "diabetic",
            "intolerant",
        ),
        shape=ValueShape.DIET,
    ),
    Rule(
        compile_phrase(
            rf"(?:(?:i'm|i am|we're|we are)(?: now| happily| still| already| recently| newly)?"
            rf"|(?:i|we){_HAVE_JUST} (?:got|gotten|been))(?= (?:{MARRIAGES})(?![\w-]))"
        ),
        "user_marriage",
        "marriage",
        "marriage",
        Tier.L0,
        0.88,
        "{who} is {value}.",
        needs=tuple(MARRIAGES.replace(r"(?! (?:in|with|on|by)\b)", "").split("|")),
        shape=ValueShape.MARRIAGE,
    ),
    Rule(
        compile_phrase("(?:i hate|i dislike|i don't like|i do not like|i can't stand)"),
        "user_dislike",
        "dislike",
        "dislike",
        Tier.L2,
        0.85,
        "{who} does not like {value}.",
        needs=(
            "hate",
            "like",
            "stand",
        ),
        shape=ValueShape.TOPIC,
        many=True,
    ),
    Rule(
        compile_phrase("i (?:love|enjoy)"),
        "user_like",
        "like",
        "love",
        Tier.L2,
        0.85,
        "{who} loves {value}.",
        needs=("love", "enjoy"),
        shape=ValueShape.DOING,
        many=True,
    ),
    Rule(
        compile_phrase(r"my favou?rite (?P<key>[^\W_]{2,30}(?: [^\W_]{2,30})?) is"),
        "user_favourite",
        None,
        "favourite",
        Tier.L0,
        0.88,
        "{who}'s favourite {key} is {value}.",
        needs=("favo",),
        shape=ValueShape.TOPIC,
        many=True,
    ),
    Rule(
        compile_phrase(rf"(?:my|our) (?P<relation>{RELATIONS})(?:(?:'s name)? is(?: called| named)?| called| named)?"),
        "user_{relation}",
        None,
        "relation",
        Tier.L0,
        0.90,
        "{who}'s {relation} is called {value}.",
        needs=(
            "my",
            "our",
        ),
        shape=ValueShape.NAME,
        many=True,
    ),
)


def _iterate_list_phrases() -> Iterator[tuple[str, str]]:
    for rule in RULES:
        groups = rule.opening.groupindex
        if rule.many and rule.key is None and "key" not in groups:
            phrase = rule.says.removeprefix("{who}").removesuffix("{value}.")
            for relation in _RELATION_WORDS if "relation" in groups else ("",):
                yield rule.fact_id.format(relation=relation), phrase.format(relation=relation)


#: Kinds of facts whose key is their value, of which a person has many, and what stands between person and value in a
#: statement of each: `user_visited`, " visited ".
LIST_PHRASES: Mapping[str, str] = MappingProxyType(dict(_iterate_list_phrases()))
