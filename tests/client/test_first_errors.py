"""Errors of the first hour: wrong arguments are refused where they are given, and a call without an answer says why."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import date
from typing import Any

import pytest
from afterturn_client import (
    Afterturn,
    InvalidRequestError,
    Message,
    NewTurn,
    RetryPolicy,
    UnknownOutcomeError,
    UnreachableError,
)
from afterturn_client.answers import read_recall
from afterturn_client.contract.facts import Profile
from afterturn_client.publisher import AsyncTurnPublisher, TurnPublisher
from afterturn_client.reading import read_shape

from tests.certificates import Authority
from tests.client.loopback import closed_port, everything_in
from tests.client.twins import ANSWER, FACT, KEY, PROFILE, TEXT, Twin, twin
from tests.tables import each_row

__all__ = ["twin"]

NEVER = RetryPolicy(pauses_s=())
WRONG: list[Any] = [None, 7, b"bytes", object()]


@each_row("content", [*WRONG, {"type": "text"}, ["hello"], [None]])
def test_a_message_has_text_or_parts(content: Any) -> None:
    with pytest.raises(InvalidRequestError, match="content"):
        Message("user", content)


@each_row("role", [*WRONG, "", " "])
def test_a_message_has_a_role(role: Any) -> None:
    with pytest.raises(InvalidRequestError, match="role"):
        Message(role, TEXT)


@each_row(
    "named, method, given",
    [
        ("messages", "add_turn", lambda wrong: ("s", wrong)),
        ("messages", "add_turn", lambda wrong: ("s", [wrong])),
        ("session_id", "add_turn", lambda wrong: (wrong, [Message("user", TEXT)])),
        ("messages", "add_turns", lambda wrong: ([NewTurn("s", wrong)],)),
        ("turns", "add_turns", lambda wrong: (wrong,)),
        ("turns", "add_turns", lambda wrong: ([wrong],)),
        ("query", "recall", lambda wrong: (wrong,)),
        ("query", "start_recall", lambda wrong: (wrong,)),
        ("current_input", "before_turn", lambda wrong: ("s", "t", wrong)),
        ("input_items", "after_turn", lambda wrong: ("s", "t", [wrong])),
        ("turn_id", "after_turn", lambda wrong: ("s", wrong)),
        ("content", "keep_memory", lambda wrong: (wrong,)),
        ("content", "correct_unit", lambda wrong: ("u", wrong)),
        ("id", "get_unit", lambda wrong: (wrong,)),
    ],
)
@each_row("wrong", [None, 7, b"bytes"])
async def test_a_wrong_argument_is_refused_before_anything_is_sent(
    twin: Twin, named: str, method: str, given: Callable[[Any], tuple[Any, ...]], wrong: Any
) -> None:
    with pytest.raises(InvalidRequestError, match=named):
        await twin(twin.client("http://127.0.0.1:9"), method, *given(wrong))


ONE_TURN = ("s", [Message("user", TEXT)])
WRONG_OPTIONS: list[tuple[str, tuple[Any, ...], str, Any]] = [
    *(("add_turn", ONE_TURN, "metadata", wrong) for wrong in ("x", {"a": 1}, {1: "a"}, [("a", "b")])),
    *(("add_turn", ONE_TURN, "bank", wrong) for wrong in ("", " ", 7)),
    *(("add_turn", ONE_TURN, "user_id", wrong) for wrong in (7, b"ann")),
    *(("add_document", (TEXT,), name, 7) for name in ("title", "content_hash", "metadata", "bank")),
    *(("keep_memory", (TEXT,), name, 7) for name in ("title", "memory_id", "user_id", "metadata", "bank")),
    *(("recall", (TEXT,), "metadata", wrong) for wrong in ("x", {"a": 1})),
    *(("profile", (), name, 7) for name in ("user_id", "bank")),
    *((method, (), "bank", "") for method in ("list_units", "list_sessions", "freshness", "list_entities")),
    *(("delete_unit", ("u",), "bank", wrong) for wrong in ("", 7)),
]


@each_row("method, given, option, wrong", WRONG_OPTIONS)
async def test_a_wrong_option_is_refused_before_anything_is_sent(
    twin: Twin, method: str, given: tuple[Any, ...], option: str, wrong: Any
) -> None:
    with pytest.raises(InvalidRequestError, match=option) as caught:
        await twin(twin.client("http://127.0.0.1:9"), method, *given, **{option: wrong})
    assert TEXT not in everything_in(caught.value)


@each_row("wrong", [date(2026, 3, 2), 7.5, True, []])
@each_row(
    "method, given, option",
    [
        ("add_turn", ONE_TURN, "occurred_at"),
        *(("recall", (TEXT,), name) for name in ("as_of", "known_at", "begin", "end")),
    ],
)
async def test_what_is_no_time_is_refused_before_anything_is_sent(
    twin: Twin, method: str, given: tuple[Any, ...], option: str, wrong: Any
) -> None:
    with pytest.raises(InvalidRequestError, match="a time must be a datetime with its zone"):
        await twin(twin.client("http://127.0.0.1:9"), method, *given, **{option: wrong})


@each_row("options", [{"timeout_s": one} for one in ("5", 0, -1, True, None)] + [{"retry": 3}, {"retry": "x"}])
def test_a_client_with_settings_of_another_type_is_refused(twin: Twin, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match=next(iter(options))):
        twin.kind("http://127.0.0.1:9", KEY, **options)


@pytest.mark.parametrize("pauses", [5, "soon", None])
def test_a_policy_without_a_list_of_pauses_is_refused(pauses: Any) -> None:
    with pytest.raises(InvalidRequestError, match="pauses_s"):
        RetryPolicy(pauses_s=pauses)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/api/v1", "http://127.0.0.1:9/memory/api/v1/"])
def test_an_address_with_the_path_of_calls_is_refused(twin: Twin, url: str) -> None:
    with pytest.raises(InvalidRequestError, match="without /api/v1"):
        twin.kind(url, KEY)


async def test_a_closed_client_says_so(twin: Twin) -> None:
    client = twin.client("http://127.0.0.1:9")
    await twin(client, "close" if isinstance(client, Afterturn) else "aclose")
    with pytest.raises(InvalidRequestError, match="closed"):
        await twin(client, "recall", TEXT)


async def test_a_text_is_no_list_of_messages(twin: Twin) -> None:
    for method in ("add_turn", "before_turn"):
        given = ("s", TEXT) if method == "add_turn" else ("s", "t", TEXT)
        with pytest.raises(InvalidRequestError, match="must be a list") as caught:
            await twin(twin.client("http://127.0.0.1:9"), method, *given)
        assert TEXT not in everything_in(caught.value)


@pytest.mark.parametrize("given", [(None, KEY), (7, KEY), ("http://127.0.0.1:9", None), ("http://127.0.0.1:9", 7)])
def test_a_client_of_nothing_is_refused(twin: Twin, given: tuple[Any, Any]) -> None:
    with pytest.raises(InvalidRequestError):
        twin.kind(*given)
    with pytest.raises(InvalidRequestError, match="bank"):
        twin.kind("http://127.0.0.1:9", KEY, bank=None)


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that does this with each connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    taken, _ = server.accept()
                    with suppress(OSError), taken:
                        answer(taken)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def take_and_close(taken: socket.socket) -> None:
    taken.recv(65_536)


def speak_plainly(taken: socket.socket) -> None:
    taken.recv(65_536)
    taken.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.fixture(scope="module")
def speak_tls(tmp_path_factory: pytest.TempPathFactory) -> Callable[[socket.socket], None]:
    folder = tmp_path_factory.mktemp("tls")
    shown = Authority(folder).sign("server", "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown.certificate, shown.key)

    def speak(taken: socket.socket) -> None:
        with suppress(ssl.SSLError), context.wrap_socket(taken, server_side=True) as secured:
            secured.recv(65_536)

    return speak


async def lose(twin: Twin, url: str) -> str:
    client = twin.client(url, retry=NEVER)
    with pytest.raises((UnreachableError, UnknownOutcomeError)) as caught:
        await twin(client, "add_turn", "s", [Message("user", TEXT)])
    told = str(caught.value)
    assert url in told
    assert TEXT not in told
    assert KEY not in told
    return told


async def test_a_call_without_an_answer_names_the_address_and_the_likely_cause(
    twin: Twin, speak_tls: Callable[[socket.socket], None]
) -> None:
    assert "nothing listens there" in await lose(twin, closed_port())
    assert "name of the machine is not known" in await lose(twin, "https://nowhere.invalid")
    with answering(take_and_close) as port:
        assert "begins with https://" in await lose(twin, f"http://127.0.0.1:{port}")
    with answering(speak_tls) as port:
        assert "begins with https://" in await lose(twin, f"http://127.0.0.1:{port}")
        assert "certificate is not trusted" in await lose(twin, f"https://127.0.0.1:{port}")
    with answering(speak_plainly) as port:
        assert "does not speak TLS" in await lose(twin, f"https://127.0.0.1:{port}")


def test_what_is_printed_says_something_and_its_repr_shows_nothing() -> None:
    recalled = read_recall(ANSWER)
    assert str(recalled) == f"1.00 2026-01-02 user: {TEXT}"
    assert str(recalled.results[0]) == str(recalled)
    assert TEXT not in repr(recalled)
    assert str(read_recall({**ANSWER, "results": []})) == "nothing was found"
    assert "no such bank" in str(read_recall({**ANSWER, "results": [], "bank_known": False}))
    profile = read_shape(Profile, PROFILE)
    assert str(profile) == "Ana: 1 facts\n  Ana lives in Lisbon. (since 2026-02-01)"
    assert "Lisbon" not in repr(profile)
    ended = {**FACT, "until": "2026-03-01T00:00:00Z", "text": "Ana\x1b[2J lives\nin Lisbon."}
    assert str(read_shape(Profile, {**PROFILE, "facts": [ended]})).endswith(
        "Ana [2J lives in Lisbon. (since 2026-02-01 until 2026-03-01)"
    )


SAID = [Message("user", TEXT)]
REFUSED: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("messages", ("s", []), {}),
    ("messages", ("s", TEXT), {}),
    ("role", ("s", [Message("bot", TEXT)]), {}),
    ("role", ("s", [{"content": TEXT}]), {}),
    ("messages", ("s", [Message("user", "  "), Message("assistant", "")]), {}),
    ("messages", ("s", SAID * 1_025), {}),
    ("session_id", ("", SAID), {}),
    ("session_id", ("s" * 129, SAID), {}),
    ("turn_id", ("s", SAID), {"turn_id": " "}),
    ("bank", ("s", SAID), {"bank": "b" * 257}),
    ("user_id", ("s", SAID), {"user_id": 7}),
    ("occurred_at", ("s", SAID), {"occurred_at": "yesterday"}),
    ("timestamp", ("s", [Message("user", TEXT, timestamp="2026-03-02T09:30:00")]), {}),
    ("tags", ("s", SAID), {"tags": "x"}),
    ("tags", ("s", SAID), {"tags": ["x"] * 65}),
    ("metadata", ("s", SAID), {"metadata": {"n": 7}}),
    ("metadata", ("s", SAID), {"metadata": {"n": "x" * 16_384}}),
    ("surrogate", ("s", [Message("user", TEXT + "\0")]), {}),
    ("surrogate", ("s", [Message("user", [{"type": "text", "text": TEXT + "\udc88"}])]), {}),
]


@each_row("named, given, more", REFUSED)
def test_a_publisher_refuses_what_the_service_would(named: str, given: tuple[Any, ...], more: dict[str, Any]) -> None:
    url = closed_port().replace("http", "redis")
    with TurnPublisher(url, "acme") as queue, pytest.raises(InvalidRequestError, match=named) as caught:
        queue.add_turn(*given, **more)
    assert TEXT not in everything_in(caught.value)
    with pytest.raises(InvalidRequestError, match=named):
        asyncio.run(AsyncTurnPublisher(url, "acme").add_turn(*given, **more))


def test_a_publisher_refuses_questions_and_items_that_are_none() -> None:
    with TurnPublisher(closed_port().replace("http", "redis"), "acme") as queue:
        for query in ("", " ", "x" * 16_385, None):
            with pytest.raises(InvalidRequestError, match="query"):
                queue.start_recall(query)  # type: ignore[arg-type]  # what is tried
        with pytest.raises(InvalidRequestError, match="input_items"):
            queue.after_turn("s", "t")
        with pytest.raises(UnknownOutcomeError, match="rediss://"):
            queue.add_turn("s", SAID)


def test_a_blocking_client_refuses_as_well() -> None:
    with Afterturn("http://127.0.0.1:9", KEY) as client, pytest.raises(InvalidRequestError, match="query"):
        client.recall(None)  # type: ignore[arg-type]  # what is tried
