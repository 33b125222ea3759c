"""The figures of the service for operators: as they are, and as a stream of server-sent events."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated

import orjson
from afterturn_client.contract.figures import FigureReport
from fastapi import Request
from fastapi.responses import StreamingResponse
from pydantic import Field
from pydantic_core import PydanticCustomError

from producers.http.authentication import AuthenticatedOperator, OperatorCall
from producers.http.openapi import CallerClass, DescribedAnswer
from producers.http.operation_router import OperationRouter
from producers.service.fields import Moment, parse_moment
from producers.service.figures import FigureFeed
from producers.service.wire import Parameters
from store.errors import NotFound

EVENTS = "text/event-stream"
#: Seconds without news after which a stream says that it is there.
SIGN_S = 15.0
#: The longest stream, in seconds; then the reader comes again with the id of the last event.
LONGEST_S = 3600
EXAMPLE = 'event: figures\nid: 2026-03-02T09:30:00+00:00\ndata: {"samples":[],"rows":{},"workers":[]}\n\n'

router = OperationRouter(prefix="/api/v1/operator", tags=["figures"], access=CallerClass.OPERATOR)


class FiguresParameters(Parameters):
    """After which moment."""

    after: Annotated[
        Moment | None,
        Field(description="moment after which samples are answered, up to an hour ago; left out: of the last hour"),
    ] = None


class StreamParameters(FiguresParameters):
    """After which moment, and for how long."""

    for_s: int = Field(
        LONGEST_S, ge=0, le=LONGEST_S, description=f"seconds until the stream ends, up to {LONGEST_S}; 0: one event"
    )


@router.operation(
    "GET /figures",
    "Get the figures of the last hour",
    "Returns the depth and age of each stage's work, rates, how long recalls and stages took, workers and health, "
    "as the process that answers read them: every 5 s while a page watches there, every 15 s else. Rates are of "
    "the processes whose samples its `/metrics` tells.",
    "the figures",
    fails=(NotFound,),
)
async def get_figures(call: OperatorCall, asked: FiguresParameters) -> FigureReport:
    return await call.operations.require_figures().report(asked.after)


@router.operation(
    "GET /figures/stream",
    "Watch the figures",
    "Sends them as server-sent events `figures`, whose data is the answer of `GET /api/v1/operator/figures`: first "
    "with the samples after `Last-Event-ID` (or `after`), then with each new one. The id of an event is the time "
    "of its newest sample, so any process resumes a stream. It ends with the key.",
    {200: DescribedAnswer("the events", text=EXAMPLE, media_type=EVENTS)},
    fails=(NotFound,),
)
async def watch_figures(request: Request, call: OperatorCall, asked: StreamParameters) -> StreamingResponse:
    after = _read_last_event(request) or asked.after
    events = _write_events(call, call.operations.require_figures(), after, asked.for_s)
    # A proxy that gathered the events would show them when the stream ends.
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(events, media_type=EVENTS, headers=headers)


def _read_last_event(request: Request) -> datetime | None:
    """Return the moment that the last event was named by; None where there was none, or it was another's."""
    try:
        return parse_moment(request.headers.get("last-event-id"))
    except PydanticCustomError:
        return None


async def _write_events(
    call: AuthenticatedOperator, figures: FigureFeed, after: datetime | None, for_s: float
) -> AsyncIterator[bytes]:
    """Yield events until the time is over, the feed is closed, or the operator's key has ended."""
    clock = asyncio.get_running_loop().time
    end = clock() + for_s
    with figures.watched():
        yield b"retry: 2000\n\n"
        while True:
            found = await figures.wait_after(after, SIGN_S)
            if found is None:
                yield b": nothing new\n\n"
            else:
                after = found.samples[-1].at
                yield b"event: figures\nid: %b\ndata: %b\n\n" % (after.isoformat().encode(), orjson.dumps(found))
            if figures.is_closed or clock() >= end or not await call.is_still_valid():
                return
