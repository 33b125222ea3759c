"""`afterturn extract` and `afterturn embed` do as the running stack does, whatever the shell's own settings say."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from deploy.cli.app import build_cli
from deploy.local.stack import find_stack
from embeddings.settings import EmbeddingSettings, Provider, RemoteSettings
from store.text.rules import VERSION
from tests.deploy.operated import Busy, busy_stack
from tests.generations import make_generation_live
from tests.servers import TestPostgres, TestValkey
from workers.settings import EnrichmentSettings

THERE = "https://models.example"
SHELL = {"AFTERTURN_EMBEDDING__VARIANT": "weights", "AFTERTURN_ENRICHMENT__MODEL": "of/the-shell"}


@pytest.fixture
async def elsewhere(
    tmp_path: Path, fresh_database: TestPostgres, valkey: TestValkey, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Busy]:
    """Lend a stack that was started with models of its own, in a shell that names others."""
    remote = RemoteSettings(base_url=THERE, model="of/the-stack", api_key=SecretStr("hush"))
    settings = {
        "embedding": EmbeddingSettings(provider=Provider.REMOTE, remote=remote),
        "enrichment": EnrichmentSettings(enabled=True, base_url=THERE, model="reads/here", api_key=SecretStr("hush")),
    }
    for name, value in SHELL.items():
        monkeypatch.setenv(name, value)
    async with busy_stack(tmp_path / "data", fresh_database, valkey) as busy:
        find_stack(busy.folder).model_copy(update=settings).save(busy.folder)
        yield busy


async def test_what_is_embedded_anew_is_what_lacks_the_live_model(elsewhere: Busy) -> None:
    early = await elsewhere.run("embed")
    assert (early.exit_code, "no model is live yet" in early.stderr) == (1, True)
    async with elsewhere.opened() as database:
        await make_generation_live(database, 77, 24, "small")
    told = await elsewhere.answer("embed")
    assert (told["model"], told["generation"]) == ("small", 77)


async def test_what_is_read_anew_is_read_by_the_stacks_own_model(elsewhere: Busy) -> None:
    assert (await elsewhere.answer("extract"))["version"] == "llm-5:reads/here"
    wrong = await elsewhere.run("extract", "--version", "llm-5:of/the-shell")
    assert wrong.exit_code == 2
    assert f"it has: {VERSION}, llm-5:reads/here" in wrong.stderr


@pytest.mark.parametrize("command", ["extract", "embed"])
def test_without_a_stack_there_is_nothing_to_run_over(tmp_path: Path, command: str) -> None:
    result = CliRunner().invoke(build_cli(command), [command, "--data", str(tmp_path), "--json"])
    assert result.exit_code == 2


@pytest.mark.parametrize("command", ["extract", "embed"])
async def test_what_was_opened_is_in_the_call_audit(elsewhere: Busy, command: str) -> None:
    await elsewhere.append(("monday", "1"), ("monday", "2"))
    async with elsewhere.opened() as database:
        await make_generation_live(database, 77, 24)
    opened = (await elsewhere.answer(command, "--timeout", "0s"))["opened"]
    [call] = (await elsewhere.answer("audit", "list", "--door", "operator"))["calls"]
    assert (call["operation"], call["rows"]) == (command, opened)
    assert opened > 0
