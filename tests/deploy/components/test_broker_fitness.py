"""A broker that throws messages away, or is shared, is found out when a process starts, or when the broker is back."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis
from pydantic import SecretStr
from structlog.testing import capture_logs

from deploy.components.broker_fitness import BrokerMonitor, find_broker_problems, judge_cluster, judge_eviction_policy
from deploy.components.doctor_checks import DoctorTarget
from deploy.components.doctor_checks import check_redis as examine_redis
from deploy.local import EmbeddedValkey
from deploy.local.valkey import CONFIGURATION
from deploy.settings import load_settings
from producers.settings import BrokerSettings
from tests.patience import until
from tests.tables import each_row


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    own = EmbeddedValkey(tmp_path_factory.mktemp("valkey"))
    own.start()
    yield own
    own.stop()


@pytest.fixture
def client(server: EmbeddedValkey) -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(server.url) as connected:
        yield connected
        connected.config_set("maxmemory-policy", "noeviction")
        connected.flushall()


def settings_of(server: EmbeddedValkey, user: str = "") -> BrokerSettings:
    url = f"redis://{user}@127.0.0.1:{urlsplit(server.url).port}/0" if user else server.url
    return BrokerSettings(url=SecretStr(url), namespace="ours")


def let_in(client: "redis.Redis", password: str, *but: str) -> None:
    """Have a user `picky` with this one password, who may do all but this."""
    client.acl_setuser(
        "picky", enabled=True, reset=True, passwords=f"+{password}", keys="*", channels="*", commands=["+@all", *but]
    )


def test_our_own_server_is_fit(server: EmbeddedValkey, client: "redis.Redis") -> None:
    client.set("ours:ring:extraction", 1)
    assert find_broker_problems(settings_of(server)) == []


def test_a_database_with_keys_of_others_is_told_without_their_names(
    server: EmbeddedValkey, client: "redis.Redis"
) -> None:
    client.mset({"zq81 of somebody": 1, "ours:recall": 1})
    [flaw] = find_broker_problems(settings_of(server))
    assert not flaw.loses
    assert "a key of others" in flaw.what
    assert "zq81" not in str(flaw)


@pytest.mark.parametrize("enabled,loses", [(True, [True]), (False, [])])
def test_a_node_of_a_cluster_is_no_broker(enabled: bool, loses: list[bool]) -> None:  # noqa: FBT001 - a case
    assert [flaw.loses for flaw in judge_cluster(enabled=enabled)] == loses


@each_row("policy,loses", [("allkeys-lru", [True]), ("volatile-lru", [False]), (None, [False]), ("noeviction", [])])
def test_whether_messages_may_be_thrown_away_is_told_by_the_policy(policy: str | None, loses: list[bool]) -> None:
    found = list(judge_eviction_policy(policy))
    assert [flaw.loses for flaw in found] == loses
    assert all("noeviction" in flaw.remedy for flaw in found)


@pytest.mark.parametrize("refused,unknown", [("info", "maxmemory-policy"), ("scan", "whose keys its database holds")])
def test_what_a_server_refuses_to_tell_is_told_with_what_to_allow(
    server: EmbeddedValkey, client: "redis.Redis", refused: str, unknown: str
) -> None:
    let_in(client, "zq82", f"-{refused}")
    watch = BrokerMonitor(settings_of(server, "picky:zq82"))
    with capture_logs() as told:
        assert watch.check()
    [line] = told
    assert line["what"] == f"{unknown} cannot be read: {refused.upper()} is refused (NoPermissionError)"
    assert f"`ACL SETUSER NAME +{refused}`" in line["remedy"]
    assert line["log_level"] == "warning"
    assert watch.explain_fault() == ""


def test_a_refused_info_hides_nothing_else(server: EmbeddedValkey, client: "redis.Redis") -> None:
    let_in(client, "zq82", "-info")
    client.set("zq81 of somebody", 1)
    refused, shared = find_broker_problems(settings_of(server, "picky:zq82"))
    assert "INFO is refused" in refused.what
    assert "a key of others" in shared.what


def test_a_server_that_lets_nobody_in_is_told_and_looked_at_again(
    server: EmbeddedValkey, client: "redis.Redis"
) -> None:
    let_in(client, "zq83")
    watch = BrokerMonitor(settings_of(server, "picky:zq82"))
    with capture_logs() as told:
        assert not watch.check()
    assert "refuses the login (AuthenticationError)" in told[0]["what"]
    assert "zq82" not in str(told)
    let_in(client, "zq82")
    assert watch.check()


@pytest.mark.parametrize(
    "password, told",
    [("zq82", "INFO is refused (NoPermissionError)"), ("zq83", "refuses the login (AuthenticationError)")],
)
async def test_doctor_says_of_a_server_that_answers_what_it_refuses(
    server: EmbeddedValkey, client: "redis.Redis", tmp_path: Path, password: str, told: str
) -> None:
    let_in(client, "zq82", "-info")
    url = settings_of(server, f"picky:{password}").url.get_secret_value()
    target = DoctorTarget(load_settings({"AFTERTURN_DATA": str(tmp_path), "AFTERTURN_BROKER__URL": url}).settings, None)
    seen = [finding.seen async for finding in examine_redis(target)]
    assert any(told in one for one in seen)
    assert not any("does not answer" in one for one in seen)


async def test_a_broker_that_was_away_is_looked_at_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.local.valkey.CONFIGURATION", CONFIGURATION.replace("noeviction", "allkeys-lru"))
    own = EmbeddedValkey(tmp_path)
    watch = BrokerMonitor(settings_of(own), every_s=0.01)
    assert not watch.check()
    async with watch.running():
        assert watch.explain_fault() == ""
        own.start()
        try:
            await until(lambda: "allkeys-lru" in watch.explain_fault(), "the broker was looked at")
        finally:
            own.stop()
