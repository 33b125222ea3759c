"""Calls of single memories: one text each, written, replaced and ended by an id of the caller's choice."""

from collections.abc import Mapping
from functools import partial
from typing import Literal, TypedDict

from afterturn_client.arguments import check_metadata, check_text
from afterturn_client.calls import ApiCall, path_segment
from afterturn_client.contract.receipts import MemoryReceipt
from afterturn_client.reading import read_shape
from afterturn_client.transport import Request, encode_json
from afterturn_client.turns import Moment, format_moment


class MemoryOptions(TypedDict, total=False):
    """Options of a memory, besides its text.

    `memory_id` identifies it; without one, the same text is the same memory. From `expires_at` on no answer holds it.
    """

    memory_id: str | None
    title: str | None
    kind: Literal["world", "experience", "opinion", "observation", "mental_model"]
    user_id: str | None
    occurred_at: Moment | None
    expires_at: Moment | None
    pinned: bool
    metadata: Mapping[str, str]


def keep_memory(content: str, options: MemoryOptions, bank: str, timeout_s: float) -> ApiCall[MemoryReceipt]:
    """POST /api/v1/memories; the same again changes nothing."""
    for name in ("memory_id", "title", "user_id"):
        if options.get(name) is not None:
            check_text(name, options[name])
    if options.get("metadata") is not None:
        check_metadata(options["metadata"])
    given = {name: value for name, value in options.items() if value is not None and name != "memory_id"}
    for name in ("occurred_at", "expires_at"):
        if (moment := options.get(name)) is not None:
            given[name] = format_moment(moment)  # type: ignore[arg-type]  # both are moments
    named = {} if options.get("memory_id") is None else {"id": options["memory_id"]}
    body = encode_json({"bank": bank, "content": check_text("content", content), **named, **given})
    request = Request("POST", "/api/v1/memories", body=body, timeout_s=timeout_s)
    private = tuple(text for text in (content, options.get("title"), *options.get("metadata", {}).values()) if text)
    return ApiCall(request, partial(read_shape, MemoryReceipt, what="memory"), private=private)


def end_memory(memory_id: str, bank: str, timeout_s: float) -> ApiCall[None]:
    """DELETE /api/v1/memories/{id}."""
    path = f"/api/v1/memories/{path_segment(memory_id)}"
    return ApiCall(Request("DELETE", path, {"bank": bank}, timeout_s=timeout_s), lambda _: None)
