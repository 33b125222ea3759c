"""Denials of health and diet that name a value in other words: "My nut allergy is gone", "I eat meat again"."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from store.text.rules.gazetteer import word_list
from store.text.rules.life_rules import ALLERGY, CONDITIONS, DIET_WORDS, DIETS
from store.text.rules.model import Tier
from store.text.rules.rule import Rule, compile_phrase, compile_value

_MEAT = "meat|chicken|beef|pork|lamb|steak|bacon|ham|sausages?|burgers?|poultry|turkey"
_FISH = "fish|seafood|salmon|tuna|sushi|prawns|shrimps?"
_DAIRY = "dairy|cheese|milk|yogh?urt|butter|cream|ice cream"
_EGGS = "eggs|honey|animal products"
_GLUTEN = "gluten|bread|wheat|pasta|pizza"
_FOODS = f"{_MEAT}|{_FISH}|{_DAIRY}|{_EGGS}|{_GLUTEN}"
#: Diets that a person does not keep who eats such food.
_ENDED_BY = {
    compile_value(_MEAT): ("vegetarian", "vegan", "pescatarian", "pescetarian"),
    compile_value(_FISH): ("vegetarian", "vegan"),
    compile_value(_DAIRY): ("vegan", "dairy-free", "dairy free", "lactose intolerant"),
    compile_value(_EGGS): ("vegan",),
    compile_value(_GLUTEN): ("coeliac", "celiac", "gluten intolerant", "gluten-free", "gluten free"),
}
_JUST = "(?: now| finally| completely| totally| just| all| been| long){0,3}"
_IS_GONE = (
    f"(?:(?:is|are|'s|was|were|has|have){_JUST} (?:gone away|gone|over|cured|healed|disappeared|vanished|history"
    "|cleared up|resolved|stopped)|(?:went away|disappeared|vanished|cleared up|stopped))(?![\\w-])"
    "(?! for (?:now|today|a|the)\\b)"
)
_GONE_WORDS = (
    *("cured", "healed", "disappeared", "vanished", "cleared up", "resolved", "went away"),
    *(f"{verb} {gone}" for verb in ("is", "are", "has", "have") for gone in ("gone", "over", "stopped", "history")),
)
_HAVE_NO = (
    "i (?:no longer|don't|do not) (?:have|get|suffer from)(?: an?| any| my| the)?"
    "|i(?:'ve| have)?(?: just| finally)? (?:beat|beaten|outgrew|outgrown|grew out of|grown out of|got over|gotten over"
    "|got rid of|gotten rid of)(?: my| the)?"
    "|(?:i'm|i am)(?: now| finally)? (?:over|rid of|cured of|free of)(?: my| the)?"
)
_NO_WORDS = (
    *(f"{no} {verb}" for no in ("n't", "n\u2019t", "not", "no longer") for verb in ("have", "get", "suffer")),
    *(" beat ", " beaten ", "outgr", "grew out", "grown out", "got over", "gotten over", "rid of", "cured of"),
    *("free of", "over my"),
)
_NO_FOOD = "in|at|on|to|with|that|this|these|it|out|here|there|like|more|as|well|properly|normally|solid|lunch|dinner"
_GOES_ON = r"(?:\s*(?:[.!?,;:)]|$)| (?:now|without|and|but|so|after|since|thanks)\b)"
_PLURALS = (("ies", "y"), ("s", ""))
_SAYS = {
    "allergy": "{who} has no allergy to {value}.",
    "condition": "{who} has no {value}.",
    "diet": "{who} is not {value}.",
}


def vary_number(value: str) -> tuple[str, ...]:
    """Return a value and what it is called in the other number: "nut" and "nuts"."""
    low = value.casefold()
    for ending, instead in _PLURALS:
        if low.endswith(ending):
            return value, value[: -len(ending)] + instead
    if low.split()[-1] in word_list("deed", "uncounted"):
        return (value,)
    return value, value[:-1] + "ies" if low.endswith("y") else value + "s"


def _vary_condition(value: str) -> Sequence[str]:
    return vary_number(value) if "migraine" in value.casefold() else (value,)


def _vary_hyphen(value: str) -> Sequence[str]:
    return tuple(dict.fromkeys((value, value.replace("-", " "), value.replace(" free", "-free"))))


def _list_ended_diets(food: str) -> Sequence[str]:
    return next(diets for foods, diets in _ENDED_BY.items() if foods.fullmatch(food))


class _Recovery(NamedTuple):
    kind: str
    opening: str
    value: str
    ends: Callable[[str], Sequence[str]]
    needs: tuple[str, ...]


_CONDITION = f"(?P<value>{CONDITIONS})"
_RECOVERIES = (
    _Recovery("allergy", "my(?: old| bad| severe| mild)?", f"{ALLERGY} {_IS_GONE}", vary_number, ("allerg",)),
    _Recovery(
        "allergy",
        "my allergy to",
        rf"(?P<value>[^\W\d_][\w-]{{2,24}}(?: [\w-]{{2,24}})??) {_IS_GONE}",
        vary_number,
        ("allergy to",),
    ),
    _Recovery("allergy", _HAVE_NO, rf"{ALLERGY}(?! (?:tests?|season|shots?|pills?)\b)", vary_number, ("allerg",)),
    _Recovery(
        "allergy",
        "i can(?: finally| now| even)? (?:eat|have|drink)(?: some)?",
        rf"(?P<value>(?!(?:{_NO_FOOD})\b)[^\W\d_]{{3,24}}(?: [^\W\d_]{{3,24}})??)(?= again{_GOES_ON})",
        vary_number,
        (" again",),
    ),
    _Recovery("condition", "my(?: old| bad| severe)?", f"{_CONDITION} {_IS_GONE}", _vary_condition, _GONE_WORDS),
    _Recovery("condition", _HAVE_NO, _CONDITION, _vary_condition, _NO_WORDS),
    _Recovery(
        "diet",
        "i(?:'m| am)?(?: now)?(?: do| can)? (?:eat|eating|drink|drinking)(?: some)?",
        rf"(?P<value>{_FOODS})(?= (?:again|now|these days|nowadays|once more)\b)",
        _list_ended_diets,
        (" eat ", " eating ", " drink ", " drinking "),
    ),
    _Recovery(
        "diet",
        "i(?:'ve| have)?(?: just| recently)? (?:(?:started|begun|began) (?:eating|to eat)"
        "|(?:(?:gone|went) back to|returned to|resumed)(?: eating)?)|(?:i'm|i am) back (?:to|on)(?: eating)?",
        rf"(?P<value>{_FOODS})(?! (?:farm|sauce|stock|free|substitute|alternative)s?\b)(?![\w-])",
        _list_ended_diets,
        (" eat ", " eating ", "back to ", "back on ", "returned to ", "resumed "),
    ),
    _Recovery(
        "diet",
        "(?:(?:i'm|i am)(?: now)?|i went|i came|i(?:'ve| have) (?:gone|come)) off(?: the| my| an?)?"
        "|(?:i'm|i am)(?: now)? done(?: with)?(?: being)?(?: an?)?"
        "|(?:i'm|i am) (?:not|no longer) (?:doing|eating|on)(?: the| an?)?"
        "|i (?:haven't|have not) been(?: an?)?|i've not been(?: an?)?",
        DIETS,
        _vary_hyphen,
        DIET_WORDS,
    ),
)


def _build_rule(one: _Recovery) -> Rule:
    return Rule(
        compile_phrase(f"(?:{one.opening})"),
        f"user_{one.kind}",
        None if one.kind == "condition" else one.kind,
        f"not-{one.kind}",
        Tier.L0,
        0.9,
        _SAYS[one.kind],
        needs=one.needs,
        many=one.kind != "diet",
        denies=True,
        pattern=compile_value(one.value),
        ends=one.ends,
    )


RECOVERIES = tuple(map(_build_rule, _RECOVERIES))
