"""A whole memory plugin on the standard library alone: the example of GUIDE.md.

It keeps everything in memory, claims no capability, and passes every case of the contract kit that needs none:

    python flat_plugin.py --listen 127.0.0.1:9100

`FlatStore` has a plugin's own decisions, `FlatHandler` its HTTP routes: replace the first and keep the second, or use a
framework. Both are made to be subclassed.
"""

import argparse
import json
import re
import signal
import sys
import threading
import traceback
from collections.abc import Iterable, MutableMapping, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote
from uuid import UUID, uuid4

VERSION = "1.0.0"
NAMESPACE_KINDS = {"workspace", "team", "org", "custom"}
MEMORY_KINDS = {"fact", "summary", "checkpoint"}
SOURCES = {"agent", "runtime", "user"}
LONGEST_NAME, LARGEST_LIMIT, DEFAULT_LIMIT = 256, 100, 20
LARGEST_BODY = 1_048_576

#: For fullmatch: with match and `$` a name could end in a line end.
_NAME = re.compile(r"[a-z]+:[A-Za-z0-9_:.\-]+")

Body = dict[str, Any]


class PluginError(Exception):
    """A request that ends in an Error body."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def bad_request(message: str) -> PluginError:
    """Return the error for a request that breaks the contract."""
    return PluginError(400, "bad_request", message)


def not_found(message: str) -> PluginError:
    """Return the error for something that does not exist."""
    return PluginError(404, "not_found", message)


class FlatStore:
    """Namespaces and memories in two dictionaries, behind one lock."""

    capabilities: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.namespaces: MutableMapping[str, Body] = {}
        #: By namespace and id: the same id in another namespace is another memory.
        self.memories: dict[tuple[str, str], Body] = {}

    def health(self) -> Body:
        """Return the HealthResponse."""
        return {"status": "ok", "version": VERSION, "capabilities": list(self.capabilities)}

    def upsert_namespace(self, name: str, body: Body) -> Body:
        """Make a namespace or change the fields that the body names; return it."""
        check_name(name)
        kind = choose(body, "kind", NAMESPACE_KINDS)
        fields = self.namespace_fields(body)
        with self.lock:
            known = self.namespaces.get(name, {"name": name, "created_at": now()})
            self.namespaces[name] = known | {"kind": kind} | fields
            return present(self.namespaces[name])

    def patch_namespace(self, name: str, body: Body) -> Body:
        """Change the fields that the body names, null clears one; return the namespace."""
        check_name(name)
        if not body.keys() & {"expires_at", "metadata"}:
            raise bad_request("the patch has no fields set: name expires_at or metadata")
        fields = self.namespace_fields(body)
        with self.lock:
            self.namespaces[name] = self.known_namespace(name) | fields
            return present(self.namespaces[name])

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace and its memories."""
        check_name(name)
        with self.lock:
            self.known_namespace(name)
            del self.namespaces[name]
            for key in [key for key in self.memories if key[0] == name]:
                del self.memories[key]

    def write(self, name: str, body: Body) -> Body:
        """Write a memory: the same id again replaces it, in its namespace, and keeps created_at."""
        check_name(name)
        fields = self.memory_fields(body)
        memory_id = check_id(body["id"]) if body.get("id") is not None else str(uuid4())
        with self.lock:
            self.known_namespace(name)
            before = self.memories.get((name, memory_id), {"created_at": now()})
            key = {"id": memory_id, "namespace": name, "created_at": before["created_at"]}
            self.memories[name, memory_id] = key | fields
        return {"id": memory_id, "namespace": name}

    def search(self, body: Body) -> Body:
        """Return the memories of the named namespaces and kinds: a listing, for nothing else is claimed."""
        names = list_of_text(body, "namespaces")
        for name in names:
            check_name(name)
        if not names:
            raise bad_request("namespaces must name at least one namespace")
        kinds = list_of_text(body, "kinds") if "kinds" in body else []
        if not MEMORY_KINDS.issuperset(kinds):
            raise bad_request(f"kinds may be {', '.join(sorted(MEMORY_KINDS))}")
        limit = body.get("limit", 0)
        if type(limit) is not int or not 0 <= limit <= LARGEST_LIMIT:
            raise bad_request(f"limit must be a whole number from 1 to {LARGEST_LIMIT}")
        if not isinstance(body.get("query", ""), str):
            raise bad_request("query must be a text")
        found = self.find(names, kinds or sorted(MEMORY_KINDS), limit or DEFAULT_LIMIT, body)
        return {"memories": [present(one) for one in found]}

    def find(self, names: Sequence[str], kinds: Sequence[str], limit: int, body: Body) -> list[Body]:
        """Return at most `limit` memories of these namespaces and kinds, the best first."""
        with self.lock:
            found = [
                dict(memory)
                for memory in self.memories.values()
                if memory["namespace"] in names and memory["kind"] in kinds
            ]
        return self.ranked(found, body)[:limit]

    def forget(self, memory_id: str, body: Body) -> None:
        """Forget a memory of the namespace that asks; any other does not exist for it."""
        name = check_name(body.get("requested_by_namespace"))
        key = (name, check_id(memory_id))
        with self.lock:
            if key not in self.memories:
                raise not_found("memory not found in namespace")
            del self.memories[key]

    # -- what a plugin with capabilities says differently

    def namespace_fields(self, body: Body) -> Body:
        """Return the optional fields that the body names, checked; this plugin keeps metadata alone."""
        return optional_object(body, "metadata")

    def memory_fields(self, body: Body) -> Body:
        """Return the stored fields of a memory, checked; fields of capabilities that are not claimed are ignored."""
        content = body.get("content")
        if not isinstance(content, str) or not content.strip():
            raise bad_request("content must be a text that is not blank")
        return {
            "content": content,
            "kind": choose(body, "kind", MEMORY_KINDS),
            "source": choose(body, "source", SOURCES),
        }

    def ranked(self, found: list[Body], body: Body) -> list[Body]:  # noqa: ARG002 - a search has more to say
        """Return memories in the order of a listing: the newest first, equal times by id."""
        return sorted(found, key=lambda one: (one["created_at"], one["id"]), reverse=True)

    def known_namespace(self, name: str) -> Body:
        """Return a namespace that was upserted."""
        if name not in self.namespaces:
            raise not_found(f"no namespace {name}")
        return self.namespaces[name]


def check_name(value: object) -> str:
    """Return the name if it keeps the contract's rule. Raises PluginError."""
    if not isinstance(value, str) or len(value.encode(errors="replace")) > LONGEST_NAME or not _NAME.fullmatch(value):
        raise bad_request(f"a namespace is named like workspace:abc, in at most {LONGEST_NAME} bytes")
    return value


def check_id(value: object) -> str:
    """Return an id in the one form that UUIDs are compared in."""
    try:
        return str(UUID(value if isinstance(value, str) else ""))
    except ValueError:
        raise bad_request("id must be a UUID") from None


def choose(body: Body, name: str, allowed: Iterable[str]) -> str:
    """Return a field that must be one of a few words."""
    value = body.get(name)
    if not isinstance(value, str) or value not in allowed:
        raise bad_request(f"{name} must be one of {', '.join(sorted(allowed))}")
    return value


def list_of_text(body: Body, name: str) -> list[str]:
    """Return a field that must be a list of texts."""
    value = body.get(name)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise bad_request(f"{name} must be a list of texts")
    return value


def optional_object(body: Body, name: str) -> Body:
    """Return {name: value} where the body names it: an object, or null."""
    if not isinstance(body.get(name, None), dict | None):
        raise bad_request(f"{name} must be an object")
    return {name: body[name]} if name in body else {}


def present(row: Body) -> Body:
    """Return a row without the fields that are not set: they are left out, not null."""
    return {name: value for name, value in row.items() if value is not None}


