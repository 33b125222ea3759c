"""Tells whether a message is asked for what was forgotten of it: a fact that a caller forgot by its own id. Pure.

The message stays, because a fact may have been read from it wrongly. It is former where the question is about the
clause of that fact, and not where only its other clauses answer.
"""

import re

from store.text.terms import analyse_text

#: What divides a message into clauses, each of which may state a fact.
_CLAUSE_END = re.compile(r"[.!?;\n]+(?=\s|$)|,? \b(?:and|but|while|because)\b ")


def asks_for_withdrawn(text: str, withdrawn: str, question: str) -> bool:
    """Return whether a question is about clauses with values that were forgotten (a line each), as much as the others.

    A message without another clause is about nothing else.
    """
    values = [value.casefold() for value in withdrawn.splitlines() if value]
    clauses = [clause for clause in _CLAUSE_END.split(text) if clause and clause.strip()]
    forgotten = [clause for clause in clauses if any(value in " ".join(clause.casefold().split()) for value in values)]
    others = [clause for clause in clauses if clause not in forgotten]
    if not others:
        return True
    asked = analyse_text(question).counts.keys()
    shared = [len(asked & analyse_text(" ".join(said)).counts.keys()) for said in (forgotten, others)]
    return bool(forgotten) and shared[0] >= shared[1]
