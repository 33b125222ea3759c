"""The settings of the memory store: the platform's names, their defaults, and what is no value of them."""

from typing import Any

import pytest
from afterturn_client.memory_store.settings import StoreSettings, WriteMode, derive_command_url
from afterturn_client.settings import MemoryConfigError

from tests.tables import each_row

URL = {"LIGHT_AGENT_PORTAL_COMMAND_URL": "https://portal.example/portal/command"}
ALLOWED = {"LIGHT_AGENT_ALLOW_DIRECT_PG_MEMORY": "true"}


def test_commands_are_the_default_and_the_environment_goes_before_the_configuration() -> None:
    found = StoreSettings.parse({}, URL)
    assert found == StoreSettings(WriteMode.PORTAL_COMMAND, URL["LIGHT_AGENT_PORTAL_COMMAND_URL"])
    assert (found.retain_session_history, found.exportable_memory, found.allow_direct_pg) == (True, False, False)
    config = {"memory": {"writeMode": "direct-pg", "allowDirectPg": True, "retainSessionHistory": False}}
    direct = StoreSettings.parse(config, URL)
    assert (direct.write_mode, direct.command_url, direct.retain_session_history) == ("direct-pg", "", False)
    told = {**URL, "LIGHT_AGENT_MEMORY_WRITE_MODE": "portal-command"}
    assert StoreSettings.parse(config, told).write_mode == "portal-command"
    mode = {"LIGHT_AGENT_MEMORY_WRITE_MODE": "direct-pg"}
    assert StoreSettings.parse({}, mode | ALLOWED).write_mode == "direct-pg"


def test_the_url_of_commands_follows_from_the_portals() -> None:
    told = StoreSettings.parse({}, {}, "https://portal.example:8443/some/path?token=x#y")
    assert told.command_url == "https://portal.example:8443/portal/command"
    assert StoreSettings.parse({}, URL, "https://other.example").command_url == URL["LIGHT_AGENT_PORTAL_COMMAND_URL"]
    for wrong in ("portal.example", "ftp://portal.example", "https://"):
        with pytest.raises(MemoryConfigError, match="https://host"):
            derive_command_url(wrong)


@each_row(
    "section, environ, named",
    [
        ({"writeMode": "portal"}, URL, "memory.writeMode"),
        ({"writeMode": ""}, URL, "memory.writeMode"),
        ({"writeMode": True}, URL, "memory.writeMode"),
        ({}, {**URL, "LIGHT_AGENT_MEMORY_WRITE_MODE": "direct_pg"}, "LIGHT_AGENT_MEMORY_WRITE_MODE"),
        ({}, {**URL, "LIGHT_AGENT_MEMORY_WRITE_MODE": ""}, "LIGHT_AGENT_MEMORY_WRITE_MODE"),
        ({}, {}, "LIGHT_AGENT_PORTAL_COMMAND_URL"),
        ({"writeMode": "direct-pg"}, {}, "not portable"),
        (
            {"writeMode": "direct-pg", "allowDirectPg": True},
            {"LIGHT_AGENT_ALLOW_DIRECT_PG_MEMORY": "false"},
            "not port",
        ),
        ({"writeMode": "direct-pg"}, {"LIGHT_AGENT_ALLOW_DIRECT_PG_MEMORY": "1"}, "must be true or false"),
        ({"writeMode": "direct-pg", "exportableMemory": True}, ALLOWED, "exportableMemory needs portal-command"),
        ({"retainSessionHistory": "yes"}, URL, "memory.retainSessionHistory"),
        ({"exportableMemory": 1}, URL, "memory.exportableMemory"),
        ({"allowDirectPg": None}, URL, "memory.allowDirectPg"),
        ([], URL, "memory must be an object"),
    ],
)
def test_any_other_value_is_an_error_at_the_start(section: Any, environ: dict[str, str], named: str) -> None:
    with pytest.raises(MemoryConfigError, match=named):
        StoreSettings.parse({"memory": section}, environ)
