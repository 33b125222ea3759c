"""Index terms of a message: words of its text, speaker and day, and marks of names."""

from dataclasses import replace
from datetime import datetime

from store.text.rules.called_names import mark_names
from store.text.terms import Terms, analyse_text, lexical_text
from store.text.word_rules import WordRules


def analyse_message(name: str | None, occurred_at: datetime | None, content: str, rules: WordRules) -> Terms:
    """Return the terms of a message; `name` is its speaker's, or the role where there is none."""
    terms = analyse_text(lexical_text(name, occurred_at, content, rules), rules)
    marks = mark_names(content)
    return replace(terms, counts={**terms.counts, **dict.fromkeys(marks, 1)}) if marks else terms
