"""Requests and answers of memory plugin contract v1, validated when sent and when received. Pure rules.

Requests refuse all that the contract refuses, unknown fields included; answers ignore unknown fields. `as_json` gives
minimal JSON: a field that is not set is not sent.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Self
from uuid import UUID

from afterturn_client.moments import format_utc, parse_zoned
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)

from producers.service.json_values import is_deeper
from store.off_loop import Steps

VERSION = "1.0.0"
#: Most bytes of a namespace's name.
LONGEST_NAME = 256
LARGEST_LIMIT = 100
DEFAULT_LIMIT = 20
#: Most numbers of an embedding.
LARGEST_EMBEDDING = 4096
#: Most levels of an opaque object: answers that hold one can be written, which pydantic does for 255 levels in all.
MOST_LEVELS = 100
#: Most bytes of each of them as JSON, which is written again with every answer.
MOST_OBJECT_BYTES = 65_536
#: What a number, and an opaque object, cost to write, in characters of text.
NUMBER_EFFORT, OBJECT_EFFORT = 8, 2_000

#: For fullmatch: with match and `$` a name could end in a line end.
_NAME = re.compile(r"[a-z]+:[A-Za-z0-9_:.\-]+")
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)


class Capability(StrEnum):
    """The capabilities that a plugin may claim beyond storing and listing; unknown ones are ignored.

    The last three are not of contract v1: a plugin that lists them takes `created_at` in a write, answers a listing
    with `next_cursor`, which the next request sends as `cursor`, and adds to a listing with `export` the callers'
    vectors, and the namespaces with their ends and metadata.
    """

    EMBEDDING = "embedding"
    FTS = "fts"
    TTL = "ttl"
    PIN = "pin"
    PROPAGATION = "propagation"
    CREATED_AT = "created_at"
    CURSOR = "cursor"
    EXPORT = "export"


class NamespaceKind(StrEnum):
    """Who shares a namespace; its name's prefix and its kind need not agree."""

    WORKSPACE = "workspace"
    TEAM = "team"
    ORG = "org"
    CUSTOM = "custom"


class MemoryKind(StrEnum):
    """The kind of a memory."""

    FACT = "fact"
    SUMMARY = "summary"
    CHECKPOINT = "checkpoint"


class Source(StrEnum):
    """Who wrote a memory."""

    AGENT = "agent"
    RUNTIME = "runtime"
    USER = "user"


def is_namespace(name: str) -> bool:
    """Return whether a text is a valid namespace name: `workspace:abc`, at most 256 bytes, no trailing line end."""
    return len(name) <= LONGEST_NAME and _NAME.fullmatch(name) is not None


def parse_time(text: str) -> datetime:
    """Return the instant of an RFC 3339 text, to the microsecond. Raises ValueError for anything else."""
    if not _RFC3339.fullmatch(text):
        raise ValueError("must be a time in RFC 3339, 2026-11-05T10:00:00Z")
    return parse_zoned(text)


def _check_name(name: str) -> str:
    if not is_namespace(name):
        raise ValueError(f"must be like workspace:abc, in at most {LONGEST_NAME} bytes")
    return name


def _check_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("must be Unicode text without lone surrogates") from None
    return text


def _check_content(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return _check_text(text)


def _read_time(value: object) -> object:
    return value if isinstance(value, datetime | None) else parse_time(value if isinstance(value, str) else "")


def _check_embedding(numbers: Sequence[float]) -> Sequence[float]:
    if numbers and (not all(map(math.isfinite, numbers)) or not any(numbers)):
        raise ValueError("must hold finite numbers, not all of them zero")
    return numbers


def _check_object(value: Mapping[str, Any]) -> Mapping[str, Any]:
    if is_deeper(value, MOST_LEVELS):
        raise ValueError(f"must be nested at most {MOST_LEVELS} levels deep")
    try:
        told = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError):
        raise ValueError("must be JSON: texts without lone surrogates, finite numbers") from None
    if len(told) > MOST_OBJECT_BYTES:
        raise ValueError(f"must have at most {MOST_OBJECT_BYTES} bytes of JSON")
    return value


def _none_as_empty(value: object) -> object:
    return () if value is None else value


NamespaceName = Annotated[StrictStr, AfterValidator(_check_name)]
Content = Annotated[StrictStr, AfterValidator(_check_content)]
Text = Annotated[StrictStr, AfterValidator(_check_text)]
Time = Annotated[AwareDatetime, BeforeValidator(_read_time), PlainSerializer(format_utc, return_type=str)]
JsonObject = Annotated[Mapping[str, Any], AfterValidator(_check_object)]
Embedding = Annotated[
    tuple[StrictFloat | StrictInt, ...], Field(max_length=LARGEST_EMBEDDING), AfterValidator(_check_embedding)
]


