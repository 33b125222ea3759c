"""Installs and removes our hooks in agents' settings files; other hooks and settings stay unchanged."""

import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Events of an agent by the hook that answers them.
EVENTS: Mapping[str, str] = {
    "prompt": "UserPromptSubmit",
    "stop": "Stop",
    "session-start": "SessionStart",
    "pre-compact": "PreCompact",
}
#: The file of hooks in a user's home, by agent.
FILES: Mapping[str, str] = {"claude-code": ".claude/settings.json", "codex": ".codex/hooks.json"}
#: Time-out in seconds after which an agent ends a hook; ours end earlier by themselves.
TIMEOUT_S = 5
PROGRAM = "afterturn-client"
#: Our hooks however they are started: by a path, quoted, by another program (`uvx`), as a module.
_OURS = re.compile(
    r"(?:\A|[\s/\\\"'(;&|])(?:afterturn(?:-client)?(?:\.exe)?|afterturn_client(?:\.command)?)[\"']?\s+hook\s"
)


class UnusableHookFileError(Exception):
    """The file has not the agent's format; it was left unchanged."""


def list_hooks(agent: str, *, allow_http: bool = False) -> dict[str, list[dict[str, Any]]]:
    """Return our hooks of an agent in the form of its file; `allow_http`: they may send the key in clear text."""
    more = " --allow-http" if allow_http else ""
    return {
        event: [
            {"hooks": [{"type": "command", "command": f"{PROGRAM} hook {agent} {name}{more}", "timeout": TIMEOUT_S}]}
        ]
        for name, event in EVENTS.items()
    }


def install_hooks(agent: str, file: Path, *, allow_http: bool = False) -> None:
    """Write our hooks into a file, replacing earlier ones. Raises UnusableHookFileError, OSError."""
    settings = _read_settings(file)
    hooks = _remove_ours(settings)
    for event, groups in list_hooks(agent, allow_http=allow_http).items():
        hooks[event] = [*hooks.get(event, []), *groups]
    _write_settings(file, {**settings, "hooks": hooks})


def remove_hooks(file: Path) -> None:
    """Remove our hooks from a file, if it exists. Raises UnusableHookFileError, OSError."""
    if not file.exists():
        return
    settings = _read_settings(file)
    hooks = _remove_ours(settings)
    _write_settings(
        file, {**settings, "hooks": hooks} if hooks else {k: v for k, v in settings.items() if k != "hooks"}
    )


def _read_settings(file: Path) -> dict[str, Any]:
    text = file.read_text(encoding="utf-8-sig", errors="replace").strip() if file.exists() else ""
    try:
        settings = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise UnusableHookFileError(_describe_fault(file, text, error)) from None
    except RecursionError:
        raise UnusableHookFileError(f"{file} is nested too deeply; it was left as it is") from None
    hooks = settings.get("hooks", {}) if isinstance(settings, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in hooks.values()):
        raise UnusableHookFileError(f"{file} has no hooks of the form that is known; it was left as it is")
    return dict(settings)


def _describe_fault(file: Path, text: str, error: json.JSONDecodeError) -> str:
    if text[error.pos :].lstrip().startswith(("//", "/*", "#")):
        return (
            f"{file} has a comment (line {error.lineno}), which JSON does not allow; it was left as it is: take its "
            "comments out, then try again"
        )
    return f"{file} is not JSON (line {error.lineno}: {error.msg}); it was left as it is"


def _remove_ours(settings: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the hooks of others, by event; events without any are left out."""
    kept = {event: [rest for one in groups if (rest := _without_ours(one))] for event, groups in
            settings.get("hooks", {}).items()}  # fmt: skip
    return {event: groups for event, groups in kept.items() if groups}


def _without_ours(group: Any) -> Any:
    """Return a group of hooks without ours; None where none is left."""
    hooks = group.get("hooks") if isinstance(group, dict) else None
    if not isinstance(hooks, list):
        return group
    rest = [one for one in hooks if not (isinstance(one, dict) and _OURS.search(_join_command(one)))]
    return {**group, "hooks": rest} if rest else None


def _join_command(hook: Mapping[str, Any]) -> str:
    """Return the command of a hook with its arguments, which may stand beside it."""
    given = hook.get("args")
    return " ".join([str(hook.get("command")), *map(str, given if isinstance(given, list) else ())])


def _write_settings(file: Path, settings: Mapping[str, Any]) -> None:
    """Replace the whole file at once, with its former permissions."""
    target = file.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, made = tempfile.mkstemp(dir=target.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as new:
            new.write(json.dumps(settings, indent=2, ensure_ascii=False) + "\n")
        if target.exists():
            Path(made).chmod(target.stat().st_mode & 0o777)
        Path(made).replace(target)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise
