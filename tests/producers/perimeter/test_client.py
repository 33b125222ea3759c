"""The client of memory plugins: what it sends, how it reads what comes, and when it stops asking."""

import asyncio
import json
import socket
import ssl
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from afterturn_client.moments import format_utc

from producers.contract_kit.flat_plugin import FlatHandler, FlatServer, FlatStore
from producers.perimeter.breaker import CircuitBreaker
from producers.perimeter.client import PluginAddress, PluginClient, build_body, parse_timeout
from producers.perimeter.errors import (
    CircuitOpen,
    InvalidCall,
    PluginOverloaded,
    PluginRefused,
    PluginUnavailable,
    UnreadableAnswer,
)
from producers.plugin.wire import (
    ForgetRequest,
    MemoryKind,
    MemoryWrite,
    NamespaceKind,
    NamespacePatch,
    NamespaceUpsert,
    SearchRequest,
    Source,
    is_namespace,
    parse_time,
)
from tests.certificates import Authority
from tests.patience import PATIENCE_S
from tests.producers.contract_kit.judging import running, served
from tests.producers.perimeter.plugins import answering, scripted
from tests.tables import each_row

HEALTH = {"status": "ok", "version": "1.0.0", "capabilities": ["fts", "something-new"]}
LISTING = build_body(SearchRequest, namespaces=("workspace:a",))


def client(url: str, **named: Any) -> PluginClient:
    return PluginClient(PluginAddress(url, timeout_s=named.pop("timeout_s", PATIENCE_S)), **named)


