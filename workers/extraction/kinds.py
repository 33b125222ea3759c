"""What a run of capitalised words names, by the lists and by the words around it."""

from dataclasses import dataclass

from workers.extraction.gazetteer import names, words
from workers.extraction.model import MentionKind
from workers.extraction.runs import Run, everyday
from workers.extraction.tokens import Token

_SOMEBODY = frozenset({"man", "woman", "guy", "lady", "boy", "girl", "person"})
_OWNERS = frozenset({"my", "our", "his", "her", "their", "your", "the", "a", "an"})
_LISTENS = frozenset(
    {
        *("can", "could", "please", "do", "did", "would", "will", "are", "is", "isn't", "have"),
        *("what", "how", "when", "where", "why", "who", "you", "i", "i'm", "my"),
        *("tell", "remind", "don't", "let's", "thanks", "thank"),
    }
)
_LOOK_BACK = 4
_PLACE_BOTH = 2
_LONGEST_PERSON = 5


@dataclass(frozen=True, slots=True)
class Guess:
    """A kind, and whether the text itself or the lists speak for it (`sure`) or nothing does."""

    kind: MentionKind
    sure: bool


_UNSURE = Guess(MentionKind.NAME, sure=False)


def guess(run: Run) -> Guess:
    """Return what the run most likely names; `name` and not sure when nothing tells."""
    for rule in (_listed, _called, _titled, _worded, _relation, _given, _employer, _situated, _acts):
        if (kind := rule(run)) is not None:
            return Guess(kind, sure=True)
    return _UNSURE


def believable(run: Run, found: Guess) -> bool:
    """Whether the run is a name at all: a capital at a sentence's beginning or on a common word is not enough."""
    if len(run.parts) > 1:
        return found.sure or _telling(run)
    token = run.parts[0]
    if token.low in words("people", "title"):
        return False
    if token.low not in everyday():
        return found.sure or not run.opens
    if token.low in words("given_names") and not run.opens:
        return True
    return _acts(run) is not None or _relation(run) is not None or _called(run) is not None


def _telling(run: Run) -> bool:
    """Whether enough of the words are no everyday words, which headings are made of."""
    strange = sum(low not in everyday() for low in run.lows)
    return strange * 2 >= len(run.parts) if run.opens else strange > 0


def _listed(run: Run) -> MentionKind | None:
    raw = run.parts[-1].text.casefold()
    name = run.name
    if name in names("countries", "places"):
        person = run.lows[0] in words("given_names")
        return MentionKind.PERSON if person and _human(run) else MentionKind.PLACE
    if name in names("organisations") or (len(run.parts) == 1 and raw in names("organisations")):
        return MentionKind.ORGANISATION
    if len(run.parts) == _PLACE_BOTH and all(low in names("countries", "places") for low in run.lows):
        return MentionKind.PLACE
    return None


def _human(run: Run) -> bool:
    before = run.before()
    somewhere = before is not None and (before.low in words("place", "before") or before.low in {"to", "from"})
    return not somewhere and (_relation(run) or _acts(run)) == MentionKind.PERSON


def _titled(run: Run) -> MentionKind | None:
    lows = run.lows
    titled = len(lows) > 1 and lows[0] in words("people", "title") and lows[1] != "of"
    return MentionKind.PERSON if titled else None


def _worded(run: Run) -> MentionKind | None:
    lows = run.lows
    if len(lows) == 1:
        tall = any(lows[0].endswith(tail) and len(lows[0]) > len(tail) + 2 for tail in words("place", "suffix"))
        return MentionKind.PLACE if tall else None
    if lows[-1] in words("organisation", "any") or (lows[0] in words("organisation", "any")):
        return MentionKind.ORGANISATION
    if lows[-1] in words("place", "ends") or lows[0] in words("place", "begins"):
        return MentionKind.PLACE
    return None


def _given(run: Run) -> MentionKind | None:
    given = run.lows[0] in words("given_names") and len(run.parts) <= _LONGEST_PERSON
    return MentionKind.PERSON if given else None


def _relation(run: Run) -> MentionKind | None:
    """Tell by who is introduced or greeted: "my sister X", "our cat X", "hello X", "X, my brother"."""
    before, gap = run.before(), run.parts[0].gap
    if before is not None and gap in {" ", ", "} and not run.parts[0].opens:
        if before.low in words("people", "person") or before.low in words("people", "greets"):
            return MentionKind.PERSON
        if before.low in words("people", "animal"):
            return MentionKind.NAME
    owner, noun = run.after(), run.after(2)
    if owner is not None and noun is not None and owner.gap == ", " and owner.low in _OWNERS:
        return _described(noun)
    return None


def _described(noun: Token) -> MentionKind | None:
    if noun.low in words("people", "animal"):
        return MentionKind.NAME
    person = noun.low in words("people", "person") or noun.low in _SOMEBODY
    return MentionKind.PERSON if person else None


def _called(run: Run) -> MentionKind | None:
    """Tell by what was given the name: "a dog named X", "a man called X", "her name is X"."""
    before = run.before()
    if before is None or run.parts[0].gap != " ":
        return None
    if before.low == "is" and (name := run.before(2)) is not None and name.low == "name":
        return MentionKind.PERSON
    if before.low not in {"called", "named"}:
        return None
    for steps in range(2, 2 + _LOOK_BACK):
        noun = run.before(steps)
        if noun is not None and (kind := _described(noun)) is not None:
            return kind
    return _titled(run) or MentionKind.NAME


def _employer(run: Run) -> MentionKind | None:
    before = run.before()
    if before is None or run.parts[0].opens:
        return None
    if before.low == "joined":
        return MentionKind.ORGANISATION
    near = _earlier(run, words("organisation", "employs"))
    return MentionKind.ORGANISATION if before.low in {"at", "for"} and near else None


def _situated(run: Run) -> MentionKind | None:
    before = run.before()
    if before is None or run.parts[0].opens:
        return None
    if before.low == "the":
        before = run.before(2)
    if before is None:
        return None
    if before.low in words("place", "before") and not run.parts[-1].possessive:
        return MentionKind.PLACE
    return MentionKind.PLACE if before.low in {"to", "from"} and _earlier(run, words("place", "moves")) else None


def _earlier(run: Run, wanted: frozenset[str]) -> bool:
    near = (run.before(steps) for steps in range(2, 2 + _LOOK_BACK))
    return any(token is not None and token.low in wanted for token in near)


def _acts(run: Run) -> MentionKind | None:
    """Tell by what it does or hears: "X said", "X, can you"."""
    after = run.after()
    if after is None or run.parts[-1].possessive:
        return None
    certain_name = not run.opens or run.lows[0] in words("given_names")
    verbs = words("people", "says" if certain_name else "speaks")
    if after.gap == " " and after.low in verbs:
        return MentionKind.PERSON
    spoken_to = after.gap == ", " and run.opens and after.low in _LISTENS
    return MentionKind.PERSON if spoken_to else None
