"""Tools of a case: requests to the plugin, private namespaces, expectations."""

import asyncio
from collections.abc import Awaitable, Container, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import count
from typing import Any

from afterturn_client.plugin_target import namespace_path

from producers.contract_kit.client import Plugin, PluginReply
from producers.contract_kit.errors import DeviationError, NoAnswerError
from producers.contract_kit.findings import ContractFinding, as_text, show_text
from producers.contract_kit.store_switch import StoreSwitch
from producers.contract_kit.wire import LARGEST_LIMIT, Wire, is_text, memory_problem

OK, CREATED, NO_CONTENT = 200, 201, 204
BAD_REQUEST, NOT_FOUND, METHOD_NOT_ALLOWED = 400, 404, 405
SERVER_ERROR, UNAVAILABLE = 500, 503
#: Steps of a case that its report shows.
SHOWN_STEPS = 6


@dataclass(frozen=True, slots=True)
class ContractSettings:
    """The settings of the kit; `prefix` begins the name of every namespace that it makes."""

    prefix: str = "custom:contract-kit"
    #: Numbers in an embedding; the reference plugin's column has 1536.
    dimension: int = 1536
    switch: StoreSwitch | None = None


class Names:
    """Unused namespace names of this run, and those that still need to be deleted."""

    def __init__(self, prefix: str, run: str) -> None:
        self.stem = f"{prefix}-{run}"
        self._numbers = count(1)
        self.used: list[str] = []

    def new(self, *, prefix: str | None = None, ending: str = "", length: int = 0) -> str:
        """Return an unused name of at least `length` bytes; `prefix` replaces what stands before the first colon."""
        before, _, after = self.stem.partition(":")
        name = f"{prefix or before}:{after}-{next(self._numbers)}{ending}".ljust(length, "n")
        self.used.append(name)
        return name


