"""Frames recalled text as untrusted data, by the same functions as in the agent's process.

A frame is a message of the user's role, never of the system's. Its form, and how it is taken out again, is the
client's `reference` module: both sides must agree to the letter.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from afterturn_client import reference
from afterturn_client.reference import FrameForm, strip_frames

__all__ = ["frame_message", "strip_frames"]


def frame_message(
    items: Sequence[Mapping[str, Any]], directives: Sequence[Mapping[str, Any]] = (), *, form: FrameForm = "lines"
) -> dict[str, str] | None:
    r"""Return the message for an agent to put before the user's own text, or None when there is nothing to show.

    The message is `{"role": "user", "content": "<memory_reference>\n...\n</memory_reference>"}`. Items and directives
    are those of `reference.frame` and `reference.frame_directives`; directives come first, in `<memory_directives>` of
    their own. Its size was limited by `k` and `max_tokens` already.
    """
    standing = reference.frame_directives(directives, form=form)
    recalled = reference.frame(items, max_characters=None, form=form)
    content = "".join(part for part in (standing, recalled) if part)
    return {"role": "user", "content": content} if content else None
