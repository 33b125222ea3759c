"""Schemathesis over the HTTP API, on a socket: whatever its description allows or forbids, no answer is a 5xx.

It is no dependency of the project: `pip install schemathesis` elsewhere (4.32 was tried), and then
`AFTERTURN_SCHEMATHESIS=.../bin/schemathesis make nightly`.
"""

import asyncio
import os
from pathlib import Path

import pytest

from tests.producers.conftest import Tenant, World
from tests.serving import serve

PROGRAM = Path(os.environ.get("AFTERTURN_SCHEMATHESIS", "/nowhere"))

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not PROGRAM.exists(), reason="AFTERTURN_SCHEMATHESIS names no program"),
]


@pytest.mark.parametrize("paths", ["/turns", "/(recall|memories|units|docs|profile|sessions|users|banks|directives)"])
async def test_whatever_the_description_allows_is_no_accident(
    world: World, ana: Tenant, tmp_path: Path, paths: str
) -> None:
    async with serve(world.app) as url:
        process = await asyncio.create_subprocess_exec(
            *(str(PROGRAM), "run", f"{url}/openapi.json", "--header", f"Authorization: Bearer {ana.token}"),
            *("--include-path-regex", f"^/api/v1{paths}", "--checks", "not_a_server_error", "--seed", "1"),
            *(
                "--phases",
                "examples,coverage,fuzzing",
                "--max-time",
                "120",
                "--request-timeout",
                "60",
                "--continue-on-failure",
                "--no-color",
            ),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()[-5000:]
    assert "No test cases were generated" not in said.decode()
    assert " passed" in said.decode()
