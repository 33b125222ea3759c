"""The `memory` section of an agent's configuration, as seed 000 has it: camelCase keys, hybrid unless said otherwise.

    {"memory": {"mode": "hybrid", "gateway": {"baseUrl": ..., "userId": ..., "userKey": ..., "appId": "default",
     "projectId": "default", "scope": ["current_chat", "resources"], "topK": 8, "timeoutSeconds": 10}}}

Beyond this machine `baseUrl` must begin with https://, unless `allowHttp` (false), a key of our own, is true.

Where the seed says nothing: `null` counts as absent; a section without a mode is implicit hybrid, and its values are
validated all the same; unknown keys are ignored. No error, warning or repr shows a value.
"""

import logging
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NoReturn, Self

from afterturn_client.errors import AfterturnError, InvalidRequestError
from afterturn_client.transport import check_base_url, check_way

_LOG = logging.getLogger(__name__)
_TOP_K = range(1, 101)


class MemoryConfigError(AfterturnError, ValueError):
    """The memory configuration cannot be used; the message names the key and what is allowed, never a value."""


class Mode(StrEnum):
    """The memory layers of an agent."""

    CURATED = "curated"
    HYBRID = "hybrid"


class Scope(StrEnum):
    """The scopes in which the gateway searches."""

    CURRENT_CHAT = "current_chat"
    RESOURCES = "resources"
    ALL_USER_MEMORY = "all_user_memory"


