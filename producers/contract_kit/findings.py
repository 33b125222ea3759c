"""Describes deviations, and shows texts of a plugin shortened and safe for a terminal."""

import json
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

LONGEST_SHOWN = 400


@dataclass(frozen=True, slots=True)
class ContractFinding:
    """A deviation: what the kit did, what the contract requires, and what the plugin did."""

    did: str
    expected: str
    saw: str


def as_text(value: object) -> str:
    """Return a value for authors in any language: a text unchanged, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=_plain_value)


def show_text(text: str, longest: int = LONGEST_SHOWN) -> str:
    """Return the text on one line, at most `longest` characters, without what could steer a terminal."""
    cut = text if len(text) <= longest else f"{text[: longest - 1]}…"
    if cut.isprintable():
        return cut
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in cut)


def _plain_value(value: object) -> object:
    return sorted(map(str, value)) if isinstance(value, AbstractSet) else str(value)
