"""Opening phrases of denials, and the fact each one ends: "I no longer work at Nordwind".

A denial has the identity of the fact that it ends, and ends it only where the value is the same.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from store.text.rules.gazetteer import word_list
from store.text.rules.german_rules import GERMAN_DENIALS
from store.text.rules.life_rules import DIET_WORDS, DIETS, JOB, MARRIAGES, RELATIONS, name_diet
from store.text.rules.model import Tier, cues
from store.text.rules.recovery_rules import RECOVERIES, vary_number
from store.text.rules.rule import BEGINS, Rule, ValueShape, compile_phrase, compile_value

_NOW = "(?: really| actually| currently| even)?"
_NOT = f"(?:no longer|don't{_NOW}|do not{_NOW}|used to)"
_AM_NOT = "(?:i'm|i am)(?: actually| really)?(?: not| no longer)(?: actually| really| even)?|i ain't|i was never"
_HAVE_JUST = "(?: have|'ve)?(?: just| recently| finally)?"
_STOPPED = "(?: have|'ve)?(?: just| recently| finally| now)? (?:stopped|quit|(?:have )?(?:gave|given) up(?: on)?)"
_LEFT = (
    "(?: have|'ve)?(?: just| recently| finally| now)? (?:(?:left|quit|gave up|lost) my job (?:at|with)"
    "|(?:stopped|quit|had to (?:stop|quit)) working (?:at|for)|(?:left|quit)(?= (?-i:[A-Z]))|resigned from"
    "|(?:was|got|have been|been) (?:fired|laid off|let go|made redundant|sacked) (?:from|by))"
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
    ends: Callable[[str], Sequence[str]] | None = None


_ENDS = cues(
    " quit| had to | left| gave up| given up| stopped|resigned| fired| laid off| made redundant| sacked| let go"
    "|moved| sold| used to"
)
_PLAIN = (" not ", "n't ", "n\u2019t ", "no longer", "never", " used to")
_DENIALS = (
    _Denial(
        "user_name",
        "name",
        "my name(?: is|'s) (?:not|no longer)|my name isn't|my name was never|(?:i'm|i am) (?:not|no longer) called"
        "|(?:don't|do not|stop|never) call(?:ing)? me|i (?:no longer|don't(?: really)?|do not) go by(?: the name)?",
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
        "|(?:i|we)(?: have|'ve)?(?: just| recently| finally)? left"
        f"|(?:i|we){_HAVE_JUST} (?:gave up|given up|sold|left) (?:my|our) (?:old )?"
        "(?:flat|house|apartment|place|room|home|studio|cottage) in",
        "{who} has left {value}.",
        ValueShape.PLACE,
        needs=(*_PLAIN, *_ENDS),
    ),
    _Denial(
        "user_home",
        "home",
        "(?:ich (?:wohne|lebe)|wir (?:wohnen|leben))(?: jetzt)? nicht (?:mehr|l\u00e4nger) in"
        "|(?:ich bin|wir sind)(?: jetzt| gerade| inzwischen| schon)? aus"
        "(?= [^.,;!?\\n]{2,40} (?:weg|fort|aus)gezogen\\b)",
        "{who} has left {value}.",
        ValueShape.KNOWN_PLACE,
        needs=(" nicht ", "gezogen"),
    ),
    _Denial(
        "user_home",
        "home",
        "je n'habite plus \u00e0|je ne vis plus \u00e0|nous n'habitons plus \u00e0|nous ne vivons plus \u00e0"
        "|ya no viv(?:o|imos) en|(?:non|noi non) (?:vivo|abito|viviamo|abitiamo) pi\u00f9 a"
        "|(?:ik woon|wij wonen|we wonen) niet (?:meer|langer) in",
        "{who} has left {value}.",
        ValueShape.PLACE,
        needs=(" plus ", "ya no ", "non ", " niet "),
    ),
    _Denial(
        "user_origin",
        "origin",
        "ich (?:komme|stamme)(?: gar| doch)? nicht aus",
        "{who} comes from elsewhere than {value}.",
        ValueShape.KNOWN_PLACE,
        needs=(" nicht ",),
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
        f"| am) (?:no longer (?:at|with)|not (?:at|with)(?= [^.,;!?\\n]{{1,40}} any ?(?:more|longer)\\b))"
        f"|i(?: handed in my (?:notice|resignation) and)?{_LEFT}|i(?: have|'ve)? never worked (?:at|for)"
        "|i handed in my (?:notice|resignation|apron|badge) (?:at|to)|(?:i'm|i am) done (?:at|with)(?= (?-i:[A-Z]))"
        f"|{BEGINS}(?:no longer|not) (?:at|with)(?= (?-i:[A-Z])[^.,;!?\\n]{{1,40}} any ?(?:more|longer)\\b)",
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
        "user_marriage",
        "marriage",
        f"(?:i|we){_HAVE_JUST} (?:called off|broke off|broken off|ended) (?:my|our|the)"
        "|(?:our|my)(?= engagement is (?:off|over)\\b)",
        "{who} is other than {value}.",
        needs=("engagement",),
        pattern=compile_value("engagement(?! (?:ring|party|dinner|photo))"),
        ends=lambda _: ("engaged",),
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
        f"(?:{_AM_NOT}|i'm no longer|i am no longer|i stopped being|i outgrew being"
        "|i've never been|i have never been|never been)(?: very| severely"
        f"| badly)? allergic to",
        "{who} has no allergy to {value}.",
        needs=("allergic",),
        many=True,
        ends=vary_number,
    ),
    _Denial(
        "user_diet",
        "diet",
        f"(?:{_AM_NOT}|i{_STOPPED} being|i ceased to be|i used to be)(?: an?| strictly| fully)?",
        "{who} has ceased to be {value}.",
        needs=DIET_WORDS,
        pattern=compile_value(DIETS),
        ends=name_diet,
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
        "|i stopped (?:hating|disliking)|i (?:don't|do not)(?: really| actually)? mind",
        "{who} has nothing against {value}.",
        ValueShape.TOPIC,
        needs=("hate", "hating", "dislik", "longer don", " mind "),
        many=True,
    ),
    _Denial(
        "user_like",
        "like",
        "i (?:no longer|used to|stopped) (?:like|love|enjoy|liking|loving|enjoying)"
        rf"|i (?:don't|do not){_NOW} (?:like|love|enjoy)(?=[^.,;!?\n]{{1,100}} any ?(?:more|longer)\b)"
        "|(?:i'm|i am) no longer (?:fond of|into|a fan of)"
        f"|(?:i(?:'ve| have)?|{BEGINS}) ?(?:gone|went) off(?! (?:the|my|an?|vegan)\\b)"
        r"|(?:i'm|i am) not (?:into|fond of|a fan of)(?=[^.,;!?\n]{1,60} any ?(?:more|longer)\b)"
        "|(?:i(?:'ve| have)? lost (?:all |my )?interest in|(?:i'm|i am) done with)"
        "(?! (?:the|my|our|this|that|these|those|it|all|work|school|everything|being)\\b)",
        "{who} has no liking for {value}.",
        ValueShape.TOPIC,
        needs=("lik", "lov", "enjoy", "hate", "stand", "fond", "into", "fan ", " off ", "interest in", " done with"),
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
#: Kinds of lists whose members end: the verb, its form behind "stopped", and the words before a value.
_LISTS = (
    ("plays", "play", "playing", "(?: the| some| a little)?"),
    ("collects", "collect", "collecting", ""),
    ("owns", "own", "owning", "(?: an?| the| my| our| any)?"),
    ("speaks", "speak", "speaking", "(?: fluent| any)?"),
    ("drinks", "drink", "drinking", "(?: any| an?)?"),
    ("goes", "go", "going", ""),
)
_CEASED = (" stopped ", " quit ", " gave up ", " given up ", " had to stop ", " had to give up ")
_GAVE_AWAY = f"(?:i|we){_HAVE_JUST} (?:sold|gave away|given away)"
#: Ways in which things go that may be no things as well: "I got rid of the problem".
_LOST = (
    f"(?:i|we)(?:{_HAVE_JUST} (?:got rid of|gotten rid of|traded in|donated|scrapped)|'re no longer keeping"
    "| no longer (?:have|keep)| (?:don't|do not) (?:have|own|keep)(?= [^.,;!?\\n]{1,40} any ?(?:more|longer)\\b))"
)
_LOST_WORDS = (
    *(f"{no} {verb}" for no in ("n't", "n\u2019t", "not", "no longer") for verb in ("have", "own", "keep")),
    *(" rid of", "traded in", "donated", "scrapped"),
)


def _iterate_lists() -> Iterator[_Denial]:
    for kind, verb, doing, filler in _LISTS:
        among = word_list("deed", kind) if kind in {"plays", "collects", "drinks", "goes"} else frozenset[str]()
        # "I quit running", "I gave up tennis"; of what has no list of words, the verb must stand there.
        stopped = "(?:stopped|quit|gave up|given up|had to (?:stop|quit|give up))"
        ceased = f"{_HAVE_JUST} {stopped}(?: {doing}){'?' if among else ''}"
        opening, needs = f"i(?: {_NOT} {verb}|{ceased})", (f" {verb} ", f" {doing} ", *(_CEASED if among else ()))
        if kind in {"plays", "drinks"}:
            opening, needs = f"{opening}|(?:i'm|i am) off", (*needs, "'m off ", "\u2019m off ", "am off ")
        if kind == "speaks":
            opening = f"{opening}|i(?:'ve| have)? (?:forgot|forgotten)(?: all| most of)? my(?= (?-i:[A-Z]))"
            needs = (*needs, " forgot")
        if kind == "owns":
            opening, needs = f"{opening}|we (?:{_NOT} own)|{_GAVE_AWAY}", (*needs, " sold", " gave away", " given away")
        yield _deny_member(kind, f"(?:{opening}){filler}", needs, among)
    yield _deny_member("owns", f"{_LOST}(?: an?| the| my| our| any)?", _LOST_WORDS, word_list("deed", "owns"))
    yield _Denial(
        "user_collects",
        None,
        f"(?:{_GAVE_AWAY}|(?:i|we){_HAVE_JUST} got rid of) (?:my|our|the)",
        "{who} has ceased that collects {value}.",
        needs=(" collection",),
        many=True,
        pattern=compile_value(r"(?P<value>[^\W\d_]{3,20}) collection(?![\w-])"),
        ends=vary_number,
    )


def _deny_member(kind: str, opening: str, needs: Sequence[str], among: frozenset[str]) -> _Denial:
    return _Denial(
        f"user_{kind}",
        None,
        opening,
        f"{{who}} has ceased that {kind} {{value}}.",
        ValueShape.OBJECT,
        needs=tuple(needs),
        many=True,
        among=among,
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
        ends=one.ends,
    )


DENIALS = (*map(_build_rule, (*_DENIALS, *_iterate_lists())), *RECOVERIES, *GERMAN_DENIALS)