class Secret:
    """A text that only `reveal` shows; it cannot be pickled."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text.strip())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __repr__(self) -> str:
        return "Secret(***)"

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """The Memory Gateway of an agent; `missing` lists the settings it lacks."""

    base_url: str = ""
    user_id: str = ""
    user_key: Secret = field(default=Secret(""), repr=False)
    app_id: str = "default"
    project_id: str = "default"
    scope: tuple[Scope, ...] = (Scope.CURRENT_CHAT, Scope.RESOURCES)
    top_k: int = 8
    timeout_seconds: float = 10.0
    allow_http: bool = False

    @property
    def missing(self) -> tuple[str, ...]:
        """The required keys that are missing, as the configuration names them."""
        needed = {"baseUrl": self.base_url, "userId": self.user_id, "userKey": self.user_key}
        return tuple(key for key, value in needed.items() if not value)

    @classmethod
    def parse(cls, block: Any) -> Self:
        """Read `memory.gateway`. Raises MemoryConfigError."""
        values = _check_object(block, "memory.gateway")
        allow_http = _parse_flag(values, "allowHttp")
        return cls(
            base_url=_base_url(values.get("baseUrl"), allow_http=allow_http),
            user_id=_parse_text(values, "userId", ""),
            user_key=Secret(_parse_text(values, "userKey", "")),
            app_id=_parse_text(values, "appId", "default") or _refuse_setting("appId", "must not be blank"),
            project_id=_parse_text(values, "projectId", "default") or _refuse_setting("projectId", "must not be blank"),
            scope=_parse_scope(values.get("scope")),
            top_k=_top_k(values.get("topK")),
            timeout_seconds=_parse_timeout(values.get("timeoutSeconds")),
            allow_http=allow_http,
        )


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """The `memory` section of a configuration. `explicit`: the mode was set; curated mode has no gateway."""

    mode: Mode = Mode.HYBRID
    explicit: bool = False
    gateway: GatewaySettings | None = field(default_factory=GatewaySettings)

    @classmethod
    def parse(cls, config: Mapping[str, Any]) -> Self:
        """Read the `memory` section of a whole configuration. Raises MemoryConfigError."""
        section = _check_object(config.get("memory"), "memory")
        mode = _parse_mode(section.get("mode"))
        # A curated agent has no use for the block, so it is not read.
        gateway = None if mode is Mode.CURATED else GatewaySettings.parse(section.get("gateway"))
        return cls(mode, section.get("mode") is not None, gateway)

    def active_gateway(self) -> GatewaySettings | None:
        """Return the gateway to use, or None for curated memory alone; called once, when the agent starts.

        Explicit hybrid mode must be complete, else it raises MemoryConfigError. Hybrid by default goes on without a
        gateway, with one warning.
        """
        if self.gateway is None or not self.gateway.missing:
            return self.gateway
        lacking = ", ".join(self.gateway.missing)
        if self.explicit:
            raise MemoryConfigError(f"memory.mode is hybrid, so memory.gateway needs {lacking} (not blank)")
        _LOG.warning("memory.gateway lacks %s; the agent goes on with curated memory alone", lacking)
        return None

    def status(self) -> dict[str, Any]:
        """Return the settings without secrets, for example for a status page."""
        gateway = self.gateway
        shown: dict[str, Any] = {"mode": self.mode.value, "explicit": self.explicit, "gateway": None}
        if gateway is None or gateway.missing:
            return shown
        return shown | {
            "gateway": {
                "baseUrl": gateway.base_url,
                "userKey": "***",
                "scope": [scope.value for scope in gateway.scope],
                "topK": gateway.top_k,
                "timeoutSeconds": gateway.timeout_seconds,
            }
        }


def _refuse_setting(key: str, problem: str) -> NoReturn:
    raise MemoryConfigError(f"memory.gateway.{key} {problem}")


def _check_object(value: Any, key: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise MemoryConfigError(f"{key} must be an object")
    return value


def _parse_mode(value: Any) -> Mode:
    if value is None:
        return Mode.HYBRID
    if not isinstance(value, str) or value not in [mode.value for mode in Mode]:
        raise MemoryConfigError("memory.mode must be curated or hybrid")
    return Mode(value)


def _parse_text(values: Mapping[str, Any], key: str, default: str) -> str:
    """Return a text; a blank one is empty."""
    value = values.get(key)
    if value is None:
        return default
    if not isinstance(value, str) or any("\ud800" <= sign <= "\udfff" for sign in value):
        _refuse_setting(key, "must be a text")
    return value if value.strip() else ""


def _parse_flag(values: Mapping[str, Any], key: str) -> bool:
    value = values.get(key)
    if value is not None and not isinstance(value, bool):
        _refuse_setting(key, "must be true or false")
    return value is True


def _base_url(value: Any, *, allow_http: bool) -> str:
    url = _parse_text({"baseUrl": value}, "baseUrl", "").strip()
    if not url:
        return ""
    with suppress(InvalidRequestError):  # it calls the key by another name
        url = check_base_url(url)
        with suppress(InvalidRequestError):
            check_way(url, allow_http=allow_http)
            return url
        _refuse_setting("baseUrl", "must begin with https:// beyond this machine, or allowHttp must be true")
    _refuse_setting("baseUrl", "must look like http://host:port or https://host/path, without user and password")


def _parse_scope(value: Any) -> tuple[Scope, ...]:
    known = [scope.value for scope in Scope]
    if value is None:
        return (Scope.CURRENT_CHAT, Scope.RESOURCES)
    if not isinstance(value, list | tuple) or not value:
        _refuse_setting("scope", f"must be a list that is not empty, of {', '.join(known)}")
    if not all(isinstance(one, str) and one in known for one in value):
        _refuse_setting("scope", f"may only hold {', '.join(known)}")
    return tuple(dict.fromkeys(Scope(one) for one in value))


def _top_k(value: Any) -> int:
    if value is None:
        return 8
    if isinstance(value, bool) or not isinstance(value, int) or value not in _TOP_K:
        _refuse_setting("topK", "must be an integer from 1 to 100")
    return value


def _parse_timeout(value: Any) -> float:
    if value is None:
        return 10.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse_setting("timeoutSeconds", "must be a number of seconds above 0")
    try:
        seconds = float(value)
    except OverflowError:
        seconds = math.inf
    if not math.isfinite(seconds) or seconds <= 0:
        _refuse_setting("timeoutSeconds", "must be a finite number of seconds above 0")
    return seconds
