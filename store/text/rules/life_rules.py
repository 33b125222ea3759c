"""Rules of a person's life: home, origin, work, birthday and age, health, family. Most have one value at a time."""

from dataclasses import replace

from store.text.rules.gazetteer import word_list
from store.text.rules.model import Tier
from store.text.rules.rule import HAVE_JUST, Rule, ValueShape, any_of, compile_phrase, compile_value

RELATION_WORDS = word_list("people", "person") | word_list("people", "animal")
RELATIONS = any_of(RELATION_WORDS)
#: Words for being married or not; each ends the other.
MARRIAGES = r"married|divorced|separated|widowed|engaged(?! (?:in|with|on|by)\b)|single"
DIETS = (
    "vegetarian|vegan|pescatarian|pescetarian|coeliac|celiac|diabetic|lactose intolerant|gluten intolerant"
    "|(?:gluten|dairy)(?:-| )free"
)
#: Words of which a text with a diet has one.
DIET_WORDS = ("vegan", "tarian", "liac", "diabetic", "intolerant", "n-free", "n free", "y-free", "y free")
_OTHER, _NOT = r"[^\s,;.!?]{1,40}", "i (?:don't|do not|no longer)"
_I_AM, _WE_ARE = "(?:i'm|i am)", "(?:i'm|i am|we're|we are)"
_NOW = "(?: now| currently| actually| still| already| just)?"
_HAVE_BEEN = "(?:'ve| have) been"

# "I'm a teacher and live in York", not "my parents are retired and live in Spain".
_AND = r"(?:(?!\b(?:who|that|which|whose|they|he|she|people)\b)[^.,;!?\n]){1,60}? and(?: now| currently)?"
_WITH = r"(?: (?:alone|together|happily|permanently|here|(?:with|near|by|close to|next to) [^.,;!?\n]{1,40}?))"
_SINCE = r"(?= [^.,;!?\n]{2,40}? (?:for|since|all (?:my|our) li[fv]es?|(?:my|our) whole li[fv]es?)\b)"
_HOMES = "|".join(
    (
        f"(?:i|we){_NOW} (?:live|reside){_WITH}? in",
        f"{_NOT} live in {_OTHER},? but in",
        f"{_WE_ARE}{_NOW} (?:based|living){_WITH}? in",
        f"(?:i|we){_HAVE_BEEN} (?:living|based){_WITH}? in",
        f"(?:i|we)(?:'ve| have) lived in{_SINCE}",
        f"{_WE_ARE} {_AND} live in",
    )
)
# The words that stand between verb and place in the languages whose introductions are read.
_GERMAN = (
    "(?: (?:jetzt|derzeit|aktuell|momentan|noch|immer noch|inzwischen|mittlerweile|allein|zusammen|schon lange"
    r"|(?:seit|mit) [^.,;!?\n]{1,30}?)){0,2}"
)
_GERMAN_HOMES = f"(?:ich (?:wohne|lebe)|wir (?:wohnen|leben)){_GERMAN} in"
_HOMES_ELSEWHERE = (
    "(?:j'habite|je vis|nous habitons|nous vivons)(?: maintenant| actuellement| toujours)? \u00e0"
    r"|(?<!no\s)(?<!non\s)viv(?:o|imos|iamo)(?: ahora| actualmente| adesso| ora)? (?:en|a)"
    "|(?:ik woon|wij wonen|we wonen)(?: nu| al jaren| nog)? in"
)
_GERMAN_ORIGINS = "ich (?:komme|stamme)(?: urspr\u00fcnglich| eigentlich)? aus"
_ORIGINS_ELSEWHERE = (
    r"je (?:viens|suis originaire) de|(?<!no\s)(?<!non\s)(?:soy|vengo) (?:de|da)|ik kom(?: oorspronkelijk)? uit"
)

