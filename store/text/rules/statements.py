"""Tells whether a clause states what it says, or asks, supposes, reports or describes."""

import re

_SUPPOSED = re.compile(
    r"\b(?:if|when|whether|wish|unless|should|would|do|did|can|could|might|suppos(?:e|ing)|imagin(?:e|ing)"
    r"|assum(?:e|ing)|pretend(?:ing)?|say|think|thought"
    r"|(?P<of_us>have|has|had|hope|neither|nor|true|sure|says|said|claim(?:s|ed)?|told \w{1,20}|dream(?:t|ed)))"
    r"(?:\s{1,3}that)?\s{1,3}$",
    re.IGNORECASE,
)
_SUPPOSED_LENGTH = 36

# A sentence is read this far to both sides of what it tells.
_AROUND = 240
_ENDS = re.compile(r"[.!?\n\r\0]")
# Where "I" follows another word than these, the clause belongs to that word: "the house we built", "she says I won".
_BEGINS = re.compile(
    r"(?:^|[,;)\-\u2013\u2014\u2026]|\b(?:and|but|so|then|because|after|also|anyway|well|yes|yeah|yep|ok|okay|oh|wow"
    r"|hey|hi|hello|today|yesterday|tonight|now|lately|recently|finally|later|afterwards|meanwhile|ago|(?:19|20)\d\d"
    r"|day|night|morning|afternoon|evening|week|weekend|month|year|spring|summer|autumn|winter|(?:mon|tues|wednes|thurs"
    r"|fri|satur|sun)days?|january|february|march|april|may|june|july|august|september|october|november|december))\s*$",
    re.IGNORECASE,
)
_DOUBTED = re.compile(
    r"^\W*(?:have|has|had|do|does|did|is|are|was|were|am|can|could|will|would|shall|should|may|might|must"
    r"|not|never|only|until|till)\b|\bin (?:an?|the|this|my|our) (?:game|film|movie|book)\b"
    r"|\b(?:if|whether|unless|lest|wish\w*|hop(?:e|es|ed|ing)|would|should|could|neither|nor|suppos\w*|imagin\w*"
    r"|assum\w*|pretend\w*|dream\w*|nightmare|maybe|perhaps|probably|allegedly|apparently|according|rumou?rs?|lies?"
    r"|lied|false|untrue|says?|said|saying|claim\w*|tells?|told|think\w*|thought|believ\w*|insists?|swears?|accus\w*"
    r"|sentence|phrase|story|novel|poem|song|lyrics|joke|character|translate\w*|repeat\w*|rewrite)\b",
    re.IGNORECASE,
)
# What was said or thought before does not reach behind these.
_ON_ITS_OWN = re.compile(r"[,;\-\u2013\u2014]\s*(?:so|but)\s*$", re.IGNORECASE)
_TAKEN_BACK = re.compile(
    r"^\s*(?:not|never)\b|\bnever\W*$"
    r"|\b(?:i (?:think|guess|believe|hope|wish|suppose|doubt)|if (?:i|memory)|says?|said|claim(?:s|ed)?|told|according"
    r"|allegedly|apparently|dream\w*|kidding|joking|or not|tomorrow"
    r"|in (?:an?|the|this|my|our) (?:head|mind|imagination|game|film|movie|book))\b",
    re.IGNORECASE,
)


