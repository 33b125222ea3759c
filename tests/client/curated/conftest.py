from pathlib import Path

import pytest
from afterturn_client.curated import MemoryStore, Target


@pytest.fixture
def store(tmp_path: Path) -> MemoryStore:
    return MemoryStore(tmp_path / "profile")


def entries(store: MemoryStore, target: Target = Target.MEMORY) -> list[str]:
    return list(store.read(target).entries)
