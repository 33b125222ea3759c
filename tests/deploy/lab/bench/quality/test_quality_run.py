"""`afterturn bench recall --quality` and `bench paraphrase` over HTTP, on little, on one private stack."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy.cli.app import build_cli
from deploy.lab.bench.quality import paraphrase
from deploy.lab.bench.quality.figures import NAMES
from deploy.lab.bench.quality.paraphrase import CONTEXTS
from deploy.lab.bench.quality.run import PARTS
from deploy.lab.bench.servers import BenchStack


def _dialogue(folder: Path) -> Path:
    said = {
        1: ["We adopted a dog last week.", "What is it called?", "Biscuit, and it sleeps all day."],
        2: ["My car broke down again.", "The repair took four days.", "I now take the tram."],
    }
    talk: dict[str, object] = {}
    for number, texts in said.items():
        talk[f"session_{number}_date_time"] = f"1:56 pm on {number} May, 2023"
        talk[f"session_{number}"] = [
            {"dia_id": f"D{number}:{n}", "speaker": ("Marta", "Igor")[n % 2], "text": one}
            for n, one in enumerate(texts, start=1)
        ]
    asked = [
        {"question": "What is the name of Igor's pet?", "category": 4, "evidence": ["D1:3"]},
        {"question": "How long was the car being repaired?", "category": 2, "evidence": ["D2:2"]},
    ]
    path = folder / "dialogue.json"
    path.write_text(json.dumps([{"sample_id": "c", "conversation": talk, "qa": asked}]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchStack]:
    with paraphrase.servers(tmp_path_factory.mktemp("nobody")) as servers:
        yield servers


@pytest.mark.nightly
def test_what_was_just_said_is_found_by_other_words_and_nothing_of_it_stays(on: BenchStack) -> None:
    heard: list[str] = []
    outcome = asyncio.run(paraphrase.run(on, heard.append, paraphrase.ParaphraseSizes(pairs=2, contexts=3)))
    assert str(on) == "a private stack"
    assert outcome.met
    assert outcome.sizes == {"pairs": 2, "contexts": 3}
    assert [outcome.parts[f"first_five_settled, {context.name}"] for context in CONTEXTS[:3]] == [1, 1, 1]
    assert heard == ["2 pairs are said in 3 contexts each"]


@pytest.mark.nightly
def test_every_category_is_measured_and_each_part_left_out(on: BenchStack, tmp_path: Path) -> None:
    command = ["bench", "recall", "--quality", "--data", str(_dialogue(tmp_path)), "--format", "locomo", "--ablate"]
    where = ["--long", "2", "--tokens", "300", "--stack", str(on.stack.api_key_file.parent)]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "deploy.cli", *command, *where, "--json"],
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    rows = {row["category"]: row for row in found["categories"]}
    assert rows.keys() == {"single-hop", "temporal", "all"}
    assert rows["all"]["questions"] == 2
    assert all(rows["all"][name] == 1 for name in ("recall@10", "session_hit@10"))
    for measured in (found, found["variants"]["locomo dialogue, messages of 2"]):
        assert measured["without"].keys() == set(PARTS)
        for without in measured["without"].values():
            assert [row["category"] for row in without] == ["single-hop", "temporal", "all"]
            assert all(0 <= row[name] <= 1 for row in without for name in NAMES)
    assert (rows["all"]["within_tokens"], found["tokens"]) == (1, 300)
    flags = [(row["group"], row["questions"], row["one_speaker"]) for row in found["flags"]]
    assert flags == [("answerable", 2, 0.5), ("names swapped", 1, 1)]
    assert (found["turns"], found["variants"]["locomo dialogue, messages of 2"]["turns"]) == (6, 4)


def test_without_data_or_format_it_says_what_is_needed() -> None:
    done = CliRunner().invoke(build_cli("bench", "status"), ["bench", "recall", "--quality"])
    assert done.exit_code == 2
    assert "--data FILE" in done.stderr
