"""Rules of a person's life: home, origin, work, birthday and age, health, family. Most have one value at a time."""

from dataclasses import replace

from store.text.rules.gazetteer import name_list, word_list
from store.text.rules.model import Tier, cues
from store.text.rules.rule import (
    BEGINS,
    HAVE_JUST,
    I_HAVE_JUST,
    Rule,
    ValueShape,
    any_of,
    compile_phrase,
    compile_value,
)
from store.text.rules.vocabulary import is_given_name, known_places

RELATION_WORDS = word_list("people", "person") | word_list("people", "animal")
RELATIONS = any_of(RELATION_WORDS)
#: Words for being married or not; each ends the other.
MARRIAGES = (
    r"married(?! to (?:my|the|this|that|it) (?:job|work|career|idea|game|plan|approach|project|company|sea|music)\b)"
    r"|divorced|separated|widowed|engaged(?! (?:in|with|on|by)\b)|single"
)
DIETS = (
    "vegetarian|veggie|vegan|pescatarian|pescetarian|coeliac|celiac|diabetic|lactose intolerant|gluten intolerant"
    "|(?:gluten|dairy)(?:-| )free"
)
#: Words of which a text with a diet has one.
DIET_WORDS = ("vegan", "veggie", "tarian", "liac", "diabetic", "intolerant", "n-free", "n free", "y-free", "y free")
_OTHER, _NOT = r"[^\s,;.!?]{1,40}", "i (?:don't|do not|no longer)"
_I_AM, _WE_ARE = "(?:i'm|i am)", "(?:i'm|i am|we're|we are)"
_NOW = "(?: now| currently| actually| still| already| just)?"
_HAVE_BEEN = "(?:'ve| have) been"

# "I'm a teacher and live in York", not "my parents are retired and live in Spain".
_AND = (
    r"(?:(?!\b(?:who|that|which|whose|they|he|she|people)\b)[^.;!?\n]){1,60}?"
    "(?: and| but|,(?: and| but)?)(?: now| currently| i)?"
)
_WITH = r"(?: (?:alone|together|happily|permanently|here|(?:with|near|by|close to|next to) [^.,;!?\n]{1,40}?))"
_SINCE = r"(?= [^.,;!?\n]{2,40}? (?:for|since|all (?:my|our) li[fv]es?|(?:my|our) whole li[fv]es?)\b)"
_ONE = r"(?-i:[A-Z])[\w\u2019-]{1,30}"
# "I've been at Philips for six years", not "I've worked at Philips".
_YEARS = r"(?= [^.,;!?\n]{2,40} (?:since\b|for [^.,;!?\n]{1,16}(?:years?|months?|decades?)\b))"
_THESE_DAYS = r"(?= [^.,;!?\n]{2,30} (?:at the moment|right now|now|these days|currently|since|for \w+ years)\b)"
_HOMES = "|".join(
    (
        f"(?:i|we){_NOW} (?:live|reside){_WITH}? in",
        f"{_NOT} live in {_OTHER},? but in",
        f"{_WE_ARE}{_NOW} (?:based|living){_WITH}? in",
        f"(?:(?:i|we){_HAVE_BEEN}|{BEGINS}been) (?:living|based){_WITH}? in",
        f"{BEGINS}(?:currently|now|still) (?:living|based){_WITH}? in",
        f"{_WE_ARE}{_NOW} based out of",
        f"(?:i|we)(?:'ve| have) been in{_YEARS}",
        f"me and my (?:{RELATIONS})(?: {_ONE})?(?: now)? live{_WITH}? in",
        f"my (?:{RELATIONS})(?: {_ONE})? and (?:i|me)(?: now)? live{_WITH}? in",
        f"{BEGINS}(?:living|based) in{_THESE_DAYS}",
        f"{_I_AM}{_NOW} an? (?:expat|immigrant|foreigner|resident|lodger|student) (?:in|of)",
        "(?:i|we)(?:'ve| have)?(?: now| finally| since)? settled(?: down)? in",
        "home(?: for (?:me|us))? is(?: in| now)?|(?:my|our) (?:home|flat|house|apartment|place) is(?: now)? in",
        f"(?:i|we)(?:'ve| have) lived in{_SINCE}",
        f"where (?:i|we){_NOW} live is",
        f"(?:{_WE_ARE}|i (?:work|study|teach|grew up|come|was born)) {_AND} (?:live|living|based){_WITH}? in",
        f"{_I_AM}{_NOW} an? (?:(?!\\b(?:who|that|which|of)\\b)[^.,;!?\\n]){{2,50}}? (?:living|based) in",
    )
)
# The words that stand between verb and place in the languages whose introductions are read.
_GERMAN = (
    "(?: (?:jetzt|derzeit|aktuell|momentan|noch|immer noch|inzwischen|mittlerweile|allein|zusammen|schon lange"
    r"|(?:seit|mit) [^.,;!?\n]{1,30}?)){0,2}"
)
_GERMAN_HOMES = (
    f"(?:ich (?:wohne|lebe)|wir (?:wohnen|leben)|(?:und |(?<=,\\s))(?:wohne|lebe)){_GERMAN} in"
    "|(?:jetzt|nun|inzwischen|mittlerweile|derzeit|aktuell|seit [^.,;!?\\n]{1,30}?) (?:(?:wohne|lebe) ich|(?:wohnen"
    f"|leben) wir){_GERMAN} in"
    "|(?:ich bin|wir sind)(?: (?:jetzt|gerade|inzwischen|schon|vor kurzem|letzte[ns]? \\w{2,12}|im \\w{3,10})){0,2}"
    " nach(?= [^.,;!?\\n]{2,40} (?:um)?gezogen\\b)"
)
_HOMES_ELSEWHERE = (
    "(?:j'habite|je vis|nous habitons|nous vivons)(?: maintenant| actuellement| toujours)? \u00e0"
    r"|(?<!no\s)(?<!non\s)viv(?:o|imos|iamo)(?: ahora| actualmente| adesso| ora)? (?:en|a)"
    "|(?:ik woon|wij wonen|we wonen)(?: nu| al jaren| nog)? in"
    "|j'ai (?:emm|d\u00e9m)\u00e9nag\u00e9 \u00e0|(?:me he|nos hemos) mudado a|mi sono trasferit[oa] a"
)
_GERMAN_ORIGINS = (
    "(?:ich|und) (?:komme|stamme)(?: urspr\u00fcnglich| eigentlich)? aus"
    "|ich (?:bin|wurde) in(?= [^.,;!?\\n]{2,40} (?:geboren|aufgewachsen)\\b)"
)
_ORIGINS_ELSEWHERE = (
    r"je (?:viens|suis originaire) de|(?<!no\s)(?<!non\s)(?:soy|vengo) (?:de|da)|ik kom(?: oorspronkelijk)? uit"
)

