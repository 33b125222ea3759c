"""The memory plugin's own listener: where it listens and for whom, what it refuses, and how it ends."""

import os
import shlex
import signal
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from deploy.api.__main__ import main
from deploy.api.plugin_address import ListenAddress, find_address, find_warning, parse_listen
from deploy.api.plugin_listener import create_listener_app, make_store_finder
from deploy.settings import load_settings
from producers.fair_queue import FairQueue
from producers.plugin.app import PluginApp
from producers.settings import ApiSettings, FairnessSettings, PluginSettings
from tests.deploy.cli.test_live import up
from tests.patience import PATIENCE_S, wait_until
from tests.processes import spawned
from tests.producers.conftest import Tenant, World, ana, world
from tests.producers.contract_kit.judging import judge, list_cases
from tests.producers.http.test_late_bodies import end_key, send_late
from tests.producers.plugin.kept import parts_of
from tests.servers import TestPostgres, TestValkey

__all__ = ["ana", "world"]
COMMAND = (sys.executable, "-P", "-m", "deploy.cli", "plugin")
MEMORY = {"content": "Ana takes the train", "kind": "fact", "source": "agent"}


def environment(data: Path, postgres: TestPostgres, valkey: TestValkey, **more: str) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("MEMORY_PLUGIN_")}
    return ours | {
        "AFTERTURN_DATA": str(data),
        "MEMORY_PLUGIN_DATABASE_URL": postgres.app_url,
        "AFTERTURN_DATABASE__OPERATOR_URL": postgres.operator_url,
        "AFTERTURN_BROKER__URL": valkey.url,
        "AFTERTURN_BROKER__NAMESPACE": f"plugin-{data.name.lower()}"[:60],
        **more,
    }


@contextmanager
def client_of(listen: str) -> Iterator[httpx.Client]:
    if listen.startswith("unix:"):
        transport = httpx.HTTPTransport(uds=listen.removeprefix("unix:"))
        with httpx.Client(transport=transport, base_url="http://localhost", timeout=PATIENCE_S) as client:
            yield client
        return
    with httpx.Client(base_url=f"http://{listen}", timeout=PATIENCE_S) as client:
        yield client


