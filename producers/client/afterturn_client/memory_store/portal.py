"""Memory that is written by commands to a portal: each is an event, and readable when it is answered."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

import httpx

from afterturn_client import calls
from afterturn_client.arguments import check_objects, check_text
from afterturn_client.attempts import make_attempts
from afterturn_client.calls import ApiCall
from afterturn_client.commands import run_portal_command
from afterturn_client.contract.banks import BankDetails
from afterturn_client.contract.sessions import SessionDetails
from afterturn_client.errors import ApiError, EventRefusedError, InvalidAnswerError, NotFoundError
from afterturn_client.memory_store.protocol import (
    MOST_HISTORY,
    MOST_RECALLED,
    NO_METADATA,
    MemoryOwner,
    MemoryStoreError,
    StoredUnit,
)
from afterturn_client.retry import RetryPolicy, plan_attempts
from afterturn_client.transport import (
    check_base_url,
    check_way,
    key_options,
    open_client,
)

T = TypeVar("T")
#: The score below which the service, by default, ends an answer whose size is left open.
LEAST_SCORE = 0.1


class PortalCommandStore:
    """A memory store whose writes are commands; see `MemoryStore`. Use it on one event loop, and close it.

    `command_url` is the whole address of commands; reads go to the API on the same origin. `token`: the agent's own
    service token, or a key. Each command carries a key of its own, so that one whose answer was lost is sent again and
    done once. To another machine it is spoken to over https, unless `allow_http` says otherwise.
    """

    portable = True

    def __init__(
        self,
        command_url: str,
        token: str,
        owner: MemoryOwner,
        *,
        timeout_s: float = 10.0,
        retry: RetryPolicy | None = None,
        allow_http: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        whole = check_base_url(command_url)
        check_way(whole, allow_http=allow_http)
        parts = urlsplit(whole)
        self._origin, self._path = f"{parts.scheme}://{parts.netloc}", parts.path or "/"
        self._token, self._owner, self._timeout_s = check_text("token", token), owner, timeout_s
        self._retry, self._traced = retry or RetryPolicy(), transport is None
        self._http = open_client(httpx.AsyncClient, transport=transport, **key_options(self._origin, token))

    def __repr__(self) -> str:
        return f"PortalCommandStore({self._origin}{self._path})"

    async def ensure_bank(self, bank: UUID) -> None:
        """As MemoryStore.ensure_bank; the bank is read back, so that a portal that only promises is found out."""
        owners = {"agentDefId": self._owner.agent_def_id, "userId": self._owner.user_id}
        named = {name: str(value) for name, value in owners.items() if value is not None}
        await self._command("createAgentMemoryBank", bank, bankName=f"session-{bank}", **named)
        try:
            await self._run(calls.read(BankDetails, ("bank",), (str(bank), self._timeout_s)))
        except NotFoundError:
            raise MemoryStoreError("the bank is not readable after the portal answered that it is made") from None

    async def retain(
        self, bank: UUID, content: str, *, fact_type: str = "experience", metadata: Mapping[str, Any] = NO_METADATA
    ) -> UUID:
        """As MemoryStore.retain."""
        told = {"content": check_text("content", content), "factType": fact_type, "metadata": dict(metadata)}
        result = await self._command("retainAgentMemoryUnit", bank, **told)
        try:
            return UUID(str(result["unitId"]))
        except (KeyError, ValueError):
            raise InvalidAnswerError("retainAgentMemoryUnit: unitId is missing or no id") from None

    async def recall(self, bank: UUID, query: str, *, limit: int = MOST_RECALLED) -> tuple[StoredUnit, ...]:
        """As MemoryStore.recall: by words and meaning, without what is far from the question."""
        options: calls.RecallOptions = {"bank": str(bank), "k": limit, "min_score": LEAST_SCORE}
        found = await self._run(calls.recall(query, options, self._timeout_s))
        return tuple(StoredUnit(one.unit_id, bank, one.text, one.kind) for one in found.results)

    async def append_history(self, bank: UUID, session: UUID, messages: Sequence[Mapping[str, Any]]) -> None:
        """As MemoryStore.append_history; the messages are appended, never the whole history compacted."""
        check_objects("messages", messages, "a mapping")
        told = {"sessionId": str(session), "messages": [dict(one) for one in messages]}
        try:
            await self._command("appendAgentSessionHistory", bank, **told)
        except NotFoundError:
            await self._begin_history(bank, session)
            await self._command("appendAgentSessionHistory", bank, **told)

    async def read_history(self, bank: UUID, session: UUID) -> tuple[Mapping[str, Any], ...]:
        """As MemoryStore.read_history; secrets in it are masked."""
        try:
            place = str(bank), self._timeout_s
            found = await self._run(calls.read(SessionDetails, ("sessions", session), place, messages=MOST_HISTORY))
        except NotFoundError:
            return ()
        return tuple({"role": one.role, "content": one.content} for one in found.history)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _begin_history(self, bank: UUID, session: UUID) -> None:
        try:
            await self._command("createAgentSessionHistory", bank, sessionId=str(session), messages=[])
        except EventRefusedError as refusal:
            if refusal.code != "VERSION_CONFLICT":  # another process has begun it
                raise

    async def _command(self, action: str, bank: UUID, **data: Any) -> Mapping[str, Any]:
        told = {"hostId": str(self._owner.host_id), "bankId": str(bank), **data}
        try:
            return await self._run(run_portal_command(self._path, action, told, None, self._timeout_s))
        except ApiError as refusal:
            if refusal.code == "PERMISSION_DENIED":
                raise MemoryStoreError(f"{action}: {refusal}") from None
            raise

    async def _run(self, call: ApiCall[T]) -> T:
        steps = plan_attempts(call, self._retry, self._token, self._origin)
        return await make_attempts(self._http, steps, traced=self._traced)