class Probe:
    """One case's access to the plugin. Deviations are collected in `findings`; a case goes on where it can."""

    def __init__(self, plugin: Plugin, settings: ContractSettings, claimed: Container[str], names: Names) -> None:
        self.settings = settings
        self.names = names
        self.findings: list[ContractFinding] = []
        self.steps: list[PluginReply] = []
        self.plugin = plugin
        self._claimed = claimed

    def claims(self, capability: str) -> bool:
        """Return whether the plugin claims a capability."""
        return capability in self._claimed

    def store_away(self) -> AbstractAsyncContextManager[None]:
        """Stop the plugin's store for a block; only for cases that need the store commands."""
        if self.settings.switch is None:
            raise DeviationError(ContractFinding("nothing", "the two store commands", "none"))
        return self.settings.switch.store_away()

    # -- requests

    async def send(self, method: str, path: str, body: Mapping[str, Any] | bytes | None = None) -> PluginReply:
        """Send one request."""
        answer = await self.plugin.send(method, path, body)
        self.steps.append(answer)
        return answer

    async def put(self, name: str, **body: Any) -> PluginReply:
        """Upsert a namespace."""
        return await self.send("PUT", namespace_path(name), body)

    async def patch(self, name: str, **body: Any) -> PluginReply:
        """Patch a namespace."""
        return await self.send("PATCH", namespace_path(name), body)

    async def delete(self, name: str) -> PluginReply:
        """Delete a namespace."""
        return await self.send("DELETE", namespace_path(name))

    async def write(self, namespace: str, content: Any = "The tea is in the cupboard.", **more: Any) -> PluginReply:
        """Write a memory: a fact of an agent unless `more` says otherwise."""
        body = {"content": content, "kind": "fact", "source": "agent"} | more
        return await self.send("POST", namespace_path(namespace, "/memories"), body)

    async def search(self, *namespaces: str, **more: Any) -> PluginReply:
        """Search these namespaces."""
        return await self.send("POST", "/v1/search", {"namespaces": list(namespaces)} | more)

    async def forget(self, memory_id: str, namespace: str) -> PluginReply:
        """Forget a memory on behalf of a namespace."""
        return await self.send("DELETE", f"/v1/memories/{memory_id}", {"requested_by_namespace": namespace})

    # -- what a case builds on: ends the case where it fails

    async def namespace(self, **fields: Any) -> str:
        """Make a namespace of this case alone and return its name."""
        name = self.names.new()
        self.require(await self.put(name, **{"kind": "custom"} | fields), OK)
        return name

    async def remember(self, namespace: str, content: str = "The tea is in the cupboard.", **more: Any) -> str:
        """Write a memory that must be accepted; return its id."""
        answer = await self.write(namespace, content, **more)
        self.require(answer, CREATED)
        memory_id = answer.get("id")
        if not is_text(memory_id):
            raise DeviationError(ContractFinding(answer.did, "201 with the memory's `id`", answer.saw))
        return str(memory_id)

    async def found(self, *namespaces: str, **more: Any) -> list[Wire]:
        """Return what a search finds: at most 100 memories unless `more` says otherwise."""
        answer = await self.search(*namespaces, **{"limit": LARGEST_LIMIT} | more)
        self.require(answer, OK)
        memories = self.memories_of(answer)
        wrong = next((problem for one in memories if (problem := memory_problem(one))), None)
        if wrong is not None:
            raise DeviationError(
                ContractFinding(answer.did, "memories as the contract has them", f"{wrong}: {answer.saw}")
            )
        if strangers := {str(one["namespace"]) for one in memories} - set(namespaces):
            # WHY not what it answered: these memories are not the kit's, and no report shows them.
            saw = f"memories of {len(strangers)} other namespaces"
            raise DeviationError(ContractFinding(answer.did, "memories of these namespaces alone", saw))
        return memories

    def memories_of(self, answer: PluginReply) -> list[Wire]:
        """Return the memories of an answer, none for null; ends the case where they are no list."""
        memories = answer.get("memories")
        if memories is None and isinstance(answer.value, dict) and "memories" in answer.value:
            return []
        if not isinstance(memories, list) or not all(isinstance(one, dict) for one in memories):
            raise DeviationError(ContractFinding(answer.did, "200 with a list of `memories`", answer.saw))
        return memories

    async def together(self, *requests: Awaitable[PluginReply]) -> list[PluginReply]:
        """Send requests in parallel; return their answers in order, or raise the first failure when all have ended."""
        ended = await asyncio.gather(*requests, return_exceptions=True)
        for one in ended:
            if isinstance(one, BaseException):
                raise one
        return [one for one in ended if isinstance(one, PluginReply)]

    def require(self, answer: PluginReply, *statuses: int) -> None:
        """End the case unless the answer has one of these statuses."""
        if answer.status not in statuses:
            raise DeviationError(ContractFinding(answer.did, _join_statuses(statuses), answer.saw))

    # -- expectations: the case goes on

    def expect(self, answer: PluginReply, *statuses: int, code: str | None = None) -> bool:
        """Note a deviation unless the answer has one of these statuses, and this Error code if one is named."""
        holds = answer.status in statuses and (code is None or answer.get("code") == code)
        return self.judge(answer, f"{_join_statuses(statuses)}{f' with code {code}' if code else ''}", holds=holds)

    def expect_no_failure(self, answer: PluginReply, accepted: int) -> bool:
        """Note a deviation unless the plugin accepts the request or refuses it with 400: never a 5xx."""
        return self.expect(answer, accepted, BAD_REQUEST)

    def judge(self, answer: PluginReply, expected: str, *, holds: bool, saw: str | None = None) -> bool:
        """Note a deviation unless the expectation holds; return whether it does."""
        if not holds:
            self.findings.append(ContractFinding(answer.did, expected, saw or answer.saw))
        return holds

    def judge_last(self, expected: str, *, holds: bool, saw: object) -> bool:
        """Note a deviation like `judge`, about the latest requests together."""
        return self.judge(self.steps[-1], expected, holds=holds, saw=show_text(as_text(saw)))

    @property
    def did(self) -> str:
        """The case's latest requests, described for a person."""
        left_out = len(self.steps) - SHOWN_STEPS
        latest = "; ".join(show_text(step.did, 120) for step in self.steps[-SHOWN_STEPS:])
        return f"{left_out} requests before; {latest}" if left_out > 0 else latest or "nothing"


def memory_ids(memories: Sequence[Wire]) -> list[str]:
    """Return the ids of memories, in lower case: a UUID is the same in either."""
    return [str(one["id"]).lower() for one in memories]


def memory_contents(memories: Sequence[Wire]) -> list[str]:
    """Return the contents of memories, in order."""
    return [str(one["content"]) for one in memories]


async def delete_namespaces(plugin: Plugin, names: Names) -> list[str]:
    """Delete every namespace that a case may have made; return those that could not be deleted."""
    left: list[str] = []
    used, names.used = names.used, []
    for number, name in enumerate(used):
        try:
            answer = await plugin.send("DELETE", namespace_path(name))
        except NoAnswerError:
            return left + used[number:]
        if answer.status not in {NO_CONTENT, NOT_FOUND, BAD_REQUEST}:
            left.append(name)
    return left


def _join_statuses(statuses: Sequence[int]) -> str:
    return " or ".join(map(str, statuses))
