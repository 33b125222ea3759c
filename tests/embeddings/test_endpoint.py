"""External models: which addresses are taken, what is followed, how much is read."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from starlette.responses import JSONResponse, Response

from embeddings.endpoint import Endpoint, EndpointError, EndpointLimits, endpoint_url
from tests.client.loopback import Loopback, closed_port, everything_in, loopback, raw_server
from tests.patience import PATIENCE_S
from tests.tables import each_row

PATH = "/v1/responses"
KEY = "sk-distinctive-key-8822"
LIMITS = EndpointLimits(request_bytes=1000, reply_bytes=2000, seconds=PATIENCE_S)
BRIEF = replace(LIMITS, seconds=0.5)


@pytest.fixture
def server() -> Iterator[Loopback]:
    with loopback() as running:
        yield running


async def ask(url: str, limits: EndpointLimits = LIMITS, body: dict[str, object] | None = None) -> object:
    endpoint = Endpoint(url + PATH, KEY, limits)
    try:
        return await endpoint.post(body or {"text": "hello"})
    finally:
        await endpoint.close()


async def refused(url: str, limits: EndpointLimits = LIMITS, body: dict[str, object] | None = None) -> EndpointError:
    with pytest.raises(EndpointError) as caught:
        await ask(url, limits, body)
    assert KEY not in everything_in(caught.value)
    assert "a text nobody may see" not in everything_in(caught.value)
    return caught.value


@each_row(
    "base",
    [
        "https://models.example.com",
        "https://models.example.com/",
        "https://models.example.com/v1",
        "https://models.example.com/v1/",
        "https://models.example.com/v1/responses",
        "https://models.example.com/v1?key=abc#top",
    ],
)
def test_every_form_of_a_base_leads_to_one_address(base: str) -> None:
    assert endpoint_url(base, PATH) == "https://models.example.com/v1/responses"


def test_a_base_below_a_path_keeps_it() -> None:
    assert endpoint_url("https://example.com/gate/v1", PATH) == "https://example.com/gate/v1/responses"
    assert endpoint_url("http://127.0.0.1:9/gate", PATH) == "http://127.0.0.1:9/gate/v1/responses"


@each_row(
    "base",
    ["", "api.openai.com", "api.openai.com/v1", "localhost:8080", "//example.com", "/v1", "https://", "https:///v1"],
)
def test_a_domain_alone_is_refused_and_not_shown(base: str) -> None:
    with pytest.raises(ValueError, match=r"absolute URL|must begin with https") as caught:
        endpoint_url(base, PATH)
    assert "openai" not in str(caught.value)


@each_row("base", ["http://example.com", "ftp://example.com", "https://user:pw@example.com", "https://[::1"])
def test_what_would_leave_in_the_open_is_refused(base: str) -> None:
    with pytest.raises(ValueError, match=r"must|is no URL"):
        endpoint_url(base, PATH)


def test_plain_http_is_for_this_machine_or_where_it_was_allowed() -> None:
    assert endpoint_url("http://localhost:8080", PATH) == "http://localhost:8080/v1/responses"
    assert endpoint_url("http://models.internal", PATH, allow_http=True) == "http://models.internal/v1/responses"


async def test_a_call_posts_json_with_the_key_in_its_header_alone(server: Loopback) -> None:
    assert await ask(server.url) == {"ok": True}
    seen = server.seen[0]
    assert (seen.method, seen.path, seen.json) == ("POST", PATH, {"text": "hello"})
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.headers["content-type"] == "application/json"


async def test_a_redirect_within_the_origin_keeps_the_call_as_it_is(server: Loopback) -> None:
    server.answers(Response(status_code=307, headers={"location": "/elsewhere"}), JSONResponse({"moved": True}))
    assert await ask(server.url) == {"moved": True}
    first, second = server.seen
    assert (second.method, second.path, second.body) == ("POST", "/elsewhere", first.body)
    assert second.headers["authorization"] == first.headers["authorization"]


async def test_a_redirect_to_another_origin_is_not_followed(server: Loopback) -> None:
    with loopback() as foreign:
        server.answers(Response(status_code=308, headers={"location": foreign.url + PATH}))
        assert (await refused(server.url)).category == "redirect"
        assert foreign.seen == []


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_redirect_that_would_make_a_get_of_the_call_is_not_followed(server: Loopback, status: int) -> None:
    server.answers(Response(status_code=status, headers={"location": "/elsewhere"}))
    assert (await refused(server.url)).category == "redirect"
    assert len(server.seen) == 1


async def test_redirects_in_a_circle_come_to_an_end(server: Loopback) -> None:
    server.answers(Response(status_code=307, headers={"location": PATH}))
    assert (await refused(server.url)).category == "redirect"
    assert len(server.seen) == 4


async def test_a_request_over_its_size_is_not_sent(server: Loopback) -> None:
    body: dict[str, object] = {"text": "a text nobody may see" * 100}
    assert (await refused(server.url, body=body)).category == "too_large"
    assert server.seen == []


async def test_a_reply_is_read_up_to_its_size_and_no_further(server: Loopback) -> None:
    server.answers(JSONResponse({"text": "a text nobody may see" * 100}))
    assert (await refused(server.url)).category == "too_large"


@pytest.mark.parametrize(
    "reply,category,passing",
    [
        (Response(status_code=401), "unauthorized", False),
        (Response(status_code=400), "http_error", False),
        (Response("a text nobody may see", status_code=503), "unavailable", True),
        (Response("a text nobody may see"), "invalid_reply", False),
        (JSONResponse([1]), "invalid_reply", False),
        (Response(b'{"a": NaN}'), "invalid_reply", False),
    ],
)
async def test_what_is_no_answer_has_a_category(
    server: Loopback,
    reply: Response,
    category: str,
    passing: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    server.answers(reply)
    error = await refused(server.url)
    assert (error.category, error.passing) == (category, passing)


async def test_when_to_come_back_is_told(server: Loopback) -> None:
    server.answers(Response(status_code=429, headers={"retry-after": "17"}))
    error = await refused(server.url)
    assert (error.category, error.status, error.retry_after) == ("rate_limited", 429, 17.0)


async def test_a_service_that_hangs_or_drips_is_given_up_after_the_time() -> None:
    with raw_server(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{", linger_s=PATIENCE_S) as (url, _received):
        assert (await refused(url, BRIEF)).category == "timeout"


async def test_a_service_that_is_away_is_told_from_one_that_cuts() -> None:
    assert (await refused(closed_port())).category == "connection"
    with raw_server(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{") as (url, _received):
        assert (await refused(url)).category == "connection"


async def test_text_that_is_no_unicode_is_sent_with_a_mark(server: Loopback) -> None:
    await ask(server.url, body={"text": "broken \ud800 text", "more": ["\ud800"]})
    assert server.seen[0].json == {"text": "broken ? text", "more": ["?"]}


@pytest.mark.parametrize("proxy", ["socks5://ana:distinctive@127.0.0.1:9", "socks9://ana:distinctive@127.0.0.1:9"])
async def test_a_proxy_that_cannot_be_used_is_named_by_its_variables_and_never_shown(
    server: Loopback, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    for name in ("ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy)
    error = await refused("https://models.test")
    assert (error.category, error.passing) == ("environment", False)
    assert "ALL_PROXY" in str(error)
    assert "SOCKS" in str(error)
    assert "distinctive" not in everything_in(error)
    assert await ask(server.url) == {"ok": True}, "no proxy stands before this machine"
