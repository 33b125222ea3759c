"""The doors that are tried: for each, how to ask there for what is foreign and for what is not there at all."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import quote
from uuid import UUID

from deploy.walls.transport import Ask
from deploy.walls.world import COLLEAGUE, SESSION, TURN, Caller, Place

#: In which a turn is said to be a foreign user's.
USERS_TURN = "3"


@dataclass(frozen=True, slots=True)
class Try:
    """Somebody in front of a door: bank, unit, job, erasure and users are foreign ones or stand for nothing.

    `user` is the gateway's, `speaker` who spoke in the bank.
    """

    caller: Caller
    place: Place
    bank: str
    unit: str
    job: str
    erasure: str
    query: str = field(repr=False)
    user: str
    speaker: str

    def turn(self) -> dict[str, Any]:
        """Return a turn into that bank: always the same, so that it is written once."""
        said = [{"role": "user", "content": "somebody was at the door"}]
        return {"bank": self.bank, "session_id": SESSION, "turn_id": TURN, "messages": said}

    def users_turn(self) -> dict[str, Any]:
        """Return another that is said to be the speaker's."""
        return {**self.turn(), "turn_id": USERS_TURN, "user_id": self.speaker}

    def question(self, **more: object) -> dict[str, Any]:
        """Return a question to that bank."""
        return {"bank": self.bank, "query": self.query, **more}


def pair(random: Random, caller: Caller, place: Place) -> tuple[Try, Try]:
    """Return the same try twice: at what is foreign, and at what is not there."""
    bare = random.random() < 0.3  # noqa: PLR2004 - a share

    def bank(name: str) -> str:
        return name.rpartition("/")[2] if bare else name

    unit, job, erasure = (str(UUID(int=random.getrandbits(128), version=version)) for version in (5, 4, 4))
    user, absent = (name.rpartition(":")[2] for name in (place.user or place.bank, place.twin))
    there = place.unit, place.job, place.erasure, place.mark, user, place.speaker
    nowhere = unit, job, erasure, place.mark, absent, place.stranger
    return Try(caller, place, bank(place.bank), *there), Try(caller, place, bank(place.twin), *nowhere)


def _bank(one: Try) -> str:
    return quote(one.bank)


def _message(one: Try) -> dict[str, Any]:
    body = {"user_id": one.user, "user_key": one.caller.token, "session_id": "chat:1"}
    message = {"sender_id": "x", "role": "user", "timestamp": 1_772_366_400_000, "content": "somebody was at the door"}
    return {**body, "messages": [message]}


def _search(one: Try) -> dict[str, Any]:
    asked = {"conversation_id": "1", "query": one.query, "scope": ["all_user_memory"]}
    return {"user_id": one.user, "user_key": one.caller.token, **asked}


def _erase(one: Try, kind: str, **named: str) -> Ask:
    return Ask("POST", "/api/v1/erasures", {"kind": kind, **named} | ({} if kind == "user" else {"bank": one.bank}))


