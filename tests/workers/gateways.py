"""A Memory Gateway on loopback that believes nothing: exact bodies, one add a turn, the order of each session."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import JSONResponse, Response

from tests.client.loopback import Loopback, Seen, loopback

USER, KEY = "user-1", "uk_distinctive-key-4711"
Fault = Callable[[str, dict[str, Any]], Response | None]


@dataclass
class Gateway:
    """What arrived: `added` and `flushed` by session, in order; `complaints` about anything that was wrong.

    `fault` may answer instead (operation, body); what it answers counts as arrived all the same.
    """

    server: Loopback
    user: str = USER
    key: str = KEY
    fault: Fault = lambda _operation, _body: None
    added: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))
    flushed: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.server.url

    def answer(self, seen: Seen) -> Response:
        operation, body = seen.path.rpartition("/")[2], seen.json
        check = {"/memories/add": self._add, "/memories/flush": self._flush}.get(seen.path)
        if check is None or seen.method != "POST":
            self.complaints.append(f"{seen.method} {seen.path}")
            return Response(status_code=404)
        check(body)
        return self.fault(operation, body) or JSONResponse({"status": "ok"})

    def _add(self, body: dict[str, Any]) -> None:
        self._envelope(body, {"messages"})
        user, assistant = body["messages"]
        fields = {"sender_id", "role", "timestamp", "content"}
        if set(user) != fields or set(assistant) != fields:
            self.complaints.append(f"fields {sorted(user)} {sorted(assistant)}")
        if (user["sender_id"], user["role"]) != (self.user, "user"):
            self.complaints.append("the first message is not the user's")
        if (assistant["sender_id"], assistant["role"]) != ("beaver", "assistant"):
            self.complaints.append("the second message is not the agent's")
        if not 0 < user["timestamp"] <= assistant["timestamp"]:
            self.complaints.append("timestamps go back")
        self.added[body["session_id"]].append((user["content"], assistant["content"]))

    def _flush(self, body: dict[str, Any]) -> None:
        self._envelope(body, set())
        self.flushed.append(body["session_id"])

    def _envelope(self, body: dict[str, Any], more: set[str]) -> None:
        if set(body) != {"user_id", "user_key", "session_id", "app_id", "project_id"} | more:
            self.complaints.append(f"fields {sorted(body)}")
        if (body["user_id"], body["user_key"]) != (self.user, self.key):
            self.complaints.append("credentials")
        if not body["session_id"].startswith("chat:"):
            self.complaints.append("session_id without chat:")


@contextmanager
def gateway(user: str = USER, key: str = KEY) -> Iterator[Gateway]:
    with loopback() as server:
        running = Gateway(server, user, key)
        server.answer = running.answer
        yield running
    assert running.complaints == []
