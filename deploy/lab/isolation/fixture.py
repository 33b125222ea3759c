"""Creates the test data of the isolation check: tenants, banks of every scope, objects of every kind, keys.

Each bank holds turns, a document, a memory, a directive, a link, a recall job and the receipt of an erasure; the stages
add facts, entities, a reflection and a user's profile. Beside each bank there is a namespace of the memory plugin with
a memory and a vector. All content contains the bank's mark, which occurs nowhere else.
"""

import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from urllib.parse import quote
from uuid import UUID

from deploy.lab.isolation.transport import Send, TrialReply, TrialRequest, call_tool, send_until_answered
from store import identity
from store.tenancy.keys import Keys
from store.tenancy.spaces import Space

TENANTS = 3
SESSION, TURN = "monday", "1"
#: The tag of every turn.
TAG = "box"
#: A second user who speaks in every bank except the gateway's, and the turn in which that user speaks.
COLLEAGUE, COLLEAGUES_TURN = "ida", "2"
#: Turns that state the same fact, so that extraction makes a fact, and a reflection because it was stated twice.
STATED = ("liked-1", "liked-2")
NAME = "Eva Lund"
#: Name of every bank's directive; callers may create one of this name in their own banks.
DIRECTIVE = "on boxes"
#: Id of every bank's memory; callers may write one with this id in their own banks.
MEMORY = "box"
#: The vector of every memory of the plugin.
VECTOR = (0.6, 0.8)
#: Lifetime of the recall jobs, in seconds: longer than any check.
TTL_S = 86_400


@dataclass(frozen=True, slots=True)
class SeededIds:
    """The ids of one object of each kind in a bank."""

    unit: str = ""
    other: str = ""
    """Of the unit that the first one links to."""
    entity: str = ""
    doc: str = ""
    directive: str = ""
    reflection: str = ""
    job: str = ""
    erasure: str = ""
    memory: str = ""
    """Of the namespace beside the bank."""
    turn: str = ""
    bank: str = ""

    @classmethod
    def absent(cls, random: Random) -> "SeededIds":
        """Return ids of the same forms that do not exist."""
        versions = {
            "unit": 5,
            "other": 5,
            "entity": 5,
            "doc": 5,
            "directive": 5,
            "reflection": 5,
            "job": 4,
            "erasure": 4,
            "memory": 4,
            "turn": 5,
            "bank": 5,
        }
        return cls(**{name: str(UUID(int=random.getrandbits(128), version=of)) for name, of in versions.items()})


@dataclass(slots=True)
class SeededBank:
    """A bank of a tenant with objects of every kind."""

    tenant: int
    bank: str
    """Its whole name."""
    twin: str
    """A name of the same form that names nothing."""
    owner: Space = field(default_factory=Space)
    """Its owner; None: shared by all users and agents of the tenant."""
    user: str | None = None
    """The user of the gateway whose bank it is."""
    speaker: str = field(default_factory=lambda: f"eva-{secrets.token_hex(4)}")
    """The user who says what is distinctive, here and nowhere else."""
    stranger: str = field(default_factory=lambda: f"eva-{secrets.token_hex(4)}")
    """A name of the same form that names no user."""
    mark: str = field(default_factory=lambda: "zq" + secrets.token_hex(10))
    things: SeededIds = field(default_factory=SeededIds)


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """A key, its rights, and the full names of the banks that it may read."""

    tenant: int
    token: str = field(repr=False)
    space: Space = field(default_factory=Space)
    reach: frozenset[str] = frozenset()
    gateway_user: str | None = None
    curate: bool = False

    def owns(self, place: SeededBank) -> bool:
        """Return whether a bank belongs to the caller, who may change everything in it."""
        if self.space.user is None:
            return place.owner.user is None and place.owner.agent == self.space.agent
        own = place.owner.user == self.space.user
        return own and (self.space.agent is None or place.owner.agent in (None, self.space.agent))


