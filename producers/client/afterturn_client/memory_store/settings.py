"""The way an agent's memory is written: `memory.writeMode` and what belongs to it, with the platform's environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

from afterturn_client.settings import MemoryConfigError

MODE_NAME = "LIGHT_AGENT_MEMORY_WRITE_MODE"
URL_NAME = "LIGHT_AGENT_PORTAL_COMMAND_URL"
DIRECT_NAME = "LIGHT_AGENT_ALLOW_DIRECT_PG_MEMORY"
#: The path of commands on a portal.
COMMAND_PATH = "/portal/command"


class WriteMode(StrEnum):
    """The ways to write."""

    PORTAL_COMMAND = "portal-command"
    DIRECT_PG = "direct-pg"


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The settings of a memory store.

    `command_url`: where commands go; empty in direct-pg. `retain_session_history`: histories are stored and read.
    `exportable_memory`: a promise that what is written may be exported, which direct-pg cannot keep; an export itself
    is the operator's, and holds memory only where it is named.
    """

    write_mode: WriteMode = WriteMode.PORTAL_COMMAND
    command_url: str = ""
    allow_direct_pg: bool = False
    retain_session_history: bool = True
    exportable_memory: bool = False

    @classmethod
    def parse(cls, config: Mapping[str, Any], environ: Mapping[str, str], portal_url: str = "") -> Self:
        """Read the `memory` section of a configuration; the environment goes before it.

        `portal_url`: the portal's own URL, from whose origin the command URL follows where none is set. Raises
        MemoryConfigError for any value that is not one of those described.
        """
        section = config.get("memory")
        if not isinstance(section, Mapping | None):
            raise MemoryConfigError("memory must be an object")
        section = section or {}
        mode = _parse_mode(environ.get(MODE_NAME), section.get("writeMode"))
        direct = _parse_flag(section, "allowDirectPg", default=False)
        if (told := environ.get(DIRECT_NAME)) is not None:
            if told not in ("true", "false"):
                raise MemoryConfigError(f"{DIRECT_NAME} must be true or false")
            direct = told == "true"
        exportable = _parse_flag(section, "exportableMemory", default=False)
        url = environ.get(URL_NAME) or (derive_command_url(portal_url) if portal_url else "")
        if mode is WriteMode.DIRECT_PG:
            _check_direct(direct, exportable)
        elif not url:
            raise MemoryConfigError(f"{URL_NAME} must be set, as https://host{COMMAND_PATH}: commands need an address")
        history = _parse_flag(section, "retainSessionHistory", default=True)
        return cls(mode, url if mode is WriteMode.PORTAL_COMMAND else "", direct, history, exportable)


def derive_command_url(portal_url: str) -> str:
    """Return the URL of commands on a portal: its origin with the command path. Raises MemoryConfigError."""
    parts = urlsplit(portal_url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise MemoryConfigError("the portal's URL must look like https://host")
    return urlunsplit((parts.scheme, parts.netloc, COMMAND_PATH, "", ""))


def _check_direct(allowed: bool, exportable: bool) -> None:  # noqa: FBT001 - as parsed
    if not allowed:
        raise MemoryConfigError(
            "memory.writeMode direct-pg writes no events and is not portable: use portal-command, or set "
            f"memory.allowDirectPg or {DIRECT_NAME} to true"
        )
    if exportable:
        raise MemoryConfigError("memory.exportableMemory needs portal-command: rows of direct-pg are never exported")


def _parse_mode(told: str | None, configured: Any) -> WriteMode:
    value, name = (configured, "memory.writeMode") if told is None else (told, MODE_NAME)
    if value is None:
        return WriteMode.PORTAL_COMMAND
    if not isinstance(value, str) or value not in [mode.value for mode in WriteMode]:
        raise MemoryConfigError(f"{name} must be portal-command or direct-pg")
    return WriteMode(value)


def _parse_flag(section: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = section.get(name, default)
    if not isinstance(value, bool):
        raise MemoryConfigError(f"memory.{name} must be true or false")
    return value
