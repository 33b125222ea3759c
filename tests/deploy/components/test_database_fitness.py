"""Why a database cannot be used is said by the name of its setting: at start, by `db status`, doctor and probes."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import make_url
from structlog.testing import capture_logs

from deploy.components import database_fitness
from deploy.components.database_fitness import explain_failure, log_unusable_databases, try_url
from deploy.components.doctor_checks import DoctorTarget, check_gateways, check_postgresql
from deploy.settings import load_settings
from deploy.worker.probes import _look_at_database
from store.settings import DatabaseSettings
from tests.client.loopback import closed_port
from tests.patience import until
from tests.poolers import pgbouncer
from tests.servers import TestPostgres
from tests.store.test_transaction_pooling import keep_defaults

pytestmark = pytest.mark.untouched


def with_password(url: str, password: str) -> str:
    return make_url(url).set(password=password).render_as_string(hide_password=False)


def settings_of(app: str, operator: str, *, pooled: bool = False) -> DatabaseSettings:
    return DatabaseSettings(url=SecretStr(app), operator_url=SecretStr(operator), transaction_pooling=pooled)


@asynccontextmanager
async def starting(settings: DatabaseSettings) -> AsyncIterator["asyncio.Task[None]"]:
    task = asyncio.create_task(log_unusable_databases(settings))
    yield task
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest.fixture
def pooled(fresh_database: TestPostgres) -> Iterator[DatabaseSettings]:
    with pgbouncer([fresh_database.app_url, fresh_database.operator_url]) as (app, operator):
        yield settings_of(app, operator, pooled=True)


async def test_a_wrong_password_is_logged_at_start_by_its_setting_and_never_shown(postgres: TestPostgres) -> None:
    wrong = settings_of(postgres.app_url, with_password(postgres.operator_url, "zq81"))
    with capture_logs() as told:
        async with starting(wrong):
            await until(lambda: bool(told), "it is logged")
    [line] = told
    assert (line["event"], line["log_level"], line["setting"]) == (
        "database_unusable",
        "error",
        "database.operator_url",
    )
    assert line["what"] == "it refuses the login (InvalidPasswordError)"
    assert "zq81" not in str(told)


@pytest.mark.parametrize("wrong", ["password", "user"])
async def test_a_pooler_that_refuses_a_login_is_told_from_one_that_is_away(
    pooled: DatabaseSettings, wrong: str
) -> None:
    url = make_url(pooled.url.get_secret_value()).set(
        username="zq81" if wrong == "user" else "afterturn_app", password="zq81"
    )
    with pytest.raises(database_fitness.DATABASE_ERRORS) as failed:
        await try_url(url.render_as_string(hide_password=False), pooled=True)
    problem = explain_failure(failed.value, "database.url")
    assert problem.what.startswith("it refuses the login")
    assert problem.lasting
    assert "database.url" in problem.remedy
    assert "zq81" not in str(problem)


async def test_each_reason_is_logged_once_and_what_is_back_is_tried_no_more(
    postgres: TestPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_fitness, "RETRY_INTERVAL_S", 0.01)
    tried = list[str]()
    away = make_url(postgres.app_url).set(port=closed_port_number()).render_as_string(hide_password=False)

    async def try_noted(url: str, *, pooled: bool) -> None:
        tried.append(url)
        await try_url(away if url == postgres.app_url and tried.count(url) < 3 else url, pooled=pooled)

    monkeypatch.setattr(database_fitness, "try_url", try_noted)
    with capture_logs() as told:
        await log_unusable_databases(settings_of(postgres.app_url, postgres.operator_url))
    assert [(line["setting"], line["log_level"]) for line in told] == [("database.url", "warning")]
    assert (tried.count(postgres.app_url), tried.count(postgres.operator_url)) == (3, 1)


async def test_a_database_that_is_not_there_and_a_server_that_is_down_are_told_apart(postgres: TestPostgres) -> None:
    reasons = list[str]()
    down = make_url(postgres.app_url).set(port=closed_port_number()).render_as_string(hide_password=False)
    for url in (postgres.named("nowhere").app_url, down):
        with pytest.raises(database_fitness.DATABASE_ERRORS) as failed:
            await try_url(url, pooled=False)
        problem = explain_failure(failed.value, "database.url")
        reasons.append(problem.what)
        assert "db init" not in problem.remedy
    assert reasons == [
        "it has no database of this name (InvalidCatalogNameError)",
        "it does not answer (ConnectionRefusedError)",
    ]


async def test_behind_a_pooler_a_worker_is_ready_with_the_defaults_and_says_which_it_lacks(
    pooled: DatabaseSettings, fresh_database: TestPostgres
) -> None:
    status, _, body = await asyncio.to_thread(_look_at_database, pooled)
    assert status is HTTPStatus.SERVICE_UNAVAILABLE
    assert b"its sessions lack the service's defaults" in body
    await keep_defaults(fresh_database)
    with pgbouncer([fresh_database.app_url, fresh_database.operator_url]) as (app, operator):
        anew = settings_of(app, operator, pooled=True)
        assert (await asyncio.to_thread(_look_at_database, anew))[0] is HTTPStatus.OK


@pytest.mark.parametrize("flaw", ["old session", "wrong password"])
async def test_doctor_says_what_a_database_lacks_without_a_traceback(
    pooled: DatabaseSettings, fresh_database: TestPostgres, tmp_path: Path, flaw: str
) -> None:
    old = flaw == "old session"
    urls = (pooled.url.get_secret_value(), pooled.operator_url.get_secret_value()) if old else None
    app, operator = urls or (with_password(fresh_database.app_url, "zq81"), fresh_database.operator_url)
    told = {
        "AFTERTURN_DATA": str(tmp_path),
        "AFTERTURN_DATABASE__URL": app,
        "AFTERTURN_DATABASE__OPERATOR_URL": operator,
        "AFTERTURN_DATABASE__TRANSACTION_POOLING": str(old).lower(),
    }
    target = DoctorTarget(load_settings(told).settings, None)
    found = [one async for one in check_postgresql(target)] + [one async for one in check_gateways(target)]
    [failed] = [one for one in found if one.verdict == "fail"]
    seen, remedy = (
        ("its sessions lack the service's defaults", "RECONNECT")
        if old
        else ("it refuses the login (InvalidPasswordError)", "database.url")
    )
    assert failed.seen == seen
    assert remedy in (failed.remedy or "")
    assert "zq81" not in str(found)


def closed_port_number() -> int:
    return int(closed_port().rpartition(":")[2].strip("/"))
