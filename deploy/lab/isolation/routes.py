"""Routes of the isolation check, each with requests for foreign and for absent objects.

Every new route of the application must be added here, but for the operators', and every parameter or field that can
name what others own; `coverage` compares them with what the application serves.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from random import Random
from typing import Any, get_args
from urllib.parse import quote

from fastapi.routing import APIRoute

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
from producers.http.operator_routers import OPERATOR_ROUTERS
from store.log.event_data import UnitOrigin

#: The names of a turn that is written as a foreign user, and of one that names a document.
USERS_TURN, PAPERS_TURN = "3", "4"
SAID, CORRECTED = "somebody was at the door", "corrected at the door"
WRITTEN = {"content": SAID, "kind": "fact", "source": "agent", "embedding": VECTOR}
#: The constants of a portal's commands.
PORTAL = {"host": "lightapi.net", "service": "genai", "version": "0.1.0"}
ASKED = "What was said and decided of late?"
#: Another application and project than the fixture's, and all that a search there may look at.
PROJECT = {"app_id": "other", "project_id": "other"}
EVERYWHERE = ["current_chat", "all_user_memory", "resources"]
#: The path of the operators' routes, which must refuse every key of a tenant.
OPERATOR = "/api/v1/operator"
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


#: Makes the body of a request.
Body = Callable[[Trial], dict[str, Any]]


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


def _way(
    way: str,
    query: str = "",
    body: Body | None = None,
    *,
    path: str = "",
    by_id: bool = False,
    others: SharedRights = SharedRights.MAY,
    seldom: bool = False,
) -> tuple[str, TrialRoute]:
    """Return a way to call a route by its name, which begins with method and path; path and query are templates.

    `path` is that of the request, where it has another parameter than the route's.
    """
    method, named = way.split(" ")[:2]

    def ask(one: Trial) -> TrialRequest:
        return TrialRequest(method, _fill_template((path or named) + query, one), body and body(one))

    return way, TrialRoute(ask, by_id, others, seldom)


def _fill_template(template: str, one: Trial) -> str:
    """Return a path and query with the trial's values in the place of their parameters."""
    things = one.things
    values = {
        "bank": one.bank,
        "user": one.user,
        "speaker": one.speaker,
        "session_id": SESSION,
        "turn_id": TURN,
        "turn": things.turn,
        "unit_id": things.unit,
        "from_unit_id": things.unit,
        "to_unit_id": things.other,
        "link_type": "causes",
        "entity_id": things.entity,
        "doc_id": things.doc,
        "directive_id": things.directive,
        "memory_id": MEMORY,
        "job_id": things.job,
        "erasure_id": things.erasure,
        "reflection_id": things.reflection,
        "id": things.memory,
        "name": name_namespace(one.bank),
        "generation": "1",
        **dict.fromkeys(("tenant_id", "key_id", "snapshot_id"), things.unit),
    }
    return template.format_map(
        {name: quote(value, safe="/:" if name == "name" else "/") for name, value in values.items()}
    )


def _tool(name: str, arguments: Body, **rights: Any) -> tuple[str, TrialRoute]:
    """Return a way to call a tool over MCP."""
    tool = name.split(" ", 1)[0]
    return f"POST /mcp {name}", TrialRoute(lambda t: call_tool(tool, **arguments(t)), **rights)


def _build_command(one: Trial) -> dict[str, Any]:
    """Return a command that ends a unit, in the bank of this id."""
    return {"action": "deleteAgentMemoryUnit", "data": {"bankId": one.things.bank, "unitId": one.things.unit}}


def _build_message(one: Trial) -> dict[str, Any]:
    body = {"user_id": one.user, "user_key": one.caller.token, "session_id": "chat:1"}
    message = {"sender_id": "x", "role": "user", "timestamp": 1_772_366_400_000, "content": SAID}
    return {**body, "messages": [message]}


def _build_search(one: Trial) -> dict[str, Any]:
    asked = {"conversation_id": "1", "query": one.query, "scope": ["all_user_memory"]}
    return {"user_id": one.user, "user_key": one.caller.token, **asked}


def _name_namespaces(one: Trial) -> dict[str, Any]:
    return {"namespaces": [name_namespace(one.bank)]}


def _build_forget(one: Trial) -> dict[str, Any]:
    return {"requested_by_namespace": name_namespace(one.bank)}