class Clock:
    """Seconds that pass when a test says so, or when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept = list[float]()

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


# -- the contract's objects


@each_row(
    "name",
    ["workspace:3f2c", "org:acme-corp", "custom:engineering-shared", "workspace:a.b", "workspace:a_b", "team:a:b",
     "x:" + "a" * 254],
)  # fmt: skip
def test_a_name_of_the_contract_is_taken(name: str) -> None:
    assert is_namespace(name)


@each_row(
    "name",
    ["", "a", ":a", "workspace:", "Workspace:a", "ws1:a", "workspace:a b", "workspace:a/b", "x:" + "a" * 255,
     "workspace:a\n", "workspace:%61", "workspace:\u0430", "workspace:\uff41"],
)  # fmt: skip
def test_a_name_that_is_none_is_refused_before_anything_is_sent(name: str) -> None:
    assert not is_namespace(name)
    with pytest.raises(InvalidCall, match="namespaces"):
        build_body(SearchRequest, namespaces=(name,))


def test_a_minimal_write_has_no_other_keys() -> None:
    write = build_body(MemoryWrite, content="x", kind=MemoryKind.FACT, source=Source.AGENT)
    assert write.as_json() == {"content": "x", "kind": "fact", "source": "agent"}
    assert build_body(NamespaceUpsert, kind=NamespaceKind.WORKSPACE).as_json() == {"kind": "workspace"}
    assert build_body(SearchRequest, namespaces=("a:b", "a:c"), query="q", limit=20).as_json() == {
        "namespaces": ["a:b", "a:c"],
        "query": "q",
        "limit": 20,
    }


def test_a_patch_keeps_the_difference_of_null_and_absent() -> None:
    assert build_body(NamespacePatch, metadata=None).as_json() == {"metadata": None}
    assert build_body(NamespacePatch, metadata={}).as_json() == {"metadata": {}}
    with pytest.raises(InvalidCall, match="no fields set"):
        build_body(NamespacePatch)


@each_row(
    "fields, field",
    [({"content": " \n"}, "content"), ({"content": "a\ud800"}, "content"), ({"kind": "rumour"}, "kind"),
     ({"source": "x"}, "source"), ({"pin": 1}, "pin"), ({"id": "7"}, "id"),
     ({"expires_at": "2026-11-05"}, "expires_at"), ({"embedding": [float("nan")]}, "embedding"),
     ({"expires_at": 5}, "expires_at"), ({"embedding": [0, 0]}, "embedding"),
     ({"embedding": [True]}, "embedding"), ({"embedding": [1.0] * 4097}, "embedding"), ({"secret": 1}, "secret"),
     ({"propagation": {"a": "\udc00"}}, "propagation"), ({"propagation": {"a": float("inf")}}, "propagation")],
)  # fmt: skip
def test_a_write_that_breaks_the_contract_names_its_field_and_not_its_value(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidCall, match=field) as caught:
        build_body(MemoryWrite, **({"content": "hush-hush", "kind": "fact", "source": "agent"} | fields))
    assert "hush-hush" not in str(caught.value)
    assert "rumour" not in str(caught.value)


@each_row("limit", [-1, 101, True, 1.5])
def test_a_limit_beyond_a_hundred_is_refused(limit: object) -> None:
    with pytest.raises(InvalidCall, match="limit"):
        build_body(SearchRequest, namespaces=("a:b",), limit=limit)


@pytest.mark.parametrize(
    "text, same",
    [("2026-11-05T10:00:00Z", "2026-11-05T10:00:00Z"), ("2026-11-05t10:00:00.5+02:00", "2026-11-05T08:00:00.500000Z"),
     ("2026-11-05T10:00:00.123456789Z", "2026-11-05T10:00:00.123456Z")],
)  # fmt: skip
def test_times_are_of_rfc_3339(text: str, same: str) -> None:
    assert format_utc(parse_time(text)) == same
    for bad in (text[:-1] if text.endswith("Z") else text[:-6], text + "\n", text.replace("T", " ").replace("t", " ")):
        with pytest.raises(ValueError, match="RFC 3339"):
            parse_time(bad)


# -- a whole round


async def test_a_round_trip_over_every_route_of_the_flat_plugin() -> None:
    with served(store=FlatStore()) as url:
        async with client(url + "/") as plugin:
            assert await plugin.capabilities() == frozenset()
            made = await plugin.upsert_namespace("workspace:test-1", build_body(NamespaceUpsert, kind="workspace"))
            assert (made.name, made.kind) == ("workspace:test-1", "workspace")
            changed = await plugin.patch_namespace("workspace:test-1", build_body(NamespacePatch, metadata={"a": 1}))
            assert changed.metadata == {"a": 1}
            known = UUID("7f1b6c1e-3c5e-4d0e-9a53-2f4f5f0f9a11")
            for content in ("one", "two"):
                write = build_body(MemoryWrite, id=known, content=content, kind="fact", source="agent")
                assert (await plugin.write("workspace:test-1", write)).id == str(known)
            search = build_body(SearchRequest, namespaces=("workspace:test-1",))
            assert [one.content for one in (await plugin.search(search)).memories] == ["two"]
            await plugin.forget(known, build_body(ForgetRequest, requested_by_namespace="workspace:test-1"))
            assert (await plugin.search(search)).memories == ()
            await plugin.delete_namespace("workspace:test-1")
            with pytest.raises(PluginRefused) as gone:
                await plugin.delete_namespace("workspace:test-1")
            assert (gone.value.status, gone.value.wire_code) == (404, "not_found")


async def test_a_path_prefix_and_a_bearer_token_are_sent() -> None:
    with scripted(answering(200, HEALTH)) as (url, script):
        address = PluginAddress(f"{url}/memory/", token="hush-token", timeout_s=PATIENCE_S)
        async with PluginClient(address) as plugin:
            await plugin.health()
        assert "hush-token" not in repr(address)
    method, path, headers, _ = script.seen[0]
    assert (method, path, headers["authorization"]) == ("GET", "/memory/v1/health", "Bearer hush-token")


async def test_a_plugin_behind_tls_must_show_a_certificate_that_is_trusted(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    shown = authority.sign("plugin", "localhost")
    secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secured.load_cert_chain(shown.certificate, shown.key)
    with served(store=FlatStore(), secured=secured) as url:
        async with PluginClient(PluginAddress(url, PATIENCE_S, ca_file=authority.certificate)) as plugin:
            assert (await plugin.health()).status == "ok"
        async with client(url) as stranger:
            with pytest.raises(PluginUnavailable):
                await stranger.health()


class UnixServer(FlatServer):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        self.socket.bind(self.path)

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        quick = type("Unix", (FlatHandler,), {"disable_nagle_algorithm": False})
        super().__init__(("localhost", 0), FlatStore(), quick)


async def test_a_plugin_behind_a_unix_socket_is_reached(tmp_path: Path) -> None:
    path = tmp_path / "plugin.sock"
    with UnixServer(path) as server, running(server):
        async with client(f"unix:{path}") as plugin:
            assert (await plugin.health()).status == "ok"


@each_row("url", ["", "localhost:9100", "ftp://a", "http://user:pw@host", "http://a?b=c"])
def test_a_url_that_names_no_plugin_is_refused(url: str) -> None:
    with pytest.raises(InvalidCall, match="MEMORY_PLUGIN_URL"):
        PluginClient(PluginAddress(url))


@each_row(
    "text, seconds",
    [("2s", 2), ("1m30s", 90), ("500ms", 0.5), ("1.5s", 1.5), ("1h", 3600), ("", 2), ("0s", 2), ("-1s", 2), ("5", 2)],
)
def test_a_timeout_is_a_duration_and_what_is_none_is_ignored(text: str, seconds: float) -> None:
    assert parse_timeout(text) == seconds


# -- answers


@pytest.mark.parametrize("body", [{"memories": None}, {"memories": []}])
async def test_no_hits_may_be_null(body: dict[str, Any]) -> None:
    with scripted(answering(200, body)) as (url, _):
        async with client(url) as plugin:
            assert (await plugin.search(LISTING)).memories == ()


@each_row(
    "status, body, code, message",
    [(404, b"", "not_found", "status 404 (empty body)"), (403, b"no", "forbidden", "status 403: no"),
     (400, b"x" * 300, "bad_request", f"status 400: {'x' * 256}"), (302, b"", "bad_request", "status 302 (empty body)"),
     (404, b'{"code": "not_found", "message": "gone", "details": {"a": 1}}', "not_found", "gone"),
     (401, b'{"code": "forbidden", "message": "no token"}', "forbidden", "no token")],
)  # fmt: skip
async def test_a_refusal_has_the_plugins_code_or_that_of_its_status(
    status: int, body: bytes, code: str, message: str
) -> None:
    with scripted(answering(status, body)) as (url, _):
        async with client(url) as plugin:
            with pytest.raises(PluginRefused) as caught:
                await plugin.search(LISTING)
    assert (caught.value.status, caught.value.wire_code, str(caught.value)) == (status, code, message)


@each_row("body", [b"[]", b"{", b'{"memories": [{"id": 7}]}', b'{"memories": "all"}'])
async def test_a_success_that_cannot_be_read_is_no_failure_of_the_plugin(body: bytes) -> None:
    with scripted(answering(200, body)) as (url, _):
        async with client(url, breaker=CircuitBreaker(threshold=1)) as plugin:
            for _again in range(2):
                with pytest.raises(UnreadableAnswer):
                    await plugin.search(LISTING)


async def test_an_answer_without_the_id_that_was_given_is_not_believed() -> None:
    with scripted(answering(201, {"id": "another", "namespace": "a:b"})) as (url, _):
        write = build_body(MemoryWrite, id=UUID(int=7), content="x", kind="fact", source="agent")
        async with client(url) as plugin:
            with pytest.raises(UnreadableAnswer, match="another id"):
                await plugin.write("a:b", write)


async def test_an_error_repeats_no_content_and_no_url() -> None:
    async with client("http://127.0.0.1:9/hush-path") as plugin:
        with pytest.raises(PluginUnavailable) as caught:
            await plugin.write("a:b", build_body(MemoryWrite, content="hush-text", kind="fact", source="agent"))
    assert "hush" not in f"{caught.value!r} {caught.value.__cause__!r}"


async def test_a_slow_answer_ends_after_the_timeout_as_a_whole() -> None:
    async def keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(keep_silent, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    async with client(f"http://127.0.0.1:{port}", timeout_s=0.05) as plugin:
        with pytest.raises(PluginUnavailable, match=r"no answer within 0\.05 s"):
            await plugin.health()
    silent.close()


# -- the breaker


async def test_the_breaker_opens_at_three_failures_blocks_every_call_and_closes_after_the_cooldown() -> None:
    clock = Clock()
    with scripted(answering(500), answering(503), answering(500), answering(200, HEALTH)) as (url, script):
        async with client(url, breaker=CircuitBreaker(now=clock), now=clock) as plugin:
            for _ in range(3):
                with pytest.raises(PluginUnavailable):
                    await plugin.search(LISTING)
            calls = [plugin.search(LISTING), plugin.health(), plugin.delete_namespace("a:b")]
            for call in calls:
                with pytest.raises(CircuitOpen, match="60 s"):
                    await call
            assert len(script.seen) == 3
            clock.now += 60
            assert (await plugin.health()).status == "ok"


async def test_after_the_cooldown_it_takes_three_failures_again() -> None:
    clock = Clock()
    breaker = CircuitBreaker(now=clock)
    with scripted(answering(500)) as (url, script):
        async with client(url, breaker=breaker) as plugin:
            for expected in (3, 6):
                for _ in range(5):
                    with pytest.raises(PluginUnavailable):
                        await plugin.health()
                assert len(script.seen) == expected
                clock.now += 60


async def test_a_refusal_does_not_open_it_and_starts_the_count_anew() -> None:
    answers = [answering(500), answering(500), answering(404), answering(500), answering(500), answering(200, HEALTH)]
    with scripted(*answers) as (url, script):
        async with client(url, breaker=CircuitBreaker()) as plugin:
            for _ in range(5):
                with pytest.raises((PluginUnavailable, PluginRefused)) as caught:
                    await plugin.health()
                assert not isinstance(caught.value, CircuitOpen)
            assert (await plugin.health()).status == "ok"
    assert len(script.seen) == 6


async def test_a_plugin_that_is_away_opens_it() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with client(f"http://127.0.0.1:{unused.getsockname()[1]}", breaker=CircuitBreaker()) as plugin:
            for _ in range(3):
                with pytest.raises(PluginUnavailable, match="cannot be reached"):
                    await plugin.health()
            with pytest.raises(CircuitOpen):
                await plugin.health()


# -- overload


async def test_a_429_is_obeyed_and_sent_again() -> None:
    clock = Clock()
    busy = answering(429, {"code": "unavailable", "message": "busy"}, retry_after="2")
    with scripted(busy, busy, answering(200, {"memories": []})) as (url, script):
        async with client(url, now=clock, sleep=clock.sleep, breaker=CircuitBreaker(threshold=1)) as plugin:
            assert (await plugin.search(LISTING)).memories == ()
    assert clock.slept == [2, 2]
    assert len({json.dumps(json.loads(raw)) for *_, raw in script.seen}) == 1


async def test_a_429_that_asks_for_long_is_the_callers_to_wait_and_nothing_is_sent_meanwhile() -> None:
    clock = Clock()
    with scripted(answering(429, retry_after="60"), answering(200, HEALTH)) as (url, script):
        async with client(url, now=clock, sleep=clock.sleep) as plugin:
            for _ in range(2):
                with pytest.raises(PluginOverloaded, match="60 s"):
                    await plugin.health()
            assert (len(script.seen), clock.slept) == (1, [])
            clock.now += 58
            assert (await plugin.health()).status == "ok"
    assert clock.slept == [2]


async def test_a_plugin_that_is_overloaded_for_good_is_given_up() -> None:
    clock = Clock()
    with scripted(answering(429, retry_after="1")) as (url, script):
        async with client(url, now=clock, sleep=clock.sleep) as plugin:
            with pytest.raises(PluginOverloaded):
                await plugin.health()
    assert len(script.seen) == 4


# -- capabilities


async def test_capabilities_are_believed_for_a_minute_and_kept_while_the_plugin_is_away() -> None:
    clock = Clock()
    with scripted(answering(200, HEALTH), answering(503)) as (url, script):
        async with client(url, now=clock) as plugin:
            assert "fts" in await plugin.capabilities()
            clock.now += 59
            assert "fts" in await plugin.capabilities()
            assert len(script.seen) == 1
            clock.now += 1
            assert "fts" in await plugin.capabilities()
            assert len(script.seen) == 2


async def test_capabilities_that_were_never_known_are_no_empty_set() -> None:
    with scripted(answering(503, {"status": "degraded", "version": "1.0.0", "capabilities": []})) as (url, _):
        async with client(url) as plugin:
            with pytest.raises(PluginUnavailable):
                await plugin.capabilities()
