"""stack.json: what other commands know of a running stack."""

import json
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from deploy.local.folder_lock import FolderLock
from deploy.local.stack import Stack, StackNotRunning, StackProcess, choose_data_folder, find_stack
from embeddings.settings import EmbeddingSettings, Provider, RemoteSettings
from store.recall.settings import RecallSettings
from workers.settings import EnrichmentSettings


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return Stack(
        pid=12,
        api="http://127.0.0.1:8300",
        metrics="http://127.0.0.1:8300/metrics",
        docs="http://127.0.0.1:8300/docs",
        api_key_file=tmp_path / "api-key",
        database_url=SecretStr("postgresql+asyncpg://afterturn_app:hush1@127.0.0.1:5432/afterturn"),
        operator_url=SecretStr("postgresql+asyncpg://afterturn_operator:hush2@127.0.0.1:5432/afterturn"),
        owner_url=SecretStr("postgresql+asyncpg://afterturn_owner:hush3@127.0.0.1:5432/afterturn"),
        redis_url=SecretStr("redis://:hush4@127.0.0.1:6379/0"),
        postgres_dir=tmp_path / "pg",
        processes=(StackProcess(name="postgres", pid=13), StackProcess(name="valkey", pid=14)),
    )


@pytest.fixture
def running(tmp_path: Path, stack: Stack) -> Iterator[Path]:
    lock = FolderLock(tmp_path)
    stack.save(tmp_path)
    yield tmp_path
    lock.release()


def test_a_running_stack_is_found_as_it_was_written(running: Path, stack: Stack) -> None:
    assert find_stack(running) == stack


def test_the_file_is_for_its_owner_alone_and_holds_what_harnesses_read(running: Path) -> None:
    path = running / "stack.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    written = json.loads(path.read_text())
    assert written["version"] == 1
    assert written["database_url"] == "postgresql+asyncpg://afterturn_app:hush1@127.0.0.1:5432/afterturn"
    assert written["redis_url"] == "redis://:hush4@127.0.0.1:6379/0"
    assert written["processes"] == [{"name": "postgres", "pid": 13}, {"name": "valkey", "pid": 14}]


@pytest.mark.law("L7")
def test_what_it_runs_with_is_told_without_the_key_of_somebody_elses_model(stack: Stack) -> None:
    remote = RemoteSettings(base_url="https://models.example", model="m", api_key=SecretStr("hush5"))
    embedding = EmbeddingSettings(provider=Provider.REMOTE, remote=remote)
    enrichment = EnrichmentSettings(enabled=True, base_url="https://models.example", api_key=SecretStr("hush6"))
    told = {"embedding": embedding, "enrichment": enrichment, "recall": RecallSettings(exact_units=7)}
    written = stack.model_copy(update=told).model_dump_json()
    assert "hush5" not in written
    assert "hush6" not in written
    read = Stack.model_validate_json(written)
    assert read.enrichment == enrichment.model_copy(update={"api_key": SecretStr("")})
    assert (read.embedding.remote.model, read.recall.exact_units) == ("m", 7)
    assert read.embedding.remote.api_key.get_secret_value() == ""


@pytest.mark.law("L7")
def test_neither_its_ready_line_nor_its_repr_shows_a_password(stack: Stack) -> None:
    assert "hush" not in stack.ready_line() + repr(stack)
    shown = json.loads(stack.ready_line().removeprefix("READY "))
    assert shown["database_url"] == "postgresql+asyncpg://afterturn_app:***@127.0.0.1:5432/afterturn"
    assert shown["redis_url"] == "redis://:***@127.0.0.1:6379/0"
    assert "operator_url" not in shown


def test_a_file_left_by_a_stack_that_was_killed_is_no_running_stack(tmp_path: Path, stack: Stack) -> None:
    stack.save(tmp_path)
    with pytest.raises(StackNotRunning, match="start one with `afterturn up --data "):
        find_stack(tmp_path)


def test_where_nothing_runs_the_error_says_what_to_do_next(tmp_path: Path) -> None:
    with pytest.raises(StackNotRunning, match=f"no stack runs in {tmp_path}: .* or name the folder of a running one"):
        find_stack(tmp_path)


def test_a_command_that_is_told_can_be_pasted_whatever_the_folder_is_called(tmp_path: Path) -> None:
    folder = tmp_path / "größe mit 'Leer $HOME"
    with pytest.raises(StackNotRunning) as caught:
        find_stack(folder)
    command = str(caught.value).split("`")[1]
    assert shlex.split(command) == ["afterturn", "up", "--data", str(folder)]


def test_a_file_of_another_version_is_an_error_that_repeats_no_password(running: Path) -> None:
    path = running / "stack.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(StackNotRunning, match="of another version") as caught:
        find_stack(running)
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_the_default_folder_is_the_one_in_the_environment(tmp_path: Path) -> None:
    assert choose_data_folder({"AFTERTURN_DATA": str(tmp_path)}) == tmp_path
    assert choose_data_folder({}).name == "afterturn"
