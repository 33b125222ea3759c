"""Stops and restarts the plugin's store by two commands of the operator."""

import asyncio
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from producers.contract_kit.errors import DeviationError, UnusableError
from producers.contract_kit.findings import ContractFinding, show_text

#: What a case needs, besides capabilities, that takes the plugin's store away.
STORE_COMMANDS = "store commands"
#: Seconds that one of the commands may take.
COMMAND_S = 60.0


@dataclass(frozen=True, slots=True)
class StoreSwitch:
    """Two command lines, run without a shell."""

    stop: tuple[str, ...]
    start: tuple[str, ...]

    @asynccontextmanager
    async def store_away(self) -> AsyncIterator[None]:
        """Stop the store, run the block, and restart the store however the block ends.

        Raises DeviationError where a command fails.
        """
        try:
            await _run_command(self.stop)
            yield
        finally:
            await _run_command(self.start)


def parse_switch(stop: str | None, start: str | None) -> StoreSwitch | None:
    """Return the switch of two command lines, None without either. Raises UnusableError for one without the other."""
    if stop is None and start is None:
        return None
    try:
        switch = StoreSwitch(tuple(shlex.split(stop or "")), tuple(shlex.split(start or "")))
    except ValueError as error:
        raise UnusableError(f"--stop-store or --start-store is no command line: {error}") from None
    if not switch.stop or not switch.start:
        raise UnusableError("--stop-store and --start-store belong together: give both commands, or neither")
    return switch


async def _run_command(command: tuple[str, ...]) -> None:
    did, expected = show_text(f"ran {shlex.join(command)}"), f"exit status 0 within {COMMAND_S:g} s"
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=pipe
        )
    except OSError as error:
        raise DeviationError(ContractFinding(did, expected, f"it could not be run: {error.strerror}")) from None
    try:
        async with asyncio.timeout(COMMAND_S):
            _, written = await process.communicate()
    except TimeoutError:
        raise DeviationError(ContractFinding(did, expected, "it did not end")) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        said = show_text(written.decode(errors="replace").strip())
        raise DeviationError(ContractFinding(did, expected, f"exit status {process.returncode}: {said}"))
