"""Context cues that a name is a person's: introductions, actions, birthdays."""

from store.text.rules.gazetteer import word_list
from store.text.rules.runs import NameRun
from store.text.rules.tokens import Token
from store.text.rules.vocabulary import everyday_words, is_given_name, is_word

_LISTENS = frozenset(
    {
        *("can", "could", "please", "do", "did", "would", "will", "are", "is", "isn't", "have"),
        *("what", "how", "when", "where", "why", "who", "you", "i", "i'm", "my"),
        *("tell", "remind", "don't", "let's", "thanks", "thank"),
    }
)
_DETERMINERS = frozenset(
    {
        *("a", "an", "the", "my", "our", "his", "her", "your", "their", "some", "this", "that", "these", "those"),
        *("one", "two", "three", "ten", "money", "flowers", "chocolates", "back", "another", "something", "more"),
    }
)
_SAID = frozenset({"said", "says", "asked", "replied", "wrote", "answered", "explained", "added", "laughed", "thinks"})
_WITH_ME = frozenset({"i", "me", "he", "she", "him", "her", "you", "us"})
_PERSONAL = frozenset({"he", "she", "him", "her", "his", "he's", "she's", "he'd", "she'd", "he'll", "she'll"})
_PREPOSITIONS = {"with": "company", "to": "to", "for": "for", "from": "from", "by": "by"}
_LOOK_BACK = 5
_LOOK_AHEAD = 12
_VET_NEAR = 6


def is_actor(run: NameRun) -> bool:
    """Return whether the name is a subject only people are: "X said", "X can't eat", or spoken to: "X, can you"."""
    after = run.after()
    if after is None:
        return False
    if run.parts[-1].possessive:
        return after.gap == " " and after.low in _CONTRACTED
    if after.gap == " " and (after.low in word_list("people", _proving_verbs(run)) or _has_predicate(run, after)):
        return True
    return run.opens and _spoken_to(run, after)


_CONTRACTED = frozenset({"in", "at", "not", "been", "going", "coming", "leaving", "allergic", "pregnant", "got", "a"})


def _proving_verbs(run: NameRun) -> str:
    """Return the verbs that prove a person: all of them after a certain name, else only the telling ones."""
    return "says" if _is_certain(run) else "speaks"


def _is_certain(run: NameRun) -> bool:
    """Return whether the capital proves a name: inside a sentence, on no word, or on a given name and rare word."""
    first = run.lows[0]
    return not run.opens or not is_word(first) or (is_given_name(first) and first not in everyday_words())


def _has_predicate(run: NameRun, after: Token) -> bool:
    if after.low not in word_list("people", "modal") or not _is_certain(run):
        return False
    then = run.after(2)
    return then is not None and (then.low in word_list("people", "human") or then.low in word_list("people", "says"))


def _spoken_to(run: NameRun, after: Token) -> bool:
    strange = is_given_name(run.lows[0]) or not is_word(run.lows[0])
    return strange and (after.gap == ": " or (after.gap == ", " and after.low in _LISTENS))


def is_addressee(run: NameRun) -> bool:
    """Return whether something is done to the name, or given to it, that is done to people."""
    before, gap = run.before(), run.parts[0].gap
    if before is None or run.opens or gap != " ":
        return False
    if before.low in word_list("people", "meets") or before.low in _SAID:
        return True
    if before.low in word_list("people", "gives"):
        after = run.after()
        if after is not None and (after.text[0].isdigit() or after.low in _DETERMINERS):
            return True
    return _called_up(run, before) or _by_preposition(run, before)


def _called_up(run: NameRun, before: Token) -> bool:
    caller = run.before(2)
    return before.low in {"call", "called", "calling"} and (
        caller is not None and caller.low in {"i", "to", "she", "he", "we", "they", "just", "you", "please", "and"}
    )


def _by_preposition(run: NameRun, before: Token) -> bool:
    section = _PREPOSITIONS.get(before.low)
    return section is not None and has_word_before(run, word_list("people", section))


def is_joined_to_person(run: NameRun) -> bool:
    """Return whether the name is joined to a person by "and": "X and I", "me and X"."""
    link, other = run.after(), run.after(2)
    if link is not None and other is not None and link.low in {"and", "or"} and link.gap == other.gap == " ":
        return other.low in {"i", "me", "her", "him"}
    link, other = run.before(), run.before(2)
    both = link is not None and other is not None and link.low == "and"
    return both and other is not None and other.low in _WITH_ME and run.parts[0].gap == " "


def is_paired(run: NameRun) -> bool:
    """Return whether a given name begins a sentence with another: "Grace and Mark are"."""
    link, other = run.after(), run.after(2)
    if link is None or not is_given_name(run.lows[0]) or not run.opens:
        return False
    if link.low == "and" and other is not None:
        return link.gap == other.gap == " " and other.capital and is_given_name(other.low)
    return link.gap == ", " and link.capital and is_given_name(link.low)


def is_owner(run: NameRun) -> bool:
    """Return whether the name owns what people have: "X's birthday"."""
    noun = run.after()
    if noun is None or not run.parts[-1].possessive or noun.gap != " ":
        return False
    return noun.low in word_list("people", "owned") or noun.low in word_list("people", "person")


def is_signature(run: NameRun) -> bool:
    """Return whether the name is a letter's signature or is followed by what is said of people."""
    before, after = run.before(), run.after()
    if after is not None and after.gap == ", " and after.low in {"who", "whom", "whose"}:
        return True
    under = before is not None and "\n" in run.parts[0].gap and before.low in word_list("people", "regards")
    return under and (after is None or "\n" in after.gap)


def has_pronoun(run: NameRun) -> bool:
    """Return whether "he" or "she" follows soon: a weak sign."""
    near = run.words[run.last : run.last + _LOOK_AHEAD]
    return any(token.low in _PERSONAL for token in near)


def is_tended(run: NameRun) -> bool:
    """Return whether a vet, a leash or a bark is near: then the unknown name is an animal's."""
    near = run.words[max(0, run.first - _VET_NEAR) : run.last + _VET_NEAR]
    return any(token.low in word_list("people", "vet") for token in near)


def has_word_before(run: NameRun, wanted: frozenset[str]) -> bool:
    """Return whether one of the words stands up to five words before the name, the nearest left out."""
    near = (run.before(steps) for steps in range(2, 2 + _LOOK_BACK))
    return any(token is not None and token.low in wanted for token in near)