_KINDS, _JOBS, _AFTER = (
    any_of(word_list("job", section)).replace(r"\-", "(?: |-)") for section in ("kind", "job", "after")
)
#: An indefinite article and a job: "a school nurse".
JOB_WORDS = (
    rf"(?:(?:{_KINDS}) ){{0,4}}(?:{_JOBS})(?= (?:{_AFTER})\b|\s*(?:$|[\n\r.,;:!?()\u2013\u2014]))"
    r"(?! (?:in (?:that|the|an?|this|my|our) (?:\w{1,20} )?(?:story|play|film|movie|game|book|dream|show)"
    r"|at heart|for (?:a|one|the) (?:day|week|night))\b)"
)
JOB = f"an? {JOB_WORDS}"
# "I'm Priya, product manager at Brightwell", not "I'm Tom, doctor".
_INTRODUCES = f"(?:i'm|i am|my name is|my name's) {_ONE}(?: {_ONE})?"
_INTRODUCED_JOB = f"(?:{JOB}|{JOB_WORDS}(?= (?:at|for|with|from|in|and|of|here)\\b))"
#: The definite article and a job, of which an organisation has one: "the head chef at Noma".
_THE_JOB = (
    rf"the(?: (?:{_KINDS})){{0,4}} (?:{_JOBS})(?= (?:here )?(?:at|for|of) (?-i:[A-Z])"
    r"| (?:of|for|on) (?:the|our|this|my) (?:(?!story|play|game|scene)[\w-]{2,20} ){0,2}(?:project|team|group|company"
    r"|firm|department|school|band|shop|office)\b)"
)
#: The same of somebody who says that it is so now: "the tech lead now".
_THE_JOB_NOW = rf"the(?: (?:{_KINDS})){{0,4}} (?:{_JOBS})(?=\s*(?:[.,!;)\n]|$)| now\b(?! in\b))"
_A_JOB = cues(
    "i'm a|i\u2019m a|i am a|as a|now a|still a|currently a|actually a|already a|just a|ve been a|have been a"
)
_NEW_JOB = (
    f"(?:i{HAVE_JUST}|{BEGINS}(?:just|recently|finally)?) ?(?:got|gotten|found|landed|accepted|taken|took|started"
    f"|begun|began)"
    "(?: an?| my| the)(?: \\w{2,12})? (?:job|position|role|internship|apprenticeship)"
)
_HERE = (
    "(?:(?:full|part)(?: |-)time|remotely|mostly|mainly|freelance|nights|days|shifts|weekends|from home"
    r"|in (?:the |an? )?[\w&-]{2,20}(?: [\w&-]{2,20}){0,2}?)"
)
_EMPLOYERS = "|".join(
    (
        f"i{_NOW} work(?: {_HERE})? (?:at|for|@)",
        f"{_NOT} work (?:at|for) {_OTHER},? but (?:at|for)",
        f"i{HAVE_JUST} started(?: working)? (?:at|for)",
        f"{BEGINS}(?:just )?started(?: working)? (?:at|for)(?= (?-i:[A-Z]))",
        f"{_I_AM}{_NOW} (?:working|employed) (?:at|for|by)",
        f"i{_HAVE_BEEN} working (?:at|for)",
        f"i(?:'ve| have) (?:been at|worked (?:at|for)){_YEARS}",
        f"{_NEW_JOB} (?:at|with)",
        "(?:i|i've)(?: just| recently)? (?:was|got|been|have been|am|'m) hired (?:by|at)",
        f"{BEGINS}(?:just |finally )?got hired (?:by|at)(?= (?-i:[A-Z]))",
        f"i(?:'ve| have)?(?: just| recently)? joined(?= (?-i:[A-Z])[\\w&-]{{1,20}} as {JOB})",
        "my (?:employer|company|workplace) is(?: called)?",
        "i (?:teach|lecture|intern|consult) (?:at|for)",
        f"{BEGINS}(?:currently|now) (?:working|employed) (?:at|for)(?= (?-i:[A-Z]))",
        f"(?:{_I_AM}|i live in) {_AND} work (?:at|for)",
    )
)
#: What one works for or at that employs nobody: "for a living", "at a snail's pace".
_NO_EMPLOYER = (
    "a living|a (?:snail|glacial|slow|steady|high|fast|good)|a (?:while|cause|pittance|change)|an? (?:hour|day"
    "|week|month"
    "|year)|(?:full|warp|light|lightning|top) speed"
    "|the (?:speed|money|moment|day|week|weekend|rest|sake|love|benefit|future|best|most|highest|lowest)"
)

