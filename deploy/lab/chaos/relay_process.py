"""A relay between workers and gateway that tampers with one add, to prove that a chaos run detects it.

    python -m deploy.lab.chaos.relay_process PORT GATEWAY_PORT double-send|reorder AFTER

After AFTER adds it sends one add twice, or withholds one (with a success answer) until after the session's next add.
When the gateway fails meanwhile, it tries again with a later add. It prints one line when it listens and one when the
tampering is done, and ends with its standard input.
"""

import asyncio
import json
import sys
from enum import StrEnum
from http import HTTPStatus

from deploy.lab.chaos.wire import RawRequest, encode_answer, read_call
from deploy.local.ports import LOOPBACK

#: Beginning of a successful answer, and the time-out of a call in seconds, longer than that of workers.
TAKEN = f"HTTP/1.1 {HTTPStatus.OK.value} ".encode()
LONGEST_CALL_S = 30.0


class Tampering(StrEnum):
    """The way in which an add is tampered with."""

    DOUBLE_SEND = "double-send"
    REORDER = "reorder"


class TamperingRelay:
    """Relays calls, and tampers with one of them."""

    def __init__(self, gateway_port: int, tampering: Tampering, after: int) -> None:
        self._gateway_port = gateway_port
        self._tampering = tampering
        self._adds_left = after
        self._kept: tuple[str, RawRequest] | None = None
        #: Whether the tampering is running or done, so that every other call passes unchanged.
        self._done = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one call; when the gateway fails, close the connection without an answer."""
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
        """Send an add, then the call that must not follow it; unless both succeed, the tampering is to be repeated."""
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
    """Run the relay until standard input ends."""
    asyncio.run(_serve_relay(int(port), TamperingRelay(int(gateway_port), Tampering(tampering), int(after))))


if __name__ == "__main__":
    main(*sys.argv[1:])
