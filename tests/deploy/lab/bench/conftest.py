"""The servers of a bench: a database of the test's own."""

import pytest
from pydantic import SecretStr

from deploy.lab.bench.servers import BenchServers
from tests.servers import TestPostgres


@pytest.fixture
def grounds(fresh_database: TestPostgres) -> BenchServers:
    app, operator, owner = fresh_database.app_url, fresh_database.operator_url, fresh_database.owner_url
    return BenchServers(SecretStr(app), SecretStr(operator), SecretStr(owner), shared=True)
