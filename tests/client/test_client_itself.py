"""The clients as things in a program: what they refuse to be made of, what they show, what they bring along."""

import asyncio
import subprocess
import sys
from dataclasses import fields, is_dataclass
from urllib.parse import unquote

import afterturn_client as module
import httpx
import pytest
from afterturn_client import (
    Afterturn,
    AsyncAfterturn,
    InvalidRequestError,
    Message,
    NewTurn,
    exports,
)
from afterturn_client.answers import read_recall
from afterturn_client.calls import path_segment
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import JSONResponse

from tests.client.blocking_client import BLOCKING, make_blocking_client
from tests.client.loopback import Loopback, closed_port, everything_in
from tests.client.twins import ANSWER, KEY, RECALLED, TEXT, Twin, twin

__all__ = ["twin"]


@pytest.mark.parametrize("key", ["", "two words", "line\nbreak", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(twin: Twin, key: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        twin.kind("http://127.0.0.1:9", key)
    assert not key or key not in everything_in(caught.value)


@pytest.mark.parametrize("url", [f"http://u:{KEY}@h:1", f"http://{KEY}@h", f"http://h:{KEY}", f"http://h/?k={KEY}", ""])
def test_a_base_url_with_a_password_or_none_at_all_is_refused_without_being_shown(twin: Twin, url: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        twin.kind(url, "at_key")
    assert KEY not in everything_in(caught.value)


@pytest.mark.parametrize("url", ["http://memory.example", "http://10.0.0.7:8300", "http://127.0.0.1.example:8300"])
def test_a_key_goes_to_another_machine_over_plain_http_only_where_that_is_allowed(twin: Twin, url: str) -> None:
    with pytest.raises(InvalidRequestError, match="allow_http=True") as caught:
        twin.kind(url, KEY)
    assert KEY not in everything_in(caught.value)
    assert url in repr(twin.kind(url, KEY, allow_http=True))


@pytest.mark.parametrize(
    "url", ["https://memory.example", "http://localhost:8300", "http://127.0.0.1:8300", "http://[::1]:8300"]
)
def test_a_key_goes_over_https_and_to_this_machine(twin: Twin, url: str) -> None:
    assert url in repr(twin.kind(url, KEY))


def test_reprs_show_neither_key_nor_text(twin: Twin) -> None:
    client = twin.client("http://127.0.0.1:9", bank="b")
    turn = NewTurn("s", [Message("user", TEXT)], metadata={"note": TEXT})
    answer = read_recall(ANSWER)
    shown = repr(client) + str(client) + repr(turn) + repr(answer) + repr(Message("user", TEXT))
    assert KEY not in shown
    assert TEXT not in shown
    assert "127.0.0.1:9" in shown


def test_a_result_names_all_turns_that_say_it_its_own_first() -> None:
    """The service leaves the list out where a turn is the only one."""
    told: list[dict[str, object]] = [{"turn_id": "t1"}, {"turn_id": "t1", "turn_ids": ["t1", "t4"]}, {"turn_id": None}]
    answer = read_recall({**ANSWER, "results": [{**RECALLED, **one} for one in told]})
    assert [one.turn_ids for one in answer.results] == [("t1",), ("t1", "t4"), ()]


async def test_the_environments_proxy_does_not_stand_before_loopback(
    server: Loopback, twin: Twin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", closed_port())
    server.answers(JSONResponse({"status": "ok"}))
    assert (await twin(twin.client(server.url), "health")).status == "ready"


def test_a_proxy_that_cannot_be_used_is_an_error_of_the_arguments(twin: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "socks5://127.0.0.1:9")
    with pytest.raises(InvalidRequestError, match="SOCKS proxy"):
        twin.kind("https://memory.example", KEY)
    assert twin.kind("http://127.0.0.1:9", KEY)


async def test_both_close_when_their_block_ends(server: Loopback) -> None:
    server.answers(JSONResponse({"status": "ok"}))
    async with AsyncAfterturn(server.url, KEY) as client:
        await client.health()
    with Afterturn(server.url, KEY) as blocking:
        await asyncio.to_thread(blocking.health)
    assert client._http.is_closed
    assert blocking._http.is_closed


def test_the_client_that_blocks_is_made_of_the_one_that_awaits() -> None:
    command = "python -m tests.client.blocking_client"
    assert BLOCKING.read_text() == make_blocking_client(), f"client.py has changed: run `{command}`"


def test_the_public_names_are_those_listed() -> None:
    public = {name for name, value in vars(exports).items() if isinstance(value, type)}
    assert public == set(module.__all__) < set(dir(module))
    with pytest.raises(AttributeError):
        module.Nothing  # noqa: B018


def test_every_answer_is_frozen() -> None:
    answers = [getattr(module, name) for name in module.__all__ if is_dataclass(getattr(module, name))]
    assert len(answers) > 10
    assert all(answer.__dataclass_params__.frozen and fields(answer) for answer in answers)


def test_importing_it_brings_httpx_and_nothing_of_the_service() -> None:
    script = "import sys; old = set(sys.modules); import httpx; base = set(sys.modules); import afterturn_client; \
import afterturn_client.gateway; print(*sorted({name.partition('.')[0] for name in set(sys.modules) - base}))"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    brought = {name for name in shown.split() if name not in sys.stdlib_module_names}
    assert brought == {"afterturn_client"}


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_name_is_one_segment_of_a_path_and_comes_back(name: str) -> None:
    quoted = path_segment(name)
    assert unquote(quoted) == name
    assert not set(quoted) & set("/?# \\")
    assert httpx.URL(f"http://h/a/{quoted}/b").raw_path.decode() == f"/a/{quoted}/b"
