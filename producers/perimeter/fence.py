"""Marks memories of an organisation when they are read, and disarms imitations of the mark. Pure rules."""

import re

#: An opening bracket before the word `memory`, with spaces or invisible characters between them.
_MARK = re.compile(
    r"([\[\uff3b\u301a\u27e6\u3010])(?=[\s\u00ad\u200b-\u200f\u2028-\u202f\u2060-\u2064\ufeff]*memory\b)", re.IGNORECASE
)


def mark_organisation(memory_id: str, namespace: str, content: str) -> str:
    """Return a text with the organisation's mark, and no other."""
    return f"[MEMORY id={memory_id} scope=ORG ns={namespace}]: {disarm_marks(content)}"


def disarm_marks(content: str) -> str:
    """Return the text without marks: `[MEMORY ` becomes `[_MEMORY `. A disarmed text stays the same."""
    return _MARK.sub(r"\1_", content)
