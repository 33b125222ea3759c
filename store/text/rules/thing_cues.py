"""Context cues that a name is a place's, an organisation's or a thing's."""

from store.text.rules.gazetteer import word_list
from store.text.rules.model import MentionKind
from store.text.rules.people_cues import has_word_before
from store.text.rules.runs import NameRun
from store.text.rules.tokens import Token
from store.text.rules.vocabulary import is_family_name, is_given_name, is_word

_PERSON_NOUNS = frozenset({"man", "woman", "guy", "lady", "boy", "girl", "person"})
_OWNERS = frozenset({"my", "our", "his", "her", "their", "your", "the", "a", "an"})
_ORIGINS = frozenset(
    {"is", "he's", "she's", "i'm", "they're", "we're", "am", "are", "was", "were", "originally", "comes"}
)
_WITHIN = frozenset({"in", "near", "climb", "climbed", "climbing", "summited"})
_LOOK_BACK = 4
_DESCRIBED = (
    ("people", "animal", MentionKind.NAME),
    ("organisation", "noun", MentionKind.ORGANISATION),
    ("place", "noun", MentionKind.PLACE),
    ("name", "noun", MentionKind.NAME),
    ("people", "role", MentionKind.PERSON),
)


def kind_of_noun(noun: Token) -> MentionKind | None:
    """Return the kind that a noun stands for: "sister", "cat", "startup", "village", "band"."""
    if noun.low in word_list("people", "person") or noun.low in _PERSON_NOUNS:
        return MentionKind.PERSON
    return next((kind for file, section, kind in _DESCRIBED if noun.low in word_list(file, section)), None)


def kind_by_noun_before(run: NameRun) -> MentionKind | None:
    """Return the kind by the noun right before: "my sister X", "our cat X", "the band X", "hello X"."""
    before, gap = run.before(), run.parts[0].gap
    if before is None or run.opens or gap not in {" ", ", "}:
        return None
    if before.low in word_list("people", "greets"):
        return MentionKind.PERSON
    kind = kind_of_noun(before)
    close = gap == " " or (kind is MentionKind.PERSON and before.low not in word_list("people", "role"))
    return kind if close or before.low in word_list("people", "animal") else _kind_by_apposition(run, before, kind)


def _kind_by_apposition(run: NameRun, noun: Token, kind: MentionKind | None) -> MentionKind | None:
    """Return the kind by an apposition, "my nanny, X": a comma needs an owner before the noun."""
    owner = run.before(2)
    return kind if owner is not None and owner.low in _OWNERS and noun.gap == " " else None


def kind_by_noun_behind(run: NameRun) -> MentionKind | None:
    """Return the kind by the noun after: "X, my brother", "X, a startup", "X is my cat"."""
    owner = run.after()
    if owner is None or run.parts[-1].possessive:
        return None
    start = 1
    if owner.low in {"is", "was"} and owner.gap == " ":
        start = 2
    elif owner.gap != ", ":
        return None
    article = run.after(start)
    if article is None or article.low not in _OWNERS:
        return None
    for steps in (start + 1, start + 2):
        noun = run.after(steps)
        if noun is not None and noun.gap == " " and (kind := kind_of_noun(noun)) is not None:
            return kind
    return None


def kind_by_naming(run: NameRun) -> MentionKind | None:
    """Return the kind by what was given the name: "a dog named X", "a man called X", "her name is X"."""
    before = run.before()
    if before is None or run.parts[0].gap != " ":
        return None
    if before.low == "is" and (name := run.before(2)) is not None and name.low == "name":
        return MentionKind.PERSON
    if before.low not in {"called", "named"}:
        return None
    for steps in range(2, 2 + _LOOK_BACK):
        noun = run.before(steps)
        if noun is not None and (kind := kind_of_noun(noun)) is not None:
            return kind
    return None


def classify_called(run: NameRun) -> MentionKind | None:
    """Return NAME after "called" or "named" without a noun, else None."""
    before = run.before()
    named = before is not None and before.low in {"called", "named"} and run.parts[0].gap == " "
    return MentionKind.NAME if named else None


def kind_by_work(run: NameRun) -> MentionKind | None:
    """Return ORGANISATION by work and trade: "works at X", "a refund from X", "joined X"; else None."""
    before = run.before()
    if before is None or run.opens or run.parts[0].gap != " ":
        return None
    if before.low in {"joined", "joining"}:
        return MentionKind.ORGANISATION
    employs, deals = word_list("organisation", "employs"), word_list("organisation", "deals")
    if before.low in {"at", "for", "with", "by", "of"} and has_word_before(run, employs):
        return MentionKind.ORGANISATION
    if before.low in {"from", "to", "with", "at"} and has_word_before(run, deals):
        return MentionKind.ORGANISATION
    return None


def classify_after_at(run: NameRun) -> MentionKind | None:
    """Return the kind after "at": a person for "at X's", a place after a verb of arriving, else an organisation."""
    before = run.before()
    if before is not None and before.low == "the":
        before = run.before(2)
    if before is None or run.opens or before.low != "at" or run.parts[0].gap != " ":
        return None
    if run.parts[-1].possessive:
        return MentionKind.PERSON
    return MentionKind.PLACE if has_word_before(run, word_list("place", "stops")) else MentionKind.ORGANISATION


def kind_by_in(run: NameRun) -> MentionKind | None:
    """Return PLACE after "in", even for a name that people have, too; None for a full name of a person."""
    before = run.before()
    if before is None or run.opens or before.low not in _WITHIN or run.parts[-1].possessive:
        return None
    human = len(run.parts) > 1 and is_given_name(run.lows[0]) and is_family_name(run.lows[-1])
    return None if human else MentionKind.PLACE


def kind_by_movement(run: NameRun) -> MentionKind | None:
    """Return PLACE by movement: "around X", "moved to X", "left for X", "I'm from X"; else None."""
    before = run.before()
    if before is None or run.opens:
        return None
    if before.low == "the":
        before = run.before(2)
    if before is None or run.parts[-1].possessive:
        return None
    if before.low in word_list("place", "before"):
        return MentionKind.PLACE
    return MentionKind.PLACE if _has_moved(run, before) else None


def _has_moved(run: NameRun, before: Token) -> bool:
    origin = run.before(2)
    if before.low == "from" and origin is not None and origin.low in _ORIGINS:
        return True
    if before.low == "for":
        return has_word_before(run, word_list("place", "leaves"))
    return before.low in {"to", "from"} and has_word_before(run, word_list("place", "moves"))


def kind_by_enjoyment(run: NameRun) -> MentionKind | None:
    """Return the kind of a work by what is done with it: "watched X", "listened to X"; else None."""
    before = run.before()
    if before is not None and before.low == "to" and run.parts[0].gap == " ":
        before = run.before(2)
        listened = before is not None and before.low.startswith("listen")
        return MentionKind.NAME if listened and not run.opens else None
    if before is None or run.opens or run.parts[0].gap != " ":
        return None
    performed = before.low.startswith("play") and len(run.parts) > 1 and not any(map(is_word, run.lows))
    return MentionKind.NAME if before.low in word_list("name", "takes") and not performed else None
