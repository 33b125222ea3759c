"""A bare correction ends the fact with the wrong value and states the right one, and nothing where none holds it."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from producers.settings import ApiSettings
from store.replay import verify_log
from tests.producers.conftest import Tenant, World, broker_of, build
from tests.producers.service.test_profiles import profile, say, worked_through
from tests.servers import TestPostgres, TestValkey

CORRECTIONS = (
    "Correction: not Bonn, Cologne.",
    "Not Bonn, I meant Cologne.",
    "Sorry, Cologne, not Bonn.",
    "Not Bonn but Cologne.",
)


@pytest_asyncio.fixture(loop_scope="session")
async def quiet(fresh_database: TestPostgres, valkey: TestValkey) -> AsyncIterator[World]:
    """An API whose stages have nobody else's work."""
    made = build(fresh_database, broker_of(valkey.url, f"corrections-{uuid4().hex}"), settings=ApiSettings())
    yield made
    await made.close()


async def told(tenant: Tenant, **asked: Any) -> set[str]:
    return {fact["text"] for fact in (await profile(tenant, **asked))["facts"]}


@pytest.mark.parametrize("worked", [True, False])
@pytest.mark.parametrize("said", CORRECTIONS)
async def test_a_correction_ends_the_fact_with_the_wrong_value(quiet: World, said: str, *, worked: bool) -> None:
    ana = await quiet.tenant()
    await say(ana, "I live in Bonn.", "I work at Nordwind.", name="Kim")
    if worked:
        await worked_through(quiet)
    await say(ana, said, day=3, name="Kim")
    if worked:
        await worked_through(quiet)
    assert await told(ana, name="Kim") == {"Kim lives in Cologne.", "Kim works at Nordwind."}
    [home] = [one for one in (await profile(ana, name="Kim", history="true"))["facts"] if one["key"] == "home"]
    assert [one["value"] for one in home["history"]] == ["Bonn"]


async def test_the_same_facts_are_told_before_and_after_the_workers(quiet: World) -> None:
    ana = await quiet.tenant()
    await say(ana, "I live in Bonn.", "No, not Bonn, Cologne.", "Sorry, not Cologne, Aachen.", name="Kim")
    before = await told(ana, name="Kim")
    await worked_through(quiet)
    assert before == await told(ana, name="Kim") == {"Kim lives in Aachen."}


@pytest.mark.parametrize(
    "said",
    [
        ["I live in Porto.", "Correction: not Bonn, Cologne."],
        ["I live in Bonn.", "I moved to Porto.", "Correction: not Bonn, Cologne."],
        ["I live in Bonn.", "I don't live in Bonn any more.", "Correction: not Bonn, Cologne."],
        ["I live in Bonn.", "Book me a hotel in Bonn.", "Sorry, Cologne, not Bonn."],
        ["I like Bonn.", "Sorry, Cologne, not Bonn."],
        ["I live in Bonn.", "Correction: not Ghent, Cologne."],
    ],
)
async def test_nothing_happens_where_no_fact_is_meant(quiet: World, said: list[str]) -> None:
    ana = await quiet.tenant()
    await say(ana, *said[:-1], name="Kim")
    await worked_through(quiet)
    before = await told(ana, name="Kim")
    await say(ana, said[-1], day=9, name="Kim")
    assert await told(ana, name="Kim") == before
    await worked_through(quiet)
    assert await told(ana, name="Kim") == before


async def test_nobody_corrects_what_another_said(quiet: World) -> None:
    ana = await quiet.tenant()
    await say(ana, "I live in Bonn.", name="Kim")
    await say(ana, "Correction: not Bonn, Cologne.", day=1, name="Uwe")
    await worked_through(quiet)
    assert await told(ana, name="Kim") == {"Kim lives in Bonn."}
    assert await told(ana, name="Uwe") == set()


@pytest.mark.law("L5")
async def test_corrections_are_replayed_to_the_same_rows(quiet: World) -> None:
    ana = await quiet.tenant()
    await say(ana, "I live in Bonn.", *CORRECTIONS, name="Kim")
    await worked_through(quiet)
    report = await verify_log(quiet.postgres.owner_url)
    assert report.equal, report
