"""Translates Memory Gateway calls of hybrid agents into calls of the facade. Pure.

Source: seed 000. `search` names the conversation by its bare id; `add` and `flush` name it `chat:<id>`. Unknown
fields are ignored here: the contract belongs to its clients.
"""

import hashlib
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Annotated, Any, Final, Literal, Self
from uuid import UUID

import orjson
from afterturn_client.contract.gateway import SearchResult
from afterturn_client.message_times import EPOCH
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from producers.errors import FieldProblem, Invalid
from producers.service.fields import (
    BANK_BYTES,
    SECONDS,
    SESSION_BYTES,
    Moment,
    Name,
    Text,
    field_error,
    session_name,
)
from producers.service.recall_json import MOST_BYTES, ROOM_FOR_NOTE, describe_cut
from producers.service.redacting import Redactor
from producers.service.turns import Content, ContentField, limit_text, measure_content
from producers.service.wire import WireModel
from producers.settings import ApiSettings
from store.identity import digest_name
from store.memory.turns import NewMessage, NewTurn
from store.recall.query import Recalled, RecallQuery

CHAT = "chat:"
CURRENT_CHAT: Final = "current_chat"
ALL_USER_MEMORY: Final = "all_user_memory"
MAX_MESSAGES = 500
#: Most characters of a prompt that become the question.
LONGEST_QUESTION = 16_384
#: Bytes of an answer without its results.
ROOM_AROUND = 64


class Credentials(WireModel):
    """User id and key of the caller, checked first."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    user_id: str = Field(description="id of the user")
    user_key: str = Field(repr=False, description="key of the user")


class Scoped(Credentials):
    """The scope of a call: user, application and project."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    user_id: Name = Field(description="id of the user, whose key stands in `user_key`")
    app_id: Name = Field("default", description="application: its memory is apart from that of others")
    project_id: Name = Field("default", description="project: its memory is apart from that of others")

    @property
    def bank(self) -> str:
        """The bank that holds the memory of this user, application and project."""
        # The escape character is escaped, too: otherwise two users could share a name.
        named = (self.app_id, self.project_id, self.user_id)
        parts = (part.replace("%", "%25").replace(":", "%3A") for part in named)
        return shorten_name("gateway:" + ":".join(parts), BANK_BYTES)


