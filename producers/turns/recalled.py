"""Frames recalled memory for a turn: a fixed rule, then untrusted data in a user message. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from afterturn_client.reference import RULE, FrameForm, Printer, cut_text, frame_json, frame_lines

from producers.turns.items import Item
from store.memory.held_fact_queries import Whose
from store.memory.held_facts import HoldingFact
from store.recall.printing import describe_unit
from store.recall.query import Recalled
from store.recall.users import NAMELESS

CHUNK_CHARACTERS = 600
#: How a fact says that it is about the speaker, or about a person without a known name.
YOU, ANOTHER = "you", "another"
#: How a line calls the speaker.
SPEAKER = "the user"
#: How a message is marked that another user said, whose name is not known.
OTHER_USER = "another user"
#: The contract's confidence of each type of insight.
INSIGHT_CONFIDENCE = {"fact_stability": "0.78", "fact_evolution": "0.84"}


_IDENTITY = re.compile(r"fact_(?P<told>evolution|stability) (?:user_)?(?P<kind>\w+)::(?P<key>.*?)(?:: | = )", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RecalledContext:
    """The recalled context of a turn: facts, insights and chunks."""

    facts: Sequence[HoldingFact] = ()
    insights: Sequence[dict[str, Any]] = ()
    chunks: Sequence[dict[str, Any]] = ()
    form: FrameForm = "lines"

    @property
    def is_empty(self) -> bool:
        """Whether nothing is recalled."""
        return not (self.facts or self.insights or self.chunks)

    def items(self) -> list[Item]:
        """Return the rule and the frame as items; none where the context is empty."""
        if self.is_empty:
            return []
        told = {"facts": [fact_json(one) for one in self.facts], "insights": [*self.insights], "chunks": [*self.chunks]}
        text = frame_json(told) if self.form == "json" else self._print_lines()
        return [build_rule(), _build_message("user", text)]

    def _print_lines(self) -> str:
        """Return the frame as lines: facts under one heading, what was found for the question under another."""
        facts = [_fact_item(one) for one in self.facts]
        found = [*({"text": tell_insight(one["summary"])} for one in self.insights), *self.chunks]
        printer = Printer.of([one.get("time") for one in (*facts, *found)])
        lines = [printer.print_item(number, one) for number, one in enumerate((*facts, *found), 1)]
        first = ["facts:", *lines[: len(facts)]] if facts else []
        rest = ["insights and messages:", *lines[len(facts) :]] if found else ["insights and messages: none"]
        return frame_lines([*first, *rest], printer)

    def shorter(self) -> "RecalledContext | None":
        """Return the context without its last chunk, insight or fact; None where it is empty."""
        if self.chunks:
            return replace(self, chunks=self.chunks[:-1])
        if self.insights:
            return replace(self, insights=self.insights[:-1])
        return replace(self, facts=self.facts[:-1]) if self.facts else None


def fact_json(fact: HoldingFact) -> dict[str, Any]:
    """Return the frame's JSON of a fact; its subject is "you" for the speaker, a name, or "another"."""
    told = {"id": fact.fact_id, "tier": fact.tier, "key": fact.key, "value": fact.value}
    subject = YOU if fact.whose is Whose.OWN else fact.subject or ANOTHER
    return {**told, "confidence": fact.confidence, "subject": subject, "since": fact.said_at.isoformat()}


def _fact_item(fact: HoldingFact) -> dict[str, Any]:
    """Return a fact as a line's item: a sentence of whom it is about."""
    return {"text": tell_fact(fact), "fact": True, "time": fact.said_at}


def tell_fact(fact: HoldingFact) -> str:
    """Return a fact as a sentence of whom it is about, without its dot."""
    who = f"{fact.subject} ({SPEAKER})" if fact.subject else SPEAKER
    subject = who if fact.whose is Whose.OWN else fact.subject or ANOTHER
    return f"{subject}: {_tell_predicate(fact)}"


def _tell_predicate(fact: HoldingFact) -> str:
    """Return what a fact's sentence says behind the person: "lives in Ghent"."""
    sentence = fact.statement.removesuffix(".")
    for opening in (f"{name}{mark} " for name in (fact.subject, NAMELESS) if name for mark in ("'s", "")):
        if sentence.startswith(opening):
            return sentence.removeprefix(opening)
    return sentence


def tell_insight(summary: str) -> str:
    """Return an insight as a line tells it: without the ids of the contract's form, and changes in words."""
    found = _IDENTITY.match(summary)
    if found is None:
        return summary
    kind, key = found["kind"].replace("_", " "), found["key"]
    what = kind if key.casefold() == kind else f"{kind} {key}"
    said = summary[found.end() :]
    return f"{what} changed: {said.replace(' -> ', ', then ')}" if found["told"] == "evolution" else f"{what}: {said}"


def insight_json(unit: Recalled) -> dict[str, Any]:
    """Return the frame's JSON of a reflection; its type is the contract's, with which the text begins.

    For a reflection of neither type it is the unit's kind.
    """
    told = unit.text.partition(" ")[0]
    sure = INSIGHT_CONFIDENCE.get(told, None if unit.confidence is None else f"{unit.confidence:g}")
    kind = told if told in INSIGHT_CONFIDENCE else unit.kind
    return {"id": str(unit.unit_id), "type": kind, "summary": unit.text, "confidence": sure}


def chunk_json(unit: Recalled) -> dict[str, Any]:
    """Return the frame's JSON of a recalled unit, its text cut to CHUNK_CHARACTERS: where, who said it, and when."""
    told = {"path": "/".join(filter(None, (unit.session_name, unit.turn_name))) or None, **describe_unit(unit)}
    kept = {name: told[name] for name in ("path", "role", "name", "time", "fact", "former") if told[name] is not None}
    return {**kept, "text": cut_text(unit.text, CHUNK_CHARACTERS)}


def build_rule() -> Item:
    """Return the fixed rule on recalled text, as an item of the role developer."""
    return _build_message("developer", RULE)


def _build_message(role: str, text: str) -> Item:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}
