"""Each API call as a value: request, parser of the answer, whether it may be retried.

Nothing here does I/O: both clients, the one that awaits and the one that blocks, run these same calls.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Generic, TypedDict, TypeVar
from urllib.parse import quote
from uuid import UUID

from afterturn_client import answers
from afterturn_client.arguments import check_metadata, check_text, check_texts
from afterturn_client.contract.banks import ChangedBank
from afterturn_client.contract.facts import Profile
from afterturn_client.contract.freshness import Freshness
from afterturn_client.contract.recall import RecallJob
from afterturn_client.contract.receipts import CorrectionReceipt, DocumentReceipt, ForgottenReceipt, StoredTurn
from afterturn_client.contract.shape import Shape
from afterturn_client.errors import ApiError, InvalidAnswerError, InvalidRequestError
from afterturn_client.reading import read_object, read_shape, read_value
from afterturn_client.reference import FrameForm
from afterturn_client.refusals import read_error
from afterturn_client.transport import Reply, Request, encode_json
from afterturn_client.turns import Moment, NewTurn, format_moment, texts_of, turn_body

S = TypeVar("S", bound=Shape)
T = TypeVar("T")

_OK = range(200, 300)
_UNAVAILABLE = 503


class RecallOptions(TypedDict, total=False):
    """Options of a recall; the service's defaults apply to those left out.

    `k` 1..100 whole units, or `max_tokens`, which the reference of passages stays within, with `k` at most `k` of them;
    with neither, passages within the service's `recall.answer_tokens`, as far as they help. `reference`: lines for a
    reader, or json with every field. `min_score` leaves worse ones out. `skip_recent` 0..64,
    how many of the session's newest messages the agent has before it anyway: they are not told again; `wait_ms`
    0..10000, how long to wait for `min_position`; `sources` local and gateway; `without` arms and rules of the ranking
    that are left out. `kinds` fact types; `as_of` only what had happened by then, `known_at` only what had been
    recorded by then. Only what stands in one of `sessions`, was said in one of `roles`, and between `begin` and `end`
    by `time`: occurred (the default) or said. Only what has one of `tags`, all of `metadata`, and comes from turns of
    `user_id`;
    with `across_banks`, from all banks this user wrote to that the key reaches.
    """

    bank: str
    k: int
    session_id: str
    exclude_session: bool
    skip_recent: int
    max_tokens: int
    min_score: float
    sessions: Sequence[str]
    roles: Sequence[str]
    begin: Moment
    end: Moment
    time: str
    kinds: Sequence[str]
    tags: Sequence[str]
    metadata: Mapping[str, str]
    user_id: str
    across_banks: bool
    as_of: Moment
    known_at: Moment
    min_position: int
    wait_ms: int
    sources: Sequence[str]
    reference: FrameForm
    explain: bool
    without: Sequence[str]


@dataclass(frozen=True, slots=True)
class ApiCall(Generic[T]):
    """One call. `read` takes the reply's JSON (None when it has no body).

    `idempotent`: it may be sent again although the first outcome is unknown. `also` reads statuses beside
    2xx that carry an answer; `private` texts must not appear in an error.
    """

    request: Request
    read: Callable[[Any], T] = field(repr=False)
    idempotent: bool = True
    also: Mapping[int, Callable[[Any], T]] = field(default_factory=dict, repr=False)
    private: tuple[str, ...] = field(default=(), repr=False)


def read(
    shape: type[S],
    path: Sequence[str | UUID],
    place: tuple[str, float],
    what: str = "",
    **params: str | int | UUID | None,
) -> ApiCall[S]:
    """GET what stands below /api/v1 in a bank: `place` is its name and the time-out in seconds.

    `path` are the segments, `what` names the answer in errors. A parameter of None is left out.
    """
    bank, timeout_s = place
    told = {
        name: value if isinstance(value, int) else str(value)
        for name, value in {"bank": bank, **params}.items()
        if value is not None
    }
    request = Request("GET", "/".join(("/api/v1", *map(path_segment, path))), told, timeout_s=timeout_s)
    return ApiCall(request, partial(read_shape, shape, what=what))


def add_turn(turn: NewTurn, bank: str, timeout_s: float) -> ApiCall[answers.TurnReceipt]:
    """POST /api/v1/turns."""
    body = encode_json(turn_body(turn, bank))
    request = Request("POST", "/api/v1/turns", body=body, timeout_s=timeout_s)
    return ApiCall(request, lambda value: _parse_receipt(turn, value), private=tuple(texts_of(turn)))


def add_turns(
    turns: Sequence[NewTurn], bank: str, timeout_s: float
) -> ApiCall[tuple[answers.TurnReceipt | answers.RefusedTurn, ...]]:
    """POST /api/v1/turns:batch; one result a turn, in order."""
    if isinstance(turns, str | bytes | NewTurn) or not isinstance(turns, Sequence):
        raise InvalidRequestError(f"turns must be a list, each a NewTurn; not {type(turns).__name__}")
    body = encode_json({"turns": [turn_body(turn, bank) for turn in turns]})
    request = Request("POST", "/api/v1/turns:batch", body=body, timeout_s=timeout_s)
    private = tuple(text for turn in turns for text in texts_of(turn))
    return ApiCall(request, lambda value: _parse_results(turns, value), private=private)


class DocumentOptions(TypedDict, total=False):
    """Metadata of a document; the list of documents returns it."""

    title: str | None
    user_id: str | None
    occurred_at: Moment | None
    expires_at: Moment | None
    metadata: Mapping[str, str]


def add_document(
    content: str | None, content_hash: str | None, options: DocumentOptions, bank: str, timeout_s: float
) -> ApiCall[DocumentReceipt]:
    """POST /api/v1/docs; the same content again is the same document."""
    for name, value in (("content", content), ("content_hash", content_hash), ("title", options.get("title"))):
        if value is not None:
            check_text(name, value)
    if options.get("metadata") is not None:
        check_metadata(options["metadata"])
    told = {**options, "content": content, "content_hash": content_hash}
    told["occurred_at"] = format_moment(options.get("occurred_at"))
    told["expires_at"] = format_moment(options.get("expires_at"))
    body = encode_json({"bank": bank, **{name: value for name, value in told.items() if value is not None}})
    request = Request("POST", "/api/v1/docs", body=body, timeout_s=timeout_s)
    private = (content, options.get("title"), *options.get("metadata", {}).values())
    return ApiCall(
        request,
        partial(read_shape, DocumentReceipt, what="document"),
        private=tuple(text for text in private if text),
    )


def recall(query: str, options: RecallOptions, timeout_s: float) -> ApiCall[answers.RecallAnswer]:
    """POST /api/v1/recall; the wait the options ask for is added to the time-out."""
    patience = timeout_s + (options.get("wait_ms") or 0) / 1000
    body = encode_json(recall_body(query, options))
    request = Request("POST", "/api/v1/recall", body=body, timeout_s=patience)
    return ApiCall(request, answers.read_recall, private=(query,))


def start_recall(query: str, options: RecallOptions, ttl_s: int | None, timeout_s: float) -> ApiCall[RecallJob]:
    """POST /api/v1/recall/jobs; not repeated after an unknown outcome, which would leave two jobs."""
    body = recall_body(query, options) | ({} if ttl_s is None else {"ttl_s": ttl_s})
    request = Request("POST", "/api/v1/recall/jobs", body=encode_json(body), timeout_s=timeout_s)
    return ApiCall(request, partial(read_shape, RecallJob, what="recall job"), idempotent=False, private=(query,))


def recall_job(job_id: str | UUID, wait_ms: int, timeout_s: float) -> ApiCall[answers.RecallJobState]:
    """GET /api/v1/recall/jobs/{id}."""
    path = f"/api/v1/recall/jobs/{path_segment(job_id)}"
    params = {"wait_ms": wait_ms} if wait_ms else {}
    return ApiCall(Request("GET", path, params, timeout_s=timeout_s + wait_ms / 1000), answers.read_job_state)


def cancel_recall(job_id: str | UUID, timeout_s: float) -> ApiCall[None]:
    """DELETE /api/v1/recall/jobs/{id}."""
    return ApiCall(
        Request("DELETE", f"/api/v1/recall/jobs/{path_segment(job_id)}", timeout_s=timeout_s), _parse_nothing
    )


def freshness(position: int | None, wait_ms: int, bank: str, timeout_s: float) -> ApiCall[Freshness]:
    """GET /api/v1/banks/{bank}/freshness."""
    params = {} if position is None else {"position": position, "wait_ms": wait_ms}
    path = f"/api/v1/banks/{path_segment(bank)}/freshness"
    return ApiCall(Request("GET", path, params, timeout_s=timeout_s + wait_ms / 1000), partial(read_shape, Freshness))


def correct_unit(
    unit_id: str | UUID, content: str, version: int | None, bank: str, timeout_s: float
) -> ApiCall[CorrectionReceipt]:
    """PATCH /api/v1/units/{unit_id}; repeated, it finds the new text in its place and changes nothing."""
    body = encode_json({"content": check_text("content", content), **({} if version is None else {"version": version})})
    path = f"/api/v1/units/{path_segment(unit_id)}"
    request = Request("PATCH", path, {"bank": bank}, body=body, timeout_s=timeout_s)
    return ApiCall(request, _read_correction, idempotent=version is None, private=(content,))


def end_unit(
    unit_id: str | UUID, ends: datetime | None, version: int | None, bank: str, timeout_s: float
) -> ApiCall[CorrectionReceipt]:
    """PATCH /api/v1/units/{unit_id}; repeated, it finds the same end and changes nothing."""
    end = None if ends is None else ends.isoformat()
    body = encode_json({"expires_at": end, **({} if version is None else {"version": version})})
    path = f"/api/v1/units/{path_segment(unit_id)}"
    request = Request("PATCH", path, {"bank": bank}, body=body, timeout_s=timeout_s)
    return ApiCall(request, _read_correction, idempotent=version is None)


def pin_unit(unit_id: str | UUID, pinned: bool, bank: str, timeout_s: float) -> ApiCall[CorrectionReceipt]:  # noqa: FBT001 - as sent
    """PUT or DELETE /api/v1/units/{unit_id}/pin; repeated, it changes nothing."""
    path = f"/api/v1/units/{path_segment(unit_id)}/pin"
    request = Request("PUT" if pinned else "DELETE", path, {"bank": bank}, timeout_s=timeout_s)
    return ApiCall(request, _read_correction)


def delete_unit(unit_id: str | UUID, with_facts: bool, bank: str, timeout_s: float) -> ApiCall[int]:  # noqa: FBT001 - as sent
    """DELETE /api/v1/units/{unit_id}."""
    params: dict[str, str | int] = {"bank": bank, "with_facts": str(with_facts).lower()}
    request = Request("DELETE", f"/api/v1/units/{path_segment(unit_id)}", params, timeout_s=timeout_s)
    return ApiCall(request, _count_forgotten if with_facts else lambda _: 0)


class ProfileOptions(TypedDict, total=False):
    """Options of a profile: the person and the bank; without a person, a user's key asks about its own user.

    `user_id`: the user whose turns the facts come from, in all banks the key reaches or in `bank`; `name`: a person's
    name in a bank; `history`: also superseded facts; `limit`: the most facts (1..1000); `cursor`: that of the page
    before.
    """

    user_id: str
    name: str
    bank: str
    history: bool
    limit: int
    cursor: str


def profile(options: ProfileOptions, timeout_s: float) -> ApiCall[Profile]:
    """GET /api/v1/profile."""
    params: dict[str, str | int] = {}
    for one in ("user_id", "name", "bank"):
        if options.get(one) is not None:
            check_text(one, options[one])
    for option, value in options.items():
        if isinstance(value, str | int):
            params[option] = str(value).lower() if isinstance(value, bool) else value
    name = options.get("name")
    request = Request("GET", "/api/v1/profile", params, timeout_s=timeout_s)
    return ApiCall(request, partial(read_shape, Profile), private=(name,) if name else ())


def set_language(language: str, bank: str, timeout_s: float) -> ApiCall[ChangedBank]:
    """PATCH /api/v1/banks/{bank}; the same language again changes nothing."""
    path, body = f"/api/v1/banks/{path_segment(bank)}", encode_json({"language": language})
    request = Request("PATCH", path, body=body, timeout_s=timeout_s)
    return ApiCall(request, partial(read_shape, ChangedBank))


def health(timeout_s: float) -> ApiCall[answers.Health]:
    """GET /health/ready; a service that is not ready answers too."""
    request = Request("GET", "/health/ready", timeout_s=timeout_s)
    return ApiCall(request, _parse_ready, also={_UNAVAILABLE: _parse_not_ready})


def parse_reply(call: ApiCall[T], reply: Reply, key: str) -> T | ApiError:
    """Return the answer of a reply, or the ApiError it stands for. Raises InvalidAnswerError for an unreadable one."""
    value = _parse_json(reply)
    if reply.status in call.also and isinstance(value, dict):
        return call.also[reply.status](value)
    if reply.status in _OK:
        if value is _UNREADABLE:
            raise InvalidAnswerError(f"{call.request.method} {reply.status}: the answer is not JSON")
        return call.read(value)
    return read_error(value, reply.status, reply.retry_after, (key, *call.private))


def path_segment(name: str | UUID) -> str:
    """Return a name percent-encoded as one segment of a path, slashes and dot segments included."""
    text = check_text("an id in a path", str(name) if isinstance(name, UUID) else name)
    quoted = quote(text, safe="", errors="replace")
    return quoted.replace(".", "%2E") if not text.strip(".") else quoted


_UNREADABLE = object()


def _parse_json(reply: Reply) -> Any:
    if reply.body == b"":
        return None
    try:
        return json.loads(reply.body) if reply.body is not None else _UNREADABLE
    except (ValueError, RecursionError):
        return _UNREADABLE


def _parse_receipt(turn: NewTurn, value: object) -> answers.TurnReceipt:
    stored = read_shape(StoredTurn, value, "turn")
    return answers.TurnReceipt(turn.session_id, turn.turn_id, stored.position, stored.duplicate)


def _read_correction(value: object) -> CorrectionReceipt:
    return read_shape(CorrectionReceipt, value, "correction")


def _count_forgotten(value: object) -> int:
    return read_shape(ForgottenReceipt, value, "forgotten").facts_forgotten


def _parse_results(turns: Sequence[NewTurn], value: object) -> tuple[answers.TurnReceipt | answers.RefusedTurn, ...]:
    results = read_value(list, read_object(value, "batch").get("results"), "batch: results")
    if len(results) != len(turns):
        raise InvalidAnswerError("batch: not one result for each turn")
    return tuple(_parse_result(turn, one) for turn, one in zip(turns, results, strict=True))


def _parse_result(turn: NewTurn, value: object) -> answers.TurnReceipt | answers.RefusedTurn:
    told = read_object(value, "batch.results")
    if read_value(bool, told.get("ok"), "batch.results: ok"):
        return _parse_receipt(turn, told)
    return answers.RefusedTurn(turn.session_id, turn.turn_id, read_error(told, None, None, texts_of(turn)))


def recall_body(query: str, options: RecallOptions) -> dict[str, Any]:
    """Return the JSON object of POST /api/v1/recall. Raises InvalidRequestError."""
    body: dict[str, Any] = {"query": check_text("query", query)}
    body |= {name: value for name, value in options.items() if value is not None}
    body |= {wire: body.pop(name) for name, wire in (("begin", "from"), ("end", "to")) if name in body}
    for name in ("kinds", "tags", "sources", "sessions", "roles"):
        if name in body:
            check_texts(name, body[name])
            body[name] = list(body[name])
    if "metadata" in body:
        check_metadata(body["metadata"])
        body["metadata"] = dict(body["metadata"])
    for name in {"as_of", "known_at", "from", "to"} & body.keys():
        body[name] = format_moment(body[name])
    return body


def _parse_ready(value: object) -> answers.Health:
    raw = read_object(value, "health")
    degraded = raw.get("status") == "degraded" or bool(raw.get("degraded"))
    return answers.Health("degraded" if degraded else "ready", raw)


def _parse_not_ready(value: object) -> answers.Health:
    return answers.Health("failing", read_object(value, "health"))


def _parse_nothing(_value: object) -> None:
    return None