CONDITIONS = (
    "(?:(?:type [12]|chronic|mild|severe|seasonal|rheumatoid|gestational) )?(?:coeliac disease|celiac disease|asthma"
    "|diabetes|epilepsy|migraines?|adhd|ibs|crohn's(?: disease)?|ulcerative colitis|arthritis|hypertension"
    "|high blood pressure|low blood pressure|hypothyroidism|hyperthyroidism|eczema|psoriasis|rosacea|insomnia|tinnitus"
    "|endometriosis|fibromyalgia|hay fever|sleep apno?ea|anxiety|depression|ptsd|ocd|dyslexia|autism|gout|glaucoma"
    "|ana?emia|lupus|multiple sclerosis|parkinson's(?: disease)?|osteoporosis|acid reflux|gerd|pcos|vertigo|scoliosis"
    r"|sciatica|narcolepsy|bipolar disorder|kidney disease|heart disease)(?![\w-])"
)
#: What one is allergic to, before the word "allergy".
ALLERGY = (
    r"(?P<value>(?!(?:an?|no|any|some|the|my|many|food|bad|severe|mild)\b)"
    r"[^\W\d_][\w-]{1,24}(?: (?!with\b)[\w-]{2,24})??) allerg(?:y|ies)\b"
)
# "I'm allergic to Mondays" is no allergy.
_FIGURATIVE = (
    "(?:everything|anything|nothing|mondays?|meetings?|work|working|bull\\w+|bs|stupid\\w*|drama|nonsense|mornings?"
    "|fun|exercise|commitment|excuses?|yaml|java(?:script)?|php|jira|excel|powerpoint|spreadsheets?|deadlines?|cardio"
    "|adulting|capitalism|politics|responsibility"
    "|effort|housework"
    "|idiots?|small talk|bureaucracy|people|lies|liars|you|him|her|them|it|this|that|failure|losing|hard work)\\b"
)
_ALLERGEN = compile_value(rf"{ALLERGY}(?! (?:tests?|season|shots?|medication|medicine|pills?|clinic|appointment)\b)")
_AGE = compile_value(r"\d{1,2}(?!\d)")
# "I'm 34 and live in Leeds", "I'm 52, divorced", not "I'm 20 minutes late", "I'm 80%".
_ALONE_AGE = (
    r"(?:1[3-9]|[2-9]\d)(?:\s*(?:[!;.](?!\d)|,(?!\d)|$|\n)"
    r"| (?:today|now|as of today|this week)(?=\s*(?:[.,!;)\n]|$))"
    r"| and (?:i |we )?(?:live|work|have|study|single|married|divorced|retired|from|a|an|my|still)\b)"
)
_WHEN_TURNED = (
    r"(?= \d{1,2}(?:[.,;!?\n]|$| (?:last|this|yesterday|today|recently|in|on|two|three|a (?:week|month|few)|years old"
    r"|and|but|so)\b))"
)

