"""The settings tree: each package defines its part, this module composes and reads them.

Options of the command line take precedence over the environment (`AFTERTURN_`, parts joined by `__`), the environment
over one YAML or JSON file (`AFTERTURN_CONFIG`), the file over the defaults, which work.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import platformdirs
from pydantic import BaseModel, Field, SecretStr, TypeAdapter, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from deploy import settings_layers as layers
from deploy.observability.tracing import TracingSettings
from deploy.settings_errors import SettingProblem, SettingsError, explain_errors, find_field
from embeddings.settings import EmbeddingSettings
from embeddings.settings_section import SettingsSection
from producers.mcp.settings import NO_EFFECT
from producers.settings import (
    ApiSettings,
    BrokerSettings,
    FairnessSettings,
    PluginSettings,
    PressureSettings,
    QueueSettings,
)
from store.recall.settings import RecallSettings
from store.settings import DatabaseSettings
from workers.settings import DeliverySettings, EnrichmentSettings, MaintenanceSettings, WorkerSettings


class _SecondName(NamedTuple):
    """A setting's second name; its value there is `scale` times that of the first."""

    second: str
    first: str
    scale: int = 1


_SEED, _OURS = "api.mcp.memory.heuristic", "enrichment"
SECOND_NAMES = (
    _SecondName(f"{_SEED}.enabled", f"{_OURS}.enabled"),
    _SecondName(f"{_SEED}.model", f"{_OURS}.model"),
    _SecondName(f"{_SEED}.base_url", f"{_OURS}.base_url"),
    _SecondName(f"{_SEED}.timeout_ms", f"{_OURS}.timeout_seconds", 1000),
    _SecondName(f"{_SEED}.max_output_tokens", f"{_OURS}.max_output_tokens"),
)


def unify_names(tree: type[BaseModel], merged: dict[str, Any], origins: dict[str, str]) -> list[SettingProblem]:
    """Give each setting that was set under one of its names the same value under the other.

    Changes both arguments. Returns a problem for each that was set under both with different values; an invalid value
    stays as it is, for the tree to refuse.
    """
    problems = []
    for name in SECOND_NAMES:
        found = {key: _read(tree, merged, key) for key in (name.first, name.second) if key in origins}
        if not found or None in found.values():
            continue
        first = found.get(name.first, _divide(found.get(name.second), name.scale))
        second = found.get(name.second, _multiply(first, name.scale))
        if second != _multiply(first, name.scale):
            why = f"differs from {name.first}, which is the same setting; set one of them"
            problems.append(SettingProblem(name.second, why, origins[name.second]))
            continue
        origin = origins.get(name.first) or origins[name.second]
        for key, value in ((name.first, first), (name.second, second)):
            if key not in origins:
                _put(merged, key, value)
                origins[key] = origin
    return problems


def _multiply(value: Any, scale: int) -> Any:
    return value if scale == 1 else max(1, round(value * scale))


def _divide(value: Any, scale: int) -> Any:
    return value if scale == 1 or value is None else value / scale


def _read(tree: type[BaseModel], merged: Mapping[str, Any], key: str) -> Any:
    """Return the parsed value of a setting, None for one that is invalid."""
    field, value = find_field(tree, key.split(".")), merged
    for part in key.split("."):
        value = value[part]
    if field is None or field.annotation is None:
        return None
    try:
        return TypeAdapter(field.annotation).validate_python(value)
    except ValidationError:
        return None


def _put(merged: dict[str, Any], key: str, value: Any) -> None:
    *above, last = key.split(".")
    below: Any = merged
    for part in above:
        below = below.setdefault(part, {})
        if not isinstance(below, dict):
            return
    below[last] = value


class LogFormat(StrEnum):
    """How a line of the log looks."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """From which level on lines are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogSettings(SettingsSection):
    """The service's log on standard error."""

    format: LogFormat = Field(
        default=LogFormat.TEXT,
        description="format of log lines on standard error: text (for people) or json; set json for a log collector",
    )
    level: LogLevel = Field(
        default=LogLevel.INFO,
        description="least severe level that is logged: debug, info, warning or error; set debug to look for a fault",
    )


class ClientSettings(SettingsSection):
    """How commands reach a service that no `afterturn up` of this machine runs."""

    url: str = Field(
        default="",
        description="URL of the API for commands; empty: this machine, at api.port; set it to work on another "
        "machine's service",
    )
    key: SecretStr = Field(
        default=SecretStr(""),
        description="API key that `ingest`, `recall` and other commands send; set it with client.url",
    )
    allow_http: bool = Field(
        default=False,
        description="allow sending the key over plain http to another machine; only for a private network",
    )


class HealthSettings(SettingsSection):
    """From when on `/health/ready` says that the service is degraded."""

    oldest_undone_seconds: float = Field(
        default=300.0,
        gt=0,
        description="age in seconds of undone work above which the service is degraded; raise it where late work is "
        "acceptable",
    )
    quarantine_growth: int = Field(
        default=1,
        ge=1,
        description="new rows in quarantine within the window from which the service is degraded; raise it where "
        "single failures are common",
    )
    quarantine_window_seconds: float = Field(
        default=600.0, gt=0, description="window of quarantine_growth, in seconds; raise it to see slower growth"
    )
    disk_low_bytes: int = Field(
        default=1 << 30,
        ge=0,
        description="free bytes on the disk of `data` below which the service is degraded; raise it where the disk "
        "fills quickly",
    )
    disk_reserve_bytes: int = Field(
        default=256 << 20,
        ge=0,
        description="free bytes below which `afterturn up` makes its database read-only, until twice as much is "
        "free; raise it where other programs write to the same disk",
    )


