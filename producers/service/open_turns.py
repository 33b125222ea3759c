"""Turns in two calls of one tool: the first prepares a turn and returns a token, the second stores it with its output.

The first call's request waits in the database, without secrets, for an hour. The turn is stored like by `keep_turn`:
once, under its own name, so that a token and another interface cannot both write it.
"""

from datetime import UTC
from typing import Any

from producers.errors import FieldProblem, Invalid
from producers.service.authorisation import require_write
from producers.service.bodies import parse_body
from producers.service.dependencies import ServiceDependencies
from producers.service.redacting import Redactor
from producers.service.turn_lifecycle import TurnLifecycle
from producers.settings import ApiSettings
from producers.turns.items import measure_value
from producers.turns.requests import AfterTurnBody, BeforeTurnBody, read_after, read_before, read_place
from store.errors import NotFound
from store.memory.open_turns import OpenTurn
from store.off_loop import run_off_loop
from store.tenancy.keys import Grant

_CLOSED = "must be one that memory_run_turn gave this key within the last hour; begin the turn again"


class OpenTurnCalls:
    """Begins and completes turns of memory_run_turn."""

    def __init__(self, dependencies: ServiceDependencies, settings: ApiSettings, lifecycle: TurnLifecycle) -> None:
        self._dependencies = dependencies
        self._settings = settings
        self._lifecycle = lifecycle

    async def begin(self, grant: Grant, asked: Any) -> dict[str, Any]:
        """Return the answer of `before_turn` with `turn_id`, and the `token` that completes the turn.

        Raises the errors of `before_turn`, RateLimited where too many turns of the tenant are open, and QuotaExceeded.
        """
        require_write(grant)
        answer = await self._lifecycle.before_turn(grant, asked)
        body = parse_body(BeforeTurnBody, asked)
        place = read_place(body)
        _, current = await run_off_loop(measure_value(asked), read_before, body, self._settings.max_message_bytes)
        redactor = Redactor.of(self._settings, grant)
        request = {
            "project": place.project,
            "session_id": place.session,
            "turn_id": place.turn,
            "user_id": body.user_id,
            "conversation_items": await run_off_loop(measure_value(current), redactor.redact_value, current),
        }
        bank = await self._dependencies.reach(grant, place.project)
        token, expires_at = await self._dependencies.turns.open.open(
            grant.host_id, _holder_of(grant), bank, request, grant.user or body.user_id
        )
        return {**answer, "turn_id": place.turn, "token": token, "expires_at": expires_at.astimezone(UTC).isoformat()}

    async def complete(self, grant: Grant, token: str, output: Any, project: str | None = None) -> dict[str, Any]:
        """Store the turn of a token with its output items; repeating it changes nothing. Return `project`, `turn_id`.

        Raises Invalid for an invalid token, or one of another `project`; TurnConflict for another output than the
        first, or a turn that is stored with another body already; and the errors of `keep_turn`, after which the same
        output may be sent again.
        """
        require_write(grant)
        turn = await self._read(grant, token)
        if project not in (None, turn.request["project"]):
            raise Invalid(FieldProblem("project", "is not the one that the token was made for"))
        body = {**turn.request, "output_items": output}
        # Validated first: an invalid output must not become the one that the token is bound to.
        read_after(parse_body(AfterTurnBody, body), self._settings.max_message_bytes)
        await self._dependencies.turns.open.claim(grant.host_id, turn, output)
        if not turn.kept:
            await self._lifecycle.keep_turn(grant, body)
            await self._dependencies.turns.open.close(grant.host_id, turn)
        return {"project": turn.request["project"], "turn_id": turn.request["turn_id"]}

    async def _read(self, grant: Grant, token: str) -> OpenTurn:
        try:
            return await self._dependencies.turns.open.read(grant.host_id, _holder_of(grant), token)
        except NotFound:
            raise Invalid(FieldProblem("token", _CLOSED)) from None


def _holder_of(grant: Grant) -> str:
    """Return the holder of a token: the key, together with the user, since an issuer's key can stand for many users."""
    return f"{grant.key_id}\0{grant.user or ''}"
