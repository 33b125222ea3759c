"""Routes of the isolation check, each with requests for foreign and for absent objects.

Every new route of the application must be added here, and every parameter or field that can name what others own;
`coverage` compares them with what the application serves.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from random import Random
from typing import Any, get_args
from urllib.parse import quote

from deploy.lab.isolation.fixture import (
    COLLEAGUE,
    DIRECTIVE,
    MEMORY,
    SESSION,
    TAG,
    TURN,
    VECTOR,
    KeyHolder,
    SeededBank,
    SeededIds,
    name_namespace,
)
from deploy.lab.isolation.transport import TrialRequest, call_tool
from store.log.event_data import UnitOrigin

#: The names of a turn that is written as a foreign user, and of one that names a document.
USERS_TURN, PAPERS_TURN = "3", "4"
SAID = "somebody was at the door"
#: The constants of a portal's commands.
PORTAL = {"host": "lightapi.net", "service": "genai", "version": "0.1.0"}
ASKED = "What was said and decided of late?"
#: Another application and project than the fixture's, and all that a search there may look at.
PROJECT = {"app_id": "other", "project_id": "other"}
EVERYWHERE = ["current_chat", "all_user_memory", "resources"]
#: How much of a turn is shown.
PIECE = "from_ordinal=0&messages=1&characters=10"
#: Filters that fit the turns of every bank.
FILTERS = {
    "sessions": [SESSION],
    "session_id": "tuesday",
    "exclude_session": True,
    "roles": ["user", "assistant", "developer", "system", "tool"],
    "kinds": ["experience", "world"],
    "tags": [TAG],
    "from": "2020-01-01T00:00:00Z",
    "to": "2099-01-01T00:00:00Z",
    "as_of": "2098-01-01T00:00:00Z",
    "known_at": "2098-01-01T00:00:00Z",
}
#: Share of the tries that name a bank without its owner's prefix.
BARE_NAME_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Trial:
    """The values of a caller's request: bank, things and users are foreign ones or do not exist.

    `user` is a user of the gateway, `speaker` the user who speaks in the bank.
    """

    caller: KeyHolder
    place: SeededBank
    bank: str
    things: SeededIds
    query: str = field(repr=False)
    directive: str = field(repr=False)
    user: str
    speaker: str

    def turn(self) -> dict[str, Any]:
        """Return a turn for that bank; it is always the same, so that it is stored once."""
        said = [{"role": "user", "content": SAID}]
        return {"bank": self.bank, "session_id": SESSION, "turn_id": TURN, "messages": said}

    def before(self) -> dict[str, Any]:
        """Return the body of before_turn for that bank; the answer repeats its text, which is no tenant's."""
        said = [{"type": "message", "role": "user", "content": ASKED}]
        return {"bank": self.bank, "session_id": SESSION, "turn_id": TURN, "current_input": said}

    def after(self) -> dict[str, Any]:
        """Return the body of after_turn for that bank."""
        said = [{"type": "message", "role": "user", "content": SAID}]
        return {"bank": self.bank, "session_id": SESSION, "turn_id": "item", "input_items": said}

    def papers_turn(self) -> dict[str, Any]:
        """Return a turn for that bank that was read from its document."""
        return {**self.turn(), "turn_id": PAPERS_TURN, "doc_id": self.things.doc}

    def users_turn(self) -> dict[str, Any]:
        """Return a turn for that bank as the speaker's."""
        return {**self.turn(), "turn_id": USERS_TURN, "user_id": self.speaker}

    def question(self, **more: object) -> dict[str, Any]:
        """Return the body of a recall from that bank."""
        return {"bank": self.bank, "query": self.query, **more}


def make_pair(random: Random, caller: KeyHolder, place: SeededBank, *, whole: bool = False) -> tuple[Trial, Trial]:
    """Return two trials that differ only in their target: a foreign one, and one that does not exist.

    Some name the bank without its owner's prefix, unless `whole` is set.
    """
    bare = random.random() < BARE_NAME_SHARE and not whole

    def bank(name: str) -> str:
        return name.rpartition("/")[2] if bare else name

    user, absent = (name.rpartition(":")[2] for name in (place.user or place.bank, place.twin))
    there = Trial(caller, place, bank(place.bank), place.things, place.mark, DIRECTIVE, user, place.speaker)
    things, twin = SeededIds.absent(random), bank(place.twin)
    return there, replace(there, bank=twin, things=things, directive="on a box", user=absent, speaker=place.stranger)


def make_pair_elsewhere(random: Random, caller: KeyHolder, place: SeededBank) -> tuple[Trial, Trial]:
    """Return two trials in a bank that the caller can read: for a foreign thing, and for one that does not exist."""
    there, absent = make_pair(random, caller, place)
    bank = random.choice(sorted(caller.reach))
    return replace(there, bank=bank), replace(absent, bank=bank)


