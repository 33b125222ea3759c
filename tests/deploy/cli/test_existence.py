"""A host or bank that is named and is not there: status 2, and a line that says which there are."""

import re
from uuid import uuid4

import pytest

from deploy.components.bootstrap import HOST
from tests.deploy.operated import HOST_ID, Busy

OF_HOST = [
    ("replay", "--verify"),
    ("jobs", "list"),
    ("jobs", "show", "monday/1"),
    ("jobs", "retry", "--all"),
    ("jobs", "drop", "--all", "--reason", "x", "--dry-run"),
    ("jobs", "drain"),
    ("gateway", "list"),
    ("gateway", "show", "monday/1"),
    ("gateway", "resolve", "monday/1", "--as", "delivered"),
    ("gateway", "retry", "--all"),
    ("audit", "list"),
    ("keys", "list"),
    ("quota", "show"),
    ("extract",),
    ("erase", "unit", str(uuid4()), "--yes"),
    ("erase", "session", "monday", "--yes"),
    ("erase", "user", "ana", "--dry-run"),
    ("erase", "bank", "support", "--dry-run"),
]
OF_BANK = [
    *(one for one in OF_HOST if one[0] in {"replay", "jobs", "gateway", "extract"}),
    ("recall-check",),
    ("erase", "unit", str(uuid4()), "--yes"),
    ("erase", "session", "monday", "--yes"),
]


@pytest.fixture
async def busy(busy: Busy) -> Busy:
    """One turn in one bank, done."""
    await busy.append(("monday", "1"), bank="support")
    await busy.finish()
    return busy


async def test_a_host_that_is_not_there_is_no_empty_success(busy: Busy) -> None:
    for command in OF_HOST:
        result = await busy.run(*command, "--host", "defualt")
        assert result.exit_code == 2, command
        assert "there is no tenant 'defualt'" in result.stderr, command
        assert "the tenants are default" in result.stderr


async def test_a_bank_that_is_not_there_is_no_empty_success(busy: Busy) -> None:
    for command in OF_BANK:
        result = await busy.run(*command, "--bank", "suport")
        # Banks' names are their tenant's: the operators' API does not list them. SESSION/TURN is an id made of them.
        if command[0] not in {"jobs", "gateway"}:
            told = (2, "bank 'suport'", "support")
        elif "monday/1" in command:
            told = (1, "there is no such turn", "")
        else:
            told = (2, "bank: is no bank of this tenant", "")
        assert (result.exit_code, all(part in result.stderr for part in told[1:])) == (told[0], True), command


async def test_what_is_there_is_found_by_its_name(busy: Busy) -> None:
    for place in (("--host", HOST), ("--bank", "support"), ("--host", HOST, "--bank", "support")):
        assert (await busy.answer("jobs", "drain", *place))["drained"] is True
        assert (await busy.answer("replay", "--verify", *place))["equal"] is True
    assert (await busy.answer("replay", "--verify", "--host", str(HOST_ID)))["tables"][0]["rows_live"] == 1


async def test_a_host_is_meant_by_its_id_as_by_its_name(busy: Busy) -> None:
    await busy.append(("monday", "2"), bank="support")
    assert (await busy.run("quota", "set", "--max-turns", "9")).exit_code == 0
    drain = ("jobs", "drain", "--timeout", "0s")
    for command in (drain, ("jobs", "list"), ("keys", "list"), ("quota", "show"), ("audit", "list")):
        by_name, by_id = [await busy.run(*command, "--host", host) for host in (HOST, str(HOST_ID))]
        one, other = [re.sub(r" *[\d.]+ s", "", found.stdout) for found in (by_name, by_id)]  # but for ages
        assert one == other != "", command
        assert by_id.exit_code == by_name.exit_code == (command == drain), command


async def test_something_of_another_host_is_erased_there(busy: Busy) -> None:
    await busy.run("keys", "create", "--host", "other", "--label", "x")
    nothing = await busy.run("erase", "bank", "support", "--host", "other", "--dry-run")
    assert (nothing.exit_code, "there is no bank support" in nothing.stderr) == (1, True)
    counted = await busy.answer("erase", "bank", "support", "--host", HOST, "--dry-run")
    assert counted["counts"]["messages"] == 2
