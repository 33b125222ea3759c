"""The two calls of a turn's life cycle: model input before it, storage after it. No I/O."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypedDict

from afterturn_client.arguments import check_name, check_objects
from afterturn_client.calls import ApiCall
from afterturn_client.contract.turns import KeptTurn, PreparedTurn
from afterturn_client.reading import read_shape
from afterturn_client.reference import FrameForm
from afterturn_client.transport import Request, encode_json
from afterturn_client.turns import Moment, format_moment

#: An item of the Responses API, or any JSON object: it comes back as it was handed in.
Item = Mapping[str, Any]
#: Fields of an item whose values say of what kind it is.
KINDS = frozenset({"type", "role"})


class BeforeTurnOptions(TypedDict, total=False):
    """Options of a turn that begins; the service's defaults apply to those left out.

    `conversation_items` with the slice of it that is current, where the agent keeps the history itself;
    `max_input_tok` 0 for no limit; `scope` of the recall: project (the bank) or session;
    `reference`: lines for a reader, or json with every field; `wait_ms` 0..10000, how long
    to wait for `min_position`.
    """

    bank: str
    user_id: str
    conversation_items: Sequence[Item]
    current_input_start: int
    current_input_count: int
    base_instructions: str
    max_input_tok: int
    scope: Literal["project", "session"]
    reference: FrameForm
    min_position: int
    wait_ms: int


class AfterTurnOptions(TypedDict, total=False):
    """Options of a completed turn, besides its input and output.

    `occurred_at` is the time of items without one of their own. From `expires_at` on no answer holds it.
    """

    bank: str
    user_id: str
    conversation_items: Sequence[Item]
    current_input_start: int
    current_input_count: int
    occurred_at: Moment
    expires_at: Moment


def before_turn(
    session_id: str, turn_id: str, current_input: Sequence[Item], options: BeforeTurnOptions, timeout_s: float
) -> ApiCall[PreparedTurn]:
    """POST /api/v1/turns/before; it writes nothing. The wait the options ask for is added to the time-out."""
    body = {**_name_turn(session_id, turn_id), "current_input": _list_items("current_input", current_input), **options}
    patience = timeout_s + (options.get("wait_ms") or 0) / 1000
    request = Request("POST", "/api/v1/turns/before", body=encode_json(body), timeout_s=patience)
    private = _texts_of([current_input, options.get("conversation_items", ())])
    return ApiCall(request, partial(read_shape, PreparedTurn, what="prepared turn"), private=private)


def after_turn(
    session_id: str,
    turn_id: str,
    given: tuple[Sequence[Item], Sequence[Item]],
    options: AfterTurnOptions,
    timeout_s: float,
) -> ApiCall[KeptTurn]:
    """POST /api/v1/turns/after; `given` are input and output. Repeated, it changes nothing."""
    body = encode_json(after_turn_body(session_id, turn_id, given, options))
    request = Request("POST", "/api/v1/turns/after", body=body, timeout_s=timeout_s)
    private = _texts_of([*given, options.get("conversation_items", ())])
    return ApiCall(request, partial(read_shape, KeptTurn, what="kept turn"), private=private)


def after_turn_body(
    session_id: str, turn_id: str, given: tuple[Sequence[Item], Sequence[Item]], options: AfterTurnOptions
) -> dict[str, Any]:
    """Return the JSON object of POST /api/v1/turns/after; `given` are input and output."""
    items = {name: _list_items(name, one) for name, one in zip(("input_items", "output_items"), given, strict=True)}
    moments = {"occurred_at": options.get("occurred_at"), "expires_at": options.get("expires_at")}
    times = {name: format_moment(at) for name, at in moments.items() if at}
    return {**_name_turn(session_id, turn_id), **items, **options, **times}


def _name_turn(session_id: str, turn_id: str) -> dict[str, Any]:
    return {"session_id": check_name("session_id", session_id), "turn_id": check_name("turn_id", turn_id)}


def _list_items(name: str, items: Sequence[Item]) -> list[Item]:
    check_objects(name, items, 'an item, such as {"role": "user", "content": "hello"}')
    return list(items)


def _texts_of(value: object) -> tuple[str, ...]:
    """Return every text of items, which an error must not show, without the names of kinds and roles."""
    if isinstance(value, str):
        return (value,) if value else ()
    if isinstance(value, Mapping):
        return tuple(text for name, one in value.items() if name not in KINDS for text in _texts_of(one))
    if isinstance(value, Sequence):
        return tuple(text for one in value for text in _texts_of(one))
    return ()
