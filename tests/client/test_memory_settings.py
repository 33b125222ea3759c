"""The memory section of seed 000: what it may say, what it means unsaid, and that no key is ever shown."""

import copy
import dataclasses
import logging
import pickle
from typing import Any

import pytest
from afterturn_client.settings import GatewaySettings, MemoryConfigError, MemorySettings, Mode, Scope, Secret
from hypothesis import given
from hypothesis import strategies as st

from tests.client.loopback import everything_in
from tests.tables import each_row

KEY = "uk_distinctive-4f1e-secret"
FULL = {
    "baseUrl": "http://127.0.0.1:8010/",
    "userId": "gateway_test_user",
    "userKey": KEY,
    "appId": "kitchen",
    "projectId": "dinner",
    "scope": ["all_user_memory", "current_chat"],
    "topK": 3,
    "timeoutSeconds": 2.5,
}


def hybrid(**changes: Any) -> dict[str, Any]:
    return {"memory": {"mode": "hybrid", "gateway": {**FULL, **changes}}}


def without(*keys: str) -> dict[str, Any]:
    return {"memory": {"mode": "hybrid", "gateway": {k: v for k, v in FULL.items() if k not in keys}}}


@pytest.mark.parametrize("config", [{}, {"memory": None}, {"other": 1}])
def test_without_a_memory_section_the_mode_is_hybrid_and_implicit(config: dict[str, Any]) -> None:
    settings = MemorySettings.parse(config)
    assert (settings.mode, settings.explicit) == (Mode.HYBRID, False)


def test_implicit_hybrid_without_credentials_goes_on_curated_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = MemorySettings.parse({})
    with caplog.at_level(logging.DEBUG):
        assert settings.active_gateway() is None
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.name.startswith("afterturn_client")
    assert "baseUrl, userId, userKey" in record.getMessage()


def test_a_section_without_a_mode_is_implicit_and_its_values_are_judged() -> None:
    settings = MemorySettings.parse({"memory": {"gateway": FULL}})
    assert (settings.mode, settings.explicit) == (Mode.HYBRID, False)
    assert settings.active_gateway() is settings.gateway
    with pytest.raises(MemoryConfigError, match="topK"):
        MemorySettings.parse({"memory": {"gateway": {"topK": 0}}})


@pytest.mark.parametrize("lacking", ["baseUrl", "userId", "userKey"])
def test_implicit_hybrid_with_half_its_credentials_degrades_and_names_the_other_half(
    lacking: str, caplog: pytest.LogCaptureFixture
) -> None:
    block = {k: v for k, v in FULL.items() if k != lacking}
    assert MemorySettings.parse({"memory": {"gateway": block}}).active_gateway() is None
    (record,) = caplog.records
    assert lacking in record.getMessage()
    assert KEY not in caplog.text
    assert "127.0.0.1" not in caplog.text


def test_explicit_hybrid_is_remembered_as_explicit() -> None:
    assert MemorySettings.parse(hybrid()).explicit
    assert MemorySettings.parse({"memory": {"mode": "curated"}}).explicit


def test_a_complete_explicit_hybrid_reads_its_camel_case_keys() -> None:
    gateway = MemorySettings.parse(hybrid()).active_gateway()
    assert gateway == GatewaySettings(
        base_url="http://127.0.0.1:8010",
        user_id="gateway_test_user",
        user_key=Secret(KEY),
        app_id="kitchen",
        project_id="dinner",
        scope=(Scope.ALL_USER_MEMORY, Scope.CURRENT_CHAT),
        top_k=3,
        timeout_seconds=2.5,
    )
    assert gateway.user_key.reveal() == KEY


def test_what_is_left_out_has_the_defaults_of_the_contract() -> None:
    gateway = MemorySettings.parse(without("appId", "projectId", "scope", "topK", "timeoutSeconds")).active_gateway()
    assert gateway is not None
    assert (gateway.app_id, gateway.project_id) == ("default", "default")
    assert gateway.scope == (Scope.CURRENT_CHAT, Scope.RESOURCES)
    assert (gateway.top_k, gateway.timeout_seconds) == (8, 10.0)


@each_row("key", ["baseUrl", "userId", "userKey"])
@each_row("value", [None, "", "  \t "])
def test_explicit_hybrid_with_a_missing_or_blank_credential_fails_loading(key: str, value: str | None) -> None:
    settings = MemorySettings.parse(hybrid(**{key: value}))
    with pytest.raises(MemoryConfigError, match=key) as caught:
        settings.active_gateway()
    assert KEY not in everything_in(caught.value)


def test_explicit_hybrid_without_a_gateway_block_fails_loading() -> None:
    with pytest.raises(MemoryConfigError, match="baseUrl, userId, userKey"):
        MemorySettings.parse({"memory": {"mode": "hybrid"}}).active_gateway()