@dataclass(frozen=True, slots=True)
class IsolationFixture:
    """The whole test data: tenants' names, banks and callers."""

    names: Sequence[str]
    places: Sequence[SeededBank]
    callers: Sequence[KeyHolder]

    @property
    def host_ids(self) -> list[UUID]:
        """The ids of the tenants."""
        return [identity.host_id(name) for name in self.names]

    def bank_ids_of(self, place: SeededBank) -> tuple[UUID, UUID]:
        """Return the ids of a bank and of the namespace beside it."""
        host = self.host_ids[place.tenant]
        return identity.bank_id(host, place.bank), identity.bank_id(host, name_namespace(place.bank))

    @property
    def bank_ids(self) -> list[UUID]:
        """The ids of all banks and namespaces."""
        return [bank for place in self.places for bank in self.bank_ids_of(place)]

    def foreign_to(self, caller: KeyHolder) -> list[SeededBank]:
        """Return the banks that a caller must not see."""
        return [place for place in self.places if place.tenant != caller.tenant or place.bank not in caller.reach]

    def shared_with(self, caller: KeyHolder) -> list[SeededBank]:
        """Return the banks that a user or an agent may read, and in which only others wrote."""
        if caller.space == Space() or caller.gateway_user is not None:
            return []
        seen = [place for place in self.places if place.tenant == caller.tenant and place.bank in caller.reach]
        return [place for place in seen if not caller.owns(place)]

    def owner_of(self, place: SeededBank) -> KeyHolder:
        """Return the holder of the unrestricted key of a bank's tenant."""
        return next(caller for caller in self.callers if caller.tenant == place.tenant)


class FixtureIncomplete(Exception):
    """The test data could not be created: its owners do not see all that they wrote."""


#: Waits until the stages have processed everything in the banks.
Settle = Callable[[IsolationFixture], Awaitable[None]]


def make_tenant_names(prefix: str) -> list[str]:
    """Return unique names for the tenants of a check."""
    run = secrets.token_hex(6)
    return [f"{prefix}-{run}-{n}" for n in range(TENANTS)]


async def build_fixture(names: Sequence[str], keys: Keys, send: Send, settle: Settle) -> IsolationFixture:
    """Create the tenants of these names with all their content. Raises FixtureIncomplete."""
    places: list[SeededBank] = []
    callers: list[KeyHolder] = []
    for tenant, name in enumerate(names):
        ours = _plan_banks(tenant)
        places += ours
        callers += await _create_callers(tenant, name, ours, keys)
    fixture = IsolationFixture(names, places, callers)
    for place in places:
        await _fill_bank(place, fixture, send)
    await settle(fixture)
    for place in places:
        await _complete_bank(place, fixture.owner_of(place).token, send)
        await _check_visibility(place, fixture, send)
    return fixture


def _plan_banks(tenant: int) -> list[SeededBank]:
    def place(prefix: str, kind: str, owner: Space) -> SeededBank:
        name, twin = (f"{prefix}{kind}-{secrets.token_hex(4)}" for _ in range(2))
        return SeededBank(tenant, name, twin, owner)

    user, twin = f"eva-{secrets.token_hex(4)}", f"eva-{secrets.token_hex(4)}"
    gateway = "gateway:default:default:"
    return [
        place("", "team", Space()),
        place("", "office", Space()),
        place("@planner/", "plans", Space(agent="planner")),
        place("~ana/", "notes", Space("ana")),
        place("~bob/", "notes", Space("bob")),
        place("~ana@planner/", "steps", Space("ana", "planner")),
        SeededBank(tenant, gateway + user, gateway + twin, Space(), user, user, twin),
    ]


async def _create_callers(tenant: int, name: str, places: Sequence[SeededBank], keys: Keys) -> list[KeyHolder]:
    team, office, plans, ana, bob, steps, gateway = (place.bank for place in places)
    shared = {team, office}

    async def caller(reach: set[str], **rights: Any) -> KeyHolder:
        token = await keys.create(name, "isolation check", **rights)
        space = Space(rights.get("user"), rights.get("agent"))
        return KeyHolder(
            tenant, token, space, frozenset(reach), rights.get("gateway_user"), rights.get("curate", False)
        )

    return [
        await caller({place.bank for place in places}),
        await caller({place.bank for place in places}, write=False),
        await caller({team}, banks=[team]),
        await caller(set(), banks=[]),
        await caller(shared | {ana, steps}, user="ana"),
        await caller(shared | {bob}, user="bob"),
        await caller(shared, user="carla"),
        await caller(shared, user="dora", curate=True),
        await caller({ana}, user="ana", banks=[ana.removeprefix("~ana/")]),
        await caller(shared | {plans}, agent="planner"),
        await caller(shared, agent="cook"),
        await caller({team, bob}, agent="cook", banks=[team, bob]),
        await caller(shared | {ana}, user="ana", agent="cook"),
        await caller(shared | {plans, bob}, user="bob", agent="planner"),
        await caller({gateway}, gateway_user=places[-1].user),
    ]