_KINDS, _JOBS, _AFTER = (
    any_of(word_list("job", section)).replace(r"\-", "(?: |-)") for section in ("kind", "job", "after")
)
#: An indefinite article and a job: "a school nurse".
JOB = (
    rf"an?(?: (?:{_KINDS})){{0,4}} (?:{_JOBS})(?= (?:{_AFTER})\b|\s*(?:$|[\n\r.,;:!?()\u2013\u2014]))"
    r"(?! (?:in (?:that|the|an?|this|my|our) (?:\w{1,20} )?(?:story|play|film|movie|game|book|dream|show)"
    r"|at heart|for (?:a|one|the) (?:day|week|night))\b)"
)
_A_JOB = (
    "i'm a",
    "i\u2019m a",
    "i am a",
    "as a",
    "now a",
    "still a",
    "currently a",
    "actually a",
    "already a",
    "just a",
)
_NEW_JOB = (
    f"i{HAVE_JUST} (?:got|gotten|found|landed|accepted|taken|took|started|begun|began)"
    "(?: an?| my| the)(?: \\w{2,12})? (?:job|position|role|internship|apprenticeship)"
)
_HERE = (
    "(?:full-time|part-time|remotely|mostly|mainly|freelance"
    r"|in (?:the |an? )?(?:\w{2,20} ){1,2}?(?:team|department|office|division))"
)
_EMPLOYERS = "|".join(
    (
        f"i{_NOW} work(?: {_HERE})? (?:at|for)",
        f"{_NOT} work (?:at|for) {_OTHER},? but (?:at|for)",
        f"i{HAVE_JUST} started(?: working)? (?:at|for)",
        f"{_I_AM}{_NOW} (?:working|employed) (?:at|for|by)",
        f"i{_HAVE_BEEN} working (?:at|for)",
        f"{_NEW_JOB} (?:at|with)",
        f"(?:{_I_AM}|i live in) {_AND} work (?:at|for)",
    )
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
_ALLERGEN = compile_value(rf"{ALLERGY}(?! (?:tests?|season|shots?|medication|medicine|pills?|clinic|appointment)\b)")
_AGE = compile_value(r"\d{1,2}(?!\d)")
_WHEN_TURNED = (
    r"(?= \d{1,2}(?:[.,;!?\n]|$| (?:last|this|yesterday|today|recently|in|on|two|three|a (?:week|month|few)|years old"
    r"|and|but|so)\b))"
)

_ADJECTIVE = (
    "(?: (?:younger|youngest|older|oldest|elder|eldest|little|big|late|dear|best|close|good|old|new|baby|twin|step"
    "|middle|lovely|sweet|only|first|second))?"
)
_ONE = r"(?-i:[A-Z])[\w\u2019-]{1,30}"
_HAVE = "(?:i|we)(?:'ve got| have got| have|'ve| got| just got| adopted| just adopted| recently adopted)"
_FAMILY = Rule(
    compile_phrase(
        rf"(?:my|our){_ADJECTIVE} (?P<relation>{RELATIONS})"
        rf"(?:(?:'s name)? is(?: called| named)?| called| named|,(?= {_ONE},))?"
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
    needs=("live", "living", "based", "reside"),
    shape=ValueShape.PLACE,
)
_ORIGIN = Rule(
    compile_phrase(
        f"(?:{_I_AM}(?: originally)?|i(?: originally)? come) from|i was (?:born|born and raised|raised) in|i grew up in"
        "|my (?:hometown|home town) is"
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
    compile_phrase(_EMPLOYERS),
    "user_employer",
    "employer",
    "employer",
    Tier.L0,
    0.88,
    "{who} works at {value}.",
    needs=("work", "started", "employed", "job", "position", "role", "ship"),
    shape=ValueShape.THING,
)


def _name_family(opening: str, *needs: str) -> Rule:
    return replace(_FAMILY, opening=compile_phrase(opening), needs=needs)


def _name_several(place: int) -> Rule:
    """Return the rule for the name at this place of several: "two dogs, Rex and Bella"."""
    before = rf"(?: {_ONE}(?: \(\d{{1,2}}\))?,?(?: and)?)" * place
    return _name_family(
        f"{_HAVE} (?:two|three|four|five|[2-5]){_ADJECTIVE} (?P<relation>{RELATIONS})s[,:]?(?: called| named)?{before}",
        *(" two ", " three ", " four ", " five ", " 2 ", " 3 ", " 4 ", " 5 "),
    )


LIFE_RULES = (
    _HOME,
    replace(_HOME, opening=compile_phrase(_HOMES_ELSEWHERE), needs=("habit", "vis ", "viv", "woon", "wonen")),
    replace(
        _HOME,
        opening=compile_phrase(_GERMAN_HOMES),
        needs=("wohne", "lebe"),
        shape=ValueShape.KNOWN_PLACE,
    ),
    Rule(
        compile_phrase(f"(?:i|we){HAVE_JUST} (?:moved|relocated)(?: from [^\\s.,;!?]{{1,40}})? to"),
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
    replace(_ORIGIN, opening=compile_phrase(_GERMAN_ORIGINS), needs=("aus ",), shape=ValueShape.KNOWN_PLACE),
    _EMPLOYER,
    replace(
        _EMPLOYER,
        opening=compile_phrase(f"(?:{_I_AM}{_NOW}(?: working as)?|i{_NOW} work as)(?= an? ) {JOB} (?:at|for|with)"),
        needs=_A_JOB,
    ),
    Rule(
        compile_phrase(
            f"i{_NOW} work(?: {_HERE})? as|(?:{_I_AM}|i live in) {_AND} work as"
            f"|{_NEW_JOB}(?: (?:at|with) [^.,;!?\\n]{{1,40}}?)? as"
        ),
        "user_job",
        "job",
        "job",
        Tier.L0,
        0.88,
        "{who} works as {value}.",
        needs=("work", "job", "position", "role", "ship"),
        shape=ValueShape.ROLE,
    ),
    Rule(
        compile_phrase(f"{_I_AM}{_NOW}(?: working as)?(?= an? )"),
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
        compile_phrase("my birthday is(?: on)?|i was born on(?= [^.,;!?\\n]{0,20}\\d)"),
        "user_birthday",
        "birthday",
        "birthday",
        Tier.L0,
        0.95,
        "{who}'s birthday is {value}.",
        needs=("birthday", "born on"),
        shape=ValueShape.DAY,
    ),
    Rule(
        compile_phrase(
            f"{_I_AM}{_NOW}(?= \\d{{1,2}} (?:years?|yrs?)(?: |-)old\\b)"
            f"|i(?: have|'ve)?(?: just| recently)? turned{_WHEN_TURNED}"
        ),
        "user_age",
        "age",
        "age",
        Tier.L0,
        0.88,
        "{who} is {value} years old.",
        needs=("old", "turned"),
        pattern=_AGE,
    ),
    Rule(
        compile_phrase(
            f"{_I_AM}(?: also)?(?: very| severely| badly| deathly| highly| terribly| mildly| slightly| extremely)?"
            " allergic to"
            "|(?:i have|i've got|i've) an?(?: \\w{2,10})? allergy to"
        ),
        "user_allergy",
        "allergy",
        "allergy",
        Tier.L0,
        0.95,
        "{who} is allergic to {value}.",
        needs=("allergic", "allergy to"),
        many=True,
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
    Rule(
        compile_phrase(
            "(?:(?:i was|i have been|i've been|i got|i'm|i am)(?: just| recently| also)? diagnosed with"
            "|i have|i've got|i've|i(?: also)? suffer from|i live with)(?: also| an?)?"
        ),
        "user_condition",
        None,
        "condition",
        Tier.L0,
        0.88,
        "{who} has {value}.",
        needs=("have", "i've", "i\u2019ve", "suffer", "live with", "diagnosed"),
        many=True,
        pattern=compile_value(CONDITIONS),
    ),
    Rule(
        compile_phrase(rf"{_I_AM}(?: now)?(?: an?| on an?)?(?= (?:{DIETS})\b)"),
        "user_diet",
        "diet",
        "diet",
        Tier.L0,
        0.88,
        "{who} is {value}.",
        needs=DIET_WORDS,
        pattern=compile_value(DIETS),
    ),
    Rule(
        compile_phrase(
            rf"(?:{_WE_ARE}(?: now| happily| still| already| recently| newly)?"
            rf"|(?:i|we){HAVE_JUST} (?:got|gotten|been))(?= (?:{MARRIAGES})(?![\w-]))"
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
        *("have a", "'ve a", "\u2019ve a", "got a", "adopted a", "have one", "got one"),
    ),
    *(_name_several(place) for place in range(3)),
)
