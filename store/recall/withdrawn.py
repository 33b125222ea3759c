"""Tells whether a message is asked for what was forgotten of it: a fact that a caller forgot by its own id. Pure.

The message stays, because a fact may have been read from it wrongly. It is former where the question is about the
clause of that fact, and not where only its other clauses answer.
"""

import re

from store.text.terms import analyse_text

#: Stands for a value that was forgotten.
_VALUE = "\ufffc"
#: What divides a message into clauses, each of which may state a fact.
_CLAUSE_END = re.compile(r"[.!?;\n]+(?=\s|$)|,? \b(?:and|but|while|because)\b ")


def asks_for_withdrawn(text: str, withdrawn: str, question: str) -> bool:
    """Return whether a question is about clauses with values that were forgotten (a line each), as much as the others.

    A message without another clause is about nothing else; so is one whose text does not hold the value as it is.
    """
    told = " ".join(text.casefold().split())
    for value in sorted(withdrawn.casefold().splitlines(), key=len, reverse=True):
        # Its own dots ("Dr. Nys") end no clause.
        told = told.replace(value, _VALUE) if value else told
    clauses = [clause for clause in _CLAUSE_END.split(told) if clause.strip()]
    others = [clause for clause in clauses if _VALUE not in clause]
    forgotten = [clause for clause in clauses if _VALUE in clause]
    if not others or not forgotten:
        return True
    asked = analyse_text(question).counts.keys()
    of_fact, of_rest = (
        len(asked & analyse_text(" ".join(said)).counts.keys()) for said in ([*forgotten, withdrawn], others)
    )
    return of_fact >= of_rest
