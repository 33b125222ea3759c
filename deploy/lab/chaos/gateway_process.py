"""The Memory Gateway of a chaos run, in a process of its own: it writes each call to a file before it answers.

    python -m deploy.lab.chaos.gateway_process FILE PORT SLOW_SECONDS

A line of the file is a call, synced to disk before the call is answered with success or an error. Orders are JSON
lines on standard input: {"mode": M, "calls": N} makes the next N calls fail in that way; {"mode": "refuse"} closes the
port until {"mode": "ok"}. Each line is answered on standard output with the number of calls still to fail ("left") and
of successful calls so far ("well"). The process ends with its standard input.
"""

import asyncio
import json
import os
import sys
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO

from deploy.lab.chaos.wire import RawRequest, encode_answer, read_call
from deploy.local.ports import LOOPBACK

#: Value of Retry-After, in seconds.
RETRY_AFTER_SECONDS = 1
NOT_HTTP = b"\x16\x03\x01 this is no answer\r\n\r\n"


class AnswerMode(StrEnum):
    """How a call is answered; calls are recorded before, except refused connections."""

    OK = "ok"
    SLOW = "slow"  # answered after the caller's time-out
    HANG = "hang"  # never answered
    GARBAGE = "garbage"  # answered with something that is not JSON, or not HTTP
    LIMITED = "limited"  # 429 with Retry-After: not processed
    BROKEN = "broken"  # 503
    REFUSE = "refuse"  # the port is closed


class RecordingGateway:
    """A gateway that records and answers calls; `order` changes the answers."""

    def __init__(self, file: BinaryIO, port: int, slow_seconds: float) -> None:
        self._file = file
        self._port = port
        self._slow_seconds = slow_seconds
        self._mode, self._calls_left, self._calls, self._well = AnswerMode.OK, 0, 0, 0
        self._server: asyncio.Server | None = None

    async def order(self, mode: AnswerMode, calls: int) -> None:
        """Answer the next `calls` calls in this mode, or refuse all until the next order."""
        self._mode, self._calls_left = mode, calls
        if mode is AnswerMode.REFUSE and self._server is not None:
            self._server.close()
            self._server = None
        elif mode is not AnswerMode.REFUSE and self._server is None:
            self._server = await asyncio.start_server(self._serve, LOOPBACK, self._port, reuse_address=True)

    @property
    def state(self) -> str:
        """The number of calls still to fail and of successful calls, as a line of JSON."""
        return json.dumps({"left": self._calls_left, "well": self._well})

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        call = await read_call(reader)
        if call is not None:
            mode, number = self._choose_answer()
            await asyncio.to_thread(self._record, call, mode, number)
            await self._answer(mode, number, reader, writer)
        writer.close()

    def _choose_answer(self) -> tuple[AnswerMode, int]:
        """Return how the new call is answered, and its number."""
        self._calls += 1
        if self._calls_left == 0:
            return AnswerMode.OK, self._calls
        self._calls_left -= 1
        return self._mode, self._calls

    def _record(self, call: RawRequest, mode: AnswerMode, number: int) -> None:
        line = {"call": number, "path": call.path, "mode": mode, "body": _parse_body(call)}
        self._file.write(json.dumps(line).encode() + b"\n")
        os.fsync(self._file.fileno())

    async def _answer(
        self, mode: AnswerMode, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if mode is AnswerMode.HANG:
            await reader.read()
            return
        if mode is AnswerMode.SLOW:
            await asyncio.sleep(self._slow_seconds)
        try:
            writer.write(_encode_answer(mode, number))
            await writer.drain()
        except ConnectionError:
            return
        self._well += mode is AnswerMode.OK


def _parse_body(call: RawRequest) -> Any:
    """Return the body of a call without its key; as text when it is not JSON."""
    try:
        body = json.loads(call.body)
    except ValueError:
        return call.body.decode(errors="replace")
    if isinstance(body, dict):
        body.pop("user_key", None)
    return body


def _encode_answer(mode: AnswerMode, number: int) -> bytes:
    """Return the answer of a mode as bytes."""
    if mode is AnswerMode.GARBAGE:
        return NOT_HTTP if number % 2 else encode_answer(HTTPStatus.OK, b"<html>good day</html>")
    if mode is AnswerMode.LIMITED:
        return encode_answer(HTTPStatus.TOO_MANY_REQUESTS, b"{}", f"Retry-After: {RETRY_AFTER_SECONDS}")
    if mode is AnswerMode.BROKEN:
        return encode_answer(HTTPStatus.SERVICE_UNAVAILABLE, b"{}")
    return encode_answer(HTTPStatus.OK, json.dumps({"request_id": str(number), "results": []}).encode())


async def _follow_orders(gateway: RecordingGateway) -> None:
    """Follow orders from standard input until it ends."""
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    await gateway.order(AnswerMode.OK, 0)
    print(gateway.state, flush=True)
    while line := await orders.readline():
        wanted = json.loads(line)
        if "mode" in wanted:
            await gateway.order(AnswerMode(wanted["mode"]), int(wanted.get("calls", 0)))
        print(gateway.state, flush=True)


def main(file: str, port: str, slow_seconds: str) -> None:
    """Serve the gateway until standard input ends."""
    with Path(file).open("ab", buffering=0) as calls:
        asyncio.run(_follow_orders(RecordingGateway(calls, int(port), float(slow_seconds))))


if __name__ == "__main__":
    main(*sys.argv[1:])
