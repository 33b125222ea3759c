"""`afterturn bench recall --quality` over HTTP, on a small dialogue written here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy.bench.quality.figures import NAMES
from deploy.bench.quality.run import PARTS
from deploy.cli.app import build


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
        {"question": "What is the name of the pet?", "category": 4, "evidence": ["D1:3"]},
        {"question": "How long was the car being repaired?", "category": 2, "evidence": ["D2:2"]},
    ]
    path = folder / "dialogue.json"
    path.write_text(json.dumps([{"sample_id": "c", "conversation": talk, "qa": asked}]), encoding="utf-8")
    return path


@pytest.mark.slow
def test_every_category_is_measured_on_a_stack_of_its_own_and_each_part_left_out(tmp_path: Path) -> None:
    command = ["bench", "recall", "--quality", "--data", str(_dialogue(tmp_path)), "--format", "locomo", "--ablate"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "deploy.cli", *command, "--json"],
        capture_output=True,
        check=False,
        env={**os.environ, "AFTERTURN_DATA": str(tmp_path / "nobody")},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    rows = {row["category"]: row for row in found["categories"]}
    assert rows.keys() == {"single-hop", "temporal", "all"}
    assert rows["all"]["questions"] == 2
    assert all(rows["all"][name] == 1 for name in ("recall@10", "session_hit@10"))
    assert found["without"].keys() == set(PARTS)
    assert all(0 <= row[name] <= 1 for row in found["without"].values() for name in NAMES)


def test_without_data_or_format_it_says_what_is_needed() -> None:
    done = CliRunner().invoke(build("bench", "status"), ["bench", "recall", "--quality"])
    assert done.exit_code == 2
    assert "--data FILE" in done.stderr