#: Every public read and write that takes a key: what it is called in the report, and how it is asked.
DOORS: dict[str, Callable[[Try], Ask]] = {
    "POST /api/v1/turns": lambda t: Ask("POST", "/api/v1/turns", t.turn()),
    "POST /api/v1/turns:batch": lambda t: Ask("POST", "/api/v1/turns:batch", {"turns": [t.turn(), t.turn()]}),
    "POST /api/v1/turns of a user": lambda t: Ask("POST", "/api/v1/turns", t.users_turn()),
    "POST /api/v1/turns:batch of a user": lambda t: Ask("POST", "/api/v1/turns:batch", {"turns": [t.users_turn()]}),
    "GET /api/v1/turns/{session_id}/{turn_id}": lambda t: Ask("GET", f"/api/v1/turns/{SESSION}/{TURN}?bank={_bank(t)}"),
    "GET /api/v1/turns": lambda t: Ask("GET", f"/api/v1/turns?session_id={SESSION}&turn_id={TURN}&bank={_bank(t)}"),
    "POST /api/v1/recall": lambda t: Ask("POST", "/api/v1/recall", t.question()),
    "POST /api/v1/recall of a user": lambda t: Ask("POST", "/api/v1/recall", t.question(user_id=t.speaker)),
    "POST /api/v1/recall across banks": lambda t: Ask(
        "POST", "/api/v1/recall", t.question(user_id=t.speaker, across_banks=True)
    ),
    "POST /api/v1/recall across a colleague's banks": lambda t: Ask(
        "POST", "/api/v1/recall", t.question(user_id=COLLEAGUE, across_banks=True)
    ),
    "POST /api/v1/recall/jobs": lambda t: Ask("POST", "/api/v1/recall/jobs", t.question(ttl_s=60)),
    "POST /api/v1/recall/jobs of a user": lambda t: Ask(
        "POST", "/api/v1/recall/jobs", t.question(ttl_s=60, user_id=t.speaker)
    ),
    "POST /api/v1/recall/jobs across banks": lambda t: Ask(
        "POST", "/api/v1/recall/jobs", t.question(ttl_s=60, user_id=t.speaker, across_banks=True)
    ),
    "GET /api/v1/recall/jobs/{job_id}": lambda t: Ask("GET", f"/api/v1/recall/jobs/{t.job}"),
    "DELETE /api/v1/recall/jobs/{job_id}": lambda t: Ask("DELETE", f"/api/v1/recall/jobs/{t.job}"),
    "GET /api/v1/units/{unit_id}": lambda t: Ask("GET", f"/api/v1/units/{t.unit}?bank={_bank(t)}"),
    "PATCH /api/v1/units/{unit_id}": lambda t: Ask(
        "PATCH", f"/api/v1/units/{t.unit}?bank={_bank(t)}", {"content": "corrected at the door"}
    ),
    "PUT /api/v1/units/{unit_id}/pin": lambda t: Ask("PUT", f"/api/v1/units/{t.unit}/pin?bank={_bank(t)}"),
    "DELETE /api/v1/units/{unit_id}/pin": lambda t: Ask("DELETE", f"/api/v1/units/{t.unit}/pin?bank={_bank(t)}"),
    "DELETE /api/v1/units/{unit_id}": lambda t: Ask("DELETE", f"/api/v1/units/{t.unit}?bank={_bank(t)}"),
    "GET /api/v1/units/{unit_id} elsewhere": lambda t: Ask(
        "GET", f"/api/v1/units/{t.unit}?bank={quote(min(t.caller.reach, default='default'))}"
    ),
    "DELETE /api/v1/units/{unit_id} with facts": lambda t: Ask(
        "DELETE", f"/api/v1/units/{t.unit}?bank={_bank(t)}&with_facts=true"
    ),
    "DELETE /api/v1/units/{unit_id} for good": lambda t: Ask(
        "DELETE", f"/api/v1/units/{t.unit}?bank={_bank(t)}&erase=true"
    ),
    "POST /api/v1/erasures of a unit": lambda t: _erase(t, "unit", unit_id=t.unit),
    "POST /api/v1/erasures of a session": lambda t: _erase(t, "session", session_id=SESSION),
    "POST /api/v1/erasures of a user": lambda t: _erase(t, "user", user_id=t.user),
    "POST /api/v1/erasures of a bank": lambda t: _erase(t, "bank"),
    "GET /api/v1/erasures/{erasure_id}": lambda t: Ask("GET", f"/api/v1/erasures/{t.erasure}"),
    "GET /api/v1/banks/{bank}/freshness": lambda t: Ask("GET", f"/api/v1/banks/{_bank(t)}/freshness"),
    "GET /api/v1/freshness": lambda t: Ask("GET", f"/api/v1/freshness?bank={_bank(t)}"),
    "POST /api/v1/banks": lambda t: Ask("POST", "/api/v1/banks", {"bank": t.bank}),
    "PATCH /api/v1/banks/{bank}": lambda t: Ask("PATCH", f"/api/v1/banks/{_bank(t)}", {"language": "de"}),
    "PATCH /api/v1/banks": lambda t: Ask("PATCH", f"/api/v1/banks?bank={_bank(t)}", {"language": "de"}),
    "GET /api/v1/banks": lambda _: Ask("GET", "/api/v1/banks?limit=1000"),
    "POST /api/v1/docs": lambda t: Ask("POST", "/api/v1/docs", {"bank": t.bank, "content": "a paper at the door"}),
    "GET /api/v1/docs/{doc_id}": lambda t: Ask("GET", f"/api/v1/docs/{t.unit}?bank={_bank(t)}"),
    "DELETE /api/v1/docs/{doc_id}": lambda t: Ask("DELETE", f"/api/v1/docs/{t.unit}?bank={_bank(t)}"),
    "POST /api/v1/directives": lambda t: Ask(
        "POST", "/api/v1/directives", {"bank": t.bank, "name": "at the door", "content": "let me in"}
    ),
    "GET /api/v1/directives": lambda t: Ask("GET", f"/api/v1/directives?bank={_bank(t)}"),
    "DELETE /api/v1/directives/{directive_id}": lambda t: Ask("DELETE", f"/api/v1/directives/{t.unit}?bank={_bank(t)}"),
    "POST /api/v1/links": lambda t: Ask(
        "POST",
        "/api/v1/links",
        {"bank": t.bank, "from_unit_id": t.unit, "to_unit_id": t.unit, "link_type": "entity"},
    ),
    "GET /api/v1/profile of a user": lambda t: Ask("GET", f"/api/v1/profile?user_id={quote(t.user)}&bank={_bank(t)}"),
    "GET /api/v1/profile of a speaker": lambda t: Ask("GET", f"/api/v1/profile?user_id={quote(t.speaker)}"),
    "GET /api/v1/profile of a name": lambda t: Ask("GET", f"/api/v1/profile?name=Ana&bank={_bank(t)}"),
    "GET /api/v1/reflections": lambda t: Ask("GET", f"/api/v1/reflections?bank={_bank(t)}"),
    "POST /memories/add": lambda t: Ask("POST", "/memories/add", _message(t)),
    "POST /memories/flush": lambda t: Ask("POST", "/memories/flush", _message(t)),
    "POST /memories/search": lambda t: Ask("POST", "/memories/search", _search(t)),
}
