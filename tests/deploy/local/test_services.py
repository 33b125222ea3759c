"""What the API and the workers are told about the stack they belong to."""

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from deploy.components.bootstrap import BootstrapKeys
from deploy.local import PostgresEndpoint
from deploy.local.services import Services, count_default_workers, describe_api, describe_workers
from deploy.settings import load_settings

SEALING = Fernet.generate_key().decode()


def services(data: Path, **environ: str) -> Services:
    settings = load_settings({"AFTERTURN_DATA": str(data)} | environ).settings
    url = "postgresql+asyncpg://{}:hush@127.0.0.1:5432/afterturn"
    return Services(
        settings=settings,
        port=8301,
        database=PostgresEndpoint("127.0.0.1", 5432, *(url.format(role) for role in ("owner", "app", "op", "super"))),
        broker_url="redis://:hush@127.0.0.1:6379/0",
        credentials=BootstrapKeys("at_key", "self", "uk_key", SEALING),
    )


def test_its_environment_reads_back_as_the_settings_of_this_stack(tmp_path: Path) -> None:
    told = services(tmp_path, AFTERTURN_LOG__FORMAT="json")
    settings = load_settings(describe_api(told).environment).settings
    assert settings.data == tmp_path
    assert settings.metrics_dir == tmp_path / "metrics"
    assert settings.database.url.get_secret_value() == told.database.app_url
    assert settings.database.operator_url.get_secret_value() == told.database.operator_url
    assert settings.broker.url.get_secret_value() == told.broker_url
    assert settings.api.port == 8301
    assert settings.log.format == "json"
    assert settings.gateway.mode == "off"


def test_a_file_of_settings_is_passed_on_by_its_full_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "settings.yaml").write_text("worker: {threads: 7}")
    monkeypatch.chdir(tmp_path)
    told = describe_api(replace(services(tmp_path), config=Path("settings.yaml"))).environment
    monkeypatch.chdir("/")
    assert load_settings(told).settings.worker.threads == 7


def test_neither_api_nor_workers_are_told_how_to_be_the_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFTERTURN_DATABASE__OWNER_URL", "postgresql+asyncpg://somebody")
    settings = load_settings(describe_api(services(tmp_path)).environment).settings
    assert settings.database.owner_url.get_secret_value() == ""
    assert settings.database.url.get_secret_value() != ""


def test_the_gateway_self_is_this_api_with_the_key_made_for_it(tmp_path: Path) -> None:
    [worker] = describe_workers(services(tmp_path, AFTERTURN_GATEWAY__MODE="self"), 1)
    gateway = load_settings(worker.environment).settings.gateway
    assert gateway.mode == "self"
    assert gateway.base_url == "http://127.0.0.1:8301"
    assert gateway.user_id == "self"
    assert gateway.user_key.get_secret_value() == "uk_key"


def test_what_seals_gateway_keys_is_the_settings_key_before_the_stacks_own(tmp_path: Path) -> None:
    assert (
        load_settings(describe_api(services(tmp_path)).environment).settings.gateway.sealing_keys.get_secret_value()
        == SEALING
    )
    own = Fernet.generate_key().decode()
    told = services(tmp_path, AFTERTURN_GATEWAY__SEALING_KEYS=own)
    assert (
        load_settings(describe_api(told).environment).settings.gateway.sealing_keys.get_secret_value()
        == f"{own},{SEALING}"
    )


def test_each_worker_has_a_name_and_a_log_of_its_own_and_no_working_folder_on_its_path(tmp_path: Path) -> None:
    found = describe_workers(services(tmp_path), 3)
    assert [worker.name for worker in found] == ["worker-1", "worker-2", "worker-3"]
    assert len({worker.log for worker in found}) == 3
    assert all("-P" in worker.argv for worker in found)


@pytest.mark.law("L7")
def test_no_password_stands_on_a_command_line_or_in_a_repr(tmp_path: Path) -> None:
    told = services(tmp_path)
    for child in (describe_api(told), *describe_workers(told, 1)):
        assert "hush" not in " ".join(child.command()) + repr(child)
        assert "uk_key" not in repr(child)
        assert SEALING not in " ".join(child.command()) + repr(child)
    assert "uk_key" not in repr(told)
    assert SEALING not in repr(told)
    assert "hush" not in repr(told.database)


@pytest.mark.parametrize(
    "host, url",
    [
        ("127.0.0.1", "http://127.0.0.1:8301"),
        ("0.0.0.0", "http://127.0.0.1:8301"),
        ("::1", "http://[::1]:8301"),
    ],
)
def test_its_url_is_one_a_client_on_this_machine_can_use(tmp_path: Path, host: str, url: str) -> None:
    assert services(tmp_path, AFTERTURN_API__HOST=host).api_url == url


@pytest.mark.parametrize("cores, workers", [(None, 1), (1, 1), (2, 1), (3, 1), (4, 2), (16, 8)])
def test_two_cores_have_one_worker_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, cores: int | None, workers: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert count_default_workers() == workers