class SharedRights(Enum):
    """The rights of a user's or an agent's key on what others wrote in a shared bank."""

    MAY = "it reads, or adds what is its own"
    CURATORS_MAY = "a key with the scope `curate` may"
    MUST_NOT = "no such key may"


@dataclass(frozen=True, slots=True)
class TrialRoute:
    """A way to call a route.

    `by_id`: it names a thing by id, so it is also tried in a bank that the caller can read. `others`: the rights on
    what others wrote in a shared bank. `seldom`: it takes long and is tried less often.
    """

    ask: Callable[[Trial], TrialRequest]
    by_id: bool = False
    others: SharedRights = SharedRights.MAY
    seldom: bool = False

    def refused_to(self, caller: KeyHolder) -> bool:
        """Return whether the route must refuse this caller on what others wrote in a shared bank."""
        return self.others is SharedRights.MUST_NOT or (self.others is SharedRights.CURATORS_MAY and not caller.curate)


def _quote_bank(one: Trial) -> str:
    return quote(one.bank)


def _build_command(one: Trial) -> dict[str, Any]:
    """Return a command that ends a unit, in the bank of this id."""
    return {"action": "deleteAgentMemoryUnit", "data": {"bankId": one.things.bank, "unitId": one.things.unit}}


def _build_unit_path(one: Trial, more: str = "") -> str:
    return f"/api/v1/units/{one.things.unit}{more}?bank={_quote_bank(one)}"


def _build_message(one: Trial) -> dict[str, Any]:
    body = {"user_id": one.user, "user_key": one.caller.token, "session_id": "chat:1"}
    message = {"sender_id": "x", "role": "user", "timestamp": 1_772_366_400_000, "content": SAID}
    return {**body, "messages": [message]}


def _build_search(one: Trial) -> dict[str, Any]:
    asked = {"conversation_id": "1", "query": one.query, "scope": ["all_user_memory"]}
    return {"user_id": one.user, "user_key": one.caller.token, **asked}


