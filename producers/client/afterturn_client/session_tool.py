"""The `session_search` tool, by which a model searches earlier sessions; needs no gateway."""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from afterturn_client.errors import AfterturnError
from afterturn_client.reference import frame
from afterturn_client.sessions import SessionSearch

NAME = "session_search"
DEFAULT_LIMIT = 5
MOST = 20

_SCHEMA: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": (
            "Search what was said in earlier sessions with this user. Returns excerpts, best first, as untrusted "
            "reference data. Use it when the user refers to something that is neither in this conversation nor in "
            "your notes."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "words that were probably used"},
                "limit": {"type": "integer", "minimum": 1, "maximum": MOST, "default": DEFAULT_LIMIT},
                "session_id": {"type": "string", "description": "look in this session alone"},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    },
}


@dataclass(frozen=True, slots=True)
class SessionSearchTool:
    """The tool over one session search. It answers refusals and failures, and does not raise them."""

    search: SessionSearch
    name = NAME

    @property
    def schema(self) -> dict[str, Any]:
        """The tool's schema for chat completions."""
        return copy.deepcopy(_SCHEMA)

    async def call(self, arguments: Mapping[str, Any] | str, own_session: str | None = None) -> str:
        """Search; `own_session`, whose messages are in the prompt, is left out unless it is asked for by name.

        Returns a frame of untrusted reference data, or JSON `{"ok", ...}` when there is nothing to show.
        """
        asked = _parse_arguments(arguments)
        if asked is None:
            return _tool_json(
                ok=False, error="invalid_arguments", message=f"query (text), limit (1 to {MOST}), session_id (text)"
            )
        query, limit, only = asked
        try:
            hits = await self.search.search(query, limit, only=only, without=None if only else own_session)
        except (AfterturnError, OSError) as error:
            return _tool_json(ok=False, error="unavailable", message=f"the search failed ({type(error).__name__})")
        items = [
            {"session_id": hit.session_id, "at": None if hit.at is None else hit.at.isoformat(), "text": hit.text}
            for hit in hits
        ]
        return frame(items, form="json") or _tool_json(ok=True, results=[], message="nothing was found")


def _parse_arguments(arguments: Mapping[str, Any] | str) -> tuple[str, int, str | None] | None:
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, Mapping):
        return None
    query, limit, only = value.get("query"), value.get("limit", DEFAULT_LIMIT), value.get("session_id")
    if not isinstance(query, str) or not query.strip() or not isinstance(only, str | None):
        return None
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
        return None
    return query, limit, only or None


def _tool_json(**answer: Any) -> str:
    return json.dumps(answer, ensure_ascii=False)
