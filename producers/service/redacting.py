"""Redacts secrets from writes, before the digest, names, events and words are computed.

Every write of the facade is redacted here, names, tags and the keys of objects included. Metadata, ids and binary parts
stay as they are.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from producers.service.json_values import map_texts
from producers.service.turns import TAGS
from producers.settings import ApiSettings
from producers.turns.items import KEPT, OPAQUE, render_item
from store.memory.turns import NewMessage, NewTurn
from store.tenancy.keys import Grant
from store.text.redaction import Redaction, redact_secrets

#: Fields of an item that hold no text: metadata, ids and binary data.
UNREAD = OPAQUE | {
    *("metadata", "type", "role", "id", "call_id", "tool_call_id", "file_id"),
    *("image_url", "file_data", "file_url", "data", "audio"),
}
#: The field whose text is JSON, and must stay JSON.
_JSON_TEXT = "arguments"
_BARE = re.compile(r'(?<!")\[REDACTED:\w+\](?!")')


@dataclass(frozen=True, slots=True)
class Redactor:
    """A redactor of one caller's texts: replaces its own key, and text in the form of a credential."""

    level: Redaction
    own_keys: tuple[str, ...] = field(default=(), repr=False)
    #: The texts of this call that were read, and what became of them: a turn's request has its messages' texts again.
    _read: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, settings: ApiSettings, grant: Grant) -> Self:
        """Return the redactor for the holder of a grant."""
        return cls(settings.redact, () if grant.own_key is None else (grant.own_key,))

    def redact_text(self, text: str) -> str:
        """Return a text without secrets."""
        if (redacted := self._read.get(text)) is None:
            redacted = self._read[text] = redact_secrets(text, self.level, self.own_keys)
        return redacted

    def redact_object(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an opaque object without secrets in its texts and names: none of its fields is known to hold none."""
        redacted: Mapping[str, Any] = map_texts(value, self.redact_text)
        return redacted

    def redact_turn(self, turn: NewTurn) -> NewTurn:
        """Return a turn without secrets in its messages, its tags and its request."""
        if self.level is Redaction.OFF:
            return turn
        said = [self.redact_message(message) for message in turn.messages]
        tags = {TAGS: self.redact_value(turn.metadata[TAGS])} if TAGS in turn.metadata else {}
        return replace(turn, messages=said, request=self.redact_value(turn.request), metadata={**turn.metadata, **tags})

    def redact_message(self, message: NewMessage) -> NewMessage:
        """Return a message without secrets; the text of one that is a whole item is taken from the item."""
        message = replace(message, name=message.name and self.redact_text(message.name))
        parts = self.redact_parts(message.parts)
        if parts is not None and len(parts) == 1 and isinstance(item := parts[0].get("item"), dict):
            return replace(message, content=render_item(item), parts=parts)
        return replace(message, content=self.redact_text(message.content), parts=parts)

    def redact_parts(self, parts: Sequence[Mapping[str, Any]] | None) -> Sequence[Mapping[str, Any]] | None:
        """Return content parts: those of text and whole items without secrets, the others as they are."""
        return None if parts is None else [self._redact_part(part) for part in parts]

    def redact_value(self, value: Any, name: str = "") -> Any:
        """Return a JSON value, an item or several, without secrets in its texts."""
        if name in UNREAD or self.level is Redaction.OFF:
            return value
        if isinstance(value, dict):
            return {self.redact_text(key): self.redact_value(one, key) for key, one in value.items()}
        if isinstance(value, list):
            return [self.redact_value(one, name) for one in value]
        if not isinstance(value, str):
            return value
        redacted = self.redact_text(value)
        return _as_json(value, redacted) if name == _JSON_TEXT and redacted != value else redacted

    def _redact_part(self, part: Mapping[str, Any]) -> Mapping[str, Any]:
        if part.get("type") == KEPT:
            return {**part, "item": self.redact_value(part.get("item"))}
        redacted: Mapping[str, Any] = self.redact_value(dict(part))
        return redacted


def _as_json(before: str, redacted: str) -> str:
    """Return a redacted text as valid JSON where it was JSON: a replaced value may have lost its quotes."""
    try:
        json.loads(before)
    except (ValueError, RecursionError):
        return redacted
    return _BARE.sub(lambda found: f'"{found[0]}"', redacted)
