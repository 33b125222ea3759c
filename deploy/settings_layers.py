"""Sources of settings: a file, the environment, options. Each layer is nested like the tree."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource

from deploy.settings_errors import SettingProblem, SettingsError, describe_allowed_values, find_field, is_section

PREFIX = "AFTERTURN_"
DELIMITER = "__"

#: The origin of options: None there is an option that was not given.
OPTION = "option"
#: How a variable spells the null of a file.
NULL = "null"

#: Suffix of a variable that names the file of a secret.
FILE_SUFFIX = "_FILE"

#: Variables that are no settings of the tree.
NOT_SETTINGS = frozenset({"AFTERTURN_CONFIG", "AFTERTURN_API_KEY"})
#: Other spellings: the gateway's contract names the first two without `__`, the memory plugin's the others without
#: our prefix.
ALIASES = {
    "AFTERTURN_GATEWAY_USER_ID": "AFTERTURN_GATEWAY__USER_ID",
    "AFTERTURN_GATEWAY_USER_KEY": "AFTERTURN_GATEWAY__USER_KEY",
    "MEMORY_PLUGIN_LISTEN_ADDR": "AFTERTURN_PLUGIN__LISTEN",
    "MEMORY_PLUGIN_TENANT": "AFTERTURN_PLUGIN__TENANT",
    "MEMORY_PLUGIN_TOKEN": "AFTERTURN_PLUGIN__TOKEN",
    "MEMORY_PLUGIN_DATABASE_URL": "AFTERTURN_DATABASE__URL",
}


class _RepeatedKey(Exception):
    """A mapping of a file has a key twice; the text says which."""


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of a JSON file; raises _RepeatedKey, where JSON itself would drop the first of two values."""
    found = dict[str, Any]()
    for name, value in pairs:
        if name in found:
            raise _RepeatedKey(f"has the key {name} twice")
        found[name] = value
    return found


class _Yaml(yaml.SafeLoader):
    """A YAML loader for which only true and false are booleans, so that `mode: off` is text. No key stands twice."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Return a mapping of the file; raises _RepeatedKey, where YAML itself would drop the first of two sections."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set[str]()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise _RepeatedKey(f"has the key {key.value} twice (line {key.start_mark.line + 1})")
            seen.add(str(key.value))
        return node


_Yaml.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag != "tag:yaml.org,2002:bool"]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Yaml.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)

_INTEGER = re.compile(r"[+-]?\d{1,18}")


@dataclass(frozen=True, slots=True)
class SettingsLayer:
    """The settings of one source."""

    origin: str
    values: dict[str, Any] = field(repr=False)
    variables: Mapping[str, str] = field(default_factory=dict)

    def origin_of(self, key: str) -> str:
        """Return the source of a dotted key of this layer; for the environment, the variable."""
        if self.origin != "environment":
            return self.origin
        name = name_variable(key)
        return f"environment {self.variables.get(name, name)}"


class _Environment(EnvSettingsSource):
    """pydantic-settings' parser of nested names, applied to a mapping that is passed in."""

    def __init__(self, tree: type[BaseSettings], environ: Mapping[str, str]) -> None:
        super().__init__(tree)
        self.env_vars = {name.lower(): value for name, value in environ.items()}


def name_variable(key: str) -> str:
    """Return the name of a dotted key's environment variable."""
    return PREFIX + key.upper().replace(".", DELIMITER)


