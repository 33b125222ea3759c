"""Arguments of the memory tools, and their translation to bodies of the facade. Pure.

Agents leave out what they do not know: the project and the session are `default`, a turn without a name gets one.
"""

import secrets
import time
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from producers.turns.directories import DEFAULT_DEPTH, DEFAULT_LIMIT
from producers.turns.requests import DEFAULT_INPUT_TOKENS

DEFAULT = "default"
Items = list[dict[str, Any]]


class ToolArguments(BaseModel):
    """Arguments of every tool."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    project: str = Field(DEFAULT, description="memory to use; a bank of this service")
    plugin: str | None = Field(None, description="accepted and ignored")


class TurnArguments(ToolArguments):
    """Arguments of both calls of a turn's life cycle."""

    session_id: str = Field(DEFAULT, description="conversation")
    turn_id: str | None = Field(
        None, description="name of the turn; a retry must send the same, so choose one before the first call"
    )
    user_id: str | None = Field(None, description="who speaks")
    conversation_items: Items = Field(
        default_factory=list,
        repr=False,
        description="whole history; the next two say which part of it is current",
    )
    current_input_start: int = Field(0, description="where the current input begins in conversation_items")
    current_input_count: int = Field(0, description="how many items it has; 0: to the end")

    def body(self) -> dict[str, Any]:
        """Return the body of the facade's call."""
        given = {name: getattr(self, name) for name in self.model_fields_set - {"plugin", "turn_id"}}
        return {
            **{name: value for name, value in given.items() if value is not None},
            "project": self.project,
            "session_id": self.session_id,
            "turn_id": make_turn_id() if self.turn_id is None else self.turn_id,
        }


class BeforeTurnArguments(TurnArguments):
    """A turn that is about to begin."""

    current_input: Items | dict[str, Any] | str | None = Field(
        None, repr=False, description="what the turn asks: items, one item, or text"
    )
    current_input_text: str | None = Field(None, repr=False, description="what the turn asks, as text")
    base_instructions: str | None = Field(None, repr=False, description="accepted; not used")
    scope: Literal["project", "session"] | None = Field(
        None, description="recall from the whole project, or from this session alone; left out: as the service is set"
    )
    max_input_tok: int = Field(DEFAULT_INPUT_TOKENS, description="tokens that the answer may have; 0: no limit")

    def body(self) -> dict[str, Any]:
        """Return the body of the facade's call: the current input as items."""
        body = super().body()
        given = self.current_input_text if self.current_input is None else self.current_input
        body.pop("current_input_text", None)
        if given is not None:
            body["current_input"] = as_items(given, "user")
        return body


class AfterTurnArguments(TurnArguments):
    """A turn that is over."""

    input_items: Items = Field(default_factory=list, repr=False, description="what was asked")
    output_items: Items = Field(default_factory=list, repr=False, description="what the agent said and did")
    occurred_at: str | int | None = Field(None, description="when; left out: now")


class RunTurnArguments(ToolArguments):
    """A turn in two calls."""

    session_id: str = Field(DEFAULT, description="conversation")
    turn_id: str | None = None
    user_id: str | None = Field(None, description="who speaks")
    current_input: Items | str | None = Field(None, repr=False, description="first call")
    max_input_tok: int = DEFAULT_INPUT_TOKENS
    token: str | None = Field(None, repr=False, description="second call")
    output: Items | str | None = Field(None, repr=False, description="second call: what the agent said and did")

    @model_validator(mode="after")
    def _is_one_of_the_calls(self) -> Self:
        more = self.model_fields_set - {"project", "plugin", "token", "output"}
        if self.token is None and self.output is not None:
            raise ValueError("output needs the token of the first call")
        if self.token is not None and (more or self.output is None):
            raise ValueError("with a token, give output and nothing else")
        return self

    def body(self) -> dict[str, Any]:
        """Return the body of the facade's first call."""
        first = self.model_dump(exclude={"plugin", "token", "output"}, exclude_none=True)
        if self.current_input is not None:
            first["current_input"] = as_items(self.current_input, "user")
        return {**first, "turn_id": make_turn_id() if self.turn_id is None else self.turn_id}

    def output_items(self) -> Items:
        """Return the output of the second call as items."""
        return as_items(self.output or [], "assistant")


class SessionArguments(ToolArguments):
    """A whole session."""

    session_id: str = Field(DEFAULT, description="conversation")


class ListArguments(SessionArguments):
    """Where to list, and how much."""

    path: str = Field("", description="directory of the session; empty: all")
    depth: int = Field(DEFAULT_DEPTH, description="levels below path; 0: the default")
    limit: int = Field(DEFAULT_LIMIT, description="directories at most")


class SearchArguments(ToolArguments):
    """A question."""

    query: str = Field(repr=False, description="what to look for, in words")
    k: int = Field(5, ge=1, le=50, description="results at most")


class RememberArguments(ToolArguments):
    """Something to keep."""

    text: str = Field(repr=False, description="what to remember, understandable by itself")
    title: str | None = Field(None, repr=False, description="what it is about")


class ForgetArguments(ToolArguments):
    """Something to forget."""

    id: str = Field(description="`unit_id` of memory_search, or `id` of memory_remember")


def make_turn_id() -> str:
    """Return a name for a turn that has none: a retry of such a turn is another turn."""
    return f"turn-{time.time_ns() // 1_000_000}-{secrets.token_hex(3)}"


def as_items(given: Items | dict[str, Any] | str, role: str) -> Items:
    """Return the items of an argument: items unchanged, one item, or a text in this role."""
    if isinstance(given, list):
        return given
    if isinstance(given, dict):
        return [given]
    kind = "output_text" if role == "assistant" else "input_text"
    return [{"type": "message", "role": role, "content": [{"type": kind, "text": given}]}]