#: Words of German for people and animals, and those of the facts about them.
GERMAN_RELATIONS = {
    "hund": "dog",
    "h\u00fcndin": "dog",
    "katze": "cat",
    "kater": "cat",
    "frau": "wife",
    "mann": "husband",
    "tochter": "daughter",
    "sohn": "son",
    "schwester": "sister",
    "bruder": "brother",
    "mutter": "mother",
    "vater": "father",
    "freundin": "girlfriend",
    "chef": "boss",
    "chefin": "boss",
    "enkel": "grandson",
    "enkelin": "granddaughter",
    "oma": "grandmother",
    "opa": "grandfather",
    "gro\u00dfmutter": "grandmother",
    "gro\u00dfvater": "grandfather",
    "onkel": "uncle",
    "tante": "aunt",
    "neffe": "nephew",
    "nichte": "niece",
    "mama": "mother",
    "papa": "father",
    "kollege": "colleague",
    "kollegin": "colleague",
    "pferd": "horse",
    "hamster": "hamster",
}
_ADJECTIVE = (
    "(?: (?:younger|youngest|older|oldest|elder|eldest|little|big|late|dear|best|close|good|old|new|baby|twin|step"
    "|rescue|tiny|cute"
    "|middle|lovely|sweet|only|first|second))?"
)
_HAVE = "(?:i|we)(?:'ve got| have got| have|'ve| got| own| just got| adopted| just adopted| recently adopted)"
_FAMILY = Rule(
    compile_phrase(
        rf"(?:my|our){_ADJECTIVE} (?P<relation>{RELATIONS})"
        rf"(?:(?:'s name)? is(?: called| named)?|'s (?:called|named)| called| named|,(?= {_ONE},))?"
    ),
    "user_{relation}",
    None,
    "relation",
    Tier.L0,
    0.90,
    "{who}'s {relation} is called {value}.",
    needs=("my", "our"),
    shape=ValueShape.NAME,
    many=True,
)

_HOME = Rule(
    compile_phrase(_HOMES),
    "user_home",
    "home",
    "home",
    Tier.L0,
    0.90,
    "{who} lives in {value}.",
    needs=cues(
        "live|living|based|reside|home|flat|house|apartment|place|settled|expat|immigrant|foreigner"
        "|lodger|student|been in"
    ),
    shape=ValueShape.PLACE,
)
_ORIGIN = Rule(
    compile_phrase(
        f"(?:{_WE_ARE}(?: originally)?|(?:i|we)(?: originally)? come) from|(?:i was|{BEGINS}) ?born (?:in|on) (?:\\d"
        f"|(?-i:[A-Z])\\w{{2,8}} \\d)[\\w\\s]{{0,14}} in|i was (?:born|(?:born and )?(?:raised|bred)"
        f"|brought up) in|i grew up in|{_I_AM} [^.,!?;\\n]{{2,40}},? (?:but|and) grew up in"
        f"|(?:{_I_AM} |{BEGINS})(?-i:[A-Z])\\w{{1,12}}(?:an|ish|ese|ch)(?:,| and) (?:i'm |originally ){{0,2}}from"
        r"|my (?:hometown|home town) is|(?:live|living|based|work) [^.,!?;\n]{2,50}, (?:but |and )?originally from"
        f"|{BEGINS}originally from"
    ),
    "user_origin",
    "origin",
    "origin",
    Tier.L0,
    0.85,
    "{who} comes from {value}.",
    needs=("from", "born", "grew", "raised", "hometown", "home town"),
    shape=ValueShape.PLACE,
)

_EMPLOYER = Rule(
    compile_phrase(f"(?:{_EMPLOYERS})(?! (?:{_NO_EMPLOYER})\\b)"),
    "user_employer",
    "employer",
    "employer",
    Tier.L0,
    0.88,
    "{who} works at {value}.",
    needs=cues(
        "work|started|employed|job|position|role|ship|been at|hired|joined|employer|company|teach|lecture"
        "|intern|consult"
    ),
    shape=ValueShape.THING,
)


