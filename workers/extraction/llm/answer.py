"""Validates an LLM's answer: only facts in the requested shape that the turn supports.

A reply of another shape is refused whole. Of a valid one, every finding that its message does not contain is
dropped: a fact must quote words of the user letter by letter, an entity must be named in the message.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from store.text.rules.canonical import canonical_name, fold_text
from store.text.rules.extract import list_entities
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
from workers.extraction.llm.request import MINED_ROLE, SECRET, TOOL, KnownFact

#: Objects of a reply that are searched for the tool call; what comes after them is not read.
MOST_OBJECTS = 10_000
MOST_FACTS, MOST_DELETIONS, MOST_ENTITIES = 64, 16, 256
#: The longest name of an entity, in characters; a longer one makes the reply invalid.
MOST_CHARACTERS = 256
DEFAULT_CONFIDENCE = 0.78
_NAME = re.compile(r"[^\w]+")

Fault = Literal["refused", "truncated", "no_call", "wrong_schema"]
Form = TypeVar("Form", bound=BaseModel)


class NoAnswer(Exception):
    """The model's reply is no answer to the request; `fault` says why. Holds nothing of the reply."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault: Fault = fault


class StrictAnswer(BaseModel):
    """A part of a model's answer: only the fields asked for, each of its type."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)


class _ModelDeletion(StrictAnswer):
    fact_id: str = Field(max_length=512)
    key: str = Field(max_length=512)
    value: str = Field(max_length=4096)
    message: int
    quote: str


class _ModelFact(_ModelDeletion):
    tier: str = ""
    confidence: float = DEFAULT_CONFIDENCE


class _ModelEntity(StrictAnswer):
    name: str = Field(max_length=MOST_CHARACTERS)
    kind: Literal["person", "place", "organisation", "name"]
    message: int


class _ModelAnswer(StrictAnswer):
    updated_facts: list[_ModelFact] = Field(max_length=MOST_FACTS)
    deleted_facts: list[_ModelDeletion] = Field(default_factory=list, max_length=MOST_DELETIONS)
    entities: list[_ModelEntity] = Field(max_length=MOST_ENTITIES)


@dataclass(frozen=True, slots=True)
class ModelReading:
    """A model's findings in a turn, the denials of facts that it proposes to delete, and how many more were dropped."""

    found: Extraction
    dropped: int
    deleted: tuple[ExtractedFact, ...] = ()


def parse_answer(reply: Mapping[str, object], turn: TurnText, known: Sequence[KnownFact] = ()) -> ModelReading:
    """Return the findings of a reply that the turn supports; `known` are the facts it was sent. Raises NoAnswer."""
    answer = read_call(reply, TOOL, _ModelAnswer)
    facts = [fact for one in answer.updated_facts if (fact := _build_fact(one, turn.messages)) is not None]
    mentions = [mention for one in answer.entities if (mention := _build_mention(one, turn.messages)) is not None]
    mentions = list({(m.ordinal, m.entity): m for m in reversed(mentions)}.values())
    mentions.sort(key=lambda mention: (mention.ordinal, mention.span or TextSpan(-1, -1)))
    facts = list({(fact.fact_id, fact.key, fold_text(fact.value)): fact for fact in facts}.values())
    stored = {_normalise_names(one.fact_id, one.key, one.value): one for one in reversed(known)}
    denials = (_build_deletion(one, turn.messages, stored) for one in answer.deleted_facts)
    deleted = [fact for fact in denials if fact is not None]
    deleted = list({(fact.fact_id, fact.key, fold_text(fact.value)): fact for fact in deleted}.values())
    told = len(answer.updated_facts) + len(answer.deleted_facts) + len(answer.entities)
    dropped = told - len(facts) - len(deleted) - len(mentions)
    return ModelReading(Extraction(tuple(mentions), list_entities(mentions), tuple(facts)), dropped, tuple(deleted))


def select_new(found: Extraction, known: Iterable[tuple[str, str, str]]) -> Extraction:
    """Return the findings without the facts that are `known` already: (id, key, value)."""
    there = {(fact_id, key, fold_text(value)) for fact_id, key, value in known}
    facts = tuple(fact for fact in found.facts if (fact.fact_id, fact.key, fold_text(fact.value)) not in there)
    return Extraction(found.mentions, found.entities, facts)