@pytest.mark.parametrize("block", [None, FULL, "nonsense", {"topK": -1, "scope": [], "userKey": 5}, {}])
def test_curated_ignores_the_gateway_block_even_an_invalid_one(block: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings = MemorySettings.parse({"memory": {"mode": "curated", "gateway": block}})
    assert settings.mode is Mode.CURATED
    assert settings.gateway is None
    assert settings.active_gateway() is None
    assert caplog.records == []


@each_row("mode", ["", "Hybrid", "both", 1, True, ["hybrid"], {}])
def test_another_mode_is_refused(mode: Any) -> None:
    with pytest.raises(MemoryConfigError, match=r"memory\.mode must be curated or hybrid"):
        MemorySettings.parse({"memory": {"mode": mode}})


@each_row("section", ["hybrid", 1, ["hybrid"], True])
def test_a_section_or_block_that_is_no_object_is_refused(section: Any) -> None:
    with pytest.raises(MemoryConfigError, match="memory must be an object"):
        MemorySettings.parse({"memory": section})
    with pytest.raises(MemoryConfigError, match=r"memory\.gateway must be an object"):
        MemorySettings.parse({"memory": {"gateway": section}})


NOT_TEXT: list[Any] = [5, True, ["x"]]
WRONG: dict[str, list[Any]] = {
    "scope": [[], ["everything"], ["current_chat", 1], "current_chat", {}, 7, [["resources"]]],
    "topK": [0, 101, -1, True, False, 8.0, "8", [8], 10**30],
    "timeoutSeconds": [0, -0.1, True, float("nan"), float("inf"), -float("inf"), "10", [1], 10**400],
    "baseUrl": [
        *NOT_TEXT,
        "ftp://h",
        "127.0.0.1:8010",
        "http://",
        "http://h:99999",
        "http://h/?a=b",
        "http://u:p@h",
        "http://h",
    ],
    "allowHttp": [1, "true", [True]],
    "userId": NOT_TEXT,
    "userKey": [*NOT_TEXT, f"{KEY}\ud800"],
    "appId": [*NOT_TEXT, " "],
    "projectId": [*NOT_TEXT, " "],
}


@each_row("key,value", [(key, value) for key, values in WRONG.items() for value in values])
@each_row("mode", ["hybrid", None])
def test_a_value_out_of_its_range_is_refused_by_its_name_whether_hybrid_was_asked_for_or_not(
    mode: str | None, key: str, value: Any
) -> None:
    config = hybrid(**{key: value})
    config["memory"]["mode"] = mode
    with pytest.raises(MemoryConfigError, match=f"memory.gateway.{key} ") as caught:
        MemorySettings.parse(config)
    assert KEY not in everything_in(caught.value)


@each_row("key,value", [("topK", 1), ("topK", 100), ("timeoutSeconds", 1), ("timeoutSeconds", 1e-3)])
def test_the_ends_of_a_range_belong_to_it(key: str, value: float) -> None:
    gateway = MemorySettings.parse(hybrid(**{key: value})).gateway
    assert gateway is not None
    assert value in (gateway.top_k, gateway.timeout_seconds)


def test_a_scope_said_twice_counts_once() -> None:
    gateway = MemorySettings.parse(hybrid(scope=["resources", "resources", "current_chat"])).gateway
    assert gateway is not None
    assert gateway.scope == (Scope.RESOURCES, Scope.CURRENT_CHAT)


def test_keys_of_others_are_left_alone() -> None:
    config = hybrid(compression="gzip")
    config["memory"]["nudges"] = 10
    assert MemorySettings.parse(config) == MemorySettings.parse(hybrid())


@each_row(
    "url", [f"http://u:{KEY}@h:port", f"ftp://{KEY}", f"http://h/?key={KEY}", f"http://h:{KEY}", f"http://u:{KEY}@h"]
)
def test_an_error_about_a_url_does_not_show_it(url: str) -> None:
    with pytest.raises(MemoryConfigError) as caught:
        MemorySettings.parse(hybrid(baseUrl=url))
    assert KEY not in everything_in(caught.value)


def test_no_repr_status_or_copy_shows_the_key() -> None:
    settings = MemorySettings.parse(hybrid())
    assert settings.gateway is not None
    shown = [repr(settings), str(settings), f"{settings.gateway!r}", str(settings.status()), str(Secret(KEY))]
    shown += [repr(dataclasses.asdict(settings)["gateway"]["user_key"]), repr(copy.deepcopy(settings))]
    assert KEY not in "".join(shown)
    assert settings.status()["gateway"]["baseUrl"] == "http://127.0.0.1:8010"
    with pytest.raises(TypeError):
        pickle.dumps(settings)


def test_the_status_of_what_is_not_active_has_no_gateway() -> None:
    assert MemorySettings.parse({}).status() == {"mode": "hybrid", "explicit": False, "gateway": None}
    curated = MemorySettings.parse({"memory": {"mode": "curated", "gateway": FULL}})
    assert curated.status() == {"mode": "curated", "explicit": True, "gateway": None}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(KEY),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(FULL, json_values)), st.none() | st.just("hybrid"))
def test_any_block_is_either_read_or_refused_without_showing_a_value(block: dict[str, Any], mode: str | None) -> None:
    try:
        settings = MemorySettings.parse({"memory": {"mode": mode, "gateway": block}})
        if settings.explicit:
            settings.active_gateway()
    except MemoryConfigError as error:
        assert KEY not in everything_in(error)
    else:
        assert settings.gateway is not None
        assert 1 <= settings.gateway.top_k <= 100
        assert 0 < settings.gateway.timeout_seconds < float("inf")
        assert settings.gateway.scope