_COMPANY = compile_value(r"(?-i:[A-Z])[\w&.-]{0,30}[\w&](?: (?:& )?(?-i:[A-Z])[\w&-]{1,24}){0,2}")


def _name_company(said: str) -> tuple[str, ...]:
    """Return an employer, nothing where the word is a place or a person: "Trabajo en Madrid"."""
    low = said.casefold()
    other = low in known_places() or is_given_name(low)
    return () if other and low not in name_list("organisations") else (said,)


def name_diet(said: str) -> tuple[str]:
    """Return the diet that a word is short for."""
    return ("vegetarian" if said.casefold() == "veggie" else said,)


_CONDITION = Rule(
    compile_phrase(
        "(?:(?:i was|i have been|i've been|i got|i'm|i am)(?: just| recently| also)? diagnosed with"
        "|i have|i've got|i've|i(?: also)? suffer(?: badly| a lot| terribly| really)? from|i live with)(?: also"
        "| an?)?"
        f"|my(?= {CONDITIONS} (?:gets|flares|acts|inhaler|medication|meds|tablets|(?:has been|'s been) (?:bad"
        f"|better|awful|terrible|playing|acting|under)))"
    ),
    "user_condition",
    None,
    "condition",
    Tier.L0,
    0.88,
    "{who} has {value}.",
    needs=("have", "i've", "suffer", "live with", "diagnosed", "my "),
    many=True,
    pattern=compile_value(CONDITIONS),
)

_ALLERGIC = Rule(
    compile_phrase(
        f"{_I_AM}(?: also)?(?: very| severely| badly| deathly| highly| terribly| mildly| slightly| extremely)?"
        f" allergic (?:to|against)(?! {_FIGURATIVE})"
        f"|{BEGINS}(?:(?:very|severely|badly|deathly) )?allergic to(?! {_FIGURATIVE})"
        f"|my(?: food)? allergies(?: include|:)(?! {_FIGURATIVE})"
        "|i have allergies to"
        "|(?:i have|i've got|i've)(?: an?)?(?: \\w{2,10})? allergy (?:to|against)"
    ),
    "user_allergy",
    "allergy",
    "allergy",
    Tier.L0,
    0.95,
    "{who} is allergic to {value}.",
    needs=("allergic", "allergy to", "allergy against", "allergies"),
    shape=ValueShape.LIST,
    many=True,
)


def _name_family(opening: str, *needs: str) -> Rule:
    return replace(_FAMILY, opening=compile_phrase(opening), needs=needs)


def _name_given(said: str) -> tuple[str, ...]:
    """Return a person's name, nothing for another noun: "meine Frau \u00c4rztin"."""
    return (said,) if is_given_name(said.casefold()) else ()


def _build_german_family() -> tuple[Rule, ...]:
    """Return the rules for names beside a relation in German: "meine Frau Monika", "einen Hund, der heißt Waldi"."""
    animals = frozenset(word for word, named in GERMAN_RELATIONS.items() if named in word_list("people", "animal"))
    people = frozenset(GERMAN_RELATIONS) - animals
    mine, have = (
        "(?:mein|unser)e?[mnrs]?(?: \\w{3,12}e[mnrs]?)?",
        "(?:ich habe|wir haben)(?: auch| noch| jetzt)?",
    )
    one, called = r"eine?n?(?: \w{3,12}e[mnrs]?)?", "hei(?:\u00df|ss)t"
    name = r"(?-i:[A-Z\u00c4\u00d6\u00dc])[\w-]{1,24}"

    def build(opening: str, value: str, *, given: bool = False) -> Rule:
        rule = _name_family(opening, "mein", "unser", "ich habe", "wir haben")
        return replace(rule, shape=ValueShape.ANY, pattern=compile_value(value), ends=_name_given if given else None)

    relation = f"(?P<relation>{any_of(frozenset(GERMAN_RELATIONS))})"
    return (
        build(f"{mine} (?P<relation>{any_of(people)})(?= {name}(?! (?-i:[A-Z])))", name, given=True),
        build(f"{mine} (?P<relation>{any_of(animals)})(?= {name}(?: [a-z]|\\s*[.,!?]))", name),
        build(f"{have} {one} {relation}(?:,? (?:der|die|das|er|sie|es) {called}| namens)(?= {name})", name),
        build(f"{have} {one} {relation}, (?:der|die|das)(?= {name} {called}\\b)", name),
        build(f"{have} {one} {relation},(?= {name}\\s*(?:[.,!]|$))", name, given=True),
    )