async def _fill_bank(place: SeededBank, fixture: IsolationFixture, send: Send) -> None:
    """Write a bank's marked content, except what the stages derive from it."""
    owner = fixture.owner_of(place).token
    if place.user:
        key = next(caller.token for caller in fixture.callers if caller.gateway_user == place.user)
        for said in (f"the box marked {place.mark} stands in the hall", *_make_statements(place)):
            await _require_status(
                await send(TrialRequest("POST", "/memories/add", _build_message(place.user, key, said)), ""), 200
            )
    else:
        for turn in _make_turns(place):
            await _require_status(await send(TrialRequest("POST", "/api/v1/turns", turn), owner), 201)
    await _erase_draft(place, owner, send)
    bank, mark = {"bank": place.bank}, place.mark
    paper = {**bank, "content": f"The paper on {mark} is in the cellar.", "title": mark, "metadata": {"shelf": mark}}
    doc = await _require_status(await send(TrialRequest("POST", "/api/v1/docs", paper), owner), 201)
    memory = {**bank, "id": MEMORY, "content": f"The key of {mark} hangs behind the door.", "title": mark}
    await _require_status(await send(TrialRequest("POST", "/api/v1/memories", memory), owner), 201)
    rule = {**bank, "name": DIRECTIVE, "content": f"Do not open {mark}."}
    directive = await _require_status(await send(TrialRequest("POST", "/api/v1/directives", rule), owner), 201)
    asked = {**bank, "query": mark, "ttl_s": TTL_S}
    job = await _require_status(await send(TrialRequest("POST", "/api/v1/recall/jobs", asked), owner), 202)
    place.things = SeededIds(
        doc=doc["doc_id"],
        directive=directive["directive_id"],
        job=job["job_id"],
        erasure=place.things.erasure,
        memory=await _fill_namespace(place, owner, send),
        bank=str(fixture.bank_ids_of(place)[0]),
        turn=str(identity.turn_id(identity.session_id(fixture.bank_ids_of(place)[0], SESSION), TURN)),
    )


async def _fill_namespace(place: SeededBank, owner: str, send: Send) -> str:
    """Create the namespace beside a bank and write a memory there; return the memory's id."""
    path, mark = f"/v1/namespaces/{name_namespace(place.bank)}", place.mark
    made = TrialRequest("PUT", path, {"kind": "custom", "metadata": {"shelf": mark}})
    await _require_status(await send(made, owner), 200)
    content = {"content": f"The lamp of {mark} stands on the shelf.", "propagation": {"shelf": mark}}
    body = {**content, "kind": "fact", "source": "agent", "embedding": VECTOR}
    written = await _require_status(await send(TrialRequest("POST", f"{path}/memories", body), owner), 201)
    return str(written["id"])


def name_namespace(bank: str) -> str:
    """Return the name of the namespace beside a bank."""
    return "custom:" + re.sub(r"[^A-Za-z0-9_.\-]", ".", bank)


def _make_turns(place: SeededBank) -> list[dict[str, Any]]:
    """Return the turns of a bank: two about a box, and two that state a fact."""
    said = {
        TURN: (place.speaker, f"the box marked {place.mark} stands in the hall"),
        COLLEAGUES_TURN: (COLLEAGUE, f"who moved {place.mark} from Porto up to the attic of Boris Novak"),
        **dict(zip(STATED, ((place.speaker, words) for words in _make_statements(place)), strict=True)),
    }
    where = {"bank": place.bank, "session_id": SESSION, "tags": [TAG], "metadata": {"shelf": place.mark}}
    return [
        {**where, "turn_id": turn, "user_id": user, "messages": [{"role": "user", "name": NAME, "content": words}]}
        for turn, (user, words) in said.items()
    ]


def _make_statements(place: SeededBank) -> tuple[str, str]:
    return f"I like {place.mark}.", f"As I said: I like {place.mark}."


async def _erase_draft(place: SeededBank, token: str, send: Send) -> None:
    """Erase a session, so that there is a receipt that only owners may read."""
    session = {"bank": place.bank, "session_id": "tuesday"}
    turn = {**session, "turn_id": TURN, "messages": [{"role": "user", "content": "a draft of a speech"}]}
    await _require_status(await send(TrialRequest("POST", "/api/v1/turns", turn), token), 201)
    reply = await send(TrialRequest("POST", "/api/v1/erasures", {**session, "kind": "session"}), token)
    place.things = SeededIds(erasure=(await _require_status(reply, 200))["erasure_id"])


def _build_message(user: str, key: str, said: str) -> dict[str, Any]:
    message = {"sender_id": user, "role": "user", "timestamp": 1_772_366_400_000, "content": said}
    return {"user_id": user, "user_key": key, "session_id": "chat:1", "messages": [message]}


