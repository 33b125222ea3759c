"""Memory of an agent of the OpenAI Agents SDK: `AfterturnSession` has the shape of the SDK's `Session`.

Nothing of the SDK is imported. With the callback, recalled memory on the new input comes before it:

    session = AfterturnSession(client, "monday")
    settings = RunConfig(session_input_callback=session.prepare_input)
    await Runner.run(agent, "When do we fly?", session=session, run_config=settings)
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from afterturn_client.client import AsyncAfterturn
from afterturn_client.errors import InvalidRequestError
from afterturn_client.lifecycle import AfterTurnOptions, BeforeTurnOptions, Item

#: The input of before_turn when there is none yet: it has no text, so that nothing is recalled for it.
NOTHING_YET: Item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": " "}]}
KEPT = "what a session keeps stays: erase it with `afterturn erase session`"


class AfterturnSession:
    """A session of one run, stored by Afterturn: items unchanged, each once, recalled text framed as untrusted data.

    `add_items` stores the SDK's items as one turn, durable when it returns. Turns are named by `run_id` and
    their number: repeated after an error they are the same turns, and after a restart where `run_id` is given again.
    Use a session for one run at a time. `options` are those of `before_turn`.

    Raises the client's errors.
    """

    def __init__(
        self,
        client: AsyncAfterturn,
        session_id: str,
        *,
        run_id: str | None = None,
        options: BeforeTurnOptions | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings: Any = None
        self._client = client
        self._run = run_id or uuid.uuid4().hex
        self._kept = 0
        self._options: BeforeTurnOptions = options or {}

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return facts of the user, framed, then the newest items of the session; writes nothing.

        `limit` bounds the items of the session; they begin with a user's message, so that no output lacks its call.
        """
        prepared = await self._prepare([NOTHING_YET])
        told, history = _split_recalled(prepared[:-1])
        return [*told, *_take_newest(history, limit)]

    async def prepare_input(self, history: Sequence[Any], new: Sequence[Any]) -> list[Any]:
        """Return the model's input: recalled memory on the new items, the session's newest items, the new ones last.

        For `RunConfig(session_input_callback=...)`; `history` is ignored: the service is asked for it, too.
        """
        del history
        items = [one for one in new if isinstance(one, Mapping)]
        prepared = await self._prepare(items) if items else []
        return [*prepared[: len(prepared) - len(items)], *new]

    async def add_items(self, items: Sequence[Any]) -> None:
        """Store new items as one turn; recalled text among them is left out."""
        if not items:
            return
        named: AfterTurnOptions = {}
        if "bank" in self._options:
            named["bank"] = self._options["bank"]
        if "user_id" in self._options:
            named["user_id"] = self._options["user_id"]
        inputs, outputs = _by_side(items)
        await self._client.after_turn(self.session_id, self._name(), inputs, outputs, **named)
        self._kept += 1

    async def pop_item(self) -> Any:
        """Raise InvalidRequestError: acknowledged items cannot be removed."""
        raise InvalidRequestError(KEPT)

    async def clear_session(self) -> None:
        """Raise InvalidRequestError: an erasure is an operator's act, with a receipt."""
        raise InvalidRequestError(KEPT)

    async def _prepare(self, items: Sequence[Item]) -> list[Any]:
        prepared = await self._client.before_turn(self.session_id, self._name(), items, **self._options)
        return list(prepared.input_items)

    def _name(self) -> str:
        return f"{self._run}-{self._kept + 1}"


def _by_side(items: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the items up to the last one of the user's role, and those after it."""
    last = max((n for n, item in enumerate(items) if item.get("role") == "user"), default=-1)
    return list(items[: last + 1]), list(items[last + 1 :])


def _split_recalled(items: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the recalled part (a rule in a developer's role, and the frame), and the session's own items."""
    told = 2 if items and items[0].get("role") == "developer" else 0
    return list(items[:told]), list(items[told:])


def _take_newest(items: Sequence[Any], limit: int | None) -> list[Any]:
    """Return at most `limit` items, beginning with a user's message."""
    if limit is None or len(items) <= limit:
        return list(items)
    kept = list(items[len(items) - limit :]) if limit > 0 else []
    first = next((n for n, item in enumerate(kept) if item.get("role") == "user"), len(kept))
    return kept[first:]
