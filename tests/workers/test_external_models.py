"""What an external model was sent cannot be fetched back: an erasure says how much, and where to."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from afterturn_client.contract.erasures import TextsAtModel
from asyncpg.exceptions import ConnectionDoesNotExistError

from deploy.components.external_models import list_external_models, record_models
from deploy.settings import load_settings
from embeddings.remote import derive_generation
from store.database import Database
from store.erasure import Erasures, ErasureTarget, Kind, Receipt
from store.memory.units import Units
from store.tenancy.external_models import EMBEDDING, EXTRACTION, ExternalModel, note_external_models
from tests.workers.conftest import HOST, World, dialogue, now, settings_of
from tests.workers.models import Model, model, reader
from tests.workers.stages import Crew, KnownEmbedder

GENERATION = 1234
VECTORS, READERS = "vectors.example.org", "readers.example.org"
VERSION = "llm-5:test/model-1"


def sent(purpose: str, endpoint: str, texts: int) -> TextsAtModel:
    return TextsAtModel(purpose=purpose, endpoint=endpoint, texts=texts)


@pytest.fixture
def server() -> Iterator[Model]:
    with model() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def remote(world: World, server: Model) -> AsyncIterator[Crew]:
    """Workers whose models are both somewhere else, and noted so."""
    reading = reader(server.url)
    known = ExternalModel(EMBEDDING, str(GENERATION), VECTORS), ExternalModel(EXTRACTION, VERSION, READERS)
    for _ in range(2):
        await note_external_models(world.database, known)
    yield Crew(world, embedder=KnownEmbedder(generation=GENERATION), reader=reading)
    await reading.close()


async def told(world: World, crew: Crew) -> None:
    await world.append("s", "t0", messages=dialogue("I live in Porto.", "I see."))
    await world.append("s", "t1", messages=dialogue("I like tea.", "Good."))
    for _ in range(2):
        await crew.drain()


async def erased(world: World, kind: Kind, name: str = "") -> Receipt:
    erasures = Erasures(world.database, now)
    request = await erasures.request(HOST, ErasureTarget(kind, "default", name))
    return await erasures.run(HOST, request)


@pytest.mark.law("L11")
@pytest.mark.parametrize("kind, name", [(Kind.SESSION, "s"), (Kind.BANK, ""), (Kind.USER, "")])
async def test_a_receipt_tells_which_machines_were_sent_what_was_erased(
    world: World, remote: Crew, kind: Kind, name: str
) -> None:
    await told(world, remote)
    receipt = await erased(world, kind, name)
    assert receipt.done
    # Four messages; and with their vectors those of two facts.
    assert receipt.models == (sent(EMBEDDING, VECTORS, 6), sent(EXTRACTION, READERS, 4))
    assert not any(name.startswith("outside") for name in receipt.counts)


async def test_of_one_unit_its_own_texts_are_told_also_when_they_were_corrected(world: World, remote: Crew) -> None:
    await told(world, remote)
    [unit] = await world.sql("select unit_id from afterturn.agent_memory_unit_t where content = 'I like tea.'")
    await Units(world.database, now).correct(HOST, "default", unit.unit_id, "I like rain.")
    for _ in range(2):
        await remote.drain()
    receipt = await erased(world, Kind.UNIT, str(unit.unit_id))
    assert receipt.models == (sent(EMBEDDING, VECTORS, 2), sent(EXTRACTION, READERS, 1))


async def test_what_stayed_in_the_house_is_not_told_of(world: World) -> None:
    await note_external_models(world.database, [ExternalModel(EMBEDDING, str(GENERATION), VECTORS)])
    await told(world, Crew(world))
    assert (await erased(world, Kind.BANK)).models == ()


REMOTE = {"base_url": "https://Vectors.example.org/v1", "model": "m"}
ENRICHMENT = {"enabled": True, "base_url": "https://readers.example.org:8443", "model": "test/model-1"}
OUTSIDE = {"embedding": {"provider": "remote", "remote": REMOTE}, "enrichment": ENRICHMENT}


async def test_they_are_noted_though_the_first_connection_breaks_while_it_is_opened(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the driver's own error comes, wrapped by nobody."""
    monkeypatch.setattr("deploy.components.external_models.RETRY_INTERVAL_S", 0.0)
    broken = iter([True])

    async def begun(_connection: Any) -> None:
        if next(broken, False):
            raise ConnectionDoesNotExistError

    database = Database(settings_of(world.postgres), begun)
    await record_models(database, load_settings({}, overrides=OUTSIDE).settings)
    await database.close()
    endpoints = await world.sql("select endpoint from public.afterturn_outside_model order by endpoint")
    assert [row.endpoint for row in endpoints] == [READERS, VECTORS]


def test_the_settings_say_which_models_are_outside() -> None:
    assert list_external_models(load_settings({}).settings) == []
    assert list_external_models(load_settings({}, overrides=OUTSIDE).settings) == [
        ExternalModel(EMBEDDING, str(derive_generation("m")), VECTORS),
        ExternalModel(EXTRACTION, VERSION, READERS),
    ]
