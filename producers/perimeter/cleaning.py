"""Cleans texts on their way to a plugin and back: secrets are replaced, and only the perimeter marks."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from afterturn_client.frame_search import find_marks

from producers.plugin.wire import MOST_LEVELS
from producers.service.json_values import is_deeper, map_texts
from store.text.redaction import Redaction, redact_secrets


def sanitise_content(content: str, redaction: Redaction, own_keys: Sequence[str] = ()) -> str:
    """Return a text to store: with secrets replaced, and marks disarmed."""
    return disarm_marks(redact_secrets(content, redaction, own_keys))


def sanitise_object(value: Mapping[str, Any], redaction: Redaction, own_keys: Sequence[str] = ()) -> Mapping[str, Any]:
    """Return an opaque object with its texts as `sanitise_content` returns them, names of fields included.

    Random runs of base64 stay, since ids and digests are such.
    """
    level = Redaction.KEYS if redaction is Redaction.ALL else redaction
    changed: Mapping[str, Any] = map_texts(value, partial(sanitise_content, redaction=level, own_keys=own_keys))
    return changed


def show_object(value: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return an opaque object without marks; None for one that is nested too deeply to be written."""
    if value is None or is_deeper(value, MOST_LEVELS):
        return None
    shown: Mapping[str, Any] = map_texts(value, disarm_marks)
    return shown


def mark_organisation(memory_id: str, namespace: str, content: str) -> str:
    """Return a text with the organisation's mark, and no other."""
    return f"[MEMORY id={memory_id} scope=ORG ns={namespace}]: {disarm_marks(content)}"


def disarm_marks(content: str) -> str:
    """Return the text without marks: `[MEMORY ` becomes `[_MEMORY `. A disarmed text stays the same.

    An imitation in other letters, brackets, spaces or escapes is one, too; brackets with other words in them stay.
    """
    at, disarmed = 0, list[str]()
    for start in find_marks(content):
        disarmed.append(content[at:start])
        at = start
    return "_".join([*disarmed, content[at:]])