class _Request(BaseModel):
    """The base of requests; null and absent are the same, unless a class says otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    def as_json(self) -> dict[str, Any]:
        """Return minimal JSON, without fields that are not set."""
        return self.model_dump(mode="json", exclude_none=True, exclude_defaults=True)


class NamespaceUpsert(_Request):
    """Makes a namespace, or changes the fields that it names."""

    kind: NamespaceKind
    expires_at: Time | None = None
    metadata: JsonObject | None = None


class NamespacePatch(_Request):
    """Changes the fields that it names; null clears."""

    expires_at: Time | None = None
    metadata: JsonObject | None = None

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("the patch has no fields set: name expires_at or metadata")
        return self

    def as_json(self) -> dict[str, Any]:
        """Return the fields that were named, null included."""
        return self.model_dump(mode="json", exclude_unset=True)


class MemoryWrite(_Request):
    """Writes a memory; the same `id` again replaces every field of it. `created_at` is for plugins that list it."""

    id: UUID | None = None
    content: Content
    kind: MemoryKind
    source: Source
    expires_at: Time | None = None
    propagation: JsonObject | None = None
    pin: StrictBool = False
    embedding: Embedding | None = None
    created_at: Time | None = None


class SearchRequest(_Request):
    """Asks for memories of these namespaces, and of no other; limit 0 is the plugin's default of 20."""

    namespaces: tuple[NamespaceName, ...] = Field(min_length=1)
    query: Text | None = None
    kinds: tuple[MemoryKind, ...] = ()
    limit: StrictInt = Field(default=0, ge=0, le=LARGEST_LIMIT)
    embedding: Embedding | None = None
    cursor: Text | None = None
    export: StrictBool = False


class ForgetRequest(_Request):
    """Forgets a memory of this namespace."""

    requested_by_namespace: NamespaceName


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)


class Health(_Answer):
    """Whether the plugin can work, and what it promises."""

    status: StrictStr
    version: StrictStr = ""
    capabilities: Annotated[tuple[StrictStr, ...], BeforeValidator(_none_as_empty)] = ()


class Namespace(_Answer):
    """A namespace as the plugin keeps it."""

    name: StrictStr
    kind: StrictStr
    created_at: Time
    expires_at: Time | None = None
    metadata: Mapping[str, Any] | None = None

    @property
    def effort(self) -> int:
        """What it costs to write this as JSON, in characters of text; see `Memory.effort`."""
        return len(self.name) + (OBJECT_EFFORT if self.metadata else 0)


class Written(_Answer):
    """Where a memory was written."""

    id: StrictStr
    namespace: StrictStr


class Memory(_Answer):
    """A memory as the plugin returns it."""

    id: StrictStr
    namespace: StrictStr
    content: StrictStr
    kind: StrictStr
    source: StrictStr
    created_at: Time
    expires_at: Time | None = None
    propagation: Mapping[str, Any] | None = None
    pin: StrictBool | None = None
    score: float | None = None
    embedding: tuple[float, ...] | None = Field(default=None, repr=False)

    @property
    def effort(self) -> int:
        """What it costs to write this as JSON, in characters of text; objects, whose size is unknown, count as much."""
        numbers = len(self.embedding or ())
        return len(self.content) + NUMBER_EFFORT * numbers + (OBJECT_EFFORT if self.propagation else 0)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON of the fields that are set."""
        return self.model_dump(mode="json", exclude_none=True)


class Found(_Answer):
    """What a search found; null is none. `next_cursor`: there is more, for plugins that list `cursor`.

    `namespaces`: those that an export named and that are there, for plugins that list `export`. `unembedded`: how many
    of the newest texts were searched by their words alone, since their vectors were not made in time.
    """

    memories: Annotated[tuple[Memory, ...], BeforeValidator(_none_as_empty)]
    next_cursor: StrictStr | None = None
    namespaces: Annotated[tuple[Namespace, ...], BeforeValidator(_none_as_empty)] = ()
    unembedded: StrictInt = 0

    @property
    def effort(self) -> int:
        """What it costs to write this as JSON, in characters of text."""
        return sum(one.effort for one in self.memories) + sum(one.effort for one in self.namespaces)

    def encode(self) -> Steps[bytes]:
        """Write minimal JSON, a memory or namespace a step: fields that are set; no memories are an empty list."""
        memories = yield from _encode_each(self.memories)
        fields = [b'"memories":[%b]' % memories]
        if self.next_cursor is not None:
            fields.append(b'"next_cursor":%b' % json.dumps(self.next_cursor).encode())
        if self.namespaces:
            namespaces = yield from _encode_each(self.namespaces)
            fields.append(b'"namespaces":[%b]' % namespaces)
        if self.unembedded:
            fields.append(b'"unembedded":%d' % self.unembedded)
        return b"{%b}" % b",".join(fields)


def _encode_each(answers: Iterable[_Answer]) -> Steps[bytes]:
    written = list[bytes]()
    for one in answers:
        written.append(one.model_dump_json(exclude_none=True, exclude_defaults=True).encode())
        yield
    return b",".join(written)


class Problem(_Answer):
    """The body of a refusal."""

    code: StrictStr
    message: StrictStr
    details: Mapping[str, Any] | None = None
