"""Opening phrases of durable facts, and the fact each one states.

The first five are the contract's (rule-based extraction of the turn tools); the others are ours.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from store.text.rules.german_rules import GERMAN_RULES
from store.text.rules.life_rules import LIFE_RULES, RELATION_WORDS
from store.text.rules.list_rules import LIST_RULES
from store.text.rules.model import Tier, cues
from store.text.rules.rule import BEGINS, Rule, ValueShape, compile_phrase

_OTHER = r"[^\s,;.!?]{1,40}"
#: What is said of a thing that one does not like.
NOT_KEEN = (
    "(?:i'm|i am) not(?: really| exactly)?(?: very| that| much| too| so| big)?"
    " (?:an? (?:big |huge )?fan of|keen on|into|fond of)"
)
_INTO = (
    "(?:i'm|i am)(?: really| also| very| so| super| quite| totally| big){1,2} into"
    "|(?:i'm|i am) an? (?:big|huge|massive|great) fan of|(?:i'm|i am) (?:obsessed with|(?:absolutely )?(?:mad|crazy"
    "|nuts|passionate) about|(?:very |really )?(?:keen on|fond of))"
    "|i(?: really| absolutely| simply| just)? adore"
)
_LOVED = "i(?: really| absolutely| simply| just| still| also| do)? (?:love(?: love)*|enjoy)"
_OF_NOW = (
    "my|your|our|his|her|their|the|an?|it|its|this|that|these|those|them|him|us|you|what|when|where|how|who|all|both"
    "|being|every\\w*|any\\w*|some|each|one|no|me|ya?|ur?|people|such|more|most|lots|much|so|very|too|same|almost"
    "|options?|versions?|numbers?|chatting|talking|to|\\d+|day|week|month|year"
)
_OF_THIS = "[^.!?\\n]{0,40} (?:it|this|these|those|that|you|your)"

#: The rule of the speaker's own name, which introductions state as well (`introductions.py`).
OWN_NAME = Rule(
    compile_phrase(
        rf"my name(?: is|'s) not {_OTHER},? (?:it is|it's|but|i'm|i am)"
        rf"|my name isn't {_OTHER},? (?:it is|it's|but)"
        rf"|(?:mein name ist|ich hei(?:\u00df|ss)e) nicht {_OTHER},? sondern"
    ),
    "user_name",
    "name",
    "name",
    Tier.L0,
    0.95,
    "{who}'s name is {value}.",
    needs=("name", "hei\u00dfe nicht", "heisse nicht"),
    shape=ValueShape.NAME,
)
RULES = (
    *LIST_RULES,
    OWN_NAME,
    Rule(
        compile_phrase("i(?: really| usually| generally| always| much| still| do)? prefer"),
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
        compile_phrase("i(?: really| actually| also| still| quite| do)? like"),
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
    *LIFE_RULES,
    Rule(
        compile_phrase(
            "i(?: really| absolutely| actually| still)? (?:hate|dislike|detest|loathe|despise|(?:don't"
            "|do not)(?: really| particularly| much)?"
            " (?:like|enjoy)|(?:can't|cannot) (?:stand|bear|abide)|(?:don't|do not) care for)"
            "|i(?:'ve| have) never(?: really| much)? (?:liked|enjoyed|cared for)(?! (?:how|that|this|when|being"
            "|my|your|myself|it|anything|any)\\b)"
            "|i(?:'ve| have) never been (?:(?:really|much|that|very) (?:into|keen on)|an? (?:big )?fan of"
            "|keen on|fond of)"
            f"|{BEGINS}(?:can't|cannot) (?:stand|bear)|{BEGINS}(?:really )?(?:hate|not keen on|not a fan of)"
            f"|{NOT_KEEN}(?![^.,;!?\\n]{{1,60}} any ?(?:more|longer)\\b)"
        ),
        "user_dislike",
        "dislike",
        "dislike",
        Tier.L2,
        0.85,
        "{who} does not like {value}.",
        needs=cues("hate|like|stand|bear|care for|abide|detest|loathe|despise|enjoy|keen|fan of|into"),
        shape=ValueShape.TOPIC,
        many=True,
    ),
    Rule(
        compile_phrase("i(?: really| absolutely| also| still| always| do)? (?:love|enjoy)"),
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
        compile_phrase(f"(?:{_LOVED})(?! (?:{_OF_NOW})\\b)(?!{_OF_THIS}\\b)"),
        "user_like",
        "like",
        "love",
        Tier.L2,
        0.85,
        "{who} loves {value}.",
        needs=("love", "enjoy"),
        shape=ValueShape.TOPIC,
        many=True,
    ),
    Rule(
        compile_phrase(f"(?:{_INTO})(?! (?:my|the|an?|it|this|that|what|how|\\d+|day|week|month|year)\\b)"),
        "user_like",
        "like",
        "into",
        Tier.L2,
        0.85,
        "{who} likes {value}.",
        needs=("into ", "fan of", "obsessed with", "keen on", "fond of", " about ", "adore"),
        shape=ValueShape.TOPIC,
        many=True,
    ),
    Rule(
        compile_phrase(
            r"my (?:favou?rite|fave?) (?P<key>[^\W_]{2,30}(?: [^\W_]{2,30})??) (?:is(?: now| still| definitely)?"
            r"|has always been)"
        ),
        "user_favourite",
        None,
        "favourite",
        Tier.L0,
        0.88,
        "{who}'s favourite {key} is {value}.",
        needs=("favo", " fav"),
        shape=ValueShape.TOPIC,
        many=True,
    ),
    *GERMAN_RULES,
)


def _iterate_list_phrases() -> Iterator[tuple[str, str]]:
    for rule in RULES:
        groups = rule.opening.groupindex
        if rule.many and rule.key is None and "key" not in groups:
            phrase = rule.says.removeprefix("{who}").removesuffix("{value}.")
            for relation in RELATION_WORDS if "relation" in groups else ("",):
                yield rule.fact_id.format(relation=relation), phrase.format(relation=relation)


#: Kinds of facts whose key is their value, of which a person has many, and what stands between person and value in a
#: statement of each: `user_visited`, " visited ".
LIST_PHRASES: Mapping[str, str] = MappingProxyType(dict(_iterate_list_phrases()))
