"""Rules of German for work, diet, allergies, likes and dislikes, and the denials that end such facts.

German writes every noun with a capital, so that a value is a noun phrase with a clear end, not merely a name.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from store.text.rules.gazetteer import name_list, word_list
from store.text.rules.model import Tier
from store.text.rules.rule import Rule, ValueShape, any_of, compile_phrase, compile_value
from store.text.rules.vocabulary import is_given_name, is_word, known_places

_CAPITAL = "(?-i:[A-Z\u00c4\u00d6\u00dc])"
_STOP = r"\s*(?:[.!,;:)\n\u2013\u2014]|$)"
_TIMES = r"(?:schon )?(?:seit|mit) [^.,;!?\n]{1,30}?"
_ADVERB = "jetzt|nun|derzeit|aktuell|momentan|gerade|noch|immer noch|inzwischen|mittlerweile|wieder|auch|schon"
_NOW = f"(?: (?:{_ADVERB}|{_TIMES})){{0,2}}"
_BEFORE = f"(?:{_ADVERB}|{_TIMES})"
_NO_LONGER = "(?: jetzt| leider)? nicht (?:mehr|l\u00e4nger)"

# "bei Bosch" and "bei einer Bank", not "bei Nacht" and "bei der Hitze".
_ARTICLE = "(?:der|dem|den|die|das|einem|einer|eine|einen|ein)"
_INSTITUTION = (
    r"(?:\w{0,24}(?:bank|sparkasse|post|bahn|polizei|feuerwehr|bundeswehr|stadt|gemeinde|versicherung|krankenkasse"
    "|beh\u00f6rde|zeitung|agentur|firma|klinik|krankenhaus|universit\u00e4t|kanzlei|verwaltung|verlag|unternehmen"
    rf"|konzern|hersteller|ministerium|gmbh)|uni|start-?up)(?: {_CAPITAL}[\w-]{{1,24}})?(?![\w-])"
)
_CIRCUMSTANCE = (
    r"(?:\w{0,20}(?:licht|schein|wetter|temperatur|temperaturen|hitze|k\u00e4lte|musik|stress|gelegenheit|arbeit)"
    "|regen|schnee|wind|sturm|nacht|tag|sonne|dunkelheit|druck|bedarf|tisch|kunden|freunden|familie|mutter|vater"
    r"|eltern|nachbarn|leuten|menschen|hause|laune|frau|herrn|oma|opa|mama|papa|ihnen)(?![\w-])"
)
_EMPLOYER = (
    rf"(?P<value>{_ARTICLE} (?:{_CAPITAL}\w{{2,20}}en )?(?={_CAPITAL}){_INSTITUTION}"
    rf"|(?!{_CIRCUMSTANCE}){_CAPITAL}[\w&.-]{{0,30}}[\w&](?: (?:& )?{_CAPITAL}[\w&-]{{1,24}}){{0,2}})"
)
_AT_WORK = "angestellt|besch\u00e4ftigt|angefangen"
_LEFT = "gek\u00fcndigt|aufgeh\u00f6rt"
_WORKS_ON = rf"(?={_STOP}| (?:in|als|und|seit|aber|an|im|weil|{_AT_WORK}|{_LEFT})\b)"
_JOB = (
    rf"(?P<value>(?!(?:erste|letzte|n\u00e4chste)[rs]?\b)(?:(?!(?:mein|dein|sein|ihr)e)\w{{3,20}}e[nrs]? )?{_CAPITAL}"
    rf"[\w-]{{2,30}})(?={_STOP}| (?:bei|in|und|seit|aber|f\u00fcr|an|im|am|weil)\b)"
)
# What people are by profession, perhaps as the end of a word: "Grundschullehrerin".
_PROFESSION = (
    rf"(?P<value>(?={_CAPITAL})\w{{0,20}}(?:(?:{any_of(word_list('job', 'german'))})(?:in)?"
    rf"|{any_of(word_list('job', 'german_whole'))})(?![\w-]))"
    rf"(?={_STOP}| (?:bei|in|und|seit|aber|f\u00fcr|an|im|am|weil|mehr)\b)"
)
# "am 4. Februar", "am 4.2.": the window of a day ends no sooner than its line, so that its dots are no end.
_MONTHS = "januar|j\u00e4nner|februar|m\u00e4rz|april|mai|juni|juli|august|september|oktober|november|dezember"
_DAY = rf"(?P<value>\d{{1,2}}\. ?(?:(?:{_MONTHS})(?! \d{{5}})(?: \d{{4}})?|\d{{1,2}}\.(?:\d{{4}})?))"
# "Ich bin 34 und wohne in Kiel", not "Ich bin 20 Minuten zu sp\u00e4t".
_AGE = (
    r"(?P<value>1[3-9]|[2-9]\d)(?=\s*(?:[!;)]|[.,](?!\d)|$|\n)"
    r"| und (?:ich |wir )?(?:wohne|lebe|arbeite|habe|bin|komme|verheiratet|geschieden|ledig|rentner|noch)\b)"
)
_LATELY = (
    "gestern|heute|jetzt|gerade|neulich|vor kurzem|letzte[nrs]? \\w{3,10}|diese[nrs]? \\w{3,10}|(?:am|im) \\w{3,10}"
)
_DIETS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("vegetarier", "vegetarierin", "vegetarisch"), "vegetarian"),
        **dict.fromkeys(("veganer", "veganerin", "vegan"), "vegan"),
        **dict.fromkeys(("diabetiker", "diabetikerin"), "diabetic"),
        **dict.fromkeys(("pescetarier", "pescetarierin", "pescetarisch"), "pescetarian"),
        "laktoseintolerant": "lactose intolerant",
        "glutenfrei": "gluten-free",
    }
)
_MARRIAGES: Mapping[str, str] = MappingProxyType(
    {
        "verheiratet": "married",
        "geschieden": "divorced",
        "verlobt": "engaged",
        "verwitwet": "widowed",
        "single": "single",
    }
)
_MARRIED = rf"(?:{'|'.join(_MARRIAGES)})(?![\w-])"
_DIET = rf"(?:{'|'.join(sorted(_DIETS, key=len, reverse=True))})(?![\w-])"
_KEEPS = "ich (?:lebe|esse|ern\u00e4hre mich)"
# "klassische Musik", "Jazz und Blues", not "meine Frau", "Sie", "den Film".
_ADJECTIVE = (
    r"(?:(?!(?:mein|dein|sein|ihr|unser|eur|dies|jen|jed|kein|ein|solch|manch|welch|viel|einig|all|beid|ander|die|wie"
    r"|eure)(?:e[nrs]?)?\b)\w{3,20}e[nrs]? )?"
)
_NOUN = (
    rf"{_ADJECTIVE}(?!(?:sie|ihnen|ihre?[nrms]?|du|dich|dir|euch|alles|nichts|leute|menschen)\b){_CAPITAL}[\w-]{{2,30}}"
)
_NOUNS = rf"(?P<value>{_NOUN}(?:(?:, {_NOUN}){{0,4}} (?:und|oder) {_NOUN})?)"
_LIKED = (
    rf"(?={_STOP}(?! nicht)| (?:sehr|so|besonders|am (?:liebsten|meisten)|total|wirklich|echt|auch|\u00fcber alles|aber"
    r"|weil|und|seit|zum|mit|zu)\b(?![^.,;!?\n]{0,40}\bnicht\b))"
)
_DOES = "trinke|esse|h\u00f6re|spiele|lese|schaue|gucke"
_NOT = "(?: (?:\u00fcberhaupt|gar|wirklich|einfach|leider|sehr|besonders|so|auch)){0,2} nicht"
_VERY = "(?: (?:sehr|wirklich|auch|total|echt|einfach|am liebsten)){0,2}"


class _Phrase(NamedTuple):
    fact_id: str
    opening: str
    value: str
    needs: tuple[str, ...]
    denies: bool = False
    among: frozenset[str] = frozenset()
    ends: Callable[[str], Sequence[str]] | None = None


def _name_diet(said: str) -> tuple[str]:
    return (_DIETS[said.casefold()],)


_FIGURATIVE = re.compile(
    r"(?:heit|keit|idioten|l\u00fcgner|l\u00fcgen|(?:mon|diens|donners|frei|sams|sonn)tage?|meetings?|besprechungen"
    r"|ausreden|aufstehen|arbeit|stress|hektik|l\u00e4rm|drama|politik|excel|jira|smalltalk|hausaufgaben|putzen|aufr\u00e4umen)\Z",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r",? (?:und|oder|sowie) |, ")


#: Ends of words for what goes on during work: "bei Sonnenaufgang", "bei Besprechungen".
_ABSTRACT = ("gang", "ung", "ungen", "heit", "keit")


def _name_employer(said: str) -> Sequence[str]:
    """Return an employer, nothing where the words are a person's name or tell during what somebody works."""
    low = said.casefold()
    is_other = " " not in low and (is_given_name(low) or low.endswith(_ABSTRACT))
    return () if is_other and low not in _LISTED else (said,)