def read_secret_files(tree: type[BaseModel], environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment with the secrets whose files are named by variables `..._FILE`, as container tools do.

    A variable that is itself set takes precedence. Raises SettingsError for a file that cannot be read.
    """
    plain, problems = dict(environ), list[SettingProblem]()
    for name, path in environ.items():
        key = name.removesuffix(FILE_SUFFIX).removeprefix(PREFIX).replace(DELIMITER, ".").lower()
        if not (name.startswith(PREFIX) and name.endswith(FILE_SUFFIX)) or not _is_secret(tree, key):
            continue
        del plain[name]
        try:
            plain.setdefault(name_variable(key), Path(path).read_text(encoding="utf-8").strip())
        except (OSError, UnicodeDecodeError) as error:
            # Not the path: somebody may have put the secret itself there.
            why = getattr(error, "strerror", None) or "it is not UTF-8"
            problems.append(SettingProblem(key, f"is in a file that cannot be read: {why}", f"environment {name}"))
    if problems:
        raise SettingsError(tuple(problems))
    return plain


def _is_secret(tree: type[BaseModel], key: str) -> bool:
    found = find_field(tree, tuple(key.split(".")))
    return found is not None and SecretStr in (found.annotation, *get_args(found.annotation))


def read_environment(tree: type[BaseSettings], environ: Mapping[str, str]) -> SettingsLayer:
    """Return the settings of the environment, misspelt sections included, so that they are reported.

    Raises SettingsError for a section whose JSON cannot be parsed.
    """
    variables = _map_variables(environ)
    spelled = {spelling: environ[name] for spelling, name in variables.items()}
    try:
        values = _Environment(tree, spelled)()
    except ValueError:
        values = None
    if values is None:
        raise SettingsError(tuple(_find_unreadable_variables(tree, environ)))
    for name, value in spelled.items():
        part, delimiter, rest = name.lower().removeprefix(PREFIX.lower()).partition(DELIMITER)
        if name.upper().startswith(PREFIX) and delimiter and part not in tree.model_fields:
            values.setdefault(part, {})[rest] = value
    return SettingsLayer("environment", _parse_numbers(tree, values), variables)


def _map_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return each variable under its name in the tree; when both spellings are set, the tree's own takes precedence."""
    aliased = {ALIASES[name]: name for name in environ if name in ALIASES}
    return aliased | {name.upper(): name for name in environ if name not in ALIASES}


def _find_unreadable_variables(tree: type[BaseModel], environ: Mapping[str, str]) -> Iterator[SettingProblem]:
    for name, value in environ.items():
        found = tree.model_fields.get(name.lower().removeprefix(PREFIX.lower()))
        if found is not None and is_section(found) and name.upper().startswith(PREFIX):
            try:
                json.loads(value)
            except ValueError:
                key = name.lower().removeprefix(PREFIX.lower())
                yield SettingProblem(key, "must be a JSON object", f"environment {name}")


def read_config_file(path: Path) -> SettingsLayer:
    """Return the settings of a YAML or JSON file. Raises SettingsError that names the line, never its text."""
    problem = ""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            values = json.loads(text, object_pairs_hook=_refuse_repeated_keys)
        else:
            values = yaml.load(text, _Yaml)  # noqa: S506 - a SafeLoader
    except OSError as error:
        problem = error.strerror or "cannot be read"
    except UnicodeDecodeError:
        problem = "is not UTF-8"
    except json.JSONDecodeError as error:
        problem = f"is not JSON (line {error.lineno}, column {error.colno})"
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = "is not YAML" + (f" (line {mark.line + 1}, column {mark.column + 1})" if mark else "")
    except _RepeatedKey as error:
        problem = str(error)
    except RecursionError:
        problem = "is nested too deeply"
    if not problem and not isinstance(values, dict | None):
        problem = "must hold a mapping of settings"
    if problem:
        raise SettingsError((SettingProblem(str(path), problem),))
    return SettingsLayer(f"file {path}", _rename_seed_tree(path, values or {}))


def _rename_seed_tree(path: Path, values: dict[str, Any]) -> dict[str, Any]:
    """Return a file's values with those below the seed's `settings.mcp` moved to `api.mcp`.

    Raises SettingsError when both exist, because neither takes precedence.
    """
    if "settings" not in values:
        return values
    root, rest = values["settings"], {name: value for name, value in values.items() if name != "settings"}
    api = rest.get("api") or {}
    if not isinstance(root, dict) or set(root) - {"mcp"}:
        raise SettingsError((SettingProblem("settings", "may hold mcp alone", f"file {path}"),))
    if not isinstance(api, dict) or "mcp" in api:
        raise SettingsError(
            (SettingProblem("settings.mcp", "is api.mcp: a file may have one of them", f"file {path}"),)
        )
    return {**rest, "api": {**api, **root}}


def merge_layers(tree: type[BaseModel], stack: Sequence[SettingsLayer]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of all layers, merged key by key with later ones taking precedence, and each key's source.

    A null counts where the setting may be null (`maintenance.*_days`); elsewhere it is as if it were not there. So is
    an empty path (`AFTERTURN_DATA=`), which would be the working folder.
    """
    merged: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for layer in stack:
        for names, value in flatten_values(layer.values):
            found = find_field(tree, names)
            if value is None and not (layer.origin != OPTION and _may_be_null(found)):
                continue
            if value == "" and found is not None and found.annotation in (Path, Path | None):
                continue
            _set_nested_value(merged, names, value)
            origins[".".join(names)] = layer.origin_of(".".join(names))
    return merged, origins


def flatten_values(values: Mapping[Any, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every value that is no mapping, with the names that lead to it."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten_values(value, (*above, str(name)))
        else:
            yield (*above, str(name)), value


def check_layer(tree: type[BaseModel], layer: SettingsLayer) -> Iterator[SettingProblem]:
    """Yield problems that pydantic would not report: a boolean or a NaN in place of a number."""
    for names, value in flatten_values(layer.values):
        found = find_field(tree, names)
        if found is None or not _is_numeric_field(found):
            continue
        key = ".".join(names)
        if isinstance(value, bool):
            yield SettingProblem(key, "a boolean is not a number", layer.origin_of(key), describe_allowed_values(found))
        elif isinstance(value, float) and not math.isfinite(value):
            yield SettingProblem(key, "must be a finite number", layer.origin_of(key), describe_allowed_values(found))


def find_ignored_variables(tree: type[BaseModel], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the AFTERTURN_ variables that name no setting."""
    names = [name for name in environ if name.upper().startswith(PREFIX)]
    known = {PREFIX + name.upper() for name in tree.model_fields} | NOT_SETTINGS | set(ALIASES)
    return tuple(sorted(name for name in names if DELIMITER not in name and name.upper() not in known))


def _set_nested_value(tree: dict[str, Any], names: Sequence[str], value: Any) -> None:
    for name in names[:-1]:
        below = tree.get(name)
        tree[name] = below if isinstance(below, dict) else {}
        tree = tree[name]
    tree[names[-1]] = value


def _parse_numbers(tree: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with text converted to numbers where the tree has numbers."""
    return {name: _parse_number(tree.model_fields.get(name), value) for name, value in values.items()}


def _parse_number(found: FieldInfo | None, value: Any) -> Any:
    if found is None:
        return value
    if is_section(found) and isinstance(value, dict) and isinstance(found.annotation, type):
        return _parse_numbers(found.annotation, value)
    if not isinstance(value, str) or not _is_numeric_field(found):
        return value
    if value.strip() == NULL and _may_be_null(found):
        return None
    try:
        return int(value) if _INTEGER.fullmatch(value.strip()) else float(value)
    except ValueError:
        return value


def _may_be_null(found: FieldInfo | None) -> bool:
    return found is not None and type(None) in get_args(found.annotation)


def _is_numeric_field(found: FieldInfo) -> bool:
    kinds = {found.annotation, *get_args(found.annotation)}
    return bool(kinds & {int, float}) and bool not in kinds