def read_call(reply: Mapping[str, object], tool: str, form: type[Form]) -> Form:
    """Return the arguments of a reply's call of this tool, in their form. Raises NoAnswer."""
    objects, is_cut = list(_iterate_objects(reply)), reply.get("status") == "incomplete"
    if any(one.get("type") == "refusal" for one in objects):
        raise NoAnswer("refused")
    arguments = next((call for one in objects if (call := _call_arguments(one, tool)) is not None), None)
    if arguments is None:
        raise NoAnswer("truncated" if is_cut else "no_call")
    try:
        return form.model_validate(orjson.loads(arguments) if isinstance(arguments, str) else arguments)
    except (orjson.JSONDecodeError, ValidationError):
        fault: Fault = "truncated" if is_cut else "wrong_schema"
    raise NoAnswer(fault)


def _iterate_objects(reply: Mapping[str, object]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a reply in document order, outer before inner; the call's arguments are not entered."""
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


def _call_arguments(one: Mapping[str, Any], tool: str) -> str | Mapping[str, Any] | None:
    inner = one.get("function")
    named = inner if one.get("name") != tool and isinstance(inner, Mapping) else one
    arguments = named.get("arguments") if named.get("name") == tool else None
    return arguments if isinstance(arguments, str | Mapping) else None


def _build_fact(fact: _ModelFact, messages: Sequence[MessageText]) -> ExtractedFact | None:
    # PostgreSQL stores no NUL: writing the fact would fail at every attempt.
    key, value = _normalise_identifier(fact.key), cut_value(" ".join(fact.value.replace("\0", " ").split())).rstrip()
    fact_id = _normalise_identifier(fact.fact_id) or key
    span = _locate_quote(fact.quote, fact.message, messages)
    if not key or not value or span is None or messages[fact.message].role != MINED_ROLE:
        return None
    if SECRET.search(f"{fact_id} {key}"):
        return None
    subject = (messages[fact.message].name or "").strip() or None
    return ExtractedFact(
        fact_id=fact_id,
        key=key,
        slug=f"{fact_id}-{key}",
        value=value,
        tier=Tier(fact.tier) if fact.tier in set(Tier) else Tier.L2,
        confidence=fact.confidence if 0 < fact.confidence <= 1 else DEFAULT_CONFIDENCE,
        subject=subject,
        statement=f"{subject or 'The user'}'s {key.replace('_', ' ')} is {value}.",
        ordinal=fact.message,
        span=span,
    )


def _build_deletion(
    told: _ModelDeletion, messages: Sequence[MessageText], stored: Mapping[tuple[str, str, str], KnownFact]
) -> ExtractedFact | None:
    """Return the denial of the named fact, by its stored names; it does not pass, as the fact would come back."""
    fact = _build_fact(_ModelFact(**told.model_dump(), tier=Tier.L0.value), messages)
    if fact is None:
        return None
    known = stored.get(_normalise_names(told.fact_id, told.key, told.value))
    if known is not None:
        fact = replace(fact, fact_id=known.fact_id, key=known.key, value=known.value)
    statement = f"{fact.subject or 'The user'}'s {fact.key.replace('_', ' ')} is no longer {fact.value}."
    return replace(fact, slug=f"{fact.slug}-deleted", statement=statement, denied=True)


def _build_mention(entity: _ModelEntity, messages: Sequence[MessageText]) -> Mention | None:
    span = _locate_quote(entity.name, entity.message, messages, whole_words=True)
    name = canonical_name(entity.name)
    if span is None or not name:
        return None
    return Mention(MentionKind(entity.kind), entity.message, span, entity.name.strip(), name)


def _locate_quote(
    quote: str, number: int, messages: Sequence[MessageText], *, whole_words: bool = False
) -> TextSpan | None:
    """Return the span of the quote in message `number`, letter by letter; None when it is not there."""
    quote = quote.strip()
    if not quote or not 0 <= number < len(messages):
        return None
    pattern = re.escape(quote)
    found = re.search(rf"(?<!\w){pattern}(?!\w)" if whole_words else pattern, messages[number].content)
    return TextSpan(*found.span()) if found else None


def _normalise_names(fact_id: str, key: str, value: str) -> tuple[str, str, str]:
    return _normalise_identifier(fact_id), _normalise_identifier(key), fold_text(" ".join(value.split()))


def _normalise_identifier(name: str) -> str:
    return _NAME.sub("_", fold_text(name)).strip("_")[:64]
