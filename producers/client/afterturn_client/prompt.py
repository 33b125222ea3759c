"""The messages of a run, in the order of seed 000. Pure.

system          the caller's instructions, the frozen curated files, and the rule about recalled memory
skills          skill activation messages, as they are
user            ONE message of recalled memory, if there is any: never stored, never in the system prompt
history         earlier messages of this session, without hidden events
user            the current message
"""

from collections.abc import Mapping, Sequence
from typing import Any

from afterturn_client.reference import RULE

#: Text, or content parts as chat completions take them.
Content = str | Sequence[Mapping[str, Any]]


def build_messages(
    instructions: str,
    curated: str,
    *,
    with_rule: bool,
    skills: Sequence[Mapping[str, Any]],
    reference: str | None,
    history: Sequence[Mapping[str, Any]],
    current: Content,
) -> list[dict[str, Any]]:
    """Return the messages for the model; `with_rule` whenever a second layer is active, recalled or not."""
    system = [instructions, curated, RULE if with_rule else ""]
    recalled = [] if reference is None else [{"role": "user", "content": reference}]
    return [
        {"role": "system", "content": "\n\n".join(part for part in system if part)},
        *map(_unmark_message, skills),
        *recalled,
        *(_unmark_message(message) for message in history if message.get("context_visible") is not False),
        {"role": "user", "content": current if isinstance(current, str) else [dict(part) for part in current]},
    ]


def _unmark_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message without our own marker field, which model services do not accept."""
    return {name: value for name, value in message.items() if name != "context_visible"}
