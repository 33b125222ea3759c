import pytest

from deploy.lab.demo.data import DemoData, load_demo
from tests.deploy.lab.demo.search import Index


@pytest.fixture(scope="session")
def demo() -> DemoData:
    return load_demo()


@pytest.fixture(scope="session")
def full_index(demo: DemoData) -> Index:
    """What recall sees at worst when the demo reads its writes: the conversation and all fifty texts."""
    return Index.of(demo.turns, [write.text for write in demo.writes])


@pytest.fixture(scope="session")
def conversation_index(full_index: Index) -> Index:
    """What recall sees when the demo asks its questions: every message of the conversation."""
    return full_index.without_texts()
