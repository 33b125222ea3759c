"""The perimeter's tools for agents: names, schemas and answers, for any MCP server.

The schemas follow the plugin: arguments whose capability it lacks are left out. An agent that sends such an argument
all the same (its list of tools may be older) is served without it, and the answer says so under `ignored`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from afterturn_client.moments import format_utc
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from producers.perimeter.callers import CallingWorkspace
from producers.perimeter.client import build_body
from producers.perimeter.errors import InvalidCall, PerimeterError, PluginUnavailable
from producers.perimeter.perimeter import Commit, Committed, Perimeter
from producers.plugin.wire import (
    LARGEST_LIMIT,
    Capability,
    JsonObject,
    Memory,
    MemoryKind,
    NamespaceKind,
    Time,
)
from store.off_loop import run_off_loop

NAMESPACE = "A namespace of list_writable_namespaces; the default is the workspace's own."
NO_MEMORIES = "No memories found."
REFUSED_SCOPE = "scope: GLOBAL is not served here; use LOCAL or TEAM"
#: Most memories that the older recall tool returns.
RECALL_LIMIT = 50


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class CommitArguments(_Arguments):
    """Arguments of commit_memory; `scope` is the older word for a namespace."""

    content: StrictStr = Field(description="The text to remember: a sentence that is understood by itself.")
    namespace: StrictStr | None = Field(None, description=NAMESPACE)
    kind: MemoryKind = Field(MemoryKind.FACT, description="fact, summary or checkpoint")
    expires_at: Time | None = Field(None, description="When it is forgotten, in RFC 3339; without it, never.")
    pin: StrictBool = Field(default=False, description="Show it before others.")
    propagation: JsonObject | None = Field(None, description="An object for programs; it is returned with the memory.")
    scope: StrictStr | None = Field(None, description="LOCAL (the workspace) or TEAM, instead of a namespace.")


class SummaryArguments(_Arguments):
    """Arguments of commit_summary."""

    content: StrictStr = Field(description="The summary.")
    namespace: StrictStr | None = Field(None, description=NAMESPACE)
    expires_at: Time | None = Field(None, description="When it is forgotten, in RFC 3339; the default is in 30 days.")


class SearchArguments(_Arguments):
    """Arguments of search_memory."""

    query: StrictStr | None = Field(None, description="What to look for; without it, the newest are listed.")
    namespaces: tuple[StrictStr, ...] = Field((), description="Where to look; the default is all that are readable.")
    kinds: tuple[MemoryKind, ...] = Field((), description="Only memories of these kinds.")
    limit: StrictInt = Field(20, ge=1, le=LARGEST_LIMIT, description="Memories to return, at most.")


class ForgetArguments(_Arguments):
    """Arguments of forget_memory."""

    memory_id: UUID = Field(description="The id of the memory.")
    namespace: StrictStr | None = Field(None, description=NAMESPACE)


class NoArguments(_Arguments):
    """Arguments of tools without any."""


class RecallArguments(_Arguments):
    """Arguments of the older recall_memory."""

    query: StrictStr | None = Field(None, description="What to look for; without it, the newest are listed.")
    scope: StrictStr | None = Field(None, description="LOCAL, TEAM (which finds LOCAL as well), or all without one.")


Answer = dict[str, Any] | list[dict[str, Any]] | str
Run = Callable[[Perimeter, CallingWorkspace, Any], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class PerimeterTool:
    """One tool: `schema` is the JSON schema of its arguments, `read_only` and `idempotent` are MCP's hints."""

    name: str
    description: str
    arguments: type[BaseModel]
    run: Run
    read_only: bool = False
    idempotent: bool = False

    def schema(self, promised: frozenset[str] | None = None) -> dict[str, Any]:
        """Return the schema without arguments that need other capabilities; None: with all arguments."""
        schema = self.arguments.model_json_schema()
        for name, one_of in _NEEDS.items():
            if promised is not None and not one_of & promised:
                schema["properties"].pop(name, None)
        return schema


#: Arguments that need one of these capabilities.
_NEEDS: Mapping[str, frozenset[str]] = {
    "expires_at": frozenset({Capability.TTL}),
    "pin": frozenset({Capability.PIN}),
    "propagation": frozenset({Capability.PROPAGATION}),
    "query": frozenset({Capability.FTS, Capability.EMBEDDING}),
}


async def _commit_memory(perimeter: Perimeter, caller: CallingWorkspace, given: CommitArguments) -> Answer:
    if given.scope and given.namespace:
        raise InvalidCall("name a namespace or a scope, not both")
    namespace = await _namespace_of(perimeter, caller, given.scope) if given.scope else given.namespace
    commit = Commit(
        given.content,
        namespace,
        given.kind,
        expires_at=given.expires_at,
        pin=given.pin,
        propagation=given.propagation,
    )
    done = await perimeter.commit(caller, commit)
    return {"id": done.id, "scope": given.scope} if given.scope else _committed_json(done)


async def _commit_summary(perimeter: Perimeter, caller: CallingWorkspace, given: SummaryArguments) -> Answer:
    commit = Commit(given.content, given.namespace, MemoryKind.SUMMARY, expires_at=given.expires_at)
    return _committed_json(await perimeter.commit(caller, commit))


async def _search_memory(perimeter: Perimeter, caller: CallingWorkspace, given: SearchArguments) -> Answer:
    hits = await perimeter.search(caller, given.query, given.namespaces, given.kinds, given.limit)
    return await run_off_loop(hits.effort, hits.as_json)


