"""The worked example of docs/vector-plugin.md as a process: by the kit, after a kill, and behind the perimeter."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from producers.perimeter.audit import AuditFile
from producers.perimeter.client import PluginAddress, PluginClient
from producers.perimeter.embedder import LazyEmbedder
from producers.perimeter.errors import PluginRefused
from producers.perimeter.perimeter import Commit, Perimeter
from producers.perimeter.trees import FileTree
from tests.patience import PATIENCE_S
from tests.processes import spawned
from tests.producers.contract_kit.judging import judge, list_cases
from tests.producers.perimeter.test_embedder import RecordingEmbedder
from tests.producers.perimeter.test_perimeter import SELF, contents

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "vector_plugin.py"


@contextmanager
def running(file: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Run the example as its page does; lend its process and its URL."""
    argv = [sys.executable, str(EXAMPLE), "--listen", "127.0.0.1:0", "--file", str(file)]
    with spawned(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().split()[-1]


@pytest.mark.slow
async def test_the_example_passes_every_case_of_the_kit_that_it_claims_an_outage_included(tmp_path: Path) -> None:
    file, away = tmp_path / "memories.sqlite", tmp_path / "away"
    switch = (f"mv {file} {away}", f"mv {away} {file}")
    with running(file) as (process, url):
        report = await judge(url, switch=switch)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, PATIENCE_S) == 0
    others = {"fts", "ttl", "pin", "propagation"}
    skipped = sum(bool(others.intersection(case.needs)) for case in list_cases())
    assert not report.failed
    assert report.counts() == {"passed": len(list_cases()) - skipped, "failed": 0, "skipped": skipped}
    assert list(report.claimed) == ["embedding"]
    assert not report.left_behind


def at(url: str) -> httpx.Client:
    return httpx.Client(base_url=f"{url}/v1", trust_env=False, timeout=PATIENCE_S)


def test_what_was_acknowledged_outlives_a_kill_and_a_repeated_write_is_one_memory(tmp_path: Path) -> None:
    memory = {"id": str(uuid4()), "content": "first", "kind": "fact", "source": "agent", "embedding": [3.0, 4.0]}
    with running(tmp_path / "memories.sqlite") as (process, url), at(url) as plugin:
        plugin.put("/namespaces/team:a", json={"kind": "team", "metadata": {"a": 1}}).raise_for_status()
        for content in ("first", "second"):
            written = plugin.post("/namespaces/team:a/memories", json=memory | {"content": content})
            assert (written.status_code, written.json()["id"]) == (201, memory["id"])
        [before] = plugin.post("/search", json={"namespaces": ["team:a"]}).json()["memories"]
        process.kill()
    with running(tmp_path / "memories.sqlite") as (_, url), at(url) as plugin:
        asked = {"namespaces": ["team:a"], "embedding": [6.0, 8.0], "query": "passed over"}
        [found] = plugin.post("/search", json=asked).json()["memories"]
        assert found.pop("score") == pytest.approx(1.0)
        assert (found, found["content"]) == (before, "second")
        assert plugin.put("/namespaces/team:a", json={"kind": "team"}).json()["metadata"] == {"a": 1}
        refused = plugin.post("/search", json=asked | {"embedding": [1.0]})
        assert (refused.status_code, "must have 2 numbers" in refused.json()["message"]) == (400, True)


async def test_the_perimeter_searches_the_example_by_meaning(tmp_path: Path) -> None:
    (tmp_path / "tree.json").write_text('{"workspaces": [{"id": "self"}, {"id": "other"}]}')
    tree, audit = FileTree(tmp_path / "tree.json"), AuditFile(tmp_path / "audit.jsonl")
    with running(tmp_path / "memories.sqlite") as (_, url):
        async with PluginClient(PluginAddress(url, PATIENCE_S)) as plugin:
            perimeter = Perimeter(plugin, tree, audit, embedder=LazyEmbedder(RecordingEmbedder().load))
            for content in ("the night train to Vienna", "an allergy to nuts", "a flat in Ghent"):
                await perimeter.commit(SELF, Commit(content, "org:self"))
            found = await perimeter.search(SELF, "which nuts", limit=1)
            assert [one.rpartition("]: ")[2] for one in contents(found)] == ["an allergy to nuts"]
            assert found.memories[0].score is not None
            assert len(contents(await perimeter.search(SELF))) == 3
            strange = Perimeter(plugin, tree, audit, embedder=LazyEmbedder(ShortVectors().load))
            with pytest.raises(PluginRefused, match="must have 384 numbers"):
                await strange.search(SELF, "nuts")


class ShortVectors(RecordingEmbedder):
    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return (await super().embed(texts))[:, :8]