# The words that govern a clause without stating it: negation, doubt, condition, wish, and what others say or think.
_MIND = (
    r"(?:think|thinks|thinking|thought|believe[sd]?|believing|guess(?:es|ed)?|assum(?:e|es|ed|ing)|suspect(?:s|ed)?"
    r"|suppos(?:e|es|ed|ing)|imagin(?:e|es|ed|ing)|pretend(?:s|ed|ing)?|dream(?:s|t|ed)?|reckon(?:s|ed)?|figured?"
    r"|feel(?: like)?"
    r"|hop(?:e|es|ed|ing)|wish(?:es|ed)?|wonder(?:s|ed|ing)?|fear(?:s|ed)?|bet|expect(?:s|ed)?|seems?|seemed|appears?)"
)
_TELL = (
    r"(?:sa(?:y|ys|id|ying)|claim(?:s|ed|ing)?|tell(?:s|ing)?|told|insist(?:s|ed)?|swear|swears|swore|alleg(?:e|es|ed)"
    r"|repeat(?:s|ed)?|report(?:ed|s that)|joke[sd]?|l(?:ie|ies|ied)|wr(?:ite|ites|ote)|quot(?:e|es|ed)|hear[sd]?"
    r"|argue[sd]?|shout(?:s|ed)?|post(?:s|ed)|whisper(?:s|ed)|mumble[sd]|murmur(?:s|ed)|sings|sang|answer(?:s|ed)"
    r"|repl(?:ies|ied)|respond(?:s|ed)"
    r"|announce[sd]|declare[sd]|state[sd]|suggest(?:s|ed)|introduce[sd] (?:him|her|them)sel(?:f|ves)|hint(?:s|ed)"
    r"|impl(?:ies|ied)"
    r"|tease[sd]|yell(?:s|ed)|scream(?:s|ed)|tweet(?:s|ed)|text(?:s|ed)|assure[sd]|goes|(?:was|were|is|are|be) like"
    r"|rumou?r(?:s|ed)?|translat(?:e|es|ed)|accus(?:e|es|ed))"
)
_NOT = (
    r"(?:not|never|no ?one|nobody|none|nothing|neither|nor|hardly|barely|scarcely|cannot|doubt(?:s|ed|ful)?|den(?:y"
    r"|ies|ied)"
    r"|no way|false(?:ly)?|untrue|wrong(?:ly)?"
    r"|mistakenly|incorrectly|lie|myth|unlikely|impossible|refus(?:e|es|ed)|far from|anything but|no longer|without"
    r"|\w{2,6}n['\u2019]t"
    r"|cant|dont|wouldnt"
    r"|didnt|isnt|wasnt|aint)"
)
_GOVERNED = re.compile(
    rf"\b(?:{_NOT}|{_MIND}|{_TELL}|if|whether|unless|lest|until|till|as though|in case|provided|suppose|supposing"
    rf"|maybe|perhaps|possibly"
    r"|probably|allegedly|apparently|supposedly|theoretically|hypothetically|according|would|could|might|may|should"
    r"|(?:claim|idea|thought|notion|allegation|assumption|belief|impression|possibility|chance|hypothesis|sentence"
    r"|phrase|line|title"
    r"|song|lyrics|caption|headline|slogan|motto|password|string|message|text|saying|proverb"
    r"|quote)(?: that)?\W*$)(?!\w)",
    re.IGNORECASE,
)
# Of these the clause behind is true: "you should know I", "I can't deny that I", "as I said".
_FACTIVE = re.compile(
    r"\b(?:can(?:no|['\u2019])?t|can not|cannot|won['\u2019]?t|will not|don['\u2019]?t|do not|never|not"
    r"|wouldn['\u2019]?t)"
    r" (?:\w{1,12} ){0,2}?(?:deny|forget|mind|hide|regret|hesitate|only|just|to forget|ashamed|mention(?:ed)?"
    r"|say enough)|\b(?:can(?:no|['\u2019])t|cannot|won['\u2019]t|wouldn['\u2019]t) (?:\w{1,12} )?believe"
    r"|\b(?:should|would|may|might|could) (?:\w{1,12} ){0,3}?(?:know|knows|known|mention|note|add|remember|tell you"
    r"|point out|explain"
    r"|help|mean|clarify|matter|be relevant|be useful)"
    r"|\b(?:must|have to|got to|gotta|need to|let me|happy to|proud to|sad to|sorry to|glad to|want to|can"
    r"|to be honest) "
    r"(?:say|tell(?: you)?|admit|confess)"
    r"|\b(?:as|like|since) (?:i|we)(?:['\u2019]ve| have| had)? (?:already |just |once )?(?:said|told|wrote|mentioned"
    r"|tell|say)"
    r"|\bi(?:['\u2019]ve| have| had| just| already)? (?:just |already |once )?told (?:you|him|her|them|everyone"
    r"|my \w{1,20})"
    r"|\b(?:doctors?|gp|allergist|specialist|tests?|results?) (?:says?|said|confirmed|told me|shows?"
    r"|showed)(?: that)? *$"
    r"|\b(?:know|knows|knew|remember|remembers|remind|aware|because|since)(?: that)? *$|\bthe fact that *$"
    r"|\bforg(?:et|ot|etting) to (?:mention|say|add|tell(?: you)?)\b"
    r"|\b(?:contrary to|despite|unlike|no matter) what [^.!?\n]{1,60}, *$",
    re.IGNORECASE,
)
# The same in other languages: "je ne crois pas que j'habite", "no es verdad que vivo", "er sagt, ich heisse".
_GOVERNED_ELSEWHERE = re.compile(
    r"\b(?:que|si|che|dass|da\u00df|ob|wenn|dat|indien)\s*$|\b(?:qu|s)['\u2019]\s*$"
    r"|\bals (?:ob|w\u00e4r)[^.!?\n]{0,40}:\s*$"
    r"|\b(?:angenommen|stell dir vor|nehmen wir an|tu so|vielleicht|falls|supposons|supongamos|supponiamo)\W*$"
    r"|\b(?:auf|in|en) (?:englisch|deutsch|spanisch|italienisch|anglais|ingl\u00e9s|inglese|franz\w{1,8})\W*$"
    r"|\b(?:glaube|denke|dachte|hoffe|vermute|w\u00fcnschte|tr\u00e4umte|(?:nie|niemals|nicht) (?:gesagt"
    r"|behauptet))\s*,\s*$"
    r"|\b(?:sagt|sagte|meint|behauptet|schreibt|hei(?:\u00df|ss)t es|steht|lautet|dit|dice|dijo|disse|diz|zegt"
    r"|zei)\s*[,:]\s*$",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(
    r"[,;:()\u2013\u2014\u2026]|(?<=\s)-+(?=\s)|\b(?:but|however|though|although|because|since|yet|whereas|while)\b"
    r"|\band\s*$|\bso\s*$",
    re.IGNORECASE,
)
# Before a comma these still govern: "Kim said, I like", "according to Kim, I live".
_REPORTED = re.compile(
    rf"(?<!as i )(?<!like i )(?<!as we )(?<!they )(?<!you )(?<!n['\u2019]t )(?<!not )\b{_TELL}(?: (?:me|us|him|her"
    rf"|them|you|that))?\s*[,:]\s*$|\baccording to\b"
    rf"|\bin (?:an?|my|the|another|some) (?:dream|nightmare|video game|game|play|film|movie|novel|simulation|series"
    r"|musical|role-?play|campaign|parallel universe|life|world|universe|other life)\b|\b(?:if|should"
    r"|when(?:ever)?) (?:any|some)(?:one"
    r"|body) (?:asks?|wants to know|calls)\b"
    r"|\b(?:for|in|as) (?:the|my|a|an|this|our) (?:play|game|role|part|film|movie|novel|story|book|sketch|scene|test"
    r"|exam|quiz"
    r"|show|musical|sketch|demo|example)\b[^.]{0,60}[,:]\s*$|\b(?:e\.g\.|for example|for instance)\W*$"
    r"|\bas an? (?:\w{1,12} )?(?:user|customer|visitor|shopper)\s*,\s*$|\b(?:test|testing|dummy|placeholder)\s*[:,]\s*$"
    r"|\b(?:hypothetically|theoretically|in theory|supposedly|allegedly"
    r"|rumou?r has it"
    r"|imagine|suppose|supposing|pretend|assuming)\b|\b(?:no|nope|false|wrong|untrue|nonsense|lies?)\s*:\s*$",
    re.IGNORECASE,
)
# "Forget that I live in Bonn", "delete the note that my wife is Ana", not "don't forget that I live in Bonn".
_TO_FORGET = re.compile(
    r"(?<!n['\u2019]t )(?<!nt )(?<!not )(?<!never )(?<!ever )(?<!to )(?<!i )(?<!and )\bforget\b|\byou to forget\b"
    r"|\b(?:delete|remove|erase|drop|wipe) (?:the|any|that|this|every|your|all) (?:facts?|notes?|memor(?:y|ies)"
    r"|entr(?:y|ies)|information|info|records?|bits?|parts?|lines?)\b|(?:n['\u2019]t|\bnot|\bnever) (?:remember"
    r"|keep in mind)\b|\bstop (?:remember|stor|sav|keep|record|assum)ing\b"
    r"|\b(?:vergiss|vergessen sie|l\u00f6sche?|oublie[sz]?|olvida|dimentica|vergeet)\b",
    re.IGNORECASE,
)
# A clause that describes what is before it: "what I like", "the people I work for".
_DESCRIBES = re.compile(
    r"\b(?:what|whatever|which|who|whom|whoever|whose|where|wherever|how|when|whenever|everything|anything|something"
    r"|nothing|all|things?"
    r"|ones?|someone|anyone|everyone|people|person|kinds?|sorts?|do|does|did|am|is|are|was|were|have|has|had|can"
    r"|could|will|would|shall|should|must|might|may"
    r"|neither|nor)\s*$",
    re.IGNORECASE,
)
_NEGATED_VALUE = re.compile(
    r"(?:not|never|no longer|no|none|nothing|nobody|neither|hardly|anything but|n['\u2019]t)\b", re.IGNORECASE
)
_QUESTION_TAG = re.compile(
    r"[,\u2013\u2014-]?\s*(?:oder(?: nicht)?|nicht wahr|gell|ne|stimmt(?:['\u2019]?s)?|right|correct|true|yes"
    r"|no|ok(?:ay)?|or not|or what|huh|eh|really|you think"
    r"|isn['\u2019]t it|is it"
    r"|(?:do|don['\u2019]t|did|didn['\u2019]t|am|aren['\u2019]t|ain['\u2019]t|have|haven['\u2019]t|was|wasn['\u2019]t"
    r"|will|won['\u2019]t) (?:i|we)(?: not)?"
    r"|or (?:do|did|am|have|was|is|are|don['\u2019]t|maybe|perhaps)\b[^?]{0,80}|remember|do you (?:remember|know"
    r"|think|believe)[^?]{0,60}|is that (?:right|true|so|correct)|who knows|says who"
    r"|did i (?:say|tell)[^?]{0,60})\s*$",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(
    r"(?:^|[\s,;:.!?\u2013\u2014(-])(?:not!|[\u2013\u2014-] ?not$|not really|not at all$|just kidding|kidding"
    r"|only joking|joking|, or not$"
    r"|(?:is|was) (?:a lie|false|wrong|untrue|not true)|because i (?:do not|don['\u2019]t)\W*$"
    r"|(?:no,? wait|wait,? no|sorry|i mean|i meant|well|no)\b,? (?-i:[A-Z])"
    r"|(?<=,\s)(?:i (?:think|guess|suppose|believe)|(?:glaube|denke|vermute) ich)\W*$|(?:about "
    r"|just )?as much as an? |is not true|isn['\u2019]t true|is untrue|is what|are what|is how"
    r"|is the (?:title|name|first|last|opening|best)"
    r"|is an? (?:sentence|phrase|song|book|poem|quote"
    r"|lyric|line|title|joke|example|common|famous|typical)|is (?:her|his|their|its|kim['\u2019]s) |was the (?:first"
    r"|last|title)|means\b|in (?:french|german|spanish"
    r"|italian|dutch|english|japanese|latin|portuguese|polish|russian|chinese) (?:is|means|would)|(?:in)?to (?:french"
    r"|german|spanish|italian|dutch"
    r"|english|japanese|latin|portuguese|polish|russian|chinese)\W*$|said no ?(?:one|body)|if (?:only|i (?:was|were"
    r"|had|could))|in (?:my|an?|the) (?:dreams?|nightmares?"
    r"|novel|story|imagination|game|head|mind|parallel universe)|as if\b|yeah right|no more\W*$|(?:apparently"
    r"|supposedly|allegedly)\W*$)",
    re.IGNORECASE,
)
_SAID_AFTER = re.compile(
    r"(?:^|[,\u2013\u2014-]|\bas )\s*(?:he|she|they|people|everyone|everybody|somebody|someone|it|(?:my|his|her|the"
    r"|our|their|a) [\w'\u2019]{1,20}"
    rf"|[A-Z][\w'\u2019]{{1,20}}) (?:\w{{1,12}} )?{_TELL}(?! (?:me|us) (?:to|about|how))\b"
    r"|^\W*(?:is|was|he|she|they) (?:what|how|where)\b|(?:^|[,\u2013\u2014-])\s*(?:said|says|wrote|claims|claimed"
    r"|goes)\b",
)
_ASKS = re.compile(
    r"\W*(?:and |but |so |or )?(?:is|are|was|were|am|do|does|did|can|could|will|would|have|has|had|should|shall|may"
    r"|might|must|who|whom|whose"
    r"|what|where|when|why|how|which|since when|isn['\u2019]t|don['\u2019]t|didn['\u2019]t|can['\u2019]t)\b",
    re.IGNORECASE,
)
# "Can you help me, and I prefer short answers?": the mark belongs to what was asked before.
_ASKED_BEFORE = re.compile(
    r"\b(?:can|could|would|will|do|did) you\b|\b(?:how|what|which|where|when) (?:do|does|can|should|is|are|would)\b",
    re.IGNORECASE,
)
# "I live in Bonn and you?": the other is asked, not the speaker.
_ASKED_BACK = re.compile(
    r"\W*(?:and |but )?(?:(?:what|how) about (?:you|u|yours|yourself)|you|u|yours|yourself|wbu|hbu)\W*$", re.IGNORECASE
)
# "Once I live in Rome": it is not so yet. "Once I moved to Rome" is.
_NOT_YET = re.compile(r"\b(?:once|as soon as|the (?:moment|day|minute)|by the time[^,;:]{0,40})\s*$", re.IGNORECASE)
_PRESENT = re.compile(
    r"(?:i|we)(?:['\u2019]m|['\u2019]re)? (?:live|work|am|are|have|like|love|based|living|working)\b", re.IGNORECASE
)
# "Oh sure, I love waiting", "yeah because I love Mondays": the opposite is meant.
_SARCASTIC = re.compile(
    r"\b(?:na (?:toll|super|klar|prima)|^\W*(?:toll|super|klasse|prima)|ja,? klar)\W*$|\b(?:oh,? (?:sure|great"
    r"|joy|yes|yeah|yay|of course)|yeah,? (?:because|right|sure)"
    r"|(?:right|sure|great|of course),? because|^\W*(?:oh|wow|great|fantastic|awesome|perfect|brilliant|lovely"
    r"|yay|lucky (?:me|us)|just my luck))"
    r"[,\u2014\u2013 ]*(?:obviously |clearly |totally )?$",
    re.IGNORECASE,
)
_LOVES = re.compile(r"i (?:\w{2,10} ){0,2}(?:love|enjoy|like|adore)\b|ich (?:liebe|mag)\b", re.IGNORECASE)
# "Test data: I live in Bonn, I work at Aldi", "as the customer: ...": all of it is of somebody made up.
_SCOPED = re.compile(
    r"\W*(?:(?:the |my |our |an? |some )?(?:test|sample|dummy|mock|fake|demo|seed|placeholder|fictional|fictitious"
    r"|made-?up|imaginary|invented) (?:data|user|bio|profile|text|person|persona|customer|account|input|record"
    r"|prompt)s?|(?:(?:user|buyer|test) )?personas?|as the (?:customer|user|client|buyer|caller|guest|visitor|shopper"
    r"|tester|character)|for (?:the|an?|our|my|this) (?:test|demo|example|sample|mock|fake|fictional|play|role|game"
    r"|story|sketch|exercise)(?: \w{1,16}){0,2}|(?:test|beispiel|muster)(?:daten|profil|nutzer|person|text|kunde)"
    r"|f\u00fcr (?:den|das|die|einen?) (?:test|demo|beispiel|rolle|spiel|\u00fcbung|geschichte))\s*:",
    re.IGNORECASE,
)
_EXAMPLE_LENGTH = 24
_EXAMPLE = re.compile(
    r"\b(?:such as|as in|for example|for instance|e\.g\.|(?:sentence|phrase|statement|line)s? like)[\s:,]*$",
    re.IGNORECASE,
)
_OPEN_QUOTE = re.compile(r"[\"'\u201c\u2018\u201e\u00ab]\s?$")


def is_stated(text: str, start: int, value: int, end: int) -> bool:
    """Return whether a sentence states the clause that begins at `start`, with its value in `value` to `end`.

    Not where it is negated, doubted, asked, a condition or a wish, what others say, an example, or describes a noun.
    """
    before = _ENDS.split(text[max(0, start - _AROUND) : start])[-1]
    if _OPEN_QUOTE.search(before) or _DESCRIBES.search(before) or _NEGATED_VALUE.match(text, value):
        return False
    if _is_meant_otherwise(before, text, start):
        return False
    clause = _last_clause(before)
    governed = _REPORTED.search(before) or _GOVERNED.search(clause)
    if _TO_FORGET.search(clause) or (governed and not _FACTIVE.search(before)):
        return False
    rest, asked = _read_rest(text, end)
    if asked and clause.strip() and _ASKS.match(before):
        return False
    if asked and _ASKED_BACK.match(rest):
        asked = False
    if asked and not clause.strip() and _ASKED_BEFORE.search(before):
        asked = False
    behind = text[value:end] + rest
    if _DENIED_AFTER.search(behind) or _SAID_AFTER.search(rest):
        return False
    return not asked or ("," in rest and _QUESTION_TAG.search(rest) is None)


def _is_meant_otherwise(before: str, text: str, start: int) -> bool:
    """Return whether the words before a clause make it another's, an example, or the opposite of what it says."""
    if _SCOPED.match(before) or _stands_below_scope(text[max(0, start - _AROUND) : start]):
        return True
    if _GOVERNED_ELSEWHERE.search(before) or _EXAMPLE.search(text[max(0, start - _EXAMPLE_LENGTH) : start]):
        return True
    if _NOT_YET.search(before) and _PRESENT.match(text, start):
        return True
    return _SARCASTIC.search(before) is not None and _LOVES.match(text, start) is not None


def _stands_below_scope(before: str) -> bool:
    """Return whether the paragraph begins with a line such as "Test data:" alone."""
    paragraph = before.rpartition("\n\n")[2]
    scope = _SCOPED.match(paragraph)
    return scope is not None and paragraph[scope.end() :].lstrip(" \t").startswith("\n")


_ENDED = re.compile(
    r"\b(?:no longer|used|quit|left|resigned|stopped|fired|laid|let|moved|gave|given|called|name|outgrew|ceased|gone"
    r"|went)\b",
    re.IGNORECASE,
)
_PARTLY = re.compile(
    r"\s*(?:on|at|before|after|every|all|full|part|alone|just|only|today|tonight|tomorrow|this|during|in|with|for"
    r"|when|while|if|yet|that"
    r"|as|much|often|always|right|most|very|enough|unless|until|anywhere|near|next)\b(?! all\b)",
    re.IGNORECASE,
)


# "I don't live in Bristol city centre".
_OF_PLACE = re.compile(
    r"\s+(?:city|town|old town|centre|center|itself|proper|downtown|station|airport)\b", re.IGNORECASE
)
_LEFT_FOR_NOW = re.compile(
    r"\s*(?:early|late\b|around|by\b|before|after (?:lunch|work|the)|an hour|this (?:morning|afternoon|evening)|tonight"
    r"|at (?:\d|noon|midnight|half|about|dawn|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
    r"|for (?:an? |the )?(?:day|night|week|weekend|lunch|meeting|holidays?|summer|moment))\b",
    re.IGNORECASE,
)


def denies_partly(text: str, opening: str, end: int) -> bool:
    """Return whether a denial is of a part only: "I don't work at Nordwind on Fridays" ends no employment."""
    rest, _ = _read_rest(text, end)
    if _OF_PLACE.match(rest):
        return True
    if re.search(r"\bleft\b", opening, re.IGNORECASE) and _LEFT_FOR_NOW.match(rest):
        return True
    return (
        not _ENDED.search(opening) and _PARTLY.match(rest) is not None and not re.search(r"any ?(?:more|longer)", rest)
    )


def _last_clause(before: str) -> str:
    """Return the clause that may govern what stands behind it: from the last separator on."""
    separators = list(_SEPARATOR.finditer(before))
    return before[separators[-1].end() :] if separators else before


def _read_rest(text: str, end: int) -> tuple[str, bool]:
    """Return the rest of the sentence behind `end`, and whether it ends as a question."""
    after = text[end : end + _AROUND]
    ends = _ENDS.search(after)
    return (after[: ends.start()] if ends else after), ends is not None and ends.group() == "?"


def is_supposed(text: str, start: int) -> bool:
    """Return whether the words before a clause only ask, suppose, report or forget it: "if I", "she says I".

    Some do so only before "I" and "we": "I have my sister Maud here" tells her name.
    """
    before = text[max(0, start - _SUPPOSED_LENGTH) : start]
    found = _SUPPOSED.search(before)
    supposed = found is not None and (found.group("of_us") is None or text[start] in "IiWw")
    return supposed or _TO_FORGET.search(_last_clause(_ENDS.split(before)[-1])) is not None


def is_plainly_told(text: str, start: int, end: int) -> bool:
    """Return whether a sentence states the clause in `start` to `end` of the text, as its own and without a doubt.

    A question, a report of what another person says, and a clause that describes a noun do not.
    """
    before = _ENDS.split(text[max(0, start - _AROUND) : start])[-1]
    if not before.strip() and text[max(0, start - _AROUND) : start].rstrip().endswith(":"):
        return False
    rest, asked = _read_rest(text, end)
    if asked or not _BEGINS.search(before) or _TAKEN_BACK.search(rest):
        return False
    return not _DOUBTED.search(before) or _ON_ITS_OWN.search(before) is not None
