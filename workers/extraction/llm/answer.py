"""Validates an LLM's answer: only facts in the requested shape that the turn supports.

A reply of another shape is refused whole. Of a good one, what does not stand in the text it is said to stand in is
dropped: a fact needs words of the user that are there to the letter, an entity its name.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from store.text.rules.canonical import canonical_name, fold_text
from store.text.rules.extract import as_entities
from store.text.rules.facts import cut_value
from store.text.rules.model import (
    ExtractedFact,
    Extraction,
    Mention,
    MentionKind,
    MessageText,
    TextSpan,
    Tier,
    TurnText,
)
from workers.extraction.llm.request import MINED_ROLE, TOOL

#: Objects of a reply that are looked at for the call; a reply that has more is none.
MOST_OBJECTS = 10_000
MOST_FACTS, MOST_ENTITIES = 64, 256
#: Of a name; what is longer is none.
MOST_CHARACTERS = 256
DEFAULT_CONFIDENCE = 0.78
_NAME = re.compile(r"[^\w]+")
_SECRET = re.compile(r"passw|secret|token|api_?key|credential|\bpin\b|card_number|iban|cvv", re.IGNORECASE)

Fault = Literal["refused", "truncated", "no_call", "wrong_schema"]


class NoAnswer(Exception):
    """The model answered, and not with what it was asked for; `fault` says how. Holds nothing of the reply."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault: Fault = fault


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)


class _SaidFact(_Strict):
    fact_id: str = Field(max_length=512)
    key: str = Field(max_length=512)
    value: str = Field(max_length=4096)
    tier: str = ""
    confidence: float = DEFAULT_CONFIDENCE
    message: int
    quote: str


class _SaidEntity(_Strict):
    name: str = Field(max_length=MOST_CHARACTERS)
    kind: Literal["person", "place", "organisation", "name"]
    message: int


class _ModelAnswer(_Strict):
    updated_facts: list[_SaidFact] = Field(max_length=MOST_FACTS)
    entities: list[_SaidEntity] = Field(max_length=MOST_ENTITIES)


@dataclass(frozen=True, slots=True)
class Read:
    """What a model found in a turn, and how much of what it said was dropped."""

    found: Extraction
    dropped: int


def parse_answer(reply: Mapping[str, object], turn: TurnText) -> Read:
    """Return what holds of a reply. Raises NoAnswer."""
    said = _find_answer(reply)
    facts = [fact for one in said.updated_facts if (fact := _build_fact(one, turn.messages)) is not None]
    mentions = [mention for one in said.entities if (mention := _build_mention(one, turn.messages)) is not None]
    mentions = list({(m.ordinal, m.entity): m for m in reversed(mentions)}.values())
    mentions.sort(key=lambda mention: (mention.ordinal, mention.span or TextSpan(-1, -1)))
    facts = list({(fact.fact_id, fact.key, fold_text(fact.value)): fact for fact in facts}.values())
    dropped = len(said.updated_facts) + len(said.entities) - len(facts) - len(mentions)
    return Read(Extraction(tuple(mentions), as_entities(mentions), tuple(facts)), dropped)


def select_new(found: Extraction, known: Iterable[tuple[str, str, str]]) -> Extraction:
    """Return what is found beyond the facts that are known (id, key, value)."""
    there = {(fact_id, key, fold_text(value)) for fact_id, key, value in known}
    facts = tuple(fact for fact in found.facts if (fact.fact_id, fact.key, fold_text(fact.value)) not in there)
    return Extraction(found.mentions, found.entities, facts)


def _find_answer(reply: Mapping[str, object]) -> _ModelAnswer:
    objects = list(_iterate_objects(reply))
    if any(one.get("type") == "refusal" for one in objects):
        raise NoAnswer("refused")
    arguments = next((call for one in objects if (call := _call_arguments(one)) is not None), None)
    if arguments is None:
        raise NoAnswer("truncated" if reply.get("status") == "incomplete" else "no_call")
    try:
        return _ModelAnswer.model_validate(orjson.loads(arguments) if isinstance(arguments, str) else arguments)
    except (orjson.JSONDecodeError, ValidationError):
        fault: Fault = "truncated" if reply.get("status") == "incomplete" else "wrong_schema"
    raise NoAnswer(fault)


def _iterate_objects(reply: Mapping[str, object]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a reply in their order, from the outside in; the call's own arguments are not entered."""
    queue: list[object] = [reply]
    for _ in range(MOST_OBJECTS):
        if not queue:
            return
        one = queue.pop()
        if isinstance(one, Mapping):
            yield one
            queue += [one[name] for name in reversed(list(one)) if name != "arguments"]
        elif isinstance(one, list):
            queue += reversed(one)


def _call_arguments(one: Mapping[str, Any]) -> str | Mapping[str, Any] | None:
    inner = one.get("function")
    named = inner if one.get("name") != TOOL and isinstance(inner, Mapping) else one
    arguments = named.get("arguments") if named.get("name") == TOOL else None
    return arguments if isinstance(arguments, str | Mapping) else None


def _build_fact(said: _SaidFact, messages: Sequence[MessageText]) -> ExtractedFact | None:
    # No database keeps a NUL: a reading would fail again and again over it.
    key, value = _normalise_identifier(said.key), cut_value(" ".join(said.value.replace("\0", " ").split())).rstrip()
    fact_id = _normalise_identifier(said.fact_id) or key
    span = _locate_quote(said.quote, said.message, messages)
    if not key or not value or span is None or messages[said.message].role != MINED_ROLE:
        return None
    if _SECRET.search(f"{fact_id} {key}"):
        return None
    subject = (messages[said.message].name or "").strip() or None
    return ExtractedFact(
        fact_id=fact_id,
        key=key,
        slug=f"{fact_id}-{key}",
        value=value,
        tier=Tier(said.tier) if said.tier in set(Tier) else Tier.L2,
        confidence=said.confidence if 0 < said.confidence <= 1 else DEFAULT_CONFIDENCE,
        subject=subject,
        statement=f"{subject or 'The user'}'s {key.replace('_', ' ')} is {value}.",
        ordinal=said.message,
        span=span,
    )


def _build_mention(said: _SaidEntity, messages: Sequence[MessageText]) -> Mention | None:
    span = _locate_quote(said.name, said.message, messages, whole_words=True)
    name = canonical_name(said.name)
    if span is None or not name:
        return None
    return Mention(MentionKind(said.kind), said.message, span, said.name.strip(), name)


def _locate_quote(
    quote: str, number: int, messages: Sequence[MessageText], *, whole_words: bool = False
) -> TextSpan | None:
    """Return where the quote stands to the letter in that message, None when it does not."""
    quote = quote.strip()
    if not quote or not 0 <= number < len(messages):
        return None
    pattern = re.escape(quote)
    found = re.search(rf"(?<!\w){pattern}(?!\w)" if whole_words else pattern, messages[number].content)
    return TextSpan(*found.span()) if found else None


def _normalise_identifier(name: str) -> str:
    return _NAME.sub("_", fold_text(name)).strip("_")[:64]