def now() -> str:
    """Return the time in RFC 3339, always with microseconds: such texts sort as the times do."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class FlatHandler(BaseHTTPRequestHandler):
    """The seven routes."""

    store: FlatStore
    protocol_version = "HTTP/1.1"
    #: An answer leaves in one piece, at once; a caller that sends nothing is cut off.
    wbufsize = 65536
    disable_nagle_algorithm = True
    timeout = 60

    def respond(self) -> None:
        """Answer a request: with the route's value, or with an Error."""
        try:
            status, value = self.route()
        except PluginError as error:
            status, value = error.status, {"code": error.code, "message": str(error)}
        except Exception as error:  # noqa: BLE001 - the caller gets an Error, the log where it came from
            self.log_error("%s", type(error).__name__)
            traceback.print_tb(error.__traceback__)
            status, value = 500, {"code": "internal", "message": "internal error"}
        self.answer(status, value)

    do_GET = do_PUT = do_PATCH = do_DELETE = do_POST = respond  # noqa: N815 - http.server looks for these names

    def answer(self, status: int, value: Body | None) -> None:
        """Send a status and a body as JSON; None is no body."""
        raw = b"" if value is None else json.dumps(value, allow_nan=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if value is not None:
            self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def route(self) -> tuple[int, Body | None]:  # noqa: PLR0911 - one for each route
        """Return the status and the body that answer this request."""
        raw = self.read_body()
        match self.command, *self.segments():
            case "GET", "v1", "health":
                return 200, self.store.health()
            case "PUT", "v1", "namespaces", name:
                return 200, self.store.upsert_namespace(name, read_object(raw))
            case "PATCH", "v1", "namespaces", name:
                return 200, self.store.patch_namespace(name, read_object(raw))
            case "DELETE", "v1", "namespaces", name:
                self.store.delete_namespace(name)
                return 204, None
            case "POST", "v1", "namespaces", name, "memories":
                return 201, self.store.write(name, read_object(raw))
            case "POST", "v1", "search":
                return 200, self.store.search(read_object(raw))
            case "DELETE", "v1", "memories", memory_id:
                self.store.forget(memory_id, read_object(raw))
                return 204, None
            case _, "v1", "namespaces", _:
                raise PluginError(405, "bad_request", "a namespace knows PUT, PATCH and DELETE")
        raise not_found("no such path")

    def segments(self) -> list[str]:
        """Return the path in parts: split first, then decoded, once, so that %2F is no slash."""
        return [unquote(part) for part in self.path.partition("?")[0].split("/")[1:]]

    def read_body(self) -> bytes:
        """Return the request's body, read completely: unread bytes would be taken for the next request."""
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not length.isdigit() or int(length) > LARGEST_BODY:
            self.close_connection = True
            raise bad_request(f"a body needs a Content-Length of at most {LARGEST_BODY} bytes")
        return self.rfile.read(int(length))

    def log_request(self, *_: object) -> None:
        """Log no requests: paths hold names of namespaces. Errors are logged."""


def read_object(raw: bytes) -> Body:
    """Return the JSON object of a body."""
    try:
        value = json.loads(raw, parse_constant=refuse_constant)
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError):
        raise bad_request("the body must be JSON, in UTF-8") from None
    if not isinstance(value, dict):
        raise bad_request("the body must be a JSON object")
    return value


def refuse_constant(name: str) -> float:
    """Refuse NaN and Infinity: Python reads them, JSON does not have them."""
    raise ValueError(name)


class FlatServer(ThreadingHTTPServer):
    """An HTTP server with a thread for each connection."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], store: FlatStore, handler: type[FlatHandler] = FlatHandler) -> None:
        super().__init__(address, type("Handler", (handler,), {"store": store}))


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description="A flat memory plugin: in memory, no capability.")
    parser.add_argument("--listen", default="127.0.0.1:9100", metavar="HOST:PORT", help="port 0 takes a free one")
    host, _, port = parser.parse_args().listen.rpartition(":")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with FlatServer((host, int(port)), FlatStore()) as server:
        print(f"listening on http://{host}:{server.server_address[1]}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            sys.exit(130)


if __name__ == "__main__":
    main()