def _check_positive(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise field_error("must be a positive integer of milliseconds since 1970")
    # The gateway's contract takes every positive number, also those of the first day.
    return EPOCH + timedelta(milliseconds=value) if value < SECONDS.start else value


class AddedMessage(BaseModel):
    """One message."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    sender_id: Name = Field(description="name of the speaker")
    role: Literal["user", "assistant", "tool"] = Field(description="role of the speaker")
    timestamp: Annotated[Moment, BeforeValidator(_check_positive)] = Field(
        description="time at which it was said, in milliseconds since 1970; not before that of the message before it"
    )
    content: ContentField = Field(description="text, or content parts as of OpenAI's APIs")
    tool_call_id: Name | None = Field(None, description="id of the call that a tool's message answers, which needs it")

    @model_validator(mode="after")
    def _of_a_call(self) -> Self:
        if self.role == "tool" and self.tool_call_id is None:
            raise field_error("a message of a tool must name its tool_call_id")
        return self


def _in_order(messages: list[AddedMessage]) -> list[AddedMessage]:
    for n, (before, after) in enumerate(pairwise(messages), 1):
        if after.timestamp < before.timestamp:
            raise field_error(f"the timestamp of message {n} (the first is 0) is before that of the message before it")
    return messages


class AddBody(Scoped):
    """Messages to add to a session."""

    afterturn_turn_id: UUID | None = Field(
        None,
        strict=False,
        description="turn that they are of, named by a service that is delivering it to itself, for this user",
    )
    session_id: Text = Field(min_length=1, description="session of the messages")
    messages: Annotated[list[AddedMessage], AfterValidator(_in_order)] = Field(
        min_length=1, max_length=MAX_MESSAGES, description="messages, in order"
    )


class FlushBody(Scoped):
    """A session to flush."""

    session_id: Text = Field(min_length=1, description="session to flush")


class SearchBody(Scoped):
    """A query and where to search."""

    conversation_id: Text = Field(min_length=1, description="conversation that asks")
    query: Text = Field(min_length=1, description=f"its first {LONGEST_QUESTION} characters are looked at", repr=False)
    scope: list[Literal["current_chat", "resources", "all_user_memory"]] = Field(
        min_length=1,
        description="what to search; there are no `resources` here, and asked alone they find nothing",
    )
    top_k: int = Field(8, ge=1, le=100, description="most results")


def shorten_name(name: str, limit: int) -> str:
    """Return a name of at most `limit` bytes: a longer one is its first 64 bytes, `~` and 32 hex of its sha256."""
    return name if len(name.encode()) <= limit else digest_name(name)


def shorten_session_name(name: str) -> str:
    """Return the session's name here; a name that is invalid in a path is shortened like one that is too long."""
    short = shorten_name(name, SESSION_BYTES)
    try:
        return session_name(short)
    except ValueError:
        safe = "".join("_" if c in "/\\" or not c.isprintable() else c for c in name)
        return digest_name(safe, name)


def split_into_turns(body: AddBody, settings: ApiSettings, redactor: Redactor) -> list[NewTurn]:
    """Return each message as a turn of its own, named by its digest, so that a repeated message is the same turn.

    Blank messages and recalled text are left out. Raises TooLarge.
    """
    kept = [message for message in body.messages if message.content.parts or message.content.text.strip()]
    for n, message in enumerate(kept):
        limit_text(f"messages.{n}.content", measure_content(message.content), settings)
    return [_build_turn(body, _without_secrets(message, redactor)) for message in kept]


def _without_secrets(message: AddedMessage, redactor: Redactor) -> AddedMessage:
    """Return a message without secrets, in the form from which its turn's name is made."""
    said = message.content
    return message.model_copy(
        update={"content": Content(redactor.redact_text(said.text), redactor.redact_parts(said.parts))}
    )


def _build_turn(body: AddBody, message: AddedMessage) -> NewTurn:
    content = message.content
    said = NewMessage(message.role, content.text, message.sender_id, message.timestamp, content.parts)
    return NewTurn(
        bank=body.bank,
        session_name=shorten_session_name(body.session_id),
        turn_name=_digest_message(body, message),
        messages=[said],
        user_id=body.user_id,
        occurred_at=message.timestamp,
        private_to=body.user_id,
    )


def _digest_message(body: AddBody, message: AddedMessage) -> str:
    parts: list[Any] = [body.user_id, body.app_id, body.project_id, body.session_id, message.sender_id, message.role]
    parts += [message.timestamp, message.content.text, message.content.parts]
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()


def build_query(body: SearchBody) -> RecallQuery | None:
    """Return the query for the memory; None when only resources are searched, of which there are none here."""
    everywhere = ALL_USER_MEMORY in body.scope
    if not everywhere and CURRENT_CHAT not in body.scope:
        return None
    question = body.query.strip()[:LONGEST_QUESTION]
    if not question:
        raise Invalid(FieldProblem("query", "must not be blank"))
    return RecallQuery(
        bank=body.bank,
        text=question,
        k=body.top_k,
        session_name=shorten_session_name(CHAT + body.conversation_id),
        only_session=not everywhere,
    )


def build_answer(body: SearchBody, found: Sequence[Recalled]) -> dict[str, Any]:
    """Return the contract's answer: the best results that fit, and a note if some do not."""
    own = shorten_session_name(CHAT + body.conversation_id)
    results, room = list[SearchResult](), MOST_BYTES - ROOM_AROUND - ROOM_FOR_NOTE
    for item in found:
        here = CURRENT_CHAT in body.scope and item.session_name == own
        result = SearchResult(
            id=str(item.unit_id),
            session_id=item.session_name,
            text=item.text,
            score=item.score,
            source_scope=CURRENT_CHAT if here else ALL_USER_MEMORY,
        )
        room -= len(orjson.dumps(result)) + 1
        if room < 0:
            break
        results.append(result)
    if len(results) == len(found):
        return {"results": results}
    return {"results": results, **describe_cut(len(found), len(results), MOST_BYTES, "ask for fewer (top_k)")}
