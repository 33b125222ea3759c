"""Prints an answer as the block that a prompt gets, and as its pieces, whose tokens are counted. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from afterturn_client import reference
from afterturn_client.contract.knowledge import Directive
from afterturn_client.reference import FrameForm, Printer, frame, frame_directives, frame_lines, print_json

from store.recall.query import Recalled

#: The author of a directive without one, which came with events from elsewhere.
UNKNOWN = "unknown"
#: The most that a note says of dates.
_LONGEST_SCOPE = " Dates without a year are of 2026."


@dataclass(frozen=True, slots=True)
class AnswerPrinter:
    """Prints units in a form; `dates` is what the dates of most of them share.

    `merged`: with other banks' units, so that every date is a whole one.
    """

    form: FrameForm
    dates: Printer
    merged: bool = False

    @classmethod
    def of(cls, form: FrameForm, items: Sequence[Recalled], *, merged: bool = False) -> "AnswerPrinter":
        """Return the printer of these units."""
        return cls(form, Printer() if merged else Printer.of([item.occurred_at for item in items]), merged)

    def turned_to(self, items: Sequence[Recalled]) -> "AnswerPrinter":
        """Return the printer of the units that an answer keeps, whose dates may share more."""
        return self.of(self.form, items, merged=self.merged)

    def print_unit(self, number: int, item: Recalled) -> str:
        """Return the line of a unit, or its JSON, with what follows it."""
        return self.print_item(number, tell_unit(item, self.form))

    def print_item(self, number: int, told: Mapping[str, Any]) -> str:
        """Return the line of a frame's item, or its JSON, with what follows it."""
        return f"{print_json(told)}," if self.form == "json" else f"{self.dates.print_item(number, told)}\n"

    def print_frame(self) -> str:
        """Return a frame around nothing: what a block has besides its units, with the longest note."""
        if self.form == "json":
            return frame([{}], form="json") or ""
        return frame_lines([""], self.dates).replace(self.dates.scope or "\n", _LONGEST_SCOPE, 1)


def tell_unit(item: Recalled, form: FrameForm) -> Mapping[str, Any]:
    """Return a unit as a frame's item of this form: a line tells less of it than JSON."""
    if form == "json":
        return describe_unit(item)
    return {
        "role": item.role,
        "name": item.name,
        "time": item.occurred_at,
        "fact": is_fact(item),
        "former": item.former,
        "text": item.text,
    }


def is_fact(item: Recalled) -> bool:
    """Return whether a unit is a fact: its text is a sentence by itself."""
    return item.role is None and item.kind == "world" and item.confidence is not None


def describe_unit(item: Recalled) -> Mapping[str, Any]:
    """Return a unit as a frame's item; `fact`: its text is a sentence by itself."""
    return {
        "id": str(item.unit_id),
        "session": item.session_name,
        "turn": item.turn_name,
        "role": item.role,
        "name": item.name,
        "time": item.occurred_at.isoformat(),
        "confidence": None if item.confidence is None else f"{item.confidence:g}",
        "score": f"{item.score:.4f}",
        "fact": is_fact(item) or None,
        "former": item.former or None,
        "text": item.text,
    }


def describe_directive(directive: Directive) -> Mapping[str, Any]:
    """Return a directive as a frame's."""
    return {
        "name": directive.name,
        "text": directive.content,
        "laid_down_by": directive.laid_down_by or UNKNOWN,
    }


def print_directive(number: int, directive: Directive, form: FrameForm) -> str:
    """Return a directive as its frame holds it."""
    told = describe_directive(directive)
    return print_json(told) if form == "json" else reference.print_directive(number, told)


def print_directives(directives: Sequence[Directive], form: FrameForm) -> str:
    """Return the frame of directives; empty without any."""
    return frame_directives([describe_directive(one) for one in directives], form=form) or ""