class MetricsSettings(SettingsSection):
    """What `/metrics` of the API shows beside the usual."""

    top_tenants: int = Field(
        default=0,
        ge=0,
        le=100,
        description="tenants with the most undone work that metrics name, each by its id; 0: none; set it for the "
        "dashboard of tenants",
    )


class Settings(BaseSettings):
    """The whole tree. Made by `load_settings`; constructed directly, it reads nothing but its arguments."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix=layers.PREFIX,
        env_nested_delimiter=layers.DELIMITER,
        hide_input_in_errors=True,
    )

    data: Path = Field(
        default_factory=lambda: platformdirs.user_data_path("afterturn"),
        description="folder of this machine's state: the servers of `afterturn up`, the built sentence model and, by "
        "default, samples of metrics; all processes of a machine share it, and its disk is watched; set "
        "it to move the state to another disk",
    )
    metrics_dir: Path = Field(
        default_factory=lambda known: known["data"] / "metrics",
        description="folder in which the processes of this machine share samples of metrics (default: `metrics` in "
        "`data`); set it to a memory file system where the disk is slow",
    )
    environment: str = Field(
        default="",
        max_length=64,
        description="name of the environment that this deployment is, as `production`; a service's token must name it "
        "(claim `env`); set it with api.mcp.issuers",
    )
    database: DatabaseSettings = Field(default_factory=DatabaseSettings)
    broker: BrokerSettings = Field(default_factory=BrokerSettings)
    queue: QueueSettings = Field(default_factory=QueueSettings)
    api: ApiSettings = Field(default_factory=ApiSettings)
    plugin: PluginSettings = Field(default_factory=PluginSettings)
    fairness: FairnessSettings = Field(default_factory=FairnessSettings)
    pressure: PressureSettings = Field(default_factory=PressureSettings)
    gateway: DeliverySettings = Field(default_factory=DeliverySettings)
    recall: RecallSettings = Field(default_factory=RecallSettings)
    worker: WorkerSettings = Field(default_factory=WorkerSettings)
    enrichment: EnrichmentSettings = Field(default_factory=EnrichmentSettings)
    maintenance: MaintenanceSettings = Field(default_factory=MaintenanceSettings)
    embedding: EmbeddingSettings = Field(default_factory=EmbeddingSettings)
    health: HealthSettings = Field(default_factory=HealthSettings)
    metrics: MetricsSettings = Field(default_factory=MetricsSettings)
    client: ClientSettings = Field(default_factory=ClientSettings)
    log: LogSettings = Field(default_factory=LogSettings)
    tracing: TracingSettings = Field(default_factory=TracingSettings)

    @field_validator("data", "metrics_dir")
    @classmethod
    def _absolute(cls, folder: Path) -> Path:
        return folder.expanduser().absolute()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take arguments alone; `load_settings` reads the layers, so that each value's origin is known."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The effective settings; `origins` maps each dotted key that is not a default to its source.

    `ignored` lists AFTERTURN_ variables that name no setting (Kubernetes sets some for its services).
    """

    settings: Settings
    origins: Mapping[str, str]
    ignored: tuple[str, ...]


def load_settings(
    environ: Mapping[str, str] | None = None,
    *,
    config: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> LoadedSettings:
    """Return the settings merged from all sources; `overrides` is nested like the tree and takes precedence.

    A secret may be in a file: `AFTERTURN_DATABASE__URL_FILE=/run/secrets/url` is read where the variable without
    `_FILE` is not set.

    Raises SettingsError with every problem found: its key, the fault and the allowed values, never a value.
    """
    environ = layers.read_secret_files(Settings, os.environ if environ is None else environ)
    chosen = config or (Path(environ["AFTERTURN_CONFIG"]) if environ.get("AFTERTURN_CONFIG") else None)
    stack = [layers.read_config_file(chosen)] if chosen else []
    stack.append(layers.read_environment(Settings, environ))
    stack.append(layers.SettingsLayer(layers.OPTION, dict(overrides or {})))
    merged, origins = layers.merge_layers(Settings, stack)
    problems = [problem for layer in stack for problem in layers.check_layer(Settings, layer)]
    problems += unify_names(Settings, merged, origins)
    settings = _validate_settings(merged, origins, problems)
    if settings is None or problems:
        raise SettingsError(tuple(problems))
    return LoadedSettings(settings, origins, layers.find_ignored_variables(Settings, environ))


def find_settings_without_effect(loaded: LoadedSettings) -> dict[str, str]:
    """Return the dotted keys that were set and have no effect, each with the reason."""
    found = {key: find_field(Settings, key.split(".")) for key in loaded.origins}
    extras = {key: field.json_schema_extra for key, field in found.items() if field is not None}
    return {
        key: str(extra[NO_EFFECT]) for key, extra in extras.items() if isinstance(extra, dict) and NO_EFFECT in extra
    }


def find_missing_urls(settings: Settings) -> list[str]:
    """Return the missing settings that the API and workers need to start, each with its variable."""
    urls = {
        "database.url": settings.database.url,
        "database.operator_url": settings.database.operator_url,
        "broker.url": settings.broker.url,
    }
    return [f"{key} ({layers.name_variable(key)})" for key, url in urls.items() if not url.get_secret_value()]


def _validate_settings(
    merged: Mapping[str, Any], origins: Mapping[str, str], problems: list[SettingProblem]
) -> Settings | None:
    """Return the settings; None when they are invalid, with the problems added (pydantic's error holds values)."""
    known = {problem.key for problem in problems}
    try:
        return Settings(**merged)
    except ValidationError as error:
        problems += [one for one in explain_errors(Settings, error, origins) if one.key not in known]
    return None