def _name_job(said: str) -> Sequence[str]:
    return () if is_given_name(said.casefold()) else (said,)


def _name_marriage(said: str) -> tuple[str]:
    return (_MARRIAGES[said.casefold()],)


def _split_nouns(said: str) -> Sequence[str]:
    """Return each thing of a list: what is liked is no person, and an allergy against stupidity is none."""
    return tuple(one for one in _BETWEEN.split(said) if not _is_person(one.casefold()) and not _FIGURATIVE.search(one))


def _is_person(low: str) -> bool:
    return is_given_name(low) and not is_word(low) and low not in known_places()


_WORK_WORDS, _GOOD = ("arbeite", "bei ", "arbeitgeber"), ("mag ", "liebe ", " gern")
_LISTED = name_list("organisations")
_PHRASES = (
    _Phrase(
        "user_employer",
        f"ich arbeite{_NOW} bei|{_BEFORE} arbeite ich bei|mein (?:neuer )?arbeitgeber ist(?: jetzt)?",
        rf"{_EMPLOYER}{_WORKS_ON}",
        _WORK_WORDS,
        ends=_name_employer,
    ),
    _Phrase(
        "user_employer",
        rf"ich arbeite{_NOW} als(?: \w{{3,20}}e[nrs]?)? {_CAPITAL}[\w-]{{2,30}} bei",
        rf"{_EMPLOYER}{_WORKS_ON}",
        ("arbeite",),
        ends=_name_employer,
    ),
    _Phrase(
        "user_employer",
        f"(?:ich arbeite{_NOW}|{_BEFORE} arbeite ich) f\u00fcr",
        rf"{_EMPLOYER}{_WORKS_ON}",
        ("arbeite",),
        among=_LISTED,
    ),
    _Phrase(
        "user_employer",
        f"ich (?:bin|habe){_NOW} bei",
        rf"{_EMPLOYER}(?={_NOW} (?:{_AT_WORK})\b)",
        tuple(_AT_WORK.split("|")),
        ends=_name_employer,
    ),
    _Phrase(
        "user_employer",
        f"ich (?:arbeite|bin){_NO_LONGER} (?:bei|f\u00fcr)|ich arbeite(?: \u00fcberhaupt| gar)? nicht bei",
        rf"{_EMPLOYER}{_WORKS_ON}",
        (" nicht ",),
        denies=True,
    ),
    _Phrase(
        "user_employer",
        "ich habe?(?: gerade| jetzt)? bei",
        rf"{_EMPLOYER}(?= (?:{_LEFT})\b)",
        tuple(_LEFT.split("|")),
        denies=True,
    ),
    _Phrase("user_job", f"(?:ich arbeite{_NOW}|{_BEFORE} arbeite ich) als", _JOB, ("arbeite",), ends=_name_job),
    _Phrase("user_job", f"ich arbeite{_NO_LONGER} als", _JOB, (" nicht ",), denies=True, ends=_name_job),
    _Phrase(
        "user_job",
        f"(?:ich bin|{_BEFORE} bin ich){_NOW}(?: (?:von beruf|gelernter?|freiberufliche?r?|selbst\u00e4ndige?r?))?",
        _PROFESSION,
        ("bin ",),
    ),
    _Phrase(
        "user_job",
        f"ich bin{_NO_LONGER}|ich bin keine?(?= \\w+ mehr\\b)",
        _PROFESSION,
        (" nicht ", " kein"),
        denies=True,
    ),
    _Phrase(
        "user_diet",
        f"(?:ich bin|{_BEFORE} bin ich|{_KEEPS}){_NOW}(?: (?:rein|strikt|komplett|\u00fcberzeugter?))?",
        _DIET,
        tuple(_DIETS),
        ends=_name_diet,
    ),
    _Phrase(
        "user_diet",
        f"ich bin keine?(?: strikte| echte)?|(?:ich bin|{_KEEPS}){_NO_LONGER}|ich bin(?: gar| doch)? nicht",
        _DIET,
        tuple(_DIETS),
        denies=True,
        ends=_name_diet,
    ),
    _Phrase(
        "user_allergy",
        f"ich bin{_NOW}(?: (?:sehr|stark|schwer|leicht|hochgradig))? allergisch (?:gegen|auf)",
        _NOUNS,
        ("allergisch",),
        ends=_split_nouns,
    ),
    _Phrase(
        "user_allergy",
        "ich (?:bin(?: gar| doch| jetzt)? nicht(?: mehr)?|(?:bin|war) (?:noch )?nie) allergisch (?:gegen|auf)",
        _NOUNS,
        ("allergisch",),
        denies=True,
        ends=_split_nouns,
    ),
    _Phrase("user_allergy", f"ich bin{_NOW} gegen", f"{_NOUNS}(?= allergisch\\b)", ("allergisch",), ends=_split_nouns),
    _Phrase(
        "user_allergy",
        "ich habe(?: jetzt| doch)? keine",
        r"(?P<value>[^\W\d_]{3,20}?)allergie(?![\w-])",
        ("allergie",),
        denies=True,
    ),
    _Phrase(
        "user_marriage",
        f"(?:ich bin|wir sind|{_BEFORE} bin ich)(?![^.,;!?\\n]{{0,30}}\\b(?:job|beruf|arbeit)\\b){_NOW}",
        f"{_MARRIED}(?! mit (?:meinem|dem|der|meiner) )",
        tuple(_MARRIAGES),
        ends=_name_marriage,
    ),
    _Phrase(
        "user_marriage",
        "(?:ich bin|wir sind)(?: jetzt| gar)? nicht(?: mehr)?",
        _MARRIED,
        tuple(_MARRIAGES),
        denies=True,
        ends=_name_marriage,
    ),
    _Phrase(
        "user_job",
        f"ich (?:wohne|lebe|komme|hei\u00dfe|heisse) [^.;!?,\\n]{{1,60}}? und bin{_NOW}"
        "|ich bin \\d{1,2}(?: jahre alt)?(?: und|,)(?: bin)?(?: von beruf)?",
        _PROFESSION,
        ("bin ",),
    ),
    _Phrase("user_age", f"ich bin{_NOW}", r"(?P<value>\d{1,2})(?= jahre alt\b)", (" jahre alt",)),
    _Phrase("user_age", f"ich bin{_NOW}", _AGE, ("bin ",)),
    _Phrase(
        "user_age",
        f"ich bin(?: (?:{_LATELY}))?(?: schon)?",
        r"(?P<value>\d{1,2})(?= (?:jahre alt )?geworden\b)",
        ("geworden",),
    ),
    _Phrase(
        "user_birthday",
        "mein geburtstag ist(?: \u00fcbrigens| immer| ja| auch)? am",
        _DAY,
        ("geburtstag",),
    ),
    _Phrase(
        "user_birthday",
        "ich habe(?: \u00fcbrigens| immer| auch)? am",
        f"{_DAY}(?= geburtstag\\b)",
        ("geburtstag",),
    ),
    _Phrase("user_birthday", "ich (?:bin|wurde) am", f"{_DAY}(?= (?:in \\w{{2,20}} )?geboren\\b)", ("geboren",)),
    _Phrase(
        "user_allergy",
        f"ich habe{_NOW} eine(?: \\w{{3,12}}e)?",
        r"(?P<value>[^\W\d_]{3,20}?)allergie(?![\w-])",
        ("allergie",),
    ),
    _Phrase("user_like", f"ich (?:mag|liebe){_VERY}", f"{_NOUNS}{_LIKED}", _GOOD, ends=_split_nouns),
    _Phrase(
        "user_like",
        f"(?:ich (?:{_DOES})|(?:{_DOES}) ich)(?: (?:sehr|auch|immer|wirklich))? gerne?",
        f"{_NOUNS}{_LIKED}",
        (" gern",),
        ends=_split_nouns,
    ),
    _Phrase(
        "user_dislike",
        "ich (?:mag|liebe)(?: \u00fcberhaupt| gar)? keine?[nrms]?",
        rf"{_NOUNS}{_LIKED}(?! mehr)",
        (" kein",),
        ends=_split_nouns,
    ),
    _Phrase("user_dislike", f"ich hasse{_VERY}", f"{_NOUNS}{_LIKED}", ("hasse",), ends=_split_nouns),
    _Phrase(
        "user_dislike",
        "ich mag",
        rf"{_NOUNS}(?={_NOT}(?: (?:besonders|so|sehr|wirklich|gern)){{0,2}}{_STOP})",
        (" nicht",),
        ends=_split_nouns,
    ),
    _Phrase(
        "user_dislike",
        "ich kann",
        rf"{_NOUNS}(?={_NOT} (?:ausstehen|leiden|ab)\b)",
        (" nicht ",),
        ends=_split_nouns,
    ),
    _Phrase(
        "user_like",
        f"ich (?:{_DOES})(?: jetzt| leider)? (?:nicht mehr|nie mehr)(?: so)?(?: gerne?)?",
        f"{_NOUNS}(?={_STOP})",
        (" mehr",),
        denies=True,
        ends=_split_nouns,
    ),
    _Phrase(
        "user_like",
        f"ich (?:{_DOES})(?: jetzt| leider)? keine?[nrms]?",
        rf"{_NOUNS}(?= mehr\b)",
        (" mehr",),
        denies=True,
        ends=_split_nouns,
    ),
    _Phrase("user_like", "ich mag", rf"{_NOUNS}(?={_NO_LONGER}\b)", (" nicht ",), denies=True, ends=_split_nouns),
    _Phrase(
        "user_like", "ich mag keine?[nrms]?", rf"{_NOUNS}(?= mehr{_STOP})", (" kein",), denies=True, ends=_split_nouns
    ),
)
_SAYS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "user_employer": ("{who} works at {value}.", "{who} has left {value}."),
        "user_job": ("{who} works as {value}.", "{who} has ceased to work as {value}."),
        "user_diet": ("{who} is {value}.", "{who} has ceased to be {value}."),
        "user_allergy": ("{who} is allergic to {value}.", "{who} has no allergy to {value}."),
        "user_marriage": ("{who} is {value}.", "{who} is other than {value}."),
        "user_birthday": ("{who}'s birthday is {value}.", "{who}'s birthday is other than {value}."),
        "user_age": ("{who} is {value} years old.", "{who} is not {value} years old."),
        "user_like": ("{who} likes {value}.", "{who} has no liking for {value}."),
        "user_dislike": ("{who} does not like {value}.", "{who} has nothing against {value}."),
    }
)
_SHAPES: Mapping[str, ValueShape] = MappingProxyType({"user_birthday": ValueShape.DAY})
_MANY = frozenset({"user_allergy", "user_like", "user_dislike"})


