"""The command `afterturn-client`: what runs beside an agent."""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx

from afterturn_client.errors import InvalidRequestError
from afterturn_client.mcp_bridge import TIMEOUT_S, Bridge, find_project, run_bridge
from afterturn_client.retry import RetryPolicy
from afterturn_client.target import Target

DEFAULT_URL = "http://127.0.0.1:8300"
USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    options = _build_parser().parse_args(arguments)
    try:
        target = Target(options.url, _read_key(options.key_file), options.project, TIMEOUT_S, RetryPolicy(),
                        read_your_writes=False, allow_http=options.allow_http)  # fmt: skip
    except (InvalidRequestError, OSError) as error:
        sys.stderr.write(f"afterturn-client: {error}\n")
        return USAGE
    try:
        asyncio.run(_serve(target))
    except KeyboardInterrupt:
        return 130
    return 0


async def _serve(target: Target) -> None:
    async with httpx.AsyncClient(**target.http_options()) as http:
        await run_bridge(Bridge(http, target.bank), sys.stdin.buffer, sys.stdout.buffer)


def _read_key(file: Path | None) -> str:
    """Return the key. Raises InvalidRequestError where none is given, OSError for a file that cannot be read."""
    named = file or (Path(told) if (told := os.environ.get("AFTERTURN_API_KEY_FILE")) else None)
    key = named.read_text(encoding="utf-8").strip() if named else os.environ.get("AFTERTURN_API_KEY", "")
    if not key:
        raise InvalidRequestError(
            "no key: set AFTERTURN_API_KEY or AFTERTURN_API_KEY_FILE, or name a file with --key-file "
            "(`afterturn keys create` makes a key; `afterturn up` keeps its first one in DATA/api-key)"
        )
    return key


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="afterturn-client", description="Memory of Afterturn for agents.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    mcp = commands.add_parser(
        "mcp",
        help="memory tools over standard input and output, for MCP clients that start a program",
        description="Memory tools over standard input and output, for MCP clients that start a program. "
        "Needs a running service; the key comes from AFTERTURN_API_KEY or a file.",
    )
    mcp.add_argument("--url", default=os.environ.get("AFTERTURN_URL", DEFAULT_URL), help="service (AFTERTURN_URL; "
                     f"default {DEFAULT_URL})")  # fmt: skip
    mcp.add_argument("--project", default=find_project(Path.cwd()), help="memory to use where a call names none "
                     "(default: the git repository of the working folder, else `default`)")  # fmt: skip
    mcp.add_argument("--key-file", type=Path, help="file that holds the key (AFTERTURN_API_KEY_FILE)")
    mcp.add_argument("--allow-http", action="store_true", help="send the key in clear to another machine")
    return parser


if __name__ == "__main__":
    sys.exit(main())