def _name_several(place: int) -> Rule:
    """Return the rule for the name at this place of several: "two dogs, Rex and Bella"."""
    before = rf"(?: {_ONE}(?: \(\d{{1,2}}\)|,? \d{{1,2}}| is \w{{1,9}})?,?(?: and)?)" * place
    return _name_family(
        f"{_HAVE} (?:two|three|four|five|[2-5]){_ADJECTIVE} (?P<relation>{RELATIONS})s[,:]?(?: called| named)?{before}",
        *(" two ", " three ", " four ", " five ", " 2 ", " 3 ", " 4 ", " 5 "),
    )


def _name_all(place: int) -> Rule:
    """Return the rule for the name at this place of all: "our dogs are called Rex and Bella"."""
    before, both = rf"(?: {_ONE},?(?: and)?)" * place, rf"(?=(?: {_ONE},?){{1,3}} and {_ONE}\s*(?:[.,!?\n]|$))"
    return _name_family(
        f"(?:my|our){_ADJECTIVE} (?P<relation>{RELATIONS})s are(?: called| named|{both}){before}", "s are "
    )


def _name_twins(place: int) -> Rule:
    """Return the rule for the name at this place of some: "I have twins, Lily and Jack"."""
    before = rf"(?: {_ONE},?(?: and)?)" * place
    both = rf"(?=(?: {_ONE},?){{1,3}} and {_ONE})"
    return _name_family(
        f"{_HAVE}{_ADJECTIVE} (?P<relation>{RELATIONS})s(?:[,:]{both}| called| named){before}",
        *(" have ", "ve ", " got ", " own "),
    )


