"""The isolation check finds nothing where tenants are isolated, finds what is planted, and leaves nothing behind."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID, uuid4

import orjson
import pytest
import pytest_asyncio
from fastapi import FastAPI, Request
from pydantic import BaseModel
from sqlalchemy import TextClause, text
from starlette.routing import Mount

from deploy.lab.chaos.undisturbed import run_all_stages
from deploy.lab.constant_embedder import ConstantEmbedder
from deploy.lab.isolation import IsolationReport, TrialChannel, check_isolation, trials
from deploy.lab.isolation.coverage import (
    UNTRIED,
    UNTRIED_FIELDS,
    find_uncovered_fields,
    find_uncovered_routes,
    list_tried_routes,
)
from deploy.lab.isolation.fixture import IsolationFixture, build_fixture, make_tenant_names
from deploy.lab.isolation.routes import OPERATOR, ROUTES
from deploy.lab.isolation.run import build_application
from deploy.lab.isolation.tables import MAY_BE_EMPTY, find_empty_tables
from deploy.lab.isolation.transport import Send, TrialReply, send_in_process
from deploy.lab.isolation.trials import CASES, compare_replies
from deploy.lab.removal import TABLES, remove_hosts
from producers.errors import PermissionDenied
from producers.http import authentication
from producers.notifications import Notifier
from producers.plugin.openapi import ROUTES as PLUGIN_ROUTES
from producers.service import banks, dependencies
from producers.service.authorisation import Authorisation
from store import identity
from store.clock import DatabaseClock
from store.connections import create_owner_engine
from store.database import Database
from store.derived.persons import Person, PersonKey, Persons
from store.memory.directives import Curation
from store.tenancy.banks import Banks
from store.tenancy.keys import Grant, Keys
from store.tenancy.operator_keys import Operator
from store.tenancy.spaces import Space
from tests.producers.conftest import broker_of, database_of
from tests.producers.schemas import HeldToSchema
from tests.servers import TestPostgres, TestValkey
from tests.tables import each_row

#: Enough to find a hole that was planted: every case is tried once by each tenant.
TRIES = 5 * len(CASES)

pytestmark = pytest.mark.law("L6")


@dataclass
class Check:
    """A fixture and a way into it."""

    postgres: TestPostgres
    database: Database
    send: Send
    app: Any
    fixture: IsolationFixture

    async def tries(self, number: int = TRIES) -> IsolationReport:
        return await check_isolation(self.fixture, [TrialChannel(self.send, number)], 7, self.postgres.owner_url)


@asynccontextmanager
async def serving(postgres: TestPostgres, valkey: TestValkey) -> AsyncIterator[tuple[Database, Any]]:
    """Lend the application on a database."""
    database, broker = database_of(postgres), broker_of(valkey.url, f"isolation-{uuid4().hex}")
    notifier = Notifier(broker)
    yield database, build_application(database, notifier, await DatabaseClock.asked(database))
    await notifier.close()
    await database.close()
    broker.client.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def built(
    servers: tuple[TestPostgres, object], valkey: TestValkey
) -> AsyncIterator[tuple[TestPostgres, IsolationFixture]]:
    """A database in which a fixture was built, to which nothing is connected."""
    postgres = await servers[0].create(f"world_{uuid4().hex}")
    async with serving(postgres, valkey) as (database, app):
        fixture = await build_fixture(
            # Two: each has the other one's things to look for.
            make_tenant_names("isolation")[:2],
            Keys(database),
            send_in_process(app),
            lambda _: run_all_stages(database, ConstantEmbedder()),
        )
    yield postgres, fixture
    await postgres.drop()


@pytest_asyncio.fixture(loop_scope="session")
async def check(built: tuple[TestPostgres, IsolationFixture], valkey: TestValkey) -> AsyncIterator[Check]:
    """A copy of that database, and the application on it."""
    postgres = await built[0].create(f"world_{uuid4().hex}", template=built[0].database)
    async with serving(postgres, valkey) as (database, app):
        yield Check(postgres, database, send_in_process(HeldToSchema(app)), app, built[1])
    await postgres.drop()


async def test_nothing_foreign_is_seen_nor_told_from_what_is_absent(check: Check) -> None:
    report = await check.tries()
    assert report.examples == []
    assert (report.seen, report.told_apart, report.tries) == (0, 0, TRIES)
    assert set(report.doors) == {case.name for case in CASES}
    assert report.holds


async def test_every_table_of_a_tenant_holds_something_of_the_world_or_it_is_said_why_not(check: Check) -> None:
    fixture = check.fixture
    assert await find_empty_tables(check.postgres.owner_url, fixture.host_ids) == []
    owner = create_owner_engine(check.postgres.owner_url)
    async with owner.begin() as connection:
        tables = {row[0] for row in await connection.execute(TABLES)}
        await connection.execute(text("create table afterturn.later_t (host_id uuid)"))
    await owner.dispose()
    assert set(MAY_BE_EMPTY) <= tables
    assert await find_empty_tables(check.postgres.owner_url, fixture.host_ids) == ["later_t"]


async def test_every_route_of_the_application_is_tried_or_it_is_said_why_not(check: Check) -> None:
    assert find_uncovered_routes(check.app) == []
    served = {
        f"{method} {route.path.replace(':name}', '}').replace(':path}', '}')}"
        for route in check.app.routes
        for method in getattr(route, "methods", None) or {"*"}
    } | {f"{method.upper()} {path}" for method, path, *_ in PLUGIN_ROUTES}
    assert list_tried_routes() | set(UNTRIED) <= served


async def test_every_parameter_and_field_is_tried_or_it_is_said_why_not(check: Check) -> None:
    description = check.app.openapi()
    assert find_uncovered_fields(description) == []
    assert [name for name in UNTRIED_FIELDS if f'"{name}"' not in orjson.dumps(description).decode()] == []


def test_a_parameter_a_field_and_a_listed_value_that_are_added_later_are_named() -> None:
    app = FastAPI()

    class Erasing(BaseModel):
        kind: Literal["unit", "colour"]
        shade: str = ""

    @app.delete("/api/v1/docs/{doc_id}")
    async def delete(doc_id: str, erase: str = "", also: str = "") -> None:
        """Answer nothing."""

    @app.post("/api/v1/erasures")
    async def erase(body: Erasing) -> None:
        """Answer nothing."""

    added = ["DELETE /api/v1/docs/{doc_id} also", "POST /api/v1/erasures kind=colour", "POST /api/v1/erasures shade"]
    assert find_uncovered_fields(app.openapi()) == added


@each_row("path", ["/v1/memories/{memory_id:path}", "/mcp/tools", "/console/banks", "/api/v1/agents"])
def test_a_route_that_is_added_later_is_named(path: str) -> None:
    app = FastAPI(openapi_url=None)

    async def answer(_request: Request) -> None:
        """Answer nothing."""

    app.add_api_route(path, answer, methods=["GET", "POST"])
    app.router.routes.append(Mount("/inner", app=FastAPI(openapi_url=None)))
    shown = path.replace(":path", "")
    assert find_uncovered_routes(app) == ["* /inner", f"GET {shown}", f"POST {shown}"]


async def test_an_operators_route_that_admits_a_tenants_key_is_found(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def admit(*_: object) -> Operator:
        return Operator(uuid4(), makes_keys=False)

    monkeypatch.setattr(authentication, "_find_operator_by_key", admit)
    case = next(one for one in CASES if one.way == f"GET {OPERATOR}/tenants")
    monkeypatch.setattr(trials, "CASES", [case])
    monkeypatch.setattr(trials, "WEIGHED", [case])
    report = await check.tries(2)
    assert [line.partition(": ")[0] for line in report.examples] == ["admitted"]
    assert not report.holds


@pytest.mark.nightly
async def test_a_bank_that_is_not_hidden_is_found(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    async def open_reach(_banks: object, _grant: Grant, bank: str) -> str:
        return bank

    monkeypatch.setattr(dependencies, "resolve_bank", open_reach)
    report = await check.tries()
    assert report.seen > 0
    assert not report.holds


@pytest.mark.nightly
async def test_a_refusal_that_tells_foreign_from_absent_is_found(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = {place.bank for place in check.fixture.places}
    resolve = Banks.resolve

    async def telling(self: Banks, host: Any, space: Space, bank: str) -> str:
        if space.prefix and bank in foreign and await resolve(self, host, space, bank) != bank:
            raise PermissionDenied("this bank belongs to somebody else")
        return await resolve(self, host, space, bank)

    monkeypatch.setattr(Banks, "resolve", telling)
    report = await check.tries()
    assert report.told_apart > 0
    assert all(line.startswith("told apart") for line in report.examples)


@pytest.mark.nightly
async def test_a_users_banks_that_are_not_hidden_are_found(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    of_user = Banks.of_user

    async def all_of_user(self: Banks, host: Any, _space: Space, user: str, **_: Any) -> list[str]:
        return await of_user(self, host, Space(), user)

    monkeypatch.setattr(Banks, "of_user", all_of_user)
    report = await check.tries(6 * TRIES)
    assert report.seen > 0
    assert any("across" in line for line in report.examples)


@pytest.mark.nightly
async def test_each_kind_of_thing_of_another_user_is_found_where_its_bank_is_not_hidden(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {(identity.host_id(check.fixture.names[one.tenant]), one.bank) for one in check.fixture.places}

    async def careless(known: Banks, grant: Grant, bank: str) -> str:
        """Forget whose a bank is, within its tenant."""
        return bank if (grant.host_id, bank) in places else await banks.resolve_bank(known, grant, bank)

    monkeypatch.setattr(dependencies, "resolve_bank", careless)
    # What changes things would be let in as well, and soon nothing would be left to see.
    reads = [case for case in CASES if case.way.startswith(("GET", "POST /api/v1/recall"))]
    monkeypatch.setattr(trials, "CASES", reads)
    monkeypatch.setattr(trials, "WEIGHED", reads)
    report = await check.tries(2 * TRIES)
    kinds = (
        "recall",
        "units/{unit_id}",
        "docs/{doc_id}",
        "directives",
        "reflections",
        "banks/{bank}/freshness",
    )
    assert [kind for kind in kinds if not any(f"/api/v1/{kind}" in name for name in report.found)] == []
    assert any("that is a reflection" in name for name in report.found)


@pytest.mark.nightly
async def test_a_profile_from_banks_that_a_key_does_not_reach_is_found(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = Persons.of

    async def careless(self: Persons, host: UUID, _space: Space, key: PersonKey, **more: Any) -> Person:
        return await of(self, host, Space(), key, **{**more, "banks": None})

    monkeypatch.setattr(Persons, "of", careless)
    report = await check.tries()
    assert report.seen > 0
    assert all(name.startswith("GET /api/v1/profile") for name in report.found)


@pytest.mark.nightly
async def test_a_user_who_changes_what_others_left_in_a_shared_bank_is_found(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def anyone(*_: object, **__: object) -> None:
        """Let every key do everything."""

    monkeypatch.setattr(Authorisation, "require", anyone)
    report = await check.tries()
    assert report.seen > 0
    allowed = {line for line in report.examples if line.startswith("allowed")}
    assert allowed
    assert all(" of others in a shared bank" in line for line in allowed)
    assert not report.holds


async def test_what_was_taken_away_is_found(check: Check) -> None:
    fixture = check.fixture
    place, changed = fixture.places[0], fixture.places[1]
    async with check.database.tenant(identity.host_id(fixture.names[0])) as connection:
        await connection.execute(
            text("delete from afterturn.recall_job_t where job_id = cast(:job as uuid)"), {"job": place.things.job}
        )
    way = TrialChannel(_meanwhile(check, fixture, changed.bank), 2)
    report = await check_isolation(fixture, [way], 7, check.postgres.owner_url)
    assert (report.seen, report.examples[-1:]) == (2, ["changed: 2 of 14 places"])


def _meanwhile(check: Check, fixture: IsolationFixture, bank: str) -> Send:
    """Return a way in whose first request is beside another one, that changes a place."""
    left = iter([True])

    async def send(ask: Any, token: str) -> Any:
        if next(left, False):
            curation = Curation(check.database, await DatabaseClock.asked(check.database))
            known = (await curation.directives(identity.host_id(fixture.names[0]), bank, 10)).rows
            await curation.withdraw(identity.host_id(fixture.names[0]), bank, known[0].directive_id)
        return await check.send(ask, token)

    return send


async def test_removed_hosts_leave_no_row(check: Check) -> None:
    fixture = check.fixture
    await remove_hosts(check.postgres.owner_url, fixture.host_ids)
    engine = create_owner_engine(check.postgres.superuser_url)
    async with engine.connect() as connection:
        tables = [row[0] for row in await connection.execute(TABLES)]
        left = [
            table for table in tables if (await connection.execute(_any_row(table), {"hosts": fixture.host_ids})).all()
        ]
    await engine.dispose()
    assert len(tables) > 20
    assert left == []


def test_what_a_shared_bank_must_keep_is_tried_there() -> None:
    kept = {"directives", "pin", "units", "docs", "erasures", "links", "banks"}
    shared = [case.name for case in CASES if case.name.endswith("of others in a shared bank")]
    assert all(any(kind in name for name in shared) for kind in kept)
    assert len(CASES) > len(ROUTES)


def _any_row(table: str) -> TextClause:
    return text(f"select 1 from afterturn.{table} where host_id = any(:hosts) limit 1")


def test_of_lists_of_own_units_it_tells_nothing_which_kind_comes_first() -> None:
    memory, message = {"unit_id": "1", "session_id": None, "turn_id": None}, {"unit_id": "2", "session_id": "monday"}
    lists = [TrialReply(200, orjson.dumps({"units": units})) for units in ([memory], [message, memory], [])]
    assert compare_replies(lists[0], lists[1]) == ""
    assert compare_replies(lists[0], lists[2])