async def _forget_memory(perimeter: Perimeter, caller: CallingWorkspace, given: ForgetArguments) -> Answer:
    await perimeter.forget(caller, given.memory_id, given.namespace)
    return {"forgotten": True}


async def _list_readable(perimeter: Perimeter, caller: CallingWorkspace, _: NoArguments) -> Answer:
    return {"namespaces": [entry.as_json() for entry in await perimeter.readable(caller)]}


async def _list_writable(perimeter: Perimeter, caller: CallingWorkspace, _: NoArguments) -> Answer:
    return {"namespaces": [entry.as_json() for entry in await perimeter.writable(caller)]}


async def _recall_memory(perimeter: Perimeter, caller: CallingWorkspace, given: RecallArguments) -> Answer:
    """Return the older tool's answer: a list with scopes, or a sentence where there is nothing."""
    if (given.scope or "") not in _READ_BY_SCOPE:
        raise _unknown_scope(given.scope)
    kinds = _READ_BY_SCOPE[given.scope or ""]
    names = {entry.name: entry.kind for entry in await perimeter.readable(caller) if entry.kind in kinds}
    hits = await perimeter.search(caller, given.query, tuple(names), limit=RECALL_LIMIT)
    return [_recalled_json(memory, names[memory.namespace]) for memory in hits.memories] or NO_MEMORIES


_SCOPES = {NamespaceKind.WORKSPACE: "LOCAL", NamespaceKind.TEAM: "TEAM", NamespaceKind.ORG: "GLOBAL"}
_READ_BY_SCOPE = {
    "LOCAL": {NamespaceKind.WORKSPACE},
    "TEAM": {NamespaceKind.TEAM, NamespaceKind.WORKSPACE},
    "": set(_SCOPES),
}


async def _namespace_of(perimeter: Perimeter, caller: CallingWorkspace, scope: str) -> str:
    """Return the namespace that an older scope means."""
    if scope not in {"LOCAL", "TEAM"}:
        raise _unknown_scope(scope)
    return next(entry.name for entry in await perimeter.readable(caller) if _SCOPES[entry.kind] == scope)


def _unknown_scope(scope: str | None) -> InvalidCall:
    return InvalidCall(REFUSED_SCOPE if scope == "GLOBAL" else "scope: must be LOCAL or TEAM")


def _committed_json(done: Committed) -> dict[str, Any]:
    answer: dict[str, Any] = {"id": done.id, "namespace": done.namespace}
    return answer | ({"ignored": list(done.ignored)} if done.ignored else {})


def _recalled_json(memory: Memory, kind: NamespaceKind) -> dict[str, Any]:
    return {
        "id": memory.id,
        "content": memory.content,
        "scope": _SCOPES[kind],
        "created_at": format_utc(memory.created_at),
    }


TOOLS: Sequence[PerimeterTool] = (
    PerimeterTool("commit_memory", "Remember something.", CommitArguments, _commit_memory),
    PerimeterTool(
        "search_memory", "Find memories, or list the newest.", SearchArguments, _search_memory, read_only=True
    ),
    PerimeterTool(
        "commit_summary", "Remember a summary, for 30 days unless it says otherwise.", SummaryArguments, _commit_summary
    ),
    PerimeterTool(
        "list_writable_namespaces", "List where you may remember.", NoArguments, _list_writable, read_only=True
    ),
    PerimeterTool("list_readable_namespaces", "List where you may look.", NoArguments, _list_readable, read_only=True),
    PerimeterTool("forget_memory", "Forget a memory for good.", ForgetArguments, _forget_memory, idempotent=True),
)
#: Tools for agents that use the older scope names (LOCAL, TEAM).
LEGACY_TOOLS: Sequence[PerimeterTool] = (
    PerimeterTool(
        "recall_memory", "Find memories by the older scopes.", RecallArguments, _recall_memory, read_only=True
    ),
)


class ToolFailed(Exception):
    """A tool call that failed: `body` is the JSON of the answer, sent with isError set."""

    def __init__(self, code: str, message: str, *, retryable: bool, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.body = {"code": code, "message": message, "retryable": retryable}
        if details:
            self.body["details"] = details


class Toolbox:
    """The tools of one perimeter; `legacy` adds the older recall tool."""

    def __init__(self, perimeter: Perimeter, *, legacy: bool = False) -> None:
        self._perimeter = perimeter
        self._tools = {tool.name: tool for tool in (*TOOLS, *(LEGACY_TOOLS if legacy else ()))}

    async def listed(self) -> Sequence[dict[str, Any]]:
        """Return the tools for MCP's list; with all arguments while the plugin's capabilities are unknown."""
        try:
            promised = await self._perimeter.capabilities()
        except PerimeterError:
            promised = None
        return [
            {
                "name": tool.name,
                "description": tool.description,
                "inputSchema": tool.schema(promised),
                "annotations": {
                    "readOnlyHint": tool.read_only,
                    "idempotentHint": tool.read_only or tool.idempotent,
                    "destructiveHint": tool.name == "forget_memory",
                },
            }
            for tool in self._tools.values()
        ]

    async def call(self, caller: CallingWorkspace, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Run a tool and return its answer, ready for JSON. Raises ToolFailed."""
        tool = self._tools.get(name)
        if tool is None:
            raise ToolFailed("bad_request", "there is no such tool", retryable=False)
        try:
            return await tool.run(self._perimeter, caller, build_body(tool.arguments, **dict(arguments)))
        except PluginUnavailable as error:
            raise ToolFailed(error.wire_code, f"memory is unavailable: {error}", retryable=True) from None
        except PerimeterError as error:
            raise ToolFailed(error.wire_code, str(error), retryable=error.retryable, details=error.details) from None