LIFE_RULES = (
    _HOME,
    replace(
        _HOME,
        opening=compile_phrase(_HOMES_ELSEWHERE),
        needs=("habit", "vis ", "viv", "woon", "wonen", "m\u00e9nag", "mudado", "trasferit"),
    ),
    replace(
        _HOME,
        opening=compile_phrase(_GERMAN_HOMES),
        needs=("wohne", "lebe", "gezogen"),
        shape=ValueShape.KNOWN_PLACE,
    ),
    Rule(
        compile_phrase(
            f"(?:{I_HAVE_JUST}|{BEGINS}(?=moved (?:here|back|over))) ?(?:moved|relocated)(?: back| over| up| down"
            f"| out| here)?(?: from [^\\s.,;!?]{{1,40}})? to"
        ),
        "user_home",
        "home",
        "moved",
        Tier.L0,
        0.90,
        "{who} moved to {value}.",
        needs=("moved", "relocated"),
        shape=ValueShape.PLACE,
    ),
    _ORIGIN,
    replace(
        _ORIGIN,
        opening=compile_phrase(_ORIGINS_ELSEWHERE),
        needs=("viens de", "originaire", "soy de", "vengo d", " uit "),
    ),
    replace(
        _ORIGIN,
        opening=compile_phrase(_GERMAN_ORIGINS),
        needs=("aus ", "geboren", "aufgewachsen"),
        shape=ValueShape.KNOWN_PLACE,
    ),
    replace(
        _ORIGIN,
        opening=compile_phrase(f"{_INTRODUCES}(?:, {JOB})? from"),
        needs=(" from ",),
        shape=ValueShape.KNOWN_PLACE,
    ),
    _EMPLOYER,
    replace(
        _EMPLOYER,
        opening=compile_phrase(
            "(?:je travaille(?: maintenant| actuellement)? chez|(?<!no\\s)trabajo(?: ahora| actualmente)? para"
            "|(?<!non\\s)lavoro(?: ora| adesso)? (?:per|presso)|ik werk(?: nu)? (?:bij|voor))(?= (?-i:[A-Z]))"
        ),
        needs=("travaille", "trabajo", "lavoro", "werk "),
        pattern=_COMPANY,
        ends=_name_company,
    ),
    replace(
        _EMPLOYER,
        opening=compile_phrase(
            "(?:(?<!no\\s)trabajo(?: ahora| actualmente)? en|(?<!non\\s)lavoro(?: ora| adesso)? in)(?= (?-i:[A-Z]))"
        ),
        needs=("trabajo", "lavoro"),
        pattern=_COMPANY,
        among=name_list("organisations"),
    ),
    replace(
        _EMPLOYER,
        opening=compile_phrase(
            f"(?:{_I_AM}{_NOW}(?: working as)?|i{_NOW} work(?: {_HERE})? as)(?= an? ) {JOB} (?:at|for|with)"
        ),
        needs=_A_JOB,
    ),
    Rule(
        compile_phrase(
            f"i (?:earn|make) (?:my|a) living as|i(?:'ve| have)?(?: just"
            f"| recently)? joined [^.,;!?\\n]{{1,40}}? as(?= {JOB})"
            f"|{BEGINS}(?:currently|now) (?:working|employed)(?: (?:at|for|by|with) [^.,;!?\\n]{{1,40}}?)? as(?= an? )"
            f"|{_I_AM}{_NOW} (?:working|employed)(?: (?:at|for|by|with) [^.,;!?\\n]{{1,40}}?)? as"
            f"|i{_NOW} work(?: {_HERE})?(?: (?:at|for|with) [^.,;!?\\n]{{1,40}}?)? as|(?:{_I_AM}"
            f"|i live in) {_AND} work as"
            f"|{_NEW_JOB}(?: (?:at|with) [^.,;!?\\n]{{1,40}}?)? as"
        ),
        "user_job",
        "job",
        "job",
        Tier.L0,
        0.88,
        "{who} works as {value}.",
        needs=("work", "employed", "job", "position", "role", "ship", "living", "joined"),
        shape=ValueShape.ROLE,
    ),
    Rule(
        compile_phrase(f"{_I_AM}{_NOW}(?= the )"),
        "user_job",
        "job",
        "is-the",
        Tier.L0,
        0.88,
        "{who} is {value}.",
        needs=("i'm the", "i am the"),
        pattern=compile_value(_THE_JOB),
    ),
    Rule(
        compile_phrase(f"{_I_AM} now(?= the )|{_I_AM}(?= {_THE_JOB_NOW} now\\b)"),
        "user_job",
        "job",
        "is-the",
        Tier.L0,
        0.88,
        "{who} is {value}.",
        needs=("i'm the", "i am the", "now the"),
        pattern=compile_value(_THE_JOB_NOW),
    ),
    Rule(
        compile_phrase(f"{_INTRODUCES},"),
        "user_job",
        "job",
        "introduced",
        Tier.L0,
        0.88,
        "{who} works as {value}.",
        needs=("i'm ", "i am ", "my name"),
        pattern=compile_value(_INTRODUCED_JOB),
    ),
    replace(
        _EMPLOYER,
        opening=compile_phrase(f"{_INTRODUCES}, {_INTRODUCED_JOB} (?:at|for|with)(?= (?-i:[A-Z]))"),
        needs=("i'm ", "i am ", "my name"),
    ),
    replace(
        _EMPLOYER,
        opening=compile_phrase(f"{_I_AM}{_NOW}(?= the ) {_THE_JOB} (?:here )?(?:at|for|of)(?= (?-i:[A-Z]))"),
        needs=("i'm the", "i am the"),
    ),
    Rule(
        compile_phrase(
            f"{_I_AM}{_NOW}(?: working as)?(?= an? )"
            f"|i(?:'ve| have) been(?= {JOB} (?:for (?:\\w+|over \\w+) years|since)\\b)"
        ),
        "user_job",
        "job",
        "is",
        Tier.L0,
        0.88,
        "{who} is {value}.",
        needs=_A_JOB,
        pattern=compile_value(JOB),
    ),
    Rule(
        compile_phrase(
            "my(?: own)? (?:birthday|bday|b-day|date of birth|dob)(?: is|'s| falls)(?: actually| really| now)?(?: on)?"
            "|i was born on(?= [^.,;!?\\n]{0,20}\\d)|i(?:'ll| will|'m)? turn(?:ing)? \\d{1,3} on"
        ),
        "user_birthday",
        "birthday",
        "birthday",
        Tier.L0,
        0.95,
        "{who}'s birthday is {value}.",
        needs=("birthday", "born on", "bday", "b-day", "date of birth", "dob", " turn"),
        shape=ValueShape.DAY,
    ),
    Rule(
        compile_phrase(
            f"{_I_AM}{_NOW}(?= \\d{{1,2}} (?:(?:years?|yrs?)(?: |-)old|yo|y/o|yrs|years(?= *(?:[.,!]|$)))\\b)"
            f"|{_I_AM}{_NOW}(?= {_ALONE_AGE})"
            f"|(?:i(?: have|'ve)?|{BEGINS}) ?(?:(?:just|recently) )?turned{_WHEN_TURNED}"
        ),
        "user_age",
        "age",
        "age",
        Tier.L0,
        0.88,
        "{who} is {value} years old.",
        needs=("old", "turned", "i'm ", "i am "),
        pattern=_AGE,
    ),
    _ALLERGIC,
    replace(
        _ALLERGIC,
        opening=compile_phrase(
            "je suis allergique (?:aux?|\u00e0 la|\u00e0)|(?<!no\\s)soy al[e\u00e9]rgic[oa] a(?: los| las| la|l)?"
            "|(?<!non\\s)sono allergic[oa] (?:a|al|alla|alle|ai|agli)|ik ben allergisch voor"
        ),
        needs=("allergi", "al\u00e9rgi"),
    ),
    Rule(
        compile_phrase("(?:i have|i've got|i've)(?: also)?(?: an?)?(?: severe| bad| mild| slight| strong| serious)?"),
        "user_allergy",
        "allergy",
        "allergy",
        Tier.L0,
        0.95,
        "{who} is allergic to {value}.",
        needs=("allergy", "allergies"),
        many=True,
        pattern=_ALLERGEN,
    ),
    _CONDITION,
    replace(
        _CONDITION,
        opening=compile_phrase(
            f"i(?:'ve| have) had(?= {CONDITIONS} (?:since|for|all)\\b)"
            f"|(?:i have|i've got|i've|diagnosed with)(?: an?)? {CONDITIONS}(?:,? and|,)"
        ),
    ),
    Rule(
        compile_phrase(
            rf"(?:{_I_AM}(?: now)?(?: an?| on an?| type [12]| an? type [12])?|i{HAVE_JUST} (?:went|gone|turned"
            rf"|become|became)(?: an?)?)"
            rf"(?= (?:{DIETS})\b(?! for (?:a|one) (?:day|week)\b))|i(?: now)? (?:follow|keep|eat|stick|keep to"
            rf"|stick to)(?: to)?(?: an?)?(?= (?:{DIETS}) (?:diet|food)\b)|(?:i(?:'ve| have) been"
            rf"|{BEGINS}been)(?: an?)?(?= (?:{DIETS}) (?:for(?! (?:a|one) (?:day|week)\b)|since|all|ever)\b)"
            rf"|{_I_AM} (?:not|no longer)(?: an?)? (?:{DIETS})(?: any ?(?:more|longer))?,?"
            rf"(?: but| just| only| now){{1,2}}(?: an?)?(?= (?:{DIETS})\b)"
        ),
        "user_diet",
        "diet",
        "diet",
        Tier.L0,
        0.88,
        "{who} is {value}.",
        needs=DIET_WORDS,
        pattern=compile_value(DIETS),
        ends=name_diet,
    ),
    Rule(
        compile_phrase(
            rf"(?:{_WE_ARE}(?: now| happily| still| already| recently| newly)?(?: a(?= single (?:mum|mom|dad|father"
            rf"|mother|parent)\b))?"
            rf"|(?:i|we){HAVE_JUST} (?:got|gotten|been)|{BEGINS}(?:just |recently |finally )?got"
            rf"|{BEGINS}been(?= married (?:for|since)\b)"
            rf"|my (?:husband|wife|spouse)(?: {_ONE})? and i{HAVE_JUST}(?: got| are)?)(?= (?:{MARRIAGES})(?![\w-]))"
        ),
        "user_marriage",
        "marriage",
        "marriage",
        Tier.L0,
        0.88,
        "{who} is {value}.",
        needs=("married", "divorced", "separated", "widowed", "engaged", "single"),
        pattern=compile_value(MARRIAGES),
    ),
    _FAMILY,
    _name_family(
        rf"{_HAVE}(?: an?| one| another){_ADJECTIVE}{_ADJECTIVE} (?P<relation>{RELATIONS})"
        "(?:(?: (?:who is|who's))? (?:called|named)| whose name is|,(?= (?-i:[A-Z])[\\w-]{1,30}(?:[.,;!?]|$)))",
        *("have a", "'ve a", "'ve one", "own a", "\u2019ve a", "got a", "adopted a", "have one", "got one"),
    ),
    _name_family(
        rf"mein(?:e|)(?: \w{{3,12}}e[rs]?)? (?P<relation>{any_of(frozenset(GERMAN_RELATIONS))}) hei(?:\u00df|ss)t",
        "hei\u00dft",
        "heisst",
    ),
    *_build_german_family(),
    *(_name_several(place) for place in range(3)),
    *(_name_all(place) for place in range(3)),
    *(_name_twins(place) for place in range(3)),
    _name_family(
        rf"{BEGINS}(?P<relation>{RELATIONS})(?:'s called|'s named|'s name is| is called| is named)",
        *("called", "named", "name is"),
    ),
    _name_family(
        rf"(?:this is|meet|here's|that's) (?:my"
        rf"|our){_ADJECTIVE} (?P<relation>{RELATIONS}),?(?= {_ONE}\s*(?:[.,!]|$))",
        "my ",
        "our ",
    ),
)