def _build_rule(one: _Phrase) -> Rule:
    kind = one.fact_id.removeprefix("user_")
    return Rule(
        compile_phrase(f"(?:{one.opening})(?= {one.value.replace('?P<value>', '?:')})"),
        one.fact_id,
        kind,
        f"not-{kind}" if one.denies else kind,
        Tier.L2 if one.fact_id in {"user_like", "user_dislike"} else Tier.L0,
        0.85,
        _SAYS[one.fact_id][one.denies],
        needs=one.needs,
        many=one.fact_id in _MANY,
        among=one.among,
        denies=one.denies,
        shape=_SHAPES.get(one.fact_id, ValueShape.LIST if one.ends is _split_nouns else ValueShape.ANY),
        pattern=compile_value(one.value),
        ends=one.ends,
    )


def _find_rule(fact_id: str, *, denies: bool = False) -> Rule:
    rules = GERMAN_DENIALS if denies else GERMAN_RULES
    return next(rule for rule in rules if rule.fact_id == fact_id and rule.ends is _split_nouns)


GERMAN_RULES = tuple(_build_rule(one) for one in _PHRASES if not one.denies)
GERMAN_DENIALS = tuple(_build_rule(one) for one in _PHRASES if one.denies)

# What begins a German sentence with a capital and is no thing: "Das mag ich", "Morgens lese ich gern".
_NO_THING = (
    "(?!(?:das|dies\\w{0,2}|den|die|der|dem|es|was|wen|wie|warum|wann|wo|wer|da|dann|dort|hier|heute|gestern|jetzt"
    "|eigentlich|manchmal|nat\u00fcrlich|trotzdem|leider|sonst|deshalb|oft|meist|meistens|immer|nie|noch|auch|nur|so|mehr"
    "|oma|opa|mama|papa|mutti|vati|mutter|vater|am|im|ihn|sie|dich|euch|ihnen|dir|beides|beide|alles|nichts|etwas|vieles|besonders|fr\u00fcher|seitdem|inzwischen"
    "|\\w{3,12}tags|morgens|abends|mittags|nachts|vormittags|nachmittags|gern|gerne|au\u00dferdem|vielleicht)\\b)"
)
_FIRST = rf"(?:(?<![^\n])|(?<=[.!?,;]\x20))(?P<value>{_NO_THING}{_CAPITAL}[\w-]{{2,30}})"
_WELL = "(?: (?:sehr|auch|wirklich|immer|total|besonders|\u00fcberaus))?"
#: Rules, and the patterns of German clauses that name the thing first: "Fisch mag ich nicht".
GERMAN_VALUE_FIRST = (
    (
        _find_rule("user_dislike"),
        compile_value(f"{_FIRST} (?:mag|liebe) ich{_NOT}(?: so| besonders| sehr)?{_STOP}"),
    ),
    (_find_rule("user_dislike"), compile_value(f"{_FIRST} hasse ich{_STOP}")),
    (_find_rule("user_like"), compile_value(f"{_FIRST} (?:mag|liebe) ich{_WELL}{_STOP}")),
    (_find_rule("user_like"), compile_value(f"{_FIRST} (?:{_DOES}) ich{_WELL} gerne?{_STOP}")),
    (
        _find_rule("user_like", denies=True),
        compile_value(f"{_FIRST} (?:mag|liebe|{_DOES}) ich(?: jetzt| leider)? (?:nicht|nie) mehr{_STOP}"),
    ),
)
#: What a text with such a clause has.
GERMAN_VALUE_FIRST_SIGNS = re.compile(f"\\b(?:mag|liebe|hasse|{_DOES}) ich\\b", re.IGNORECASE)
