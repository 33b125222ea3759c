"""The command `afterturn-client`: MCP bridge, hooks and their installation.

What needs httpx is imported by the command that needs it: a hook is timed from the start of its process.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from afterturn_client.errors import InvalidRequestError
from afterturn_client.hook_files import EVENTS, FILES, PROGRAM, UnusableHookFileError, install_hooks, remove_hooks
from afterturn_client.hook_program import DEADLINE_S, read_deadline, read_event, run_hook
from afterturn_client.projects import find_project

DEFAULT_URL = "http://127.0.0.1:8300"
USAGE, INTERRUPTED = 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code. A hook ends the process itself, unless its help is asked for."""
    if arguments is None:
        forbid_core_dumps()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["hook"] and not {"-h", "--help"} & set(given):
        run_hook(lambda: answer_hook(_build_parser().parse_args(given)))
    options = _build_parser().parse_args(given)
    code: int = options.run(options)
    return code


def forbid_core_dumps() -> None:
    """Forbid this process to dump core, for good: a dump would hold its key and what an agent says."""
    if sys.platform != "win32":
        import resource  # noqa: PLC0415 - Windows has none

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def serve_mcp(options: argparse.Namespace) -> int:
    """Serve the memory tools over standard input and output until there is no more input."""
    import asyncio  # noqa: PLC0415 - see the module

    from afterturn_client.mcp_bridge import open_target, serve_bridge  # noqa: PLC0415

    project = options.project or find_project(Path.cwd())
    try:
        key = read_key(options.key_file)
        asyncio.run(serve_bridge(open_target(options.url, key, project, allow_http=options.allow_http)))
    except KeyboardInterrupt:
        return INTERRUPTED
    except (InvalidRequestError, OSError) as error:
        sys.stderr.write(f"afterturn-client: {error}\n")
        return USAGE
    return 0


def answer_hook(options: argparse.Namespace) -> str:
    """Return what a hook of an agent writes to standard output for the event on standard input. Raises anything."""
    event = read_event()
    # httpx would import its own command line, where click and rich are installed, and take twice as long.
    sys.modules.setdefault("click", None)  # type: ignore[arg-type]  # None: "not to be imported"

    from afterturn_client.blocking_client import Afterturn  # noqa: PLC0415 - see the module
    from afterturn_client.hooks import HOOKS, project_of  # noqa: PLC0415
    from afterturn_client.retry import NEVER  # noqa: PLC0415

    project = options.project or project_of(event)
    with Afterturn(options.url, read_key(options.key_file), bank=project, timeout_s=read_deadline(), retry=NEVER,
                   allow_http=options.allow_http) as memory:  # fmt: skip
        return HOOKS[options.event](memory, options.agent, event)


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
    if options.change == "install" and shutil.which(PROGRAM) is None:
        folder = Path(sys.argv[0]).resolve().parent
        sys.stderr.write(
            f"afterturn-client: the agent would not find {PROGRAM}, for it is not on PATH: add its folder ({folder}) "
            "to PATH where the agent starts, or install it for all programs (`uv tool install afterturn-client`)\n"
        )
    return 0


def read_key(file: Path | None) -> str:
    """Return the key. Raises InvalidRequestError where none is given, or its file cannot be read."""
    named = file or (Path(told) if (told := os.environ.get("AFTERTURN_API_KEY_FILE")) else None)
    try:
        key = (named.read_text(encoding="utf-8") if named else os.environ.get("AFTERTURN_API_KEY", "")).strip()
    except (OSError, ValueError) as error:
        raise InvalidRequestError(f"the key's file {named} cannot be read ({type(error).__name__})") from None
    if not key:
        raise InvalidRequestError(
            "no key: set AFTERTURN_API_KEY or AFTERTURN_API_KEY_FILE, or name a file with --key-file "
            "(`afterturn keys create` makes a key; `afterturn up` keeps its first one in DATA/api-key)"
        )
    return key


class _PrintVersion(argparse.Action):
    """Prints the version of the package, which is looked up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version  # noqa: PLC0415 - a hook is timed from the start of its process

        sys.stdout.write(f"{version('afterturn-client')}\n")
        parser.exit()


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="afterturn-client", description="Memory of Afterturn for agents.")
    parser.add_argument("--version", action=_PrintVersion, nargs=0, help="print the version")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    about = "memory tools over standard input and output, for MCP clients that start a program"
    mcp = commands.add_parser("mcp", help=about, description=f"{about.capitalize()}. Needs a running service.",
                              epilog="Example: afterturn-client mcp --key-file data/api-key")  # fmt: skip
    mcp.set_defaults(run=serve_mcp)
    about = "what an agent's hooks call: recall beside each prompt, keep each turn"
    hook = commands.add_parser("hook", help=about, description=f"{about.capitalize()}. Reads the event as JSON from "
                               f"standard input; ends with 0, within {DEADLINE_S:g} s (AFTERTURN_HOOK_SECONDS).",
                               epilog="Example: afterturn-client hook claude-code prompt < event.json")  # fmt: skip
    hook.add_argument("agent", choices=list(FILES))
    hook.add_argument("event", choices=list(EVENTS))
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