def _accepts(path: str) -> bool:
    """Say whether a socket takes connections; httpx leaves one that was refused to the garbage collector."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


@contextmanager
def running(told: dict[str, str], listen: str, *arguments: str) -> Iterator[httpx.Client]:
    """Run `afterturn plugin`, lend a client, and see that it ends when it is told to."""
    with (
        Path(told["AFTERTURN_DATA"], "log").open("ab") as log,
        spawned([*COMMAND, "--listen", listen, *arguments], env=told, stdout=log, stderr=log) as process,
        client_of(listen) as client,
    ):

        def listens() -> bool:
            assert process.poll() is None, Path(told["AFTERTURN_DATA"], "log").read_text()
            if listen.startswith("unix:") and not _accepts(listen.removeprefix("unix:")):
                return False
            with suppress(httpx.TransportError):
                return client.get("/v1/health").status_code > 0
            return False

        wait_until(listens, "the plugin listens")
        yield client
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


def test_an_address_is_a_host_with_a_port_or_a_socket(tmp_path: Path) -> None:
    assert parse_listen("127.0.0.1:9100") == ListenAddress("127.0.0.1", 9100)
    assert parse_listen("[::1]:9100").url == "http://[::1]:9100"
    assert parse_listen("localhost:0").port > 0
    assert parse_listen(f"unix:{tmp_path}/p.sock").url == f"unix:{tmp_path}/p.sock"
    for wrong in ("9100", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", "unix:p.sock", "unix:/nowhere/at/all/p.sock"):
        with pytest.raises(ValueError, match=r"plugin\.listen"):
            parse_listen(wrong)


def test_without_a_tenant_there_is_no_listener_and_beyond_loopback_without_a_token_a_warning() -> None:
    assert find_address(PluginSettings()) is None
    with pytest.raises(ValueError, match=r"plugin\.tenant"):
        find_address(PluginSettings(listen="127.0.0.1:0"))
    everywhere = ListenAddress("0.0.0.0", 9100)
    assert "asks for no token" in (find_warning(PluginSettings(), everywhere) or "")
    assert find_warning(PluginSettings(token=SecretStr("t")), everywhere) is None
    assert find_warning(PluginSettings(), ListenAddress("127.0.0.1", 9100)) is None


def test_the_contracts_own_variables_are_read() -> None:
    told = {"MEMORY_PLUGIN_LISTEN_ADDR": "127.0.0.1:9", "MEMORY_PLUGIN_TENANT": "acme", "MEMORY_PLUGIN_TOKEN": "zq7"}
    plugin = load_settings(told).settings.plugin
    assert (plugin.listen, plugin.tenant, plugin.token.get_secret_value()) == ("127.0.0.1:9", "acme", "zq7")


@pytest.mark.parametrize(
    "told,headers,status",
    [
        (PluginSettings(), {}, 200),
        (PluginSettings(), {"host": "evil.example"}, 403),
        (PluginSettings(), {"origin": "http://page.example"}, 403),
        (PluginSettings(token=SecretStr("zq41")), {"host": "plugin.example"}, 401),
        (PluginSettings(token=SecretStr("zq41")), {"authorization": "Bearer zq4"}, 401),
        (PluginSettings(token=SecretStr("zq41")), {"authorization": "Bearer zq41", "host": "plugin.example"}, 200),
    ],
)
async def test_web_pages_are_refused_and_a_token_is_asked_for_where_one_is_set(
    world: World, ana: Tenant, told: PluginSettings, headers: dict[str, str], status: int
) -> None:
    settings = told.model_copy(update={"tenant": ana.host})
    parts = parts_of(world.database, world.notifier, world.clock, settings)
    fair = FairQueue(FairnessSettings())
    app = create_listener_app(parts, settings, ApiSettings(), ListenAddress("127.0.0.1", 9100), fair)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:9100", headers=headers) as client:
        answer = await client.post("/v1/search", json={"namespaces": ["team:a"]})
    assert answer.status_code == status, answer.text


async def test_on_the_apis_own_port_a_key_decides(world: World, ana: Tenant) -> None:
    parts = parts_of(world.database, world.notifier, world.clock)
    app = PluginApp(make_store_finder(parts, world.keys.authenticate), ApiSettings())
    reader = await world.tenant(ana.host, write=False)
    narrow = await world.tenant(ana.host, banks=frozenset({"team:b"}))
    personal = await world.tenant(ana.host, user="ana")
    stranger = await world.tenant()
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8300") as client:

        async def status(token: str, method: str, path: str, **body: Any) -> int:
            answer = await client.request(method, path, json=body, headers={"authorization": f"Bearer {token}"})
            return answer.status_code

        place = "/v1/namespaces/team:a"
        assert (await client.put(place, json={"kind": "team"})).status_code == 401
        assert await status(ana.token, "PUT", place, kind="team") == 200
        assert await status(ana.token, "POST", f"{place}/memories", **MEMORY) == 201
        assert await status(reader.token, "POST", "/v1/search", namespaces=["team:a"]) == 200
        assert await status(reader.token, "POST", f"{place}/memories", **MEMORY) == 403
        assert await status(narrow.token, "POST", "/v1/search", namespaces=["team:a"]) == 403
        assert await status(personal.token, "POST", "/v1/search", namespaces=["team:a"]) == 403
        assert await status(stranger.token, "DELETE", place) == 404


@pytest.mark.law("L11")
async def test_a_memory_that_comes_late_is_not_written_for_an_ended_key_nor_into_an_erased_namespace(
    world: World, ana: Tenant
) -> None:
    parts = parts_of(world.database, world.notifier, world.clock)
    keyed = PluginApp(make_store_finder(parts, world.keys.authenticate), ApiSettings(), clock=world.clock)
    told, fair = PluginSettings(tenant=ana.host), FairQueue(FairnessSettings())
    alone = create_listener_app(
        parts, told, ApiSettings(), ListenAddress("127.0.0.1", 9100), fair, clock=world.clock
    )  # fmt: skip
    words = f"{MEMORY['content']} in the lighthouse"

    # Each has a namespace of its own: an erasure that still runs would be that of the second deletion, too.
    for app, name in ((keyed, "team:late"), (alone, "team:later")):
        place = f"/v1/namespaces/{name}"
        headers = {"authorization": f"Bearer {ana.token}"}
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:9100", headers=headers) as client:

            async def make_anew(client: httpx.AsyncClient = client, place: str = place) -> None:
                assert (await client.delete(place)).status_code == 204
                assert (await client.put(place, json={"kind": "team"})).status_code == 200

            assert (await client.put(place, json={"kind": "team"})).status_code == 200
            late = send_late(client, f"{place}/memories", MEMORY | {"content": words}, make_anew)
            assert (await late).status_code == 404
            found = await client.post("/v1/search", json={"namespaces": [name]})
            assert found.json()["memories"] == []
            if app is keyed:
                end = end_key(world, ana, "revoked_at = now()")
                assert (await client.post("/v1/search", json={"namespaces": [name]})).status_code == 200
                await end
                assert (await client.post(f"{place}/memories", json=MEMORY)).status_code == 401


@pytest.mark.slow
@pytest.mark.live
async def test_a_process_of_its_own_passes_the_cases_of_an_outage_on_a_socket_and_ends_in_order(
    fresh_database: TestPostgres, valkey: TestValkey, tmp_path: Path
) -> None:
    listen = f"unix:{tmp_path}/plugin.sock"
    switch = [sys.executable, "-m", "tests.producers.plugin.outage"]
    stop, start = (shlex.join([*switch, wanted, fresh_database.superuser_url]) for wanted in ("away", "back"))
    with running(environment(tmp_path, fresh_database, valkey), listen, "--tenant", "acme") as client:
        assert stat.S_IMODE((tmp_path / "plugin.sock").stat().st_mode) == 0o600
        assert client.put("/v1/namespaces/team:a", json={"kind": "team"}).status_code == 200
        assert client.post("/v1/namespaces/team:a/memories", json=MEMORY).status_code == 201
        cases = [case.id for case in list_cases() if case.id.startswith("outage.")]
        report = await judge(listen, cases=cases, switch=(stop, start))
    assert not report.failed, [(one.case.id, one.findings) for one in report.failed]
    assert report.counts() == {"passed": 3, "failed": 0, "skipped": 0}
    assert "train" not in (tmp_path / "log").read_text()


@pytest.mark.nightly
async def test_beside_everything_else_it_passes_every_case_that_needs_no_outage(tmp_path: Path) -> None:
    with up(tmp_path / "data", "--workers", "1", "--plugin", "127.0.0.1:0") as running_stack:
        url = running_stack.told["plugin"]
        assert url == running_stack.stack.plugin
        report = await judge(url)
        # Keyless, it serves the tenant whose key `up` makes.
        place, key = "/v1/namespaces/team:shared", f"Bearer {running_stack.stack.api_key()}"
        async with httpx.AsyncClient() as client:

            async def status(method: str, base: str, **headers: str) -> int:
                body = {"kind": "team", "metadata": {}}
                return (await client.request(method, f"{base}{place}", json=body, headers=headers)).status_code

            assert await status("PUT", url) == 200
            assert await status("PATCH", running_stack.stack.api) == 401
            assert await status("PATCH", running_stack.stack.api, authorization=key) == 200
    assert not report.failed, [(one.case.id, one.findings) for one in report.failed]
    assert report.counts() == {"passed": len(list_cases()) - 3, "failed": 0, "skipped": 3}


def test_alone_without_a_tenant_it_does_not_begin(
    postgres: TestPostgres,
    valkey: TestValkey,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environment(tmp_path, postgres, valkey).items():
        monkeypatch.setenv(name, value)
    assert main(["--plugin-only", "--plugin-listen", "127.0.0.1:0"]) == 2
    assert "plugin.tenant" in capsys.readouterr().err
