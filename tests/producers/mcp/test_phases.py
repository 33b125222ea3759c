"""The switches of docs/file-engine.md, tried as they are written: what each phase serves to whom, and the way back."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from producers.settings import ApiSettings
from tests.producers.conftest import World, broker_of, build
from tests.producers.mcp.test_tools import SERVED, client_of
from tests.servers import TestValkey

PAGE = (Path(__file__).parents[3] / "docs" / "file-engine.md").read_text(encoding="utf-8")
#: The settings of each phase, by its number.
BLOCKS = {
    int(number): yaml.safe_load(block)
    for number, block in re.findall(r"\*\*Phase (\d): .*?```yaml\n(.*?)```", PAGE, re.DOTALL)
}
SHADOW = ["memory_before_turn", "memory_after_turn"]
#: What `pilot` and another tenant are served in each phase; None: `/mcp` is not there.
PHASES: dict[int, tuple[Sequence[str], Sequence[str]] | None] = {
    0: None,
    1: (SHADOW, []),
    2: (SERVED, []),
    3: (SERVED, SERVED),
}


async def list_served(world: World, block: dict[str, Any], valkey: TestValkey) -> tuple[list[str], list[str]] | None:
    settings = ApiSettings.model_validate(block["api"])
    made = build(world.postgres, broker_of(valkey.url, "phases"), settings=settings)
    try:
        tenants = [await made.tenant(name) for name in ("pilot", None)]
        found = []
        for tenant in tenants:
            absent = (await tenant.http.post("/mcp", json={})).status_code == 404
            await tenant.http.aclose()
            if absent:
                return None
            async with client_of(made, tenant) as client:
                found.append([tool.name for tool in (await client.list_tools()).tools])
    finally:
        await made.close()
    return found[0], found[1]


def test_the_page_has_the_settings_of_every_phase() -> None:
    assert sorted(BLOCKS) == sorted(PHASES)


@pytest.mark.parametrize("way", [[0, 1, 2, 3], [2, 1, 0]], ids=["there", "back"])
async def test_each_phase_serves_what_the_page_says(world: World, valkey: TestValkey, way: list[int]) -> None:
    for phase in way:
        assert await list_served(world, BLOCKS[phase], valkey) == PHASES[phase], phase
