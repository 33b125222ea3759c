"""The page "Coming from light-portal", played as an operator plays it: its settings, and its commands as they stand."""

import asyncio
import gzip
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from tests.deploy.cli.test_live import Live, up
from tests.producers.test_issuers import new_key, sign, write_keys
from tests.seed_tables import fill_platform, platform_database
from tests.servers import TestPostgres

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "light-portal.md").read_text(encoding="utf-8")
SITE, PLATFORM = "https://memory.example", "postgresql://reader@platform.example/portal"
JWKS = "https://login.example/jwks.json"
AGENT = "planner"


def blocks(language: str) -> list[str]:
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return found


class Operator:
    """Runs blocks of the page in a folder, against a stack and the platform's database."""

    def __init__(self, live: Live, folder: Path, platform: str, **variables: str) -> None:
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        self._environment = os.environ | variables | {"AFTERTURN_DATA": str(live.data), "PATH": path}
        self._folder, self._names = folder, {SITE: live.stack.api, PLATFORM: platform}

    def play(self, block: str) -> subprocess.CompletedProcess[str]:
        """Run a block with the page's names of machines replaced; every command of it has to end well."""
        for name, real in self._names.items():
            block = block.replace(name, real)
        command = ["bash", "-euo", "pipefail", "-c", block]
        done = subprocess.run(
            command, cwd=self._folder, env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (made := tmp_path / "work").mkdir()
    return made


def write_settings(folder: Path, keys: Path) -> dict[str, Any]:
    """Write the settings that the page shows, with keys of this machine; return them."""
    [shown] = blocks("yaml")
    (folder / "afterturn.yaml").write_text(shown.replace(JWKS, str(keys)).replace("[memory.example]", "[127.0.0.1]"))
    told: dict[str, Any] = yaml.safe_load(shown)
    return told


def make_token(key: Any, settings: dict[str, Any], **others: Any) -> str:
    """Return the client credentials of an agent, as the page says what they hold."""
    mcp = settings["api"]["mcp"]
    [issuer] = mcp["issuers"]
    claims = {
        "iss": issuer["issuer"],
        "aud": mcp["resource"],
        "sub": "client-1",
        "host": issuer["host"],
        "sid": issuer["services"][0],
        "env": settings["environment"],
        "agentDefId": AGENT,
        "scope": "portal.r portal.w",
        "exp": int(time.time()) + 3600,
    }
    return sign(key, **{**claims, **others})


async def test_the_page_leads_there_and_back(folder: Path, tmp_path: Path, postgres: TestPostgres) -> None:
    key, keys, session = new_key(), tmp_path / "jwks.json", str(uuid4())
    write_keys(keys, a=key)
    settings = write_settings(folder, keys)
    host = settings["api"]["mcp"]["issuers"][0]["host"]
    async with platform_database(postgres) as platform:
        await fill_platform(platform, 2)
        await asyncio.to_thread(play_page, folder, platform, make_token(key, settings), host, session)


def play_page(folder: Path, platform: str, token: str, host: str, session: str) -> None:
    asked, commands, rows, snapshot, back = blocks("sh")
    said = "User: where is it?\nAssistant: In the attic."
    with up(folder / "data", "--workers", "1", AFTERTURN_CONFIG=str(folder / "afterturn.yaml")) as live:
        operator = Operator(live, folder, platform, TOKEN=token, HOST=host, SESSION=session, AGENT=AGENT)
        assert json.loads(operator.play(asked).stdout)["banks"] == []
        made, kept, found = iterate_json(operator.play(commands).stdout)
        assert (made["bank"], kept["identifiedBy"], kept["bankId"]) == (f"@{AGENT}/{session}", "key", made["bankId"])
        assert [one["text"] for one in found["results"]] == [said]
        again = iterate_json(operator.play(commands).stdout)[1]
        assert (again["unitId"], again["created"]) == (kept["unitId"], False)
        assert "0 mismatches" in operator.play(rows).stderr
        operator.play(snapshot)
        events = [json.loads(line) for line in gzip.decompress((folder / "acme.jsonl.gz").read_bytes()).splitlines()]
        [exported] = [one for one in events if one.get("data", {}).get("content") == said]
        operator.play(back)
        array = json.loads((folder / "portal.json").read_bytes())
        [went] = [one for one in array if one["data"].get("content") == said]
        assert (went["id"], went["type"]) == (exported["id"], "AgentMemoryUnitRetainedEvent")
        assert sum("violin number" in one["data"].get("content", "") for one in array) == 192
        assert (
            iterate_json(operator.play(commands.rpartition("curl")[1] + commands.rpartition("curl")[2]).stdout)[0][
                "results"
            ]
            == []
        )


def iterate_json(printed: str) -> list[dict[str, Any]]:
    """Return the JSON objects that stand one behind the other."""
    decoder, found, at = json.JSONDecoder(), list[dict[str, Any]](), 0
    while at < len(printed.rstrip()):
        one, at = decoder.raw_decode(printed, at + len(printed[at:]) - len(printed[at:].lstrip()))
        found.append(one)
    return found