def _name_project(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body with `bank` renamed to `project`, as MCP tools name it."""
    return {"project" if name == "bank" else name: value for name, value in body.items()}


def _list_erasures() -> Iterator[tuple[str, TrialRoute]]:
    """Yield the ways to erase a thing, and to preview its erasure, which needs the same rights."""
    targets: dict[str, Body] = {
        "a unit": lambda t: {"kind": "unit", "bank": t.bank, "unit_id": t.things.unit},
        "a document": lambda t: {"kind": "document", "bank": t.bank, "doc_id": t.things.doc},
        "a directive": lambda t: {"kind": "directive", "bank": t.bank, "directive_id": t.things.directive},
        "a memory": lambda t: {"kind": "memory", "bank": t.bank, "memory_id": MEMORY},
        "a session": lambda t: {"kind": "session", "bank": t.bank, "session_id": SESSION},
        "a user": lambda t: {"kind": "user", "user_id": t.user},
        "a speaker": lambda t: {"kind": "user", "user_id": t.speaker},
        "a bank": lambda t: {"kind": "bank", "bank": t.bank},
    }
    for preview in ("", "/preview"):
        for what, body in targets.items():
            yield _way(
                f"POST /api/v1/erasures{preview} of {what}",
                body=body,
                by_id=what in {"a unit", "a document", "a directive"},
                others=SharedRights.CURATORS_MAY if what == "a directive" else SharedRights.MUST_NOT,
                seldom=True,
            )


def _list_recalls(path: str, **job: Any) -> Iterator[tuple[str, TrialRoute]]:
    """Yield the ways to call a route that takes recalls."""
    yield _way(f"POST {path}", body=lambda t: t.question(**job))
    yield _way(f"POST {path} explained", body=lambda t: t.question(**job, explain=True, session_id=SESSION))
    yield _way(f"POST {path} of a user", body=lambda t: t.question(**job, user_id=t.speaker))
    yield _way(f"POST {path} filtered", body=lambda t: t.question(**job, **FILTERS, metadata={"shelf": t.query}))
    across = {**job, "across_banks": True}
    yield _way(f"POST {path} across banks", body=lambda t: t.question(**across, user_id=t.speaker))
    yield _way(f"POST {path} across a colleague's banks", body=lambda t: t.question(**across, user_id=COLLEAGUE))


def _list_operators_ways() -> Iterator[tuple[str, TrialRoute]]:
    """Yield a way to call each of the operators' routes, which refuse a tenant's key before they read anything."""
    for route in (one for router in OPERATOR_ROUTERS for one in router.routes if isinstance(one, APIRoute)):
        for method in route.methods or ():
            sent = method in {"POST", "PUT"}
            yield _way(
                f"{method} {route.path_format}",
                "" if sent else "?tenant={user}",
                (lambda t: {"tenant": t.user}) if sent else None,
            )


IN_BANK = "?bank={bank}"
PAGE = "?limit=1000&bank={bank}"
FOR_GOOD = "?bank={bank}&erase=true"
NAMED_TURN = "?session_id={session_id}&turn_id={turn_id}&bank={bank}"
_CURATORS, _NOBODY = SharedRights.CURATORS_MAY, SharedRights.MUST_NOT

#: Every public route that needs a key, in all ways to call it; keys are method, path and the way.
ROUTES: dict[str, TrialRoute] = dict(
    [
        _way("POST /api/v1/turns", body=Trial.turn),
        _way("POST /api/v1/turns of a user", body=Trial.users_turn),
        _way("POST /api/v1/turns from a document", body=Trial.papers_turn),
        _way("POST /api/v1/turns/before", body=Trial.before),
        _way("POST /api/v1/turns/before of its session", body=lambda t: {**t.before(), "scope": "session"}),
        _way(
            "POST /api/v1/turns/before of a user",
            body=lambda t: {**_name_project(t.before()), "user_id": t.speaker, "scope": "project"},
        ),
        _way("POST /api/v1/turns/after", body=Trial.after),
        _way("POST /api/v1/turns/after of a user", body=lambda t: {**_name_project(t.after()), "user_id": t.speaker}),
        _way("POST /api/v1/turns:batch", body=lambda t: {"turns": [t.turn()] * 2}),
        _way("POST /api/v1/turns:batch of a user", body=lambda t: {"turns": [t.users_turn()]}),
        _way("GET /api/v1/turns/{session_id}/{turn_id}", IN_BANK),
        _way("GET /api/v1/turns/{session_id}/{turn_id} in pieces", f"{IN_BANK}&{PIECE}"),
        _way("GET /api/v1/turns/{turn}"),
        _way("GET /api/v1/turns", NAMED_TURN),
        _way("GET /api/v1/turns in pieces", f"{NAMED_TURN}&{PIECE}"),
        _way("GET /api/v1/turns of a session", "?session_id={session_id}&bank={bank}"),
        _way("GET /api/v1/sessions", IN_BANK),
        _way("GET /api/v1/sessions/{session_id}", "?messages=100&bank={bank}"),
        _way("GET /api/v1/units", PAGE),
        *(
            _way(f"GET /api/v1/units of origin {one}", f"?origin={one}&limit=1000&bank={{bank}}")
            for one in get_args(UnitOrigin)
        ),
        _way("GET /api/v1/units of a document", "?doc_id={doc_id}&limit=1000&bank={bank}"),
        _way("GET /api/v1/units of a user", "?user_id={speaker}&limit=1000&bank={bank}"),
        _way("GET /api/v1/users", "?limit=1000"),
        *_list_recalls("/api/v1/recall"),
        *_list_recalls("/api/v1/recall/jobs", ttl_s=60),
        _way("GET /api/v1/recall/jobs/{job_id}"),
        _way("DELETE /api/v1/recall/jobs/{job_id}"),
        _way("GET /api/v1/units/{unit_id}", IN_BANK, by_id=True),
        _way(
            "GET /api/v1/units/{unit_id} that is a reflection",
            IN_BANK,
            path="/api/v1/units/{reflection_id}",
            by_id=True,
        ),
        _way("PATCH /api/v1/units/{unit_id}", IN_BANK, lambda _: {"content": CORRECTED}, by_id=True, others=_NOBODY),
        _way(
            "PATCH /api/v1/units/{unit_id} of a version",
            IN_BANK,
            lambda _: {"content": CORRECTED, "version": 2},
            by_id=True,
            others=_NOBODY,
        ),
        _way("PUT /api/v1/units/{unit_id}/pin", IN_BANK, by_id=True, others=_CURATORS),
        _way("DELETE /api/v1/units/{unit_id}/pin", IN_BANK, by_id=True, others=_CURATORS),
        _way("DELETE /api/v1/units/{unit_id}", IN_BANK, by_id=True, others=_NOBODY),
        _way("DELETE /api/v1/units/{unit_id} with facts", f"{IN_BANK}&with_facts=true", by_id=True, others=_NOBODY),
        _way("DELETE /api/v1/units/{unit_id} for good", FOR_GOOD, by_id=True, others=_NOBODY, seldom=True),
        _way("POST /api/v1/commands", body=_build_command, by_id=True, others=_NOBODY),
        _way("POST /portal/command", body=lambda t: {**PORTAL, **_build_command(t)}, by_id=True, others=_NOBODY),
        *_list_erasures(),
        _way("GET /api/v1/erasures/{erasure_id}"),
        _way("GET /api/v1/banks/{bank}/freshness"),
        _way("GET /api/v1/freshness", IN_BANK),
        _way("POST /api/v1/banks", body=lambda t: {"bank": t.bank}),
        _way("POST /api/v1/banks of a user", body=lambda t: {"bank": t.bank, "user_id": t.speaker}),
        _way("POST /api/v1/banks of an agent", body=lambda t: {"bank": t.bank, "agent": "planner"}),
        _way("PATCH /api/v1/banks/{bank}", body=lambda _: {"language": "de"}, others=_NOBODY),
        _way("PATCH /api/v1/banks", IN_BANK, lambda _: {"language": "de"}, others=_NOBODY),
        _way("GET /api/v1/banks", "?limit=1000&runtime=true"),
        _way("GET /api/v1/bank", IN_BANK),
        *(_way(f"GET /api/v1/{path}", PAGE) for path in ("entities", "mentions", "cooccurrences", "links")),
        _way(
            "GET /api/v1/mentions of a unit and an entity",
            "?unit_id={to_unit_id}&entity_id={entity_id}&bank={bank}",
            by_id=True,
        ),
        _way("GET /api/v1/cooccurrences of an entity", "?entity_id={entity_id}&bank={bank}", by_id=True),
        _way("GET /api/v1/neighbourhood of an entity", "?entity_id={entity_id}&bank={bank}", by_id=True),
        _way("GET /api/v1/neighbourhood of a name", "?name={speaker}&bank={bank}"),
        _way("GET /api/v1/links of a unit", "?unit_id={unit_id}&bank={bank}", by_id=True),
        _way("GET /api/v1/entities/{entity_id}", IN_BANK, by_id=True),
        _way("GET /api/v1/links/{from_unit_id}/{to_unit_id}/{link_type}", IN_BANK, by_id=True),
        _way("POST /api/v1/docs", body=lambda t: {"bank": t.bank, "content": SAID}),
        _way("POST /api/v1/docs of a user", body=lambda t: {"bank": t.bank, "content": SAID, "user_id": t.speaker}),
        _way("POST /api/v1/docs of a file", body=lambda t: {"bank": t.bank, "content_hash": "0" * 64}),
        _way("GET /api/v1/docs", IN_BANK),
        _way("GET /api/v1/docs/{doc_id}", IN_BANK, by_id=True),
        _way("DELETE /api/v1/docs/{doc_id}", IN_BANK, by_id=True, others=_NOBODY),
        _way("DELETE /api/v1/docs/{doc_id} for good", FOR_GOOD, by_id=True, others=_NOBODY, seldom=True),
        _way("POST /api/v1/memories", body=lambda t: {"bank": t.bank, "content": SAID}),
        _way("POST /api/v1/memories of a user", body=lambda t: {"bank": t.bank, "content": SAID, "user_id": t.speaker}),
        _way(
            "POST /api/v1/memories over another's",
            body=lambda t: {"bank": t.bank, "id": MEMORY, "content": SAID},
            others=_NOBODY,
        ),
        _way("GET /api/v1/memories/{memory_id}", IN_BANK),
        _way("DELETE /api/v1/memories/{memory_id}", IN_BANK, others=_NOBODY),
        _way("DELETE /api/v1/memories/{memory_id} for good", FOR_GOOD, others=_NOBODY, seldom=True),
        _way(
            "POST /api/v1/directives",
            body=lambda t: {"bank": t.bank, "name": t.directive, "content": "let me in"},
            others=_CURATORS,
        ),
        _way("GET /api/v1/directives", IN_BANK),
        _way("GET /api/v1/directives/{directive_id}", IN_BANK, by_id=True),
        _way("DELETE /api/v1/directives/{directive_id}", IN_BANK, by_id=True, others=_CURATORS),
        _way("DELETE /api/v1/directives/{directive_id} for good", FOR_GOOD, by_id=True, others=_CURATORS, seldom=True),
        _way(
            "POST /api/v1/links",
            body=lambda t: {
                "bank": t.bank,
                "from_unit_id": t.things.unit,
                "to_unit_id": t.things.unit,
                "link_type": "entity",
            },
            by_id=True,
            others=_NOBODY,
        ),
        _way("GET /api/v1/profile of a user", "?user_id={user}&bank={bank}"),
        _way("GET /api/v1/profile of a speaker", "?user_id={speaker}&history=true"),
        _way("GET /api/v1/profile of a name", "?name=Eva+Lund&bank={bank}"),
        _way("GET /api/v1/reflections", IN_BANK),
        _tool("memory_before_turn", lambda t: _name_project(t.before())),
        _tool("memory_after_turn", lambda t: _name_project(t.after())),
        _tool("memory_search", lambda t: {"project": t.bank, "query": t.query}),
        _tool("memory_remember", lambda t: {"project": t.bank, "text": SAID}),
        _tool("memory_forget", lambda t: {"project": t.bank, "id": t.things.unit}, by_id=True, others=_NOBODY),
        _tool(
            "memory_forget a document", lambda t: {"project": t.bank, "id": t.things.doc}, by_id=True, others=_NOBODY
        ),
        _tool("memory_run_maintenance", lambda t: {"project": t.bank, "session_id": SESSION}, seldom=True),
        _tool("memory_list_dir_with_abstract", lambda t: {"project": t.bank, "session_id": SESSION}),
        _way("POST /memories/add", body=_build_message),
        _way("POST /memories/add of a turn", body=lambda t: {**_build_message(t), "afterturn_turn_id": t.things.turn}),
        _way("POST /memories/add of a project", body=lambda t: {**_build_message(t), **PROJECT}),
        _way("POST /memories/flush", body=_build_message),
        _way("POST /memories/flush of a project", body=lambda t: {**_build_message(t), **PROJECT}),
        _way("POST /memories/search", body=_build_search),
        _way("POST /memories/search of a project", body=lambda t: {**_build_search(t), **PROJECT, "scope": EVERYWHERE}),
        *_list_operators_ways(),
        # The memory plugin's, for the namespace beside a bank. No trial writes a foreign id to a caller's own
        # namespace, where it would name another memory.
        _way("PUT /v1/namespaces/{name}", body=lambda _: {"kind": "team"}),
        _way("PATCH /v1/namespaces/{name}", body=lambda _: {"metadata": {"door": "open"}}),
        _way("DELETE /v1/namespaces/{name}"),
        _way("POST /v1/namespaces/{name}/memories", body=lambda t: {**WRITTEN, "id": t.things.memory}),
        _way("POST /v1/search", body=lambda t: {**_name_namespaces(t), "query": t.query}),
        _way("POST /v1/search that lists", body=lambda t: {**_name_namespaces(t), "limit": 100, "export": True}),
        _way(
            "POST /v1/search by a vector", body=lambda t: {**_name_namespaces(t), "embedding": VECTOR, "query": t.query}
        ),
        _way("DELETE /v1/memories/{id}", body=_build_forget, by_id=True),
        _way(
            "DELETE /v1/memories/{id} that is a message", body=_build_forget, path="/v1/memories/{unit_id}", by_id=True
        ),
    ]
)
