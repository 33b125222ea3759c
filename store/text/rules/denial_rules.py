"""Opening phrases of denials, and the fact each one ends: "I no longer work at Nordwind".

A denial has the identity of the fact that it ends, and ends it only where the value is the same.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from store.text.rules.gazetteer import word_list
from store.text.rules.life_rules import DIETS, JOB, MARRIAGES, RELATIONS
from store.text.rules.model import Tier
from store.text.rules.rule import Rule, ValueShape, compile_phrase, compile_value

_NOW = "(?: really| actually| currently| even)?"
_NOT = f"(?:no longer|don't{_NOW}|do not{_NOW}|used to)"
_AM_NOT = "(?:i'm|i am)(?: actually| really)?(?: not| no longer)(?: actually| really| even)?|i ain't|i was never"
_STOPPED = "(?: have|'ve)?(?: just| recently| finally| now)? (?:stopped|quit|gave up|given up|have given up)"
_LEFT = (
    "(?: have|'ve)?(?: just| recently| finally| now)? (?:(?:left|quit|gave up|lost) my job (?:at|with)"
    "|(?:stopped|quit) working (?:at|for)|(?:left|quit)(?= (?-i:[A-Z]))|resigned from|(?:was|got|have been) (?:fired"
    "|laid off|let go) (?:from|by))"
)


class _Denial(NamedTuple):
    fact_id: str
    key: str | None
    opening: str
    says: str
    shape: ValueShape = ValueShape.ANY
    needs: tuple[str, ...] = (" not ", "n't ", "n\u2019t ", "no longer", "never")
    many: bool = False
    among: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None


_ENDS = (
    " quit",
    " left",
    " gave up",
    " given up",
    " stopped",
    "resigned",
    " fired",
    " laid off",
    " let go",
    "moved",
    " used to",
)
_PLAIN = (" not ", "n't ", "n\u2019t ", "no longer", "never", " used to")
_DENIALS = (
    _Denial(
        "user_name",
        "name",
        "my name(?: is|'s) (?:not|no longer)|my name isn't|my name was never|(?:i'm|i am) (?:not|no longer) called"
        "|(?:don't|do not|stop|never) call(?:ing)? me",
        "{who}'s name is other than {value}.",
        ValueShape.NAME,
        needs=(*_PLAIN, "stop"),
    ),
    _Denial(
        "user_home",
        "home",
        f"(?:i|we) {_NOT} live(?: alone| together| with [^.,;!?\\n]{{1,40}}?)? in"
        "|(?:i'm|i am|we're|we are) (?:not living|no longer(?: living)?) in"
        "|(?:i|we)(?: have|'ve)?(?: just| recently| finally)? moved (?:away from|out of)"
        "|(?:i|we)(?:'ve| have)? never lived in"
        "|(?:i|we)(?: have|'ve)?(?: just| recently| finally)? left",
        "{who} has left {value}.",
        ValueShape.PLACE,
        needs=(*_PLAIN, *_ENDS),
    ),
    _Denial(
        "user_origin",
        "origin",
        "(?:i'm|i am) (?:not|no longer) from|i (?:don't|do not) come from|i (?:wasn't|was not|was never) born in"
        "|i (?:didn't|did not|never) gr[eo]w up in",
        "{who} comes from elsewhere than {value}.",
        ValueShape.PLACE,
    ),
    _Denial(
        "user_employer",
        "employer",
        f"i {_NOT} work (?:at|for)|i(?:'m| am) (?:not|no longer) (?:working|employed) (?:at|for|by|with)|i(?:'m"
        f"| am) no longer (?:at|with)"
        f"|i{_LEFT}|i(?: have|'ve)? never worked (?:at|for)",
        "{who} has left {value}.",
        ValueShape.THING,
        needs=(*_PLAIN, *_ENDS),
    ),
    _Denial(
        "user_job",
        "job",
        f"i {_NOT} work as|i(?:'m| am) (?:not|no longer) (?:working|employed) as|i{_STOPPED} (?:working|being) as",
        "{who} has ceased to work as {value}.",
        ValueShape.ROLE,
        needs=(*_PLAIN, *_ENDS),
    ),
    _Denial(
        "user_job",
        "job",
        f"(?:{_AM_NOT}|i used to be|i{_STOPPED} being)(?= an? )",
        "{who} has ceased to be {value}.",
        needs=(*_PLAIN, *_ENDS),
        pattern=compile_value(JOB),
    ),
    _Denial(
        "user_marriage",
        "marriage",
        f"(?:{_AM_NOT}|(?:we're|we are)(?: not| no longer)|(?:i|we) used to be)(?= (?:{MARRIAGES})(?![\\w-]))",
        "{who} is other than {value}.",
        needs=("married", "divorced", "separated", "widowed", "engaged", "single"),
        pattern=compile_value(MARRIAGES),
    ),
    _Denial(
        "user_birthday",
        "birthday",
        "my birthday (?:is not|isn't|is no longer|was never)(?: on)?",
        "{who}'s birthday is other than {value}.",
        ValueShape.DAY,
    ),
    _Denial(
        "user_allergy",
        "allergy",
        f"(?:{_AM_NOT}|i'm no longer|i am no longer|i stopped being|i outgrew being)(?: very| severely"
        f"| badly)? allergic to",
        "{who} has no allergy to {value}.",
        needs=("allergic",),
        many=True,
    ),
    _Denial(
        "user_diet",
        "diet",
        f"(?:{_AM_NOT}|i{_STOPPED} being|i ceased to be|i used to be)(?: an?| strictly| fully)?",
        "{who} has ceased to be {value}.",
        needs=("vegan", "tarian", "liac", "diabetic", "intolerant"),
        pattern=compile_value(DIETS),
    ),
    _Denial(
        "user_preference",
        "preference",
        f"i {_NOT} prefer",
        "{who} has no preference for {value}.",
        needs=("prefer",),
        many=True,
    ),
    _Denial(
        "user_dislike",
        "dislike",
        "i (?:no longer|don't|do not)(?: really| actually)? (?:hate|dislike)|i no longer don't like"
        "|i stopped (?:hating|disliking)",
        "{who} has nothing against {value}.",
        ValueShape.TOPIC,
        needs=("hat", "dislik", "like"),
        many=True,
    ),
    _Denial(
        "user_like",
        "like",
        "i (?:no longer|used to|stopped) (?:like|love|enjoy|liking|loving|enjoying)"
        rf"|i (?:don't|do not){_NOW} (?:like|love|enjoy)(?=[^.,;!?\n]{{1,100}} any ?(?:more|longer)\b)"
        "|(?:i'm|i am) no longer (?:fond of|into|a fan of)|i(?:'ve| have)? (?:gone|went) off",
        "{who} has no liking for {value}.",
        ValueShape.TOPIC,
        needs=("lik", "lov", "enjoy", "hate", "stand", "fond", "into", "fan ", " off "),
        many=True,
    ),
    _Denial(
        "user_favourite",
        None,
        r"my favou?rite (?P<key>[^\W_]{2,30}(?: [^\W_]{2,30})??) (?:is not|isn't|is no longer)",
        "{who}'s favourite {key} is other than {value}.",
        ValueShape.TOPIC,
        needs=("favo",),
        many=True,
    ),
    _Denial(
        "user_{relation}",
        None,
        rf"(?:my|our) (?P<relation>{RELATIONS})(?:'s name)? (?:(?:is not|isn't|is no longer)(?: called| named)?)",
        "{who}'s {relation} is other than {value}.",
        ValueShape.NAME,
        many=True,
    ),
)
#: Kinds of lists whose members end: the verb, its form behind "stopped", and the words a value has one of.
_LISTS = (
    ("plays", "play", "playing", "(?: the| some| a little)?"),
    ("collects", "collect", "collecting", ""),
    ("owns", "own", "owning", "(?: an?| the| my| any)?"),
    ("speaks", "speak", "speaking", "(?: fluent| any)?"),
    ("drinks", "drink", "drinking", "(?: any| an?)?"),
    ("goes", "go", "going", ""),
)


_CEASED = ("stopped", "quit", "gave up", "given up")
_GAVE_AWAY = "(?:(?:have|'ve) )?(?:(?:just|recently|finally) )?(?:sold|gave away|given away)"
_GIVEN_AWAY = ("sold", "gave away", "given away")


def _iterate_lists() -> Iterator[_Denial]:
    for kind, verb, doing, filler in _LISTS:
        ceased = f"(?:stopped|quit|gave up|(?:have|'ve) given up) {doing}"
        needs = (*verb.split("|"), doing)
        if kind == "owns":
            ceased, needs = f"{ceased}|{_GAVE_AWAY}", (*needs, *_GIVEN_AWAY)
        if kind == "goes":
            ceased, needs = f"(?:stopped|quit|gave up|(?:have|'ve) given up)(?: {doing})?", (*needs, *_CEASED)
        yield _Denial(
            f"user_{kind}",
            None,
            f"i (?:{_NOT} (?:{verb})|{ceased}){filler}",
            f"{{who}} has ceased that {kind} {{value}}.",
            ValueShape.OBJECT,
            needs=tuple(f" {one}" for one in needs),
            many=True,
            among=word_list("deed", kind) if kind in {"plays", "collects", "drinks", "goes"} else frozenset(),
        )


def _build_rule(one: _Denial) -> Rule:
    return Rule(
        compile_phrase(f"(?:{one.opening})"),
        one.fact_id,
        one.key,
        f"not-{one.fact_id.removeprefix('user_')}".replace("{relation}", "relation"),
        Tier.L0,
        0.9,
        one.says,
        needs=one.needs,
        shape=one.shape,
        many=one.many,
        among=one.among,
        pattern=one.pattern,
        denies=True,
    )


DENIALS = tuple(_build_rule(one) for one in _DENIALS) + tuple(_build_rule(one) for one in _iterate_lists())