def _name_project(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body with `bank` renamed to `project`, as MCP tools name it."""
    return {"project" if name == "bank" else name: value for name, value in body.items()}


def _make_read_route(ask: Callable[[Trial], TrialRequest], *, by_id: bool = False) -> TrialRoute:
    return TrialRoute(ask, by_id=by_id)


def _make_list_route(path: str) -> TrialRoute:
    mark = "&" if "?" in path else "?"
    return _make_read_route(lambda t: TrialRequest("GET", f"/api/v1/{path}{mark}limit=1000&bank={_quote_bank(t)}"))


def _make_change_route(ask: Callable[[Trial], TrialRequest]) -> TrialRoute:
    """Return a way to call a route that changes a thing by its id."""
    return TrialRoute(ask, by_id=True, others=SharedRights.MUST_NOT)


def _make_preview_route(
    kind: str,
    others: SharedRights = SharedRights.MUST_NOT,
    *,
    by_id: bool = False,
    **named: Callable[[Trial], str],
) -> TrialRoute:
    """Return a way to preview an erasure: it needs the rights of one."""
    erase = _make_erase_route(kind, others, by_id=by_id, **named)

    def ask(one: Trial) -> TrialRequest:
        return TrialRequest("POST", "/api/v1/erasures/preview", erase.ask(one).body)

    return TrialRoute(ask, by_id, others, seldom=True)


def _make_erase_route(
    kind: str,
    others: SharedRights = SharedRights.MUST_NOT,
    *,
    by_id: bool = False,
    **named: Callable[[Trial], str],
) -> TrialRoute:
    def ask(one: Trial) -> TrialRequest:
        target = {} if kind == "user" else {"bank": one.bank}
        return TrialRequest(
            "POST", "/api/v1/erasures", {"kind": kind, **target, **{key: of(one) for key, of in named.items()}}
        )

    return TrialRoute(ask, by_id, others, seldom=True)


def _make_delete_routes() -> dict[str, TrialRoute]:
    """Return the ways to erase a thing for good by the DELETE of its own path."""

    def way(path: Callable[[Trial], str], others: SharedRights, *, by_id: bool) -> TrialRoute:
        return TrialRoute(
            lambda t: TrialRequest("DELETE", f"/api/v1/{path(t)}?bank={_quote_bank(t)}&erase=true"),
            by_id,
            others,
            seldom=True,
        )

    rights = SharedRights
    return {
        "DELETE /api/v1/units/{unit_id} for good": way(lambda t: f"units/{t.things.unit}", rights.MUST_NOT, by_id=True),
        "DELETE /api/v1/docs/{doc_id} for good": way(lambda t: f"docs/{t.things.doc}", rights.MUST_NOT, by_id=True),
        "DELETE /api/v1/directives/{directive_id} for good": way(
            lambda t: f"directives/{t.things.directive}", rights.CURATORS_MAY, by_id=True
        ),
        "DELETE /api/v1/memories/{memory_id} for good": way(
            lambda _: f"memories/{MEMORY}", rights.MUST_NOT, by_id=False
        ),
    }


def _make_recall_routes(path: str, **job: Any) -> dict[str, TrialRoute]:
    """Return the ways to call a route that takes recalls."""

    def way(body: Callable[[Trial], dict[str, Any]]) -> TrialRoute:
        return _make_read_route(lambda t: TrialRequest("POST", path, body(t)))

    return {
        f"POST {path}": way(lambda t: t.question(**job)),
        f"POST {path} explained": way(lambda t: t.question(**job, explain=True, session_id=SESSION)),
        f"POST {path} of a user": way(lambda t: t.question(**job, user_id=t.speaker)),
        f"POST {path} filtered": way(lambda t: t.question(**job, **FILTERS, metadata={"shelf": t.query})),
        f"POST {path} across banks": way(lambda t: t.question(**job, user_id=t.speaker, across_banks=True)),
        f"POST {path} across a colleague's banks": way(
            lambda t: t.question(**job, user_id=COLLEAGUE, across_banks=True)
        ),
    }


#: Every public route that needs a key, in all ways to call it; keys are method, path and the way.
ROUTES: dict[str, TrialRoute] = {
    "POST /api/v1/turns": _make_read_route(lambda t: TrialRequest("POST", "/api/v1/turns", t.turn())),
    "POST /api/v1/turns of a user": _make_read_route(lambda t: TrialRequest("POST", "/api/v1/turns", t.users_turn())),
    "POST /api/v1/turns from a document": _make_read_route(
        lambda t: TrialRequest("POST", "/api/v1/turns", t.papers_turn())
    ),
    "POST /api/v1/turns/before": _make_read_route(lambda t: TrialRequest("POST", "/api/v1/turns/before", t.before())),
    "POST /api/v1/turns/before of its session": _make_read_route(
        lambda t: TrialRequest("POST", "/api/v1/turns/before", {**t.before(), "scope": "session"})
    ),
    "POST /api/v1/turns/before of a user": _make_read_route(
        lambda t: TrialRequest(
            "POST", "/api/v1/turns/before", {**_name_project(t.before()), "user_id": t.speaker, "scope": "project"}
        )
    ),
    "POST /api/v1/turns/after of a user": _make_read_route(
        lambda t: TrialRequest("POST", "/api/v1/turns/after", {**_name_project(t.after()), "user_id": t.speaker})
    ),
    "POST /api/v1/turns/after": _make_read_route(lambda t: TrialRequest("POST", "/api/v1/turns/after", t.after())),
    "POST /api/v1/turns:batch": _make_read_route(
        lambda t: TrialRequest("POST", "/api/v1/turns:batch", {"turns": [t.turn()] * 2})
    ),
    "POST /api/v1/turns:batch of a user": _make_read_route(
        lambda t: TrialRequest("POST", "/api/v1/turns:batch", {"turns": [t.users_turn()]})
    ),
    "GET /api/v1/turns/{session_id}/{turn_id}": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/turns/{SESSION}/{TURN}?bank={_quote_bank(t)}")
    ),
    "GET /api/v1/turns/{turn}": _make_read_route(lambda t: TrialRequest("GET", f"/api/v1/turns/{t.things.turn}")),
    "GET /api/v1/turns/{session_id}/{turn_id} in pieces": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/turns/{SESSION}/{TURN}?bank={_quote_bank(t)}&{PIECE}")
    ),
    "GET /api/v1/turns in pieces": _make_read_route(
        lambda t: TrialRequest(
            "GET", f"/api/v1/turns?session_id={SESSION}&turn_id={TURN}&bank={_quote_bank(t)}&{PIECE}"
        )
    ),
    "GET /api/v1/turns": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/turns?session_id={SESSION}&turn_id={TURN}&bank={_quote_bank(t)}")
    ),
    "GET /api/v1/turns of a session": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/turns?session_id={SESSION}&bank={_quote_bank(t)}")
    ),
    "GET /api/v1/sessions": _make_read_route(lambda t: TrialRequest("GET", f"/api/v1/sessions?bank={_quote_bank(t)}")),
    "GET /api/v1/sessions/{session_id}": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/sessions/{SESSION}?messages=100&bank={_quote_bank(t)}")
    ),
    "GET /api/v1/units": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/units?limit=1000&bank={_quote_bank(t)}")
    ),
    **{
        f"GET /api/v1/units of origin {origin}": _make_list_route(f"units?origin={origin}")
        for origin in get_args(UnitOrigin)
    },
    "GET /api/v1/units of a document": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/units?doc_id={t.things.doc}&limit=1000&bank={_quote_bank(t)}")
    ),
    "GET /api/v1/users": _make_read_route(lambda _: TrialRequest("GET", "/api/v1/users?limit=1000")),
    **_make_recall_routes("/api/v1/recall"),
    **_make_recall_routes("/api/v1/recall/jobs", ttl_s=60),
    "GET /api/v1/recall/jobs/{job_id}": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/recall/jobs/{t.things.job}")
    ),
    "DELETE /api/v1/recall/jobs/{job_id}": _make_read_route(
        lambda t: TrialRequest("DELETE", f"/api/v1/recall/jobs/{t.things.job}")
    ),
    "GET /api/v1/units/{unit_id}": _make_read_route(lambda t: TrialRequest("GET", _build_unit_path(t)), by_id=True),
    "GET /api/v1/units/{unit_id} that is a reflection": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/units/{t.things.reflection}?bank={_quote_bank(t)}"), by_id=True
    ),
    "PATCH /api/v1/units/{unit_id}": _make_change_route(
        lambda t: TrialRequest("PATCH", _build_unit_path(t), {"content": "corrected at the door"})
    ),
    "PATCH /api/v1/units/{unit_id} of a version": _make_change_route(
        lambda t: TrialRequest("PATCH", _build_unit_path(t), {"content": "corrected at the door", "version": 2})
    ),
    "PUT /api/v1/units/{unit_id}/pin": TrialRoute(
        lambda t: TrialRequest("PUT", _build_unit_path(t, "/pin")), True, SharedRights.CURATORS_MAY
    ),
    "DELETE /api/v1/units/{unit_id}/pin": TrialRoute(
        lambda t: TrialRequest("DELETE", _build_unit_path(t, "/pin")), True, SharedRights.CURATORS_MAY
    ),
    "DELETE /api/v1/units/{unit_id}": _make_change_route(lambda t: TrialRequest("DELETE", _build_unit_path(t))),
    "POST /api/v1/commands": _make_change_route(lambda t: TrialRequest("POST", "/api/v1/commands", _build_command(t))),
    "POST /portal/command": _make_change_route(
        lambda t: TrialRequest("POST", "/portal/command", {**PORTAL, **_build_command(t)})
    ),
    "DELETE /api/v1/units/{unit_id} with facts": _make_change_route(
        lambda t: TrialRequest("DELETE", f"{_build_unit_path(t)}&with_facts=true")
    ),
    **_make_delete_routes(),
    "POST /api/v1/erasures of a unit": _make_erase_route("unit", by_id=True, unit_id=lambda t: t.things.unit),
    "POST /api/v1/erasures of a document": _make_erase_route("document", by_id=True, doc_id=lambda t: t.things.doc),
    "POST /api/v1/erasures of a directive": _make_erase_route(
        "directive", SharedRights.CURATORS_MAY, by_id=True, directive_id=lambda t: t.things.directive
    ),
    "POST /api/v1/erasures of a memory": _make_erase_route("memory", memory_id=lambda _: MEMORY),
    "POST /api/v1/erasures of a session": _make_erase_route("session", session_id=lambda _: SESSION),
    "POST /api/v1/erasures of a user": _make_erase_route("user", user_id=lambda t: t.user),
    "POST /api/v1/erasures of a speaker": _make_erase_route("user", user_id=lambda t: t.speaker),
    "POST /api/v1/erasures of a bank": _make_erase_route("bank"),
    "POST /api/v1/erasures/preview of a unit": _make_preview_route("unit", by_id=True, unit_id=lambda t: t.things.unit),
    "POST /api/v1/erasures/preview of a document": _make_preview_route(
        "document", by_id=True, doc_id=lambda t: t.things.doc
    ),
    "POST /api/v1/erasures/preview of a directive": _make_preview_route(
        "directive", SharedRights.CURATORS_MAY, by_id=True, directive_id=lambda t: t.things.directive
    ),
    "POST /api/v1/erasures/preview of a memory": _make_preview_route("memory", memory_id=lambda _: MEMORY),
    "POST /api/v1/erasures/preview of a session": _make_preview_route("session", session_id=lambda _: SESSION),
    "POST /api/v1/erasures/preview of a user": _make_preview_route("user", user_id=lambda t: t.user),
    "POST /api/v1/erasures/preview of a bank": _make_preview_route("bank"),
    "GET /api/v1/erasures/{erasure_id}": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/erasures/{t.things.erasure}")
    ),
    "GET /api/v1/banks/{bank}/freshness": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/banks/{_quote_bank(t)}/freshness")
    ),
    "GET /api/v1/freshness": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/freshness?bank={_quote_bank(t)}")
    ),
    "POST /api/v1/banks": _make_read_route(lambda t: TrialRequest("POST", "/api/v1/banks", {"bank": t.bank})),
    "POST /api/v1/banks of a user": _make_read_route(
        lambda t: TrialRequest("POST", "/api/v1/banks", {"bank": t.bank, "user_id": t.speaker})
    ),
    "POST /api/v1/banks of an agent": _make_read_route(
        lambda t: TrialRequest("POST", "/api/v1/banks", {"bank": t.bank, "agent": "planner"})
    ),
    "PATCH /api/v1/banks/{bank}": TrialRoute(
        lambda t: TrialRequest("PATCH", f"/api/v1/banks/{_quote_bank(t)}", {"language": "de"}),
        others=SharedRights.MUST_NOT,
    ),
    "PATCH /api/v1/banks": TrialRoute(
        lambda t: TrialRequest("PATCH", f"/api/v1/banks?bank={_quote_bank(t)}", {"language": "de"}),
        others=SharedRights.MUST_NOT,
    ),
    "GET /api/v1/banks": _make_read_route(lambda _: TrialRequest("GET", "/api/v1/banks?limit=1000&runtime=true")),
    "GET /api/v1/bank": _make_read_route(lambda t: TrialRequest("GET", f"/api/v1/bank?bank={_quote_bank(t)}")),
    **{f"GET /api/v1/{path}": _make_list_route(path) for path in ("entities", "mentions", "cooccurrences", "links")},
    "GET /api/v1/mentions of a unit and an entity": _make_read_route(
        lambda t: TrialRequest(
            "GET",
            f"/api/v1/mentions?unit_id={t.things.other}&entity_id={t.things.entity}&bank={_quote_bank(t)}",
        ),
        by_id=True,
    ),
    "GET /api/v1/cooccurrences of an entity": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/cooccurrences?entity_id={t.things.entity}&bank={_quote_bank(t)}"),
        by_id=True,
    ),
    "GET /api/v1/neighbourhood of an entity": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/neighbourhood?entity_id={t.things.entity}&bank={_quote_bank(t)}"),
        by_id=True,
    ),
    "GET /api/v1/neighbourhood of a name": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/neighbourhood?name={quote(t.speaker)}&bank={_quote_bank(t)}")
    ),
    "GET /api/v1/links of a unit": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/links?unit_id={t.things.unit}&bank={_quote_bank(t)}"), by_id=True
    ),
    "GET /api/v1/entities/{entity_id}": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/entities/{t.things.entity}?bank={_quote_bank(t)}"), by_id=True
    ),
    "GET /api/v1/links/{from_unit_id}/{to_unit_id}/{link_type}": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/links/{t.things.unit}/{t.things.other}/causes?bank={_quote_bank(t)}"),
        by_id=True,
    ),
    "POST /api/v1/docs": _make_read_route(
        lambda t: TrialRequest("POST", "/api/v1/docs", {"bank": t.bank, "content": SAID})
    ),
    "POST /api/v1/docs of a user": _make_read_route(
        lambda t: TrialRequest("POST", "/api/v1/docs", {"bank": t.bank, "content": SAID, "user_id": t.speaker})
    ),
    "POST /api/v1/docs of a file": _make_read_route(
        lambda t: TrialRequest("POST", "/api/v1/docs", {"bank": t.bank, "content_hash": "0" * 64})
    ),
    "GET /api/v1/docs": _make_read_route(lambda t: TrialRequest("GET", f"/api/v1/docs?bank={_quote_bank(t)}")),
    "GET /api/v1/docs/{doc_id}": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/docs/{t.things.doc}?bank={_quote_bank(t)}"), by_id=True
    ),
    "DELETE /api/v1/docs/{doc_id}": _make_change_route(
        lambda t: TrialRequest("DELETE", f"/api/v1/docs/{t.things.doc}?bank={_quote_bank(t)}")
    ),
    "POST /api/v1/memories": _make_read_route(
        lambda t: TrialRequest("POST", "/api/v1/memories", {"bank": t.bank, "content": SAID})
    ),
    "POST /api/v1/memories of a user": _make_read_route(
        lambda t: TrialRequest("POST", "/api/v1/memories", {"bank": t.bank, "content": SAID, "user_id": t.speaker})
    ),
    "POST /api/v1/memories over another's": TrialRoute(
        lambda t: TrialRequest("POST", "/api/v1/memories", {"bank": t.bank, "id": MEMORY, "content": SAID}),
        others=SharedRights.MUST_NOT,
    ),
    "GET /api/v1/memories/{memory_id}": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/memories/{MEMORY}?bank={_quote_bank(t)}")
    ),
    "DELETE /api/v1/memories/{memory_id}": TrialRoute(
        lambda t: TrialRequest("DELETE", f"/api/v1/memories/{MEMORY}?bank={_quote_bank(t)}"),
        others=SharedRights.MUST_NOT,
    ),
    "POST /api/v1/directives": TrialRoute(
        lambda t: TrialRequest(
            "POST", "/api/v1/directives", {"bank": t.bank, "name": t.directive, "content": "let me in"}
        ),
        others=SharedRights.CURATORS_MAY,
    ),
    "GET /api/v1/directives": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/directives?bank={_quote_bank(t)}")
    ),
    "GET /api/v1/directives/{directive_id}": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/directives/{t.things.directive}?bank={_quote_bank(t)}"), by_id=True
    ),
    "DELETE /api/v1/directives/{directive_id}": TrialRoute(
        lambda t: TrialRequest("DELETE", f"/api/v1/directives/{t.things.directive}?bank={_quote_bank(t)}"),
        True,
        SharedRights.CURATORS_MAY,
    ),
    "POST /api/v1/links": _make_change_route(
        lambda t: TrialRequest(
            "POST",
            "/api/v1/links",
            {"bank": t.bank, "from_unit_id": t.things.unit, "to_unit_id": t.things.unit, "link_type": "entity"},
        )
    ),
    "GET /api/v1/profile of a user": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/profile?user_id={quote(t.user)}&bank={_quote_bank(t)}")
    ),
    "GET /api/v1/profile of a speaker": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/profile?user_id={quote(t.speaker)}&history=true")
    ),
    "GET /api/v1/profile of a name": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/profile?name=Eva+Lund&bank={_quote_bank(t)}")
    ),
    "GET /api/v1/reflections": _make_read_route(
        lambda t: TrialRequest("GET", f"/api/v1/reflections?bank={_quote_bank(t)}")
    ),
    "POST /mcp memory_before_turn": _make_read_route(
        lambda t: call_tool("memory_before_turn", **_name_project(t.before()))
    ),
    "POST /mcp memory_after_turn": _make_read_route(
        lambda t: call_tool("memory_after_turn", **_name_project(t.after()))
    ),
    "POST /mcp memory_search": _make_read_route(lambda t: call_tool("memory_search", project=t.bank, query=t.query)),
    "POST /mcp memory_remember": _make_read_route(lambda t: call_tool("memory_remember", project=t.bank, text=SAID)),
    "POST /mcp memory_forget": _make_change_route(
        lambda t: call_tool("memory_forget", project=t.bank, id=t.things.unit)
    ),
    "POST /mcp memory_forget a document": _make_change_route(
        lambda t: call_tool("memory_forget", project=t.bank, id=t.things.doc)
    ),
    "POST /mcp memory_run_maintenance": TrialRoute(
        lambda t: call_tool("memory_run_maintenance", project=t.bank, session_id=SESSION), seldom=True
    ),
    "POST /mcp memory_list_dir_with_abstract": _make_read_route(
        lambda t: call_tool("memory_list_dir_with_abstract", project=t.bank, session_id=SESSION)
    ),
    "POST /memories/add": _make_read_route(lambda t: TrialRequest("POST", "/memories/add", _build_message(t))),
    "POST /memories/add of a turn": _make_read_route(
        lambda t: TrialRequest("POST", "/memories/add", {**_build_message(t), "afterturn_turn_id": t.things.turn})
    ),
    "POST /memories/add of a project": _make_read_route(
        lambda t: TrialRequest("POST", "/memories/add", {**_build_message(t), **PROJECT})
    ),
    "POST /memories/flush of a project": _make_read_route(
        lambda t: TrialRequest("POST", "/memories/flush", {**_build_message(t), **PROJECT})
    ),
    "POST /memories/search of a project": _make_read_route(
        lambda t: TrialRequest("POST", "/memories/search", {**_build_search(t), **PROJECT, "scope": EVERYWHERE})
    ),
    "POST /memories/flush": _make_read_route(lambda t: TrialRequest("POST", "/memories/flush", _build_message(t))),
    "POST /memories/search": _make_read_route(lambda t: TrialRequest("POST", "/memories/search", _build_search(t))),
}

#: The path of the operators' routes, which must refuse every key of a tenant.
OPERATOR = "/api/v1/operator"
ROUTES |= {
    "GET /api/v1/operator/tenants": _make_read_route(lambda _: TrialRequest("GET", f"{OPERATOR}/tenants?limit=1000")),
    "GET /api/v1/operator/tenants/{tenant_id}": _make_read_route(
        lambda t: TrialRequest("GET", f"{OPERATOR}/tenants/{t.things.unit}")
    ),
    "GET /api/v1/operator/status": _make_read_route(lambda _: TrialRequest("GET", f"{OPERATOR}/status")),
    "GET /api/v1/operator/jobs": _make_read_route(lambda _: TrialRequest("GET", f"{OPERATOR}/jobs")),
    "POST /api/v1/operator/jobs": _make_read_route(
        lambda t: TrialRequest(
            "POST",
            f"{OPERATOR}/jobs",
            {"action": "drop", "tenant": t.user, "stage": "extraction", "ids": [str(t.things.unit)]},
        )
    ),
    "GET /api/v1/operator/jobs/count": _make_read_route(
        lambda t: TrialRequest("GET", f"{OPERATOR}/jobs/count?tenant={quote(t.user)}")
    ),
    "POST /api/v1/operator/jobs/matching": _make_read_route(
        lambda t: TrialRequest(
            "POST",
            f"{OPERATOR}/jobs/matching",
            {"action": "drop", "where": {"tenant": t.user}, "counted_at": "2098-01-01T00:00:00Z"},
        )
    ),
    "GET /api/v1/operator/jobs/{job_id}": _make_read_route(
        lambda t: TrialRequest("GET", f"{OPERATOR}/jobs/{t.things.unit}")
    ),
    "POST /api/v1/operator/jobs/{job_id}/settle": _make_read_route(
        lambda t: TrialRequest("POST", f"{OPERATOR}/jobs/{t.things.unit}/settle", {"found": "delivered"})
    ),
    "GET /api/v1/operator/queues": _make_read_route(lambda _: TrialRequest("GET", f"{OPERATOR}/queues")),
    "GET /api/v1/operator/letters": _make_read_route(
        lambda _: TrialRequest("GET", f"{OPERATOR}/letters?limit=1000&names=true")
    ),
    "GET /api/v1/operator/letters/count": _make_read_route(
        lambda t: TrialRequest("GET", f"{OPERATOR}/letters/count?tenant={quote(t.user)}")
    ),
    "POST /api/v1/operator/letters": _make_read_route(
        lambda t: TrialRequest(
            "POST", f"{OPERATOR}/letters", {"action": "drop", "queue": t.user, "ids": [str(t.things.unit)]}
        )
    ),
    "POST /api/v1/operator/letters/matching": _make_read_route(
        lambda t: TrialRequest(
            "POST",
            f"{OPERATOR}/letters/matching",
            {"action": "drop", "where": {"tenant": t.user}, "newest_at": "2098-01-01T00:00:00Z"},
        )
    ),
    "GET /api/v1/operator/workers": _make_read_route(lambda _: TrialRequest("GET", f"{OPERATOR}/workers")),
    "POST /api/v1/operator/workers/drain": _make_read_route(
        lambda _: TrialRequest("POST", f"{OPERATOR}/workers/drain", {"everyone": True})
    ),
    "GET /api/v1/operator/figures": _make_read_route(lambda _: TrialRequest("GET", f"{OPERATOR}/figures")),
    "GET /api/v1/operator/figures/stream": _make_read_route(
        lambda _: TrialRequest("GET", f"{OPERATOR}/figures/stream?for_s=0")
    ),
    "GET /api/v1/operator/audit": _make_read_route(lambda _: TrialRequest("GET", f"{OPERATOR}/audit")),
    "GET /api/v1/operator/targets": _make_read_route(lambda _: TrialRequest("GET", f"{OPERATOR}/targets")),
    "PUT /api/v1/operator/targets": _make_read_route(
        lambda t: TrialRequest(
            "PUT",
            f"{OPERATOR}/targets",
            {"tenant": t.user, "bank": t.bank, "url": "https://gateway.example", "user_id": t.user, "user_key": "k"},
        )
    ),
    "DELETE /api/v1/operator/targets": _make_read_route(
        lambda t: TrialRequest("DELETE", f"{OPERATOR}/targets?tenant={quote(t.user)}&bank={_quote_bank(t)}")
    ),
    "GET /api/v1/operator/settings": _make_read_route(lambda _: TrialRequest("GET", f"{OPERATOR}/settings")),
    "GET /api/v1/operator/doctor": _make_read_route(lambda _: TrialRequest("GET", f"{OPERATOR}/doctor")),
    "GET /api/v1/operator/keys": _make_read_route(
        lambda t: TrialRequest("GET", f"{OPERATOR}/keys?tenant={quote(t.user)}")
    ),
    "POST /api/v1/operator/keys": _make_read_route(
        lambda t: TrialRequest("POST", f"{OPERATOR}/keys", {"tenant": t.user, "label": "mine"})
    ),
    "POST /api/v1/operator/keys/{key_id}/rotate": _make_read_route(
        lambda t: TrialRequest("POST", f"{OPERATOR}/keys/{t.things.unit}/rotate", {"tenant": t.user})
    ),
    "DELETE /api/v1/operator/keys/{key_id}": _make_read_route(
        lambda t: TrialRequest("DELETE", f"{OPERATOR}/keys/{t.things.unit}?tenant={quote(t.user)}")
    ),
    "GET /api/v1/operator/snapshots": _make_read_route(
        lambda t: TrialRequest("GET", f"{OPERATOR}/snapshots?tenant={quote(t.user)}")
    ),
    "POST /api/v1/operator/snapshots": _make_read_route(
        lambda t: TrialRequest("POST", f"{OPERATOR}/snapshots", {"tenant": t.user, "include": ["agent_memory"]})
    ),
    "POST /api/v1/operator/snapshots/imports": _make_read_route(
        lambda t: TrialRequest("POST", f"{OPERATOR}/snapshots/imports", {"tenant": t.user, "first_line": {}})
    ),
    "GET /api/v1/operator/snapshots/{snapshot_id}": _make_read_route(
        lambda t: TrialRequest("GET", f"{OPERATOR}/snapshots/{t.things.unit}?tenant={quote(t.user)}")
    ),
    "GET /api/v1/operator/snapshots/{snapshot_id}/events": _make_read_route(
        lambda t: TrialRequest("GET", f"{OPERATOR}/snapshots/{t.things.unit}/events?tenant={quote(t.user)}")
    ),
    "POST /api/v1/operator/snapshots/{snapshot_id}/events": _make_read_route(
        lambda t: TrialRequest(
            "POST", f"{OPERATOR}/snapshots/{t.things.unit}/events", {"tenant": t.user, "first": 0, "events": []}
        )
    ),
    "POST /api/v1/operator/snapshots/{snapshot_id}/finish": _make_read_route(
        lambda t: TrialRequest("POST", f"{OPERATOR}/snapshots/{t.things.unit}/finish", {"tenant": t.user, "events": 0})
    ),
    "GET /api/v1/operator/embeddings": _make_read_route(lambda _: TrialRequest("GET", f"{OPERATOR}/embeddings")),
    "POST /api/v1/operator/embeddings/build": _make_read_route(
        lambda _: TrialRequest("POST", f"{OPERATOR}/embeddings/build")
    ),
    "GET /api/v1/operator/embeddings/comparison": _make_read_route(
        lambda _: TrialRequest("GET", f"{OPERATOR}/embeddings/comparison?questions=1")
    ),
    "POST /api/v1/operator/embeddings/switch": _make_read_route(
        lambda _: TrialRequest("POST", f"{OPERATOR}/embeddings/switch", {"force": True})
    ),
    "POST /api/v1/operator/embeddings/rollback": _make_read_route(
        lambda _: TrialRequest("POST", f"{OPERATOR}/embeddings/rollback")
    ),
    "DELETE /api/v1/operator/embeddings/{generation}": _make_read_route(
        lambda _: TrialRequest("DELETE", f"{OPERATOR}/embeddings/1")
    ),
    "GET /api/v1/operator/quotas": _make_read_route(
        lambda t: TrialRequest("GET", f"{OPERATOR}/quotas?tenant={quote(t.user)}")
    ),
    "PUT /api/v1/operator/quotas": _make_read_route(
        lambda t: TrialRequest("PUT", f"{OPERATOR}/quotas", {"tenant": t.user, "max_turns": 0})
    ),
}


def _make_namespace_route(method: str, body: dict[str, Any] | None = None) -> TrialRoute:
    def ask(one: Trial) -> TrialRequest:
        return TrialRequest(method, f"/v1/namespaces/{name_namespace(one.bank)}", body)

    return _make_read_route(ask)


def _make_search_route(ask: Callable[[Trial], dict[str, Any]]) -> TrialRoute:
    return _make_read_route(
        lambda t: TrialRequest("POST", "/v1/search", {"namespaces": [name_namespace(t.bank)], **ask(t)})
    )


def _make_forget_route(find: Callable[[SeededIds], str]) -> TrialRoute:
    def ask(one: Trial) -> TrialRequest:
        body = {"requested_by_namespace": name_namespace(one.bank)}
        return TrialRequest("DELETE", f"/v1/memories/{find(one.things)}", body)

    return _make_read_route(ask, by_id=True)


_WRITTEN = {"content": SAID, "kind": "fact", "source": "agent", "embedding": VECTOR}
#: The memory plugin's routes, for the namespace beside a bank. No trial writes a foreign id to a caller's own
#: namespace, where it would name another memory.
ROUTES |= {
    "PUT /v1/namespaces/{name}": _make_namespace_route("PUT", body={"kind": "team"}),
    "PATCH /v1/namespaces/{name}": _make_namespace_route("PATCH", body={"metadata": {"door": "open"}}),
    "DELETE /v1/namespaces/{name}": _make_namespace_route("DELETE"),
    "POST /v1/namespaces/{name}/memories": _make_read_route(
        lambda t: TrialRequest(
            "POST", f"/v1/namespaces/{name_namespace(t.bank)}/memories", {**_WRITTEN, "id": t.things.memory}
        )
    ),
    "POST /v1/search": _make_search_route(lambda t: {"query": t.query}),
    "POST /v1/search that lists": _make_search_route(lambda _: {"limit": 100, "export": True}),
    "POST /v1/search by a vector": _make_search_route(lambda t: {"embedding": VECTOR, "query": t.query}),
    "DELETE /v1/memories/{id}": _make_forget_route(lambda things: things.memory),
    "DELETE /v1/memories/{id} that is a message": _make_forget_route(lambda things: things.unit),
}
