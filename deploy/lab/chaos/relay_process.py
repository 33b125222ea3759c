"""A saboteur between workers and gateway, to see that chaos sees him: he passes calls on, and tampers with one add.

    python -m deploy.lab.chaos.relay_process PORT GATEWAY_PORT double-send|reorder AFTER

After AFTER adds he sends one twice, or keeps one back (saying it was taken) until its session's next has gone before
it. What did not go through, since the gateway failed meanwhile, he tries again. He says one line when he listens and
one when he has done it, and ends with his standard input.
"""

import asyncio
import json
import sys
from enum import StrEnum
from http import HTTPStatus

from deploy.lab.chaos.wire import RawRequest, encode_answer, read_call
from deploy.local.ports import LOOPBACK

#: How the answer to an add begins that was taken, and how long any answer is waited for: longer than workers do.
TAKEN = f"HTTP/1.1 {HTTPStatus.OK.value} ".encode()
LONGEST_CALL_S = 30.0


class Tampering(StrEnum):
    """What is done to an add."""

    DOUBLE_SEND = "double-send"
    REORDER = "reorder"


class TamperingRelay:
    """Passes calls on, one of them not as it should."""

    def __init__(self, gateway_port: int, tampering: Tampering, after: int) -> None:
        self._gateway_port = gateway_port
        self._tampering = tampering
        self._adds_left = after
        self._kept: tuple[str, RawRequest] | None = None
        #: Tampering with an add, or done with it: every other call passes as it is.
        self._done = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one call; a failure behind the relay closes the connection without an answer."""
        call = await read_call(reader)
        try:
            if call is not None:
                writer.write(await self._answer(call))
                await writer.drain()
        except OSError:
            return
        finally:
            writer.close()

    async def _answer(self, call: RawRequest) -> bytes:
        if self._done or not call.path.endswith("/add"):
            return await self._pass_on(call)
        session = str(json.loads(call.body)["session_id"])
        if self._kept is not None:
            return await (self._send_both(call, self._kept[1]) if session == self._kept[0] else self._pass_on(call))
        self._adds_left -= 1
        if self._adds_left >= 0:
            return await self._pass_on(call)
        if self._tampering is Tampering.REORDER:
            self._kept = (session, call)
            return encode_answer(HTTPStatus.OK, b"{}")
        return await self._send_both(call, call)

    async def _send_both(self, call: RawRequest, then: RawRequest) -> bytes:
        """Send an add and what must not come after it; unless both went through, it is still to be done."""
        self._done, went = True, False
        try:
            answered = await self._pass_on(call)
            went = answered.startswith(TAKEN) and (await self._pass_on(then)).startswith(TAKEN)
        finally:
            self._done = went
        if went:
            print(json.dumps({"tampered": self._tampering}), flush=True)
        return answered

    async def _pass_on(self, call: RawRequest) -> bytes:
        async with asyncio.timeout(LONGEST_CALL_S):
            reader, writer = await asyncio.open_connection(LOOPBACK, self._gateway_port)
            try:
                writer.write(call.raw)
                return await reader.read()
            finally:
                writer.close()


async def _serve_relay(port: int, relay: TamperingRelay) -> None:
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    await asyncio.start_server(relay.serve, LOOPBACK, port, reuse_address=True)
    print(json.dumps({"listening": port}), flush=True)
    await orders.read()


def main(port: str, gateway_port: str, tampering: str, after: str) -> None:
    """Relay until standard input ends."""
    asyncio.run(_serve_relay(int(port), TamperingRelay(int(gateway_port), Tampering(tampering), int(after))))


if __name__ == "__main__":
    main(*sys.argv[1:])
