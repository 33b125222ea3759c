"""What is besieged: hosts with banks of every scope, something distinctive in each, and keys of every kind."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote
from uuid import UUID

from deploy.walls.transport import Ask, Send
from store import identity
from store.keys import Keys
from store.scopes import Space

HOSTS = 3
SESSION, TURN = "monday", "1"
#: Who speaks in every bank but the gateway's, beside the one user of each, and in which turn.
COLLEAGUE, COLLEAGUES_TURN = "ida", "2"
#: How long the owners' recall jobs are kept: longer than any siege.
TTL_S = 86_400


@dataclass(slots=True)
class Place:
    """A bank with something in it that nobody else may see."""

    host: int
    bank: str
    """Its whole name."""
    twin: str
    """A name of the same form that names nothing."""
    user: str | None = None
    """The user of the gateway's door whose bank it is."""
    speaker: str = field(default_factory=lambda: f"eva-{secrets.token_hex(4)}")
    """Who says what is distinctive, here and nowhere else."""
    stranger: str = field(default_factory=lambda: f"eva-{secrets.token_hex(4)}")
    """A name of the same form that nobody has."""
    texts: int = 1
    """How many hold the mark."""
    mark: str = field(default_factory=lambda: "zq" + secrets.token_hex(10))
    unit: str = ""
    job: str = ""
    erasure: str = ""


@dataclass(frozen=True, slots=True)
class Caller:
    """A key and the banks its holder may see, by their whole names."""

    host: int
    token: str = field(repr=False)
    space: Space = field(default_factory=Space)
    reach: frozenset[str] = frozenset()
    gateway_user: str | None = None


@dataclass(frozen=True, slots=True)
class World:
    """All of it."""

    names: Sequence[str]
    places: Sequence[Place]
    callers: Sequence[Caller]

    @property
    def host_ids(self) -> list[UUID]:
        """The ids of the hosts that were made."""
        return [identity.host_id(name) for name in self.names]

    def foreign_to(self, caller: Caller) -> list[Place]:
        """Return the places a caller must not see."""
        return [place for place in self.places if place.host != caller.host or place.bank not in caller.reach]


class Unfit(Exception):
    """The world could not be made: what its owners wrote is not there for them."""


def named(prefix: str) -> list[str]:
    """Return names for the hosts of one siege."""
    run = secrets.token_hex(6)
    return [f"{prefix}-{run}-{n}" for n in range(HOSTS)]


async def build(names: Sequence[str], keys: Keys, send: Send) -> World:
    """Make the hosts of these names and everything in them. Raises Unfit."""
    places: list[Place] = []
    callers: list[Caller] = []
    for host, name in enumerate(names):
        ours = _places(host)
        made = await _callers(host, name, ours, keys)
        owner = made[0]
        for place in ours:
            await _fill(place, owner, made, send)
        places += ours
        callers += made
    return World(names, places, callers)


def _places(host: int) -> list[Place]:
    def place(prefix: str, kind: str) -> Place:
        return Place(host, f"{prefix}{kind}-{secrets.token_hex(4)}", f"{prefix}{kind}-{secrets.token_hex(4)}")

    user, twin = f"eva-{secrets.token_hex(4)}", f"eva-{secrets.token_hex(4)}"
    door = "gateway:default:default:"
    return [
        place("", "team"),
        place("", "office"),
        place("@planner/", "plans"),
        place("~ana/", "notes"),
        place("~bob/", "notes"),
        place("~ana@planner/", "steps"),
        Place(host, door + user, door + twin, user, user, twin),
    ]


async def _callers(host: int, name: str, places: Sequence[Place], keys: Keys) -> list[Caller]:
    team, office, plans, ana, bob, steps, door = (place.bank for place in places)
    shared = {team, office}

    async def caller(reach: set[str], **rights: Any) -> Caller:
        token = await keys.create(name, "siege", **rights)
        space = Space(rights.get("user"), rights.get("agent"))
        return Caller(host, token, space, frozenset(reach), rights.get("gateway_user"))

    return [
        await caller({place.bank for place in places}),
        await caller({place.bank for place in places}, write=False),
        await caller({team}, banks=[team]),
        await caller(set(), banks=[]),
        await caller(shared | {plans, ana, steps}, user="ana"),
        await caller(shared | {plans, bob}, user="bob"),
        await caller({ana}, user="ana", banks=[ana.removeprefix("~ana/")]),
        await caller(shared | {plans, ana, bob, steps, door}, agent="planner"),
        await caller(shared | {ana, bob, door}, agent="cook"),
        await caller(shared | {ana}, user="ana", agent="cook"),
        await caller({door}, gateway_user=places[-1].user),
    ]


