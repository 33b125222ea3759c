"""Statements whose value stands before their phrase: "Dune is my favourite book", "Ghent is where I live"."""

import re

from store.text.rules.denial_rules import DENIALS
from store.text.rules.fact_rules import RULES
from store.text.rules.german_rules import GERMAN_VALUE_FIRST_SIGNS
from store.text.rules.life_rules import RELATIONS
from store.text.rules.rule import Rule, compile_value


def _rule_of(fact_id: str, *, denies: bool = False) -> Rule:
    rules = DENIALS if denies else RULES
    return next(rule for rule in rules if rule.fact_id == fact_id and rule.pattern is None and not rule.contracted)


#: What a text with such a statement has.
VALUE_FIRST_SIGNS = re.compile(
    r"\bis (?:\w{2,10} ){0,2}(?:my|our) |\bcall \w[\w ]{1,30} home\b|\bis (?:not |no longer )?where (?:i|we|i'm"
    r"|we're)\b"
    rf"|{GERMAN_VALUE_FIRST_SIGNS.pattern}"
    r"|\b(?:is|are|isn['\u2019]?t|aren['\u2019]?t|['\u2019]s) (?:\w{2,10} ){0,3}(?:my|for me)\b",
    re.IGNORECASE,
)
_CLAUSE = r"(?:(?<![^\n])|(?<=[.!?,;]\x20)|(?<=\band\x20)|(?<=\bbut\x20))"
_NAMED_PLACE = r"(?P<value>(?-i:[A-Z])[\w\u2019-]{1,24}(?: (?-i:[A-Z])[\w\u2019-]{1,24}){0,2})"
_CLAUSE_END = r"(?=\s*(?:[.!,;)\n]|$))"
_TODAY = "(?: now| today| nowadays| these days| at the moment| right now)?"
_WHERE = (
    ("user_home", f"(?:(?:i|we)(?: now| currently)? live|(?:i'm|i am|we're|we are)(?: now)? (?:based|living)){_TODAY}"),
    ("user_employer", f"i(?: now| currently)? work{_TODAY}"),
    ("user_origin", "(?:i'm|i am|i come) from|(?:i was|i) (?:born|grew up|born and raised)"),
)
# What one likes or dislikes stands in front: "opera isn't my thing", not "the parcel is not for me".
_THING = (
    r"(?P<value>(?!(?:it|its|he|she|that|this|these|those|they|what|which|who|one|here|there|my|your|his|her|our|their"
    r"|the|an?|some|any|all|both|everything|nothing|something|anything|today|tomorrow|yesterday|now|not|no|but|and"
    r"|maybe|perhaps|why|how|if|when|where|i|we|you|life|work|honey|sorry|thanks|dinner|lunch|breakfast|\w+day)\b)"
    r"(?![^.!?,;\n]{1,40} (?:say|says|said|thinks?|thought|believes?|claims?|told|knows?|hopes?|feels?|i|we|he"
    r"|she|they)\b)"
    r"[^\W\d_][\w\u2019-]{1,24}(?: [\w-]{2,24}){0,2}?)"
)
_IS_NOT = (
    "(?:(?: just| really)?(?: is| are|'s|'re) (?:so |just |really |simply |definitely )?not"
    "|(?: just| really)? (?:isn't|aren't))"
)
_SO = "(?: really| just| so much| exactly| quite)?"
_SUITS_ME = (
    "(?:my (?:thing|cup of tea|jam|bag)|(?:my|the) (?:kind|sort) of thing(?: i like)?|for me(?!,? (?:but|it's"
    "|they're|it is"
    "|they are) (?:for|my)))"
)
_ANY_MORE = r"[^.!?,;\n]{1,30} any ?(?:more|longer)\b"
_AT_ALL = "(?: at all| tbh| honestly| to be honest| i'm afraid)?"
#: Rules, and the patterns of clauses that state their facts with the value in front.
VALUE_FIRST = (
    *(
        (_rule_of(kind), compile_value(f"{_CLAUSE}{_NAMED_PLACE} is(?: still| now)? where (?:{says}){_CLAUSE_END}"))
        for kind, says in _WHERE
    ),
    *(
        (
            _rule_of(kind, denies=True),
            compile_value(
                f"{_CLAUSE}{_NAMED_PLACE} (?:is not|isn't|is no longer) where (?:{says})(?: any ?more)?{_CLAUSE_END}"
            ),
        )
        for kind, says in _WHERE
    ),
    (
        _rule_of("user_dislike"),
        compile_value(f"{_CLAUSE}{_THING}{_IS_NOT}{_SO} {_SUITS_ME}{_AT_ALL}{_CLAUSE_END}"),
    ),
    (
        _rule_of("user_like", denies=True),
        compile_value(
            f"{_CLAUSE}{_THING}(?:{_IS_NOT}(?={_ANY_MORE})|(?: is| are) no longer) {_SUITS_ME}(?: any ?more"
            f"| any longer)?{_CLAUSE_END}"
        ),
    ),
    (
        _rule_of("user_like"),
        compile_value(
            f"{_CLAUSE}{_THING} (?:is|are)(?: totally| definitely| really| so)? my (?:thing|jam){_CLAUSE_END}"
        ),
    ),
    (
        _rule_of("user_home"),
        compile_value(
            r"(?:i|we)(?: now| proudly)? call"
            r" (?P<value>(?-i:[A-Z])[\w\u2019-]{1,24}(?: (?-i:[A-Z])[\w\u2019-]{1,24})?) (?:my )?home\b"
        ),
    ),
    (
        _rule_of("user_favourite"),
        compile_value(
            rf"{_CLAUSE}(?P<value>(?!(?:it|he|she|that|this|what|which|who|one|there|here|my|where|everything"
            rf"|nothing)\b)"
            r"[^.!?,;\n]{2,40}?) is(?: still| definitely| by far| probably)? my (?:all-time )?(?:favou?rite|fave?)"
            r" (?P<key>[^\W_]{2,30}(?: (?!(?:in|of|at|to|for|and|because|ever|so|right"
            r"|now)\b)[^\W_]{2,30})?)(?=\s*(?:[.!,;)\n]|$)| (?:ever|now|and|because|of all time)\b)"
        ),
    ),
    (
        _rule_of("user_{relation}"),
        compile_value(
            rf"{_CLAUSE}(?P<value>(?-i:(?:(?:Dr|Mr|Mrs|Ms"
            rf"|Prof)\.? )?[A-Z][\w\u2019-]{{1,24}}(?: [A-Z][\w\u2019-]{{1,24}})?))"
            rf" is(?: now| still)? (?:my|our)(?: new| best| good)? (?P<relation>{RELATIONS})(?=\s*(?:[.!,;)\n]|$)"
            rf"| (?:now|and|at|in|for)\b)"
        ),
    ),
)
