"""Rules of what people did and do: bought, read, visited, play, collect, speak. Each kind makes a list of its own."""

from store.text.rules.gazetteer import word_list
from store.text.rules.model import Tier
from store.text.rules.rule import HAVE_JUST, Rule, ValueShape, compile_phrase

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
    "joined": "signed up for",
    "attended": "attended",
    "adopted": "adopted",
    "planted": "planted",
    "sold": "sold",
    "borrowed": "borrowed",
    "climbed": "climbed|hiked up",
    "hired": "hired",
}
_TITLED = {"read": "read|finished reading", "watched": "watched|finished watching"}
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


_DID = rf"(?:i|we){HAVE_JUST}(?: also| already| even)?"
_DO = "i(?: also| still| usually)?"
_LITTLE = "(?: also| fluent| some| a little| a bit of| basic| good)?"
_LANGUAGE = r" (?-i:[A-Z])\w{2,20}"
LIST_RULES = (
    *(_list_rule(kind, f"{_DID} (?:{verbs}){_DETERMINER}", verbs) for kind, verbs in _DONE.items()),
    *(_list_rule(kind, f"{_DID} (?:{verbs}){_DETERMINER}", verbs, ValueShape.TITLE) for kind, verbs in _TITLED.items()),
    _list_rule(
        "visited",
        rf"{_DID} (?:visited|toured)(?![^.,;!?\n]{{1,40}}\b(?:website|page|site|link|url)\b){_DETERMINER}",
        "visited|toured",
    ),
    _list_rule(
        "joined",
        f"{_DID} joined(?! (?:the |an? |your |our |this )?(?:\\w+ )?(?:meeting|call|stand-?up|queue|line|channel|chat"
        f"|session|lobby|server|wi-?fi|network|room|webinar|thread|zoom|late|in)\\b){_DETERMINER}",
        "joined",
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
    _list_rule(
        "plays",
        rf"{_DO} play(?: the| some| a little| a bit of)? \w{{3,14}} and(?: the| some| a bit of)?",
        "play",
        among=word_list("deed", "plays"),
    ),
    _list_rule("collects", f"{_DO} collect", "collect", among=word_list("deed", "collects")),
    _list_rule("owns", f"{_DO} own (?:an?|two|three|four|five|six)", "own"),
    _list_rule(
        "speaks",
        f"(?:{_DO} speak|(?:i'm|i am) (?:fluent in|speaking)){_LITTLE}(?= (?-i:[A-Z]))",
        "speak|fluent",
        among=word_list("deed", "speaks"),
    ),
    _list_rule(
        "speaks",
        "my (?:native|first|mother) (?:language|tongue) is",
        "language|tongue",
        among=word_list("deed", "speaks"),
    ),
    *(
        _list_rule("speaks", f"{_DO} speak{_LITTLE}{before} and{_LITTLE}", "speak", among=word_list("deed", "speaks"))
        for before in (_LANGUAGE, f"{_LANGUAGE},{_LANGUAGE},?")
    ),
    _list_rule("speaks", f"{_DO} speak{_LITTLE}{_LANGUAGE},", "speak", among=word_list("deed", "speaks")),
    _list_rule("drinks", f"{_DO} drink(?: an?| some)?", "drink", among=word_list("deed", "drinks")),
)
