"""Reads the demo's data: a conversation, questions with evidence, and texts to write and find at once."""

import json
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

FOLDER = Path(__file__).parent
Items = TypeVar("Items")


class DemoDataError(Exception):
    """The demo's files are missing or invalid; the message names file, line and field."""


class _DataModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DemoMessage(_DataModel):
    """One message of the conversation, as `POST /api/v1/turns` takes it."""

    role: str
    name: str
    content: str = Field(min_length=1)
    timestamp: datetime


class TurnName(_DataModel):
    """The name of a turn: its session id and its turn id."""

    session_id: str
    turn_id: str


class DemoTurn(_DataModel):
    """A turn of the conversation: a line of the file, and a body of `POST /api/v1/turns`."""

    bank: str
    session_id: str
    turn_id: str
    user_id: str
    occurred_at: datetime
    messages: tuple[DemoMessage, ...] = Field(min_length=1)

    @property
    def name(self) -> TurnName:
        """The name of this turn."""
        return TurnName(session_id=self.session_id, turn_id=self.turn_id)


class QuestionKind(StrEnum):
    """The kind of a question: what it asks for."""

    FACT = "fact"
    WHEN = "when"
    WHO = "who"
    CHANGED = "changed"
    LIST = "list"


class DemoQuestion(_DataModel):
    """A question about the conversation, and the turns that hold its answer (any of them is enough)."""

    question: str = Field(min_length=1)
    kind: QuestionKind
    evidence: tuple[TurnName, ...] = Field(min_length=1)


class Wording(StrEnum):
    """How a new text is asked for: by its one rare word, or by a paraphrase."""

    WORD = "word"
    PARAPHRASE = "paraphrase"


class FreshWrite(_DataModel):
    """A text to be written as a turn, and the question that must find it at once."""

    text: str = Field(min_length=1)
    ask: str = Field(min_length=1)
    how: Wording


class DemoData(_DataModel):
    """All data of the demo, validated: names are unique and evidence exists."""

    turns: tuple[DemoTurn, ...]
    questions: tuple[DemoQuestion, ...]
    writes: tuple[FreshWrite, ...]

    @property
    def sessions(self) -> tuple[str, ...]:
        """The sessions in the order of their first turn."""
        return tuple(dict.fromkeys(turn.session_id for turn in self.turns))

    @model_validator(mode="after")
    def _names_hold(self) -> Self:
        names = {turn.name for turn in self.turns}
        if len(names) != len(self.turns):
            raise ValueError("two turns have the same session_id and turn_id")
        for question in self.questions:
            if missing := [ref for ref in question.evidence if ref not in names]:
                raise ValueError(f"{question.question!r} names turns that do not exist: {missing}")
        return self


def load_demo(folder: Path = FOLDER) -> DemoData:
    """Return the validated data of the demo's three files.

    Raises DemoDataError when a file is missing, malformed or contradicts another.
    """
    try:
        return DemoData(
            turns=_read_turns(folder / "conversation.jsonl"),
            questions=_read_list(folder / "questions.json", TypeAdapter(tuple[DemoQuestion, ...])),
            writes=_read_list(folder / "read_your_writes.json", TypeAdapter(tuple[FreshWrite, ...])),
        )
    except ValidationError as error:
        raise DemoDataError(_describe_error(error)) from error


def _read_turns(path: Path) -> tuple[DemoTurn, ...]:
    return tuple(_parse_turn(path, number, line) for number, line in enumerate(_read_text(path).splitlines(), start=1))


def _parse_turn(path: Path, number: int, line: str) -> DemoTurn:
    try:
        return DemoTurn.model_validate_json(line)
    except ValidationError as error:
        raise DemoDataError(f"{path.name}, line {number}: {_describe_error(error)}") from error


def _read_list(path: Path, adapter: TypeAdapter[Items]) -> Items:
    try:
        return adapter.validate_python(json.loads(_read_text(path)))
    except (ValidationError, json.JSONDecodeError) as error:
        reason = _describe_error(error) if isinstance(error, ValidationError) else str(error)
        raise DemoDataError(f"{path.name}: {reason}") from error


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise DemoDataError(f"{path.name} cannot be read: {error.strerror}") from error


def _describe_error(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]
