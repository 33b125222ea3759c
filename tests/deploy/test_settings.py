"""Settings: three layers, one tree, and errors that name everything but the value."""

import os
import re
from pathlib import Path

import pytest
from pydantic import SecretStr

from deploy.api import __main__ as api
from deploy.settings import Settings, find_settings_without_effect, load_settings
from deploy.settings_errors import SettingsError
from producers.mcp.settings import McpSettings
from tests.client.loopback import everything_in
from tests.tables import each_row

SECRET = "hunter2-distinctive"


def problems(environ: dict[str, str], file: Path | None = None) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ, config=file)
    assert SECRET not in everything_in(caught.value)
    return {problem.key: str(problem) for problem in caught.value.problems}


def written(folder: Path, text: str, name: str = "afterturn.yaml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def test_the_defaults_work() -> None:
    loaded = load_settings({})
    assert loaded.settings.api.port == 8300
    assert loaded.settings.metrics_dir == loaded.settings.data / "metrics"
    assert loaded.settings.recall.tokenizer is None
    assert loaded.origins == {}


def test_constructing_the_tree_reads_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFTERTURN_API__PORT", "9")
    assert Settings().api.port == 8300
    assert load_settings().settings.api.port == 9


def test_option_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    file = written(tmp_path, "api:\n  port: 1\n  host: file.example\nworker:\n  max_attempts: 2\n")
    environ = {"AFTERTURN_API__PORT": "3", "AFTERTURN_WORKER__MAX_ATTEMPTS": "4", "AFTERTURN_CONFIG": str(file)}
    loaded = load_settings(environ, overrides={"api": {"port": 5}})
    assert (loaded.settings.api.port, loaded.settings.api.host) == (5, "file.example")
    assert loaded.settings.worker.max_attempts == 4
    assert loaded.origins == {
        "api.port": "option",
        "api.host": f"file {file}",
        "worker.max_attempts": "environment AFTERTURN_WORKER__MAX_ATTEMPTS",
    }


def test_a_json_file_says_the_same_as_a_yaml_file(tmp_path: Path) -> None:
    as_json = written(tmp_path, '{"api":\t{"port": 12}}', "afterturn.json")
    as_yaml = written(tmp_path, "api:\n  port: 12\nworker:\n")
    assert load_settings({}, config=as_json).settings == load_settings({}, config=as_yaml).settings


def test_an_environment_variable_may_hold_a_whole_part_as_json() -> None:
    loaded = load_settings({"AFTERTURN_API": '{"port": 1, "host": "a"}', "AFTERTURN_API__PORT": "2"})
    assert (loaded.settings.api.port, loaded.settings.api.host) == (2, "a")


def test_off_is_a_word_in_yaml_too(tmp_path: Path) -> None:
    assert load_settings({}, config=written(tmp_path, "gateway:\n  mode: off\n")).settings.gateway.mode == "off"


def test_null_lifts_a_limit_that_may_be_lifted_and_is_nothing_elsewhere(tmp_path: Path) -> None:
    file = written(tmp_path, "maintenance: {ledger_days: null, audit_days: null}\napi: {port: null}\nworker:\n")
    loaded = load_settings({"AFTERTURN_PRESSURE__BATCH_ROWS": "null"}, config=file)
    kept = loaded.settings.maintenance
    assert (kept.ledger_days, kept.audit_days, kept.calls_days) == (None, None, 90)
    assert (loaded.settings.pressure.batch_rows, loaded.settings.api.port) == (None, 8300)
    assert loaded.origins["maintenance.ledger_days"] == f"file {file}"
    assert load_settings({}, overrides={"maintenance": {"ledger_days": None}}).settings.maintenance.ledger_days == 7
    assert "api.port" in problems({"AFTERTURN_API__PORT": "null"})


def test_a_folder_is_made_absolute_and_home_is_expanded() -> None:
    settings = load_settings({"AFTERTURN_DATA": "~/somewhere", "AFTERTURN_METRICS_DIR": "here"}).settings
    assert settings.data == Path("~/somewhere").expanduser()
    assert settings.metrics_dir == Path.cwd() / "here"


def test_the_gateways_credentials_are_found_under_the_contracts_names() -> None:
    environ = {
        "AFTERTURN_GATEWAY__MODE": "url",
        "AFTERTURN_GATEWAY__BASE_URL": "https://gateway.example",
        "AFTERTURN_GATEWAY_USER_ID": "ana",
        "AFTERTURN_GATEWAY_USER_KEY": SECRET,
    }
    loaded = load_settings(environ)
    assert loaded.settings.gateway.user_id == "ana"
    assert loaded.settings.gateway.user_key == SecretStr(SECRET)
    assert loaded.origins["gateway.user_key"] == "environment AFTERTURN_GATEWAY_USER_KEY"
    assert SECRET not in repr(loaded)


@each_row(
    "name,value,parts",
    [
        ("AFTERTURN_API__PORT", "99999", ["api.port", "AFTERTURN_API__PORT", "0..65535"]),
        ("AFTERTURN_API__PORT", SECRET, ["api.port", "integer", "0..65535"]),
        ("AFTERTURN_API__PORT", "true", ["api.port", "0..65535"]),
        ("AFTERTURN_API__PORT", "1.5", ["api.port", "0..65535"]),
        ("AFTERTURN_WORKER__LEASE_SECONDS", "nan", ["worker.lease_seconds", "finite", "1..3600"]),
        ("AFTERTURN_WORKER__LEASE_SECONDS", "inf", ["worker.lease_seconds", "finite", "1..3600"]),
        ("AFTERTURN_BROKER__URL", "redis+sentinel://a:1,b:2/main", ["broker.url", "follows the primary"]),
        ("AFTERTURN_BROKER__URL", f"redis://:{SECRET}/x@127.0.0.1:6379/0", ["broker.url", "percent-encoded"]),
        ("AFTERTURN_BROKER__URL", f"redis://:{SECRET}#x@127.0.0.1:6379/0", ["broker.url", "percent-encoded"]),
        ("AFTERTURN_BROKER__URL", f"redis://:{SECRET}?x@127.0.0.1:6379/0", ["broker.url", "percent-encoded"]),
        ("AFTERTURN_BROKER__URL", f"redis://:12?{SECRET}@127.0.0.1:6379/0", ["broker.url", "percent-encoded"]),
        ("AFTERTURN_BROKER__URL", f"redis://:{SECRET}@[::1:6379/0", ["broker.url", "percent-encoded"]),
        ("AFTERTURN_BROKER__URL", f"http://:{SECRET}@127.0.0.1:6379/0", ["broker.url", "redis://"]),
        ("AFTERTURN_BROKER__URL", SECRET, ["broker.url", "redis://"]),
        ("AFTERTURN_QUEUE__URL", f"rediss://acme:{SECRET}/x@127.0.0.1:6379/0", ["queue.url", "percent-encoded"]),
        ("AFTERTURN_DATABASE__POOL_SIZE", "0", ["database.pool_size", "1..200"]),
        ("AFTERTURN_GATEWAY__TIMEOUT_SECONDS", "0", ["gateway.timeout_seconds", "> 0, <= 600"]),
        ("AFTERTURN_LOG__LEVEL", SECRET, ["log.level", "one of debug, info, warning, error"]),
        ("AFTERTURN_GATEWAY__MODE", SECRET, ["gateway.mode", "one of off, self, url"]),
        ("AFTERTURN_BROKER__NAMESPACE", SECRET + " ", ["broker.namespace", "matching"]),
    ],
)
def test_a_wrong_value_names_key_origin_and_range(name: str, value: str, parts: list[str]) -> None:
    ((key, text),) = problems({name: value}).items()
    assert key == parts[0]
    assert f"environment {name}" in text
    for part in parts:
        assert part in text


@pytest.mark.parametrize(
    "text,key",
    [
        ("api: {port: true}", "api.port"),
        ("worker: {lease_seconds: .nan}", "worker.lease_seconds"),
        ("worker: {lease_seconds: .inf}", "worker.lease_seconds"),
        ("worker: {lease_seconds: false}", "worker.lease_seconds"),
        ("database: {pool_size: true}", "database.pool_size"),
        ("database: {url: [hunter2-distinctive]}", "database.url"),
        ("gateway: {user_key: {a: hunter2-distinctive}}", "gateway.user_key"),
        ("api: hunter2-distinctive", "api"),
    ],
)
def test_a_wrong_type_in_a_file_names_its_key(tmp_path: Path, text: str, key: str) -> None:
    assert list(problems({}, written(tmp_path, text))) == [key]


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    file = written(tmp_path, "api: {port: true, prt: 1}\nworker: {sweep_seconds: 0}\n")
    found = problems({"AFTERTURN_LOG__LEVEL": "loud"}, file)
    assert set(found) == {"api.port", "api.prt", "worker.sweep_seconds", "log.level"}
    assert "did you mean port?" in found["api.prt"]


def test_a_misspelt_part_in_the_environment_is_found() -> None:
    found = problems({"AFTERTURN_DATABSE__URL": SECRET})
    assert "did you mean database?" in found["databse"]


def test_variables_that_name_no_setting_are_left_alone_and_listed() -> None:
    """Kubernetes makes such variables for a service called afterturn."""
    loaded = load_settings({"AFTERTURN_SERVICE_HOST": "10.0.0.1", "AFTERTURN_PORT": "tcp://10.0.0.1:80", "HOME": "/"})
    assert loaded.ignored == ("AFTERTURN_PORT", "AFTERTURN_SERVICE_HOST")


def test_a_gateway_by_url_needs_its_credentials() -> None:
    found = problems({"AFTERTURN_GATEWAY__MODE": "url", "AFTERTURN_GATEWAY__USER_ID": " "})
    assert "missing: base_url, user_id, user_key" in found["gateway"]


@pytest.mark.parametrize(
    "name,content",
    [
        ("a.yaml", b"api: [hunter2-distinctive"),
        ("a.yaml", b"- hunter2-distinctive"),
        ("a.json", b'{"api": "hunter2-distinctive'),
        ("a.json", b"[" * 100_000),
        ("a.yaml", b"\xff\xfehunter2-distinctive"),
        ("a.yaml", b"!!python/object/apply:os.system ['true']"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_without_its_text(tmp_path: Path, name: str, content: bytes) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    assert list(problems({}, file)) == [str(file)]


@pytest.mark.parametrize(
    "name,text",
    [
        ("a.yaml", "api: {port: 8301}\nlog: {level: debug}\napi: {host: 0.0.0.0}\n"),
        ("a.yaml", "api:\n  port: 8301\n  port: 8302\n"),
        ("a.json", '{"api": {"port": 8301}, "api": {"host": "0.0.0.0"}}'),
    ],
)
def test_a_key_that_a_file_has_twice_is_refused_and_drops_no_section(tmp_path: Path, name: str, text: str) -> None:
    file = written(tmp_path, text, name)
    told = problems({}, file)[str(file)]
    assert re.search(r"has the key (api|port) twice( \(line 3\))?$", told)


def test_a_folder_that_is_empty_is_as_if_not_set_and_never_the_working_folder(tmp_path: Path) -> None:
    empty = dict.fromkeys(("AFTERTURN_DATA", "AFTERTURN_METRICS_DIR", "AFTERTURN_RECALL__TOKENIZER"), "")
    loaded = load_settings(empty, config=written(tmp_path, 'data: ""\n'))
    assert loaded.settings.data == load_settings({}).settings.data
    assert loaded.settings.metrics_dir == loaded.settings.data / "metrics"
    assert loaded.settings.recall.tokenizer is None
    assert loaded.origins == {}


def test_a_secret_whose_file_cannot_be_read_says_why_and_not_where() -> None:
    """Who confuses the two variables gives the secret itself as the path."""
    told = problems({"AFTERTURN_DATABASE__URL_FILE": f"/{SECRET}"})["database.url"]
    assert told.endswith(
        "(environment AFTERTURN_DATABASE__URL_FILE): is in a file that cannot be read: No such file or directory"
    )


def test_a_section_that_is_no_mapping_is_refused_in_words_of_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "worker: 3\n")
    assert problems({}, file)["worker"] == f"worker (file {file}): must be a mapping of settings"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "No such file" in problems({}, tmp_path / "none.yaml")[str(tmp_path / "none.yaml")]


def test_a_part_that_is_no_json_in_the_environment_is_named() -> None:
    assert list(problems({"AFTERTURN_API": "{" + SECRET})) == ["api"]


def test_the_trees_own_name_goes_before_the_contracts() -> None:
    names = {"AFTERTURN_GATEWAY__USER_ID": "own", "AFTERTURN_GATEWAY_USER_ID": "alias"}
    for environ in (names, dict(reversed(names.items()))):
        assert load_settings(environ).settings.gateway.user_id == "own"


def test_a_secret_may_be_in_a_file_and_a_variable_of_its_own_goes_first(tmp_path: Path) -> None:
    url = f"postgresql+asyncpg://a:{SECRET}@localhost/b"
    file = written(tmp_path, url + "\n", "url")
    loaded = load_settings({"AFTERTURN_DATABASE__URL_FILE": str(file)})
    assert loaded.settings.database.url.get_secret_value() == url
    assert loaded.ignored == ()
    both = {"AFTERTURN_DATABASE__URL_FILE": str(tmp_path / "none"), "AFTERTURN_API__PORT": "1"}
    assert "cannot be read" in problems(both)["database.url"]
    kept = load_settings({"AFTERTURN_BROKER__URL_FILE": str(file), "AFTERTURN_BROKER__URL": "redis://own"})
    assert kept.settings.broker.url.get_secret_value() == "redis://own"


def test_a_stage_that_does_not_exist_is_named_wrong() -> None:
    assert any(key.startswith("worker.stages") for key in problems({"AFTERTURN_WORKER__STAGES": '["embeding"]'}))


#: The seed's own example (MCP-native memory tools, 9.4), word for word.
SEED = """
settings:
  mcp:
    tools:
      memory:
        enabled: true # Single required switch for standard rollout.

    memory:
      # Prompt/context controls
      recent_context_items: 30 # Keep the latest 30 items in active context.
      recall_facts_limit: 20 # Inject up to 20 facts per turn.
      search_limit: 5 # Read up to 5 related chunks from storage search.
      compact_threshold: 0.8 # Compact context at 80% of max_input_tok.

      # Retention controls (UTC)
      l1_retention_days: 1 # Daily facts expire after 1 day.
      l2_retention_days: 7 # Weekly facts expire after 7 days.

      # Maintenance controls
      compaction_min_age_hours: 24 # Archive compaction only for shards older than 24h.
      summary_refresh_interval_minutes: 60 # Refresh .abstract/.overview at most hourly.
      max_processed_turns: 1024 # Bound idempotency history size.

      heuristic:
        enabled: false # Keep off by default; enable only if needed.
        model: openai/gpt-oss-120b
        base_url: '' # Required when heuristic is enabled. Must be absolute URL, e.g. https://api.openai.com or https://oneapi.example.com/v1.
        timeout_ms: 12000
        max_output_tokens: 800
"""


OF_EFFECT = (
    "recent_context_items",
    "recall_facts_limit",
    "search_limit",
    "compact_threshold",
    "l1_retention_days",
    "l2_retention_days",
)
#: What the seed's example names and nothing here does, with a value past each end of its range, and of another type.
IDLE: dict[str, tuple[str, ...]] = {
    "compaction_min_age_hours": ("-1", "876001", "soon"),
    "summary_refresh_interval_minutes": ("-1", "525601", "[60]"),
    "max_processed_turns": ("0", "-1", "1000000001"),
}
RANGES = IDLE | {
    "compact_threshold": ("0", "1", "-0.1", "much", ".nan"),
    "recent_context_items": ("-1", "129", "many"),
    "recall_facts_limit": ("-1", "201"),
    "search_limit": ("-1", "21"),
    "heuristic.enabled": ("perhaps", "2"),
    "heuristic.model": ("''", "[]"),
    "heuristic.base_url": ("api.openai.com", "'https://x/?a=b'", "'https://x/#f'", "ftp://x"),
    "heuristic.timeout_ms": ("0", "600001"),
    "heuristic.max_output_tokens": ("0", "1000001"),
    "l1_retention_days": ("-1", "36501", "1.5", "a day"),
    "l2_retention_days": ("-1", "36501", "1.5"),
    "tiers.expiry": ("never",),
    "tenants.acme.l1_retention_days": ("-1",),
    "tenants.acme.banks.household.search_limit": ("21",),
}


@each_row("name, value", [(name, value) for name, values in RANGES.items() for value in values])
def test_each_of_the_seeds_settings_is_held_to_its_range_at_start(tmp_path: Path, name: str, value: str) -> None:
    for part in reversed(name.split(".")):
        value = f"{{{part}: {value}}}"
    key = f"api.mcp.memory.{name}"
    assert key in problems({}, written(tmp_path, f"settings: {{mcp: {{memory: {value}}}}}"))


def test_the_seeds_settings_are_taken_word_for_word_and_those_without_effect_are_named(tmp_path: Path) -> None:
    loaded = load_settings({}, config=written(tmp_path, SEED))
    assert loaded.settings.api.mcp == McpSettings()
    assert loaded.origins["api.mcp.memory.search_limit"].startswith("file ")
    idle = find_settings_without_effect(loaded)
    assert set(idle) == {f"api.mcp.memory.{name}" for name in IDLE}
    said = {*loaded.origins} & {f"api.mcp.memory.{name}" for name in (*IDLE, *OF_EFFECT)}
    assert len(said) == len(IDLE) + len(OF_EFFECT)
    assert all(loaded.origins[key].startswith("file ") for key in (*said, "api.mcp.tools.memory.enabled"))
    away = written(tmp_path, "settings: {mcp: {tools: {memory: {enabled: false}}}}\napi: {port: 1}")
    settings = load_settings({"AFTERTURN_API__MCP__MEMORY__SEARCH_LIMIT": "3"}, config=away).settings
    assert (settings.api.mcp.tools.memory.enabled, settings.api.mcp.memory.search_limit, settings.api.port) == (
        False,
        3,
        1,
    )


#: The seed's names of what `enrichment` has.
HEURISTIC = "{model: own, base_url: 'https://models.example', timeout_ms: 2500, max_output_tokens: 64, enabled: true}"


def test_the_seeds_names_of_the_model_set_it(tmp_path: Path) -> None:
    file = written(tmp_path, f"settings: {{mcp: {{memory: {{heuristic: {HEURISTIC}}}}}}}")
    loaded = load_settings({}, config=file)
    one, other = loaded.settings.enrichment, loaded.settings.api.mcp.memory.heuristic
    assert (one.enabled, one.model, one.url) == (True, "own", "https://models.example/v1/responses")
    assert (one.timeout_seconds, one.max_output_tokens) == (2.5, 64)
    assert loaded.origins["enrichment.model"] == loaded.origins["api.mcp.memory.heuristic.model"]
    again = load_settings({"AFTERTURN_ENRICHMENT__TIMEOUT_SECONDS": "2.5"}, config=file).settings
    assert again.api.mcp.memory.heuristic == other
    ours = {"AFTERTURN_ENRICHMENT__TIMEOUT_SECONDS": "3", "AFTERTURN_ENRICHMENT__MODEL": "ours"}
    shown = load_settings(ours).settings.api.mcp.memory.heuristic
    assert (shown.timeout_ms, shown.model, shown.enabled) == (3000, "ours", False)


@pytest.mark.parametrize("name, value", [("TIMEOUT_SECONDS", "3"), ("MODEL", "other"), ("ENABLED", "false")])
def test_a_setting_with_two_values_under_its_two_names_is_an_error(tmp_path: Path, name: str, value: str) -> None:
    file = written(tmp_path, f"settings: {{mcp: {{memory: {{heuristic: {HEURISTIC}}}}}}}")
    key = {"TIMEOUT_SECONDS": "timeout_ms"}.get(name, name.lower())
    assert f"api.mcp.memory.heuristic.{key}" in problems({f"AFTERTURN_ENRICHMENT__{name}": value}, file)


@pytest.mark.parametrize("url", ["''", "models.example", "'https://'"])
def test_a_model_without_an_absolute_address_is_an_error_at_the_start(tmp_path: Path, url: str) -> None:
    file = written(tmp_path, f"settings: {{mcp: {{memory: {{heuristic: {{enabled: true, base_url: {url}}}}}}}}}")
    assert {key.split(".")[0] for key in problems({}, file)} <= {"api", "enrichment"}
    assert problems({}, file)


@each_row(
    "text, key",
    [
        ("settings: {mcp: {memory: {search_limit: -1}}}", "api.mcp.memory.search_limit"),
        ("settings: {mcp: {memory: {search_limit: true}}}", "api.mcp.memory.search_limit"),
        ("settings: {mcp: {memory: {compact_threshold: 1}}}", "api.mcp.memory.compact_threshold"),
        ("settings: {mcp: {memory: {heuristic: {base_url: api.openai.com}}}}", "api.mcp.memory.heuristic.base_url"),
        ("settings: {mcp: {memory: {heuristics: {}}}}\nlog: {level: loud}", "log.level"),
        ("settings: {mcp: {memory: {search_limits: 1}}}", "api.mcp.memory.search_limits"),
        ("settings: {port: 1}", "settings"),
        ("settings: {mcp: {}}\napi: {mcp: {}}", "settings.mcp"),
        ("settings: {mcp: {tools: {each: {memory_steal: true}}}}", "api.mcp.tools.each.memory_steal.[key]"),
    ],
)
def test_the_seeds_settings_are_checked(tmp_path: Path, text: str, key: str) -> None:
    assert key in problems({}, written(tmp_path, text))


def test_the_api_says_at_start_which_settings_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in os.environ if name.startswith("AFTERTURN_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(api, "forbid_core_dumps", lambda: None)  # of this process, it would be for good
    file = written(tmp_path, "settings: {mcp: {memory: {max_processed_turns: 3, search_limit: 4}}}")
    assert api.main(["--config", str(file)]) == 2
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.startswith("deploy.api: warning: ")
    assert "max_processed_turns changes nothing here: a repeated turn is recognised" in first
    assert [line.partition(" set: ")[0] for line in rest] == ["deploy.api: not"]