async def _fill(place: Place, owner: Caller, callers: Sequence[Caller], send: Send) -> None:
    """Write what is distinctive, ask a job about it, and see that all who may see it do."""
    said = f"the box marked {place.mark} stands in the hall"
    if place.user:
        key = next(caller.token for caller in callers if caller.gateway_user == place.user)
        body = _added(place.user, key, said)
        await _done(await send(Ask("POST", "/memories/add", body), ""), 200)
    else:
        moved = f"who moved {place.mark} up to the attic"
        for turn, user, words in ((TURN, place.speaker, said), (COLLEAGUES_TURN, COLLEAGUE, moved)):
            where = {"bank": place.bank, "session_id": SESSION, "turn_id": turn, "user_id": user}
            body = {**where, "messages": [{"role": "user", "content": words}]}
            await _done(await send(Ask("POST", "/api/v1/turns", body), owner.token), 201)
        place.texts = 2
    await _erase_something(place, owner.token, send)
    query = {"bank": place.bank, "query": place.mark}
    for caller in callers:
        if place.bank in caller.reach and caller.gateway_user is None:
            found = await _done(await send(Ask("POST", "/api/v1/recall", query), caller.token), 200)
            units = [one["unit_id"] for one in found["results"] if place.mark in one["text"]]
            if not units:
                raise Unfit("somebody does not see what they may see")
            place.unit = units[0]
    job = await _done(await send(Ask("POST", "/api/v1/recall/jobs", {**query, "ttl_s": TTL_S}), owner.token), 202)
    place.job = job["job_id"]
    await _done(await send(Ask("GET", f"/api/v1/units/{place.unit}?bank={quote(place.bank)}"), owner.token), 200)


async def _erase_something(place: Place, token: str, send: Send) -> None:
    """Leave a receipt that only owners may read."""
    session = {"bank": place.bank, "session_id": "tuesday"}
    turn = {**session, "turn_id": TURN, "messages": [{"role": "user", "content": "a draft of a speech"}]}
    await _done(await send(Ask("POST", "/api/v1/turns", turn), token), 201)
    reply = await send(Ask("POST", "/api/v1/erasures", {**session, "kind": "session"}), token)
    place.erasure = (await _done(reply, 200))["erasure_id"]
    await _done(await send(Ask("GET", f"/api/v1/erasures/{place.erasure}"), token), 200)


def _added(user: str, key: str, said: str) -> dict[str, Any]:
    message = {"sender_id": user, "role": "user", "timestamp": 1_772_366_400_000, "content": said}
    return {"user_id": user, "user_key": key, "session_id": "chat:1", "messages": [message]}


async def damage(world: World, send: Send) -> int:
    """Return in how many places something was taken away or added."""
    owners = {n: next(caller for caller in world.callers if caller.host == n) for n in range(len(world.names))}
    found = [await _is_whole(place, owners[place.host].token, send) for place in world.places]
    return found.count(False)


async def _is_whole(place: Place, token: str, send: Send) -> bool:
    for path in (f"/api/v1/units/{place.unit}?bank={quote(place.bank)}", f"/api/v1/recall/jobs/{place.job}"):
        if (await send(Ask("GET", path), token)).status != 200:  # noqa: PLR2004 - OK
            return False
    query = {"bank": place.bank, "query": f"somebody was at the door {place.mark}"}
    found = await _done(await send(Ask("POST", "/api/v1/recall", query), token), 200)
    texts = [one["text"] for one in found["results"]]
    return len(texts) == place.texts and all(place.mark in text for text in texts)


async def _done(reply: Any, status: int) -> Any:
    if reply.status != status:
        raise Unfit(f"the owner's own call was answered with {reply.status}")
    return reply.json()