async def _complete_bank(place: SeededBank, token: str, send: Send) -> None:
    """Record derived ids, link two units, and check that the owner can read everything. Raises FixtureIncomplete."""
    known = await _recall_marked_units(place, token, send)
    if len(known) < 2:  # noqa: PLR2004 - the ends of a link
        raise FixtureIncomplete("the owner recalls too little of what was written")
    listed = await _require_status(
        await send(TrialRequest("GET", f"/api/v1/reflections?bank={quote(place.bank)}"), token), 200
    )
    reflections = [one["reflection_id"] for one in listed["reflections"] if place.mark in one["content"]]
    if not reflections:
        raise FixtureIncomplete("what was stated twice led to no reflection")
    ends = {"from_unit_id": known[0], "to_unit_id": known[1], "link_type": "causes"}
    await _require_status(await send(TrialRequest("POST", "/api/v1/links", {"bank": place.bank, **ends}), token), 201)
    path = f"/api/v1/mentions?unit_id={known[1]}&bank={quote(place.bank)}"
    mentions = (await _require_status(await send(TrialRequest("GET", path), token), 200))["mentions"]
    if not mentions:
        raise FixtureIncomplete("no entity was found in what was written")
    # The session's digest, which abstracts are told from.
    digested = call_tool("memory_run_maintenance", project=place.bank, session_id=SESSION)
    if (await send(digested, token)).refused:
        raise FixtureIncomplete("the session's maintenance failed")
    old = place.things
    place.things = replace(
        old, unit=known[0], other=known[1], entity=mentions[0]["entity_id"], reflection=reflections[0]
    )
    if not await is_readable(place, token, send):
        raise FixtureIncomplete("the owner does not read what was written")


async def is_readable(place: SeededBank, token: str, send: Send) -> bool:
    """Return whether a bank's owner can read each object in it, and the content of the namespace beside it."""
    replies = [await send_until_answered(send, TrialRequest("GET", path), token) for path in _list_owner_paths(place)]
    listing = {"namespaces": [name_namespace(place.bank)], "export": True}
    listed = await send_until_answered(send, TrialRequest("POST", "/v1/search", listing), token)
    # The mark occurs in the memory's content, its propagation data, and the namespace's metadata.
    whole = listed.status == 200 and listed.body.count(place.mark.encode()) == 3  # noqa: PLR2004 - these
    return whole and all(reply.status == 200 for reply in replies)  # noqa: PLR2004 - OK


def _list_owner_paths(place: SeededBank) -> list[str]:
    bank, things = quote(place.bank), place.things
    return [
        f"/api/v1/units/{things.unit}?bank={bank}",
        f"/api/v1/units/{things.reflection}?bank={bank}",
        f"/api/v1/entities/{things.entity}?bank={bank}",
        f"/api/v1/links/{things.unit}/{things.other}/causes?bank={bank}",
        f"/api/v1/directives/{things.directive}?bank={bank}",
        f"/api/v1/docs/{things.doc}?bank={bank}",
        f"/api/v1/memories/{MEMORY}?bank={bank}",
        f"/api/v1/recall/jobs/{things.job}",
        f"/api/v1/erasures/{things.erasure}",
    ]


async def _check_visibility(place: SeededBank, fixture: IsolationFixture, send: Send) -> None:
    """Check that callers with access do see a bank's content; otherwise the trials would prove nothing."""
    bank = quote(place.bank)
    for caller in fixture.callers:
        if caller.tenant != place.tenant or place.bank not in caller.reach or caller.gateway_user is not None:
            continue
        if not await _recall_marked_units(place, caller.token, send):
            raise FixtureIncomplete("a key does not see what it may see")
        reply = await send(TrialRequest("GET", f"/api/v1/directives?bank={bank}"), caller.token)
        if place.mark.encode() not in reply.body:
            raise FixtureIncomplete("a key does not see a directive that it may see")
    owner = fixture.owner_of(place).token
    known = await send(TrialRequest("GET", f"/api/v1/profile?user_id={quote(place.speaker)}"), owner)
    if place.mark.encode() not in known.body:
        raise FixtureIncomplete("the owner does not see what is known of a user")


async def _recall_marked_units(place: SeededBank, token: str, send: Send) -> list[str]:
    """Return the ids of a bank's message units that contain its mark."""
    query = {"bank": place.bank, "query": place.mark, "kinds": ["experience"]}
    found = await _require_status(await send(TrialRequest("POST", "/api/v1/recall", query), token), 200)
    return [one["unit_id"] for one in found["results"] if place.mark in one["text"]]


async def _require_status(reply: TrialReply, status: int) -> Any:
    if reply.status != status:
        raise FixtureIncomplete(f"the owner's own call was answered with {reply.status}")
    return reply.json()
