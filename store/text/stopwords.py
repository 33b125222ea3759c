"""English stop words, left out of index and question.

"may" is not among them, for the month's sake, nor "us" and "id", which are also names of things.
"""

_ARTICLES = "a an the this that these those"
_PEOPLE = "i me my mine we our ours you your yours he him his she her hers it its they them their theirs"
_VERBS = "am is are was were be been being do does did done have has had having"
_MODALS = "will would shall should can could might must"
_JOINTS = "and or but nor so if then than as of at by for from in into on onto to with about"
_QUESTIONS = "who whom whose which what when where why how there here"
_CONTRACTED = "s t d m ll re ve im ive youre youve theyre thats whats dont didnt doesnt isnt wasnt"

STOP_WORDS = frozenset(f"{_ARTICLES} {_PEOPLE} {_VERBS} {_MODALS} {_JOINTS} {_QUESTIONS} {_CONTRACTED}".split())
