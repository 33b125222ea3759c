"""The command `afterturn-client`: MCP bridge, hooks and their installation."""

import argparse
import asyncio
import json
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import httpx

from afterturn_client.client import Afterturn
from afterturn_client.errors import InvalidRequestError
from afterturn_client.hook_files import FILES, UnusableHookFileError, install_hooks, remove_hooks
from afterturn_client.hooks import DEADLINE_S, HOOKS, project_of
from afterturn_client.mcp_bridge import TIMEOUT_S, Bridge, find_project, run_bridge
from afterturn_client.retry import NEVER
from afterturn_client.target import ServiceTarget

DEFAULT_URL = "http://127.0.0.1:8300"
USAGE, INTERRUPTED = 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    options = _build_parser().parse_args(arguments)
    code: int = options.run(options)
    return code


def serve_mcp(options: argparse.Namespace) -> int:
    """Serve the memory tools over standard input and output until there is no more input."""
    project = options.project or find_project(Path.cwd())
    try:
        key = read_key(options.key_file)
        target = ServiceTarget(options.url, key, project, TIMEOUT_S, NEVER, read_your_writes=False,
                        allow_http=options.allow_http)  # fmt: skip
    except (InvalidRequestError, OSError) as error:
        sys.stderr.write(f"afterturn-client: {error}\n")
        return USAGE
    try:
        asyncio.run(_serve_bridge(target))
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


async def _serve_bridge(target: ServiceTarget) -> None:
    async with httpx.AsyncClient(**target.http_options()) as http:
        await run_bridge(Bridge(http, target.bank), sys.stdin.buffer, sys.stdout.buffer)


def run_hook(options: argparse.Namespace) -> int:
    """Run a hook of an agent; return exit code 0 in time, even on failure, with one word on standard error."""
    answers: list[str] = []
    # In a daemon thread, so that a slow service delays the agent no longer than the deadline.
    work = threading.Thread(target=_answer_hook, args=(options, answers), daemon=True)
    work.start()
    work.join(DEADLINE_S)
    if answers:
        sys.stdout.write(answers[0])
    elif work.is_alive():
        sys.stderr.write("afterturn-client: the memory service took too long; the agent goes on without it\n")
    sys.stdout.flush()
    return 0


def _answer_hook(options: argparse.Namespace, answers: list[str]) -> None:
    try:
        event = json.loads(sys.stdin.buffer.read())
        project = options.project or project_of(event)
        with Afterturn(options.url, read_key(options.key_file), bank=project, timeout_s=DEADLINE_S, retry=NEVER,
                       allow_http=options.allow_http) as memory:  # fmt: skip
            answers.append(HOOKS[options.event](memory, options.agent, event))
    except Exception as error:  # noqa: BLE001 - fails open, and no text of the agent's reaches a log
        sys.stderr.write(f"afterturn-client: no memory this time ({type(error).__name__})\n")


def change_hooks(options: argparse.Namespace) -> int:
    """Install our hooks in an agent's file of hooks, or remove them; return the exit code."""
    file = options.file or Path.home() / FILES[options.agent]
    try:
        if options.change == "install":
            install_hooks(options.agent, file, allow_http=options.allow_http)
        else:
            remove_hooks(file)
    except (UnusableHookFileError, OSError) as error:
        sys.stderr.write(f"afterturn-client: {error}\n")
        return USAGE
    sys.stdout.write(f"{file}\n")
    return 0


def read_key(file: Path | None) -> str:
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
    about = "memory tools over standard input and output, for MCP clients that start a program"
    mcp = commands.add_parser("mcp", help=about, description=f"{about.capitalize()}. Needs a running service.",
                              epilog="Example: afterturn-client mcp --key-file data/api-key")  # fmt: skip
    mcp.set_defaults(run=serve_mcp)
    about = "what an agent's hooks call: recall beside each prompt, keep each turn"
    hook = commands.add_parser("hook", help=about, description=f"{about.capitalize()}. Reads the event as JSON from "
                               f"standard input; ends within {DEADLINE_S:g} s and never stops the agent.",
                               epilog="Example: afterturn-client hook claude-code prompt < event.json")  # fmt: skip
    hook.add_argument("agent", choices=list(FILES))
    hook.add_argument("event", choices=list(HOOKS))
    hook.set_defaults(run=run_hook)
    about = "put the hooks into an agent's settings, or take them out"
    hooks = commands.add_parser("hooks", help=about, description=f"{about.capitalize()}. Prints the file that was "
                                "changed; other hooks stay as they are.",
                                epilog="Example: afterturn-client hooks install claude-code")  # fmt: skip
    hooks.add_argument("change", choices=["install", "remove"])
    hooks.add_argument("agent", choices=list(FILES))
    hooks.add_argument("--file", type=Path, help="file of hooks (default: the agent's own, in the home folder)")
    hooks.set_defaults(run=change_hooks)
    for command in (mcp, hook):
        command.add_argument("--url", default=os.environ.get("AFTERTURN_URL", DEFAULT_URL),
                             help=f"service (AFTERTURN_URL; default {DEFAULT_URL})")  # fmt: skip
        command.add_argument("--project", help="memory to use (default: the git repository of the working folder, "
                             "else `default`)")  # fmt: skip
        command.add_argument("--key-file", type=Path, help="file that holds the key (AFTERTURN_API_KEY_FILE; else "
                             "AFTERTURN_API_KEY is the key)")  # fmt: skip
    for command in (mcp, hook, hooks):
        command.add_argument("--allow-http", action="store_true", help="send the key in clear to another machine"
                             + ("; goes into the installed hooks" if command is hooks else ""))  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main())
