"""Commands of a portal on memory: one operation, with an entry in `ACTIONS` for each action.

A bank is named by an id. It is the id of a bank that the credential reaches, else the name of one: the id that a
platform chose is the name of the bank that `createAgentMemoryBank` makes, and the log's own id follows from that name
as every bank's does. A session is named in the same way. Every answer gives the ids that the log has.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, Literal
from uuid import UUID, uuid4

from pydantic import ConfigDict, Field

from producers.errors import FieldProblem, Invalid, PermissionDenied
from producers.service.authorisation import Action, require_write
from producers.service.banks import describe_keeper, require_bank, resolve_speaker
from producers.service.bodies import parse_body
from producers.service.dependencies import ServiceDependencies
from producers.service.fields import Name
from producers.service.knowledge import Knowledge
from producers.service.redacting import Redactor
from producers.service.single_memories import MemoryBody
from producers.service.turns import limit_metadata, limit_text
from producers.service.units import UnitCalls
from producers.service.wire import RequestModel, WireModel
from producers.settings import ApiSettings
from producers.turns.items import measure_value
from store import identity
from store.errors import ConcurrencyError, NotFound, TurnBusy
from store.ledger.stages import READY_AT_ONCE, Stage
from store.log.catalog import EVENTS, ID_FIELDS, Aggregate, EventType
from store.memory.commanded import Command
from store.memory.corrections import PINNED
from store.memory.memories import NewMemory, id_of_text
from store.off_loop import run_off_loop
from store.tenancy.banks import RUNTIME
from store.tenancy.keys import Grant
from store.tenancy.recent_answers import RecentAnswers
from store.tenancy.spaces import Space

#: The wire form's constants.
HOST, SERVICE, VERSION = "lightapi.net", "genai", "0.1.0"
#: Fields that name the place and the version of a change, not its content.
_PLACE = frozenset({"hostId", "bankId", "aggregateVersion", "newAggregateVersion"})
#: Bytes that quotas are charged for a link or an entity beside its texts.
_ROW_BYTES = 128
#: The most messages that a command may bring.
MOST_MESSAGES = 1000
#: The version of every UUID that the log derives from a name.
_DERIVED = 5
#: Seconds for which a process caches the name of a bank's id, and the most names: without the cache a new unit costs
#: 1.5 times a single memory.
NAMES_BELIEVED_S, MOST_NAMES = 5.0, 10_000


class CommandBody(RequestModel):
    """A command."""

    action: Annotated[str, Field(max_length=128)] = Field(description="name of the action, as `retainAgentMemoryUnit`")
    data: dict[str, Any] = Field(repr=False, description="fields of the action; `bankId` names the bank")
    idempotency_key: Name | None = Field(
        None, max_length=128, description="the same key of the same caller is one command; the header goes before it"
    )


class PortalCommandBody(RequestModel):
    """A command in the portal's wire form."""

    host: Literal["lightapi.net"] = Field(description="`lightapi.net`")
    service: Literal["genai"] = Field(description="`genai`")
    action: Annotated[str, Field(max_length=128)] = Field(description="name of the action")
    version: Literal["0.1.0"] = Field(description="`0.1.0`")
    data: dict[str, Any] = Field(repr=False, description="fields of the action; `bankId` names the bank")


class PortalResult(WireModel):
    """The result of a command: ids of the log by the action's field names, and the new version where it has one."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, str | int | bool]

    bank_id: UUID = Field(alias="bankId", description="id of the bank in the log")


@dataclass(frozen=True, slots=True)
class CommandCall:
    """One call: the grant of the caller's credential, the action, its fields, and the key of idempotency."""

    grant: Grant
    action: str
    data: Mapping[str, Any] = field(repr=False)
    key: str | None = field(default=None, repr=False)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields that hold the change."""
        return {name: value for name, value in self.data.items() if name not in _PLACE}

    @property
    def expected(self) -> int | None:
        """The version that the caller saw, if it says one. Raises Invalid."""
        seen, after = self.data.get("aggregateVersion"), self.data.get("newAggregateVersion")
        if seen is not None and (not isinstance(seen, int) or isinstance(seen, bool) or not 0 <= seen < 2**62):
            raise _refuse("aggregateVersion", "must be a version")
        if after is not None and (seen is None or after != seen + 1):
            raise _refuse("newAggregateVersion", "must be aggregateVersion + 1")
        return seen

    def derive_id(self, bank: UUID, what: str) -> UUID | None:
        """Return an id that follows from the key, for the caller's user and agent; None without a key."""
        holder = Space(self.grant.user, self.grant.agent).prefix
        said = f"{holder}:{self.action}:{what}:{self.key}"
        return None if self.key is None else identity.named_id(bank, identity.NamedKind.COMMAND, said)

    def uuid(self, name: str) -> UUID:
        """Return the UUID in a field. Raises Invalid."""
        return _parse_uuid(name, self.data.get(name))


Result = dict[str, Any]
Handler = Callable[["Commands", CommandCall], Awaitable[Result]]


@dataclass(frozen=True, slots=True)
class ServiceAction:
    """An action that is a call of the service: its handler, and the fields that it takes.

    `begins`: the aggregate that it makes, if it makes one: the version that the caller saw of it can only be 0.
    """

    handler: Handler
    takes: frozenset[str] = frozenset()
    begins: Aggregate | None = None

    async def __call__(self, commands: "Commands", call: CommandCall) -> Result:
        """Do it. Raises ConcurrencyError, and the errors of the handler."""
        if self.begins is not None and call.expected:
            raise ConcurrencyError(self.begins.value, call.expected, 0)
        return await self.handler(commands, call)


@dataclass(frozen=True, slots=True)
class EventAction:
    """An action that is one event of the log: its type, what it needs, and the fields that name units that must live.

    `id_field`: the id of the new thing, which may be left out. `texts`: fields without secrets, which are not blank.
    `others`: its fields beside those and the ids of its aggregate.
    """

    event: EventType
    requires: Action | None
    units: tuple[str, ...] = ()
    id_field: str | None = None
    texts: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """The fields that hold the id of its aggregate."""
        return ID_FIELDS[EVENTS[self.event].aggregate]

    @property
    def takes(self) -> frozenset[str]:
        """The fields that it takes."""
        return frozenset(self.ids + self.texts + self.others)

    async def __call__(self, commands: "Commands", call: CommandCall) -> Result:
        """Do it. Raises Invalid, NotFound, PermissionDenied, QuotaExceeded, and the errors of `apply_command`."""
        return await commands.append(call, self)


class Commands:
    """Does the commands of a portal."""

    def __init__(
        self, dependencies: ServiceDependencies, settings: ApiSettings, knowledge: Knowledge, units: UnitCalls
    ) -> None:
        """Keep the dependencies, and the parts of the facade that actions share with the API."""
        self._dependencies = dependencies
        self._settings = settings
        self.knowledge = knowledge
        self.units = units
        self._names = RecentAnswers(self._read_name, NAMES_BELIEVED_S, MOST_NAMES)

    async def run(self, grant: Grant, asked: Any, key: str | None = None) -> tuple[str, Result]:
        """Do a command; return its action and result. `key`: the one of the header, which precedes the body's.

        Raises Invalid, TooLarge, PermissionDenied, NotFound, ConcurrencyError, KeyReused, BankInUse, QuotaExceeded.
        """
        body = parse_body(CommandBody, asked)
        return body.action, await self._run(CommandCall(grant, body.action, body.data, key or body.idempotency_key))

    async def run_portal(self, grant: Grant, asked: Any, key: str | None = None) -> Result:
        """Do a command in the portal's wire form; return its result. Raises as `run` does."""
        body = parse_body(PortalCommandBody, asked)
        return await self._run(CommandCall(grant, body.action, body.data, key))

    async def _run(self, call: CommandCall) -> Result:
        require_write(call.grant)
        if (action := ACTIONS.get(call.action)) is None:
            known = NOT_OFFERED.get(call.action, f"is no action; there are: {', '.join(sorted(ACTIONS))}")
            raise _refuse("action", known)
        if call.key is not None and not 0 < len(call.key) <= 128:  # noqa: PLR2004 - as the portal's table holds it
            raise _refuse("idempotency_key", "must have 1 to 128 characters")
        self._check_host(call)
        if unknown := call.fields.keys() - action.takes:
            known = ", ".join(sorted(action.takes)) or "nothing beside bankId"
            raise Invalid(
                *(FieldProblem(name, f"is not taken; {call.action} takes {known}") for name in sorted(unknown))
            )
        return await action(self, call)

    def _check_host(self, call: CommandCall) -> None:
        """Raise PermissionDenied where the data names another tenant than the credential's."""
        told = call.data.get("hostId")
        if told is not None and str(told) not in (str(call.grant.host_id), call.grant.platform_host):
            raise PermissionDenied("hostId is not the host of this credential")

    async def reach(self, call: CommandCall) -> str:
        """Return the whole name of the bank that the call names. Raises Invalid, PermissionDenied."""
        told, grant = call.uuid("bankId"), call.grant
        known = await self._names.get((grant.host_id, grant.space, told)) if told.version == _DERIVED else None
        if known is None:
            return await self._dependencies.reach(grant, str(told))
        # An own bank of the same name is another bank: the id says which.
        require_bank(grant, known)
        return known

    async def _read_name(self, place: tuple[UUID, Space, UUID]) -> str | None:
        return await self._dependencies.banks.name_of(*place)

    async def append(self, call: CommandCall, action: EventAction) -> Result:
        """Append the event of an action, projected."""
        bank, grant = await self.reach(call), call.grant
        bank_id, fields = identity.bank_id(grant.host_id, bank), call.fields
        if action.id_field and fields.get(action.id_field) is None:
            fields[action.id_field] = str(call.derive_id(bank_id, "id") or uuid4())
        fields |= {name: str(call.uuid(name)) for name in action.ids if name != action.id_field and name.endswith("Id")}
        if action.id_field:
            fields[action.id_field] = str(_parse_uuid(action.id_field, fields[action.id_field]))
        if "sessionId" in fields:
            told = fields["sessionId"]
            fields["sessionId"] = str(await self.find_session(grant.host_id, bank_id, UUID(told)))
            if action.event is EventType.SESSION_CREATED:
                fields = {"sessionName": told, **fields}
        units = [call.uuid(name) for name in action.units]
        if action.requires is not None:
            await self._dependencies.authorisation.require(grant, action.requires, bank, units=units)
        fields, size = await self._prepare(grant, fields, action)
        command = Command(action.event, fields, call.expected, call.derive_id(bank_id, "event"), units=units, size=size)
        done = await self._dependencies.curation.apply(grant.host_id, bank_id, command, grant.user)
        self._dependencies.notifier.notify(Stage.PROJECTION)
        ids = {name: value for name, value in fields.items() if name.endswith("Id") and isinstance(value, str)}
        return {"bankId": str(bank_id), **ids, "aggregateVersion": done.version, "position": done.position}

    async def _prepare(self, grant: Grant, fields: dict[str, Any], action: EventAction) -> tuple[dict[str, Any], int]:
        """Return the fields without secrets, and their bytes. Raises TooLarge, Invalid."""
        redactor, size = Redactor.of(self._settings, grant), _ROW_BYTES if action.texts or action.units else 0
        told = dict(fields)
        for name in action.texts:
            value = told.get(name)
            if isinstance(value, str):
                if not value.strip():
                    raise _refuse(name, "must not be blank")
                limit_text(name, len(value.encode(errors="replace")), self._settings)
                told[name] = await run_off_loop(len(value), redactor.redact_text, value)
                size += len(told[name].encode(errors="replace"))
        if "messages" in told:
            messages = self._check_messages(told["messages"])
            told["messages"] = await run_off_loop(measure_value(messages), redactor.redact_value, messages)
            size += sum(len(str(one.get("content", "")).encode(errors="replace")) for one in told["messages"])
        if action.event in (EventType.DIRECTIVE_CREATED, EventType.DIRECTIVE_UPDATED):
            told["laidDownBy"] = describe_keeper(grant)
        return told, size

    def _check_messages(self, told: Any) -> list[dict[str, Any]]:
        """Return the messages of a history. Raises Invalid, TooLarge."""
        if not isinstance(told, list) or len(told) > MOST_MESSAGES or not all(isinstance(one, dict) for one in told):
            raise _refuse("messages", f"must be a list of at most {MOST_MESSAGES} messages")
        if any("unitId" in one or "erased" in one for one in told):
            raise _refuse("messages", "bring their content")
        for one in told:
            limit_text("messages", len(str(one.get("content", "")).encode(errors="replace")), self._settings)
        return told

    async def find_session(self, host: UUID, bank: UUID, told: UUID) -> UUID:
        """Return the log's id of a session: the given one where the bank has such a session, else that of its name."""
        if await self._dependencies.turns.sessions.is_known(host, bank, told):
            return told
        return identity.session_id(bank, str(told))

    async def create_bank(self, call: CommandCall) -> Result:
        """Create a bank of the credential's user and agent; one that is there stays as it is."""
        grant, name = call.grant, str(call.uuid("bankId"))
        agent, user = self._read_owner(call, "agentDefId", grant.agent), self._read_owner(call, "userId", grant.user)
        if user is not None and grant.user is None and grant.agent is not None:
            raise PermissionDenied("this credential makes no banks of users: that needs a token that names the user")
        space = Space(resolve_speaker(grant, user), grant.agent or agent)
        whole = space.name(name)
        if not grant.allows(name) and not grant.allows(whole):
            raise PermissionDenied("this credential does not reach this bank")
        # As the platform's runtime names the bank of one session.
        runtime = call.data.get("bankName") == f"session-{name}"
        _, new = await self._dependencies.banks.create(grant.host_id, space.user, whole, runtime=runtime)
        return {"bankId": str(identity.bank_id(grant.host_id, whole)), "bank": whole, "created": new}

    def _read_owner(self, call: CommandCall, name: str, own: str | None) -> str | None:
        """Return the user or agent that the data names; None: none. Raises PermissionDenied for another's."""
        told = call.data.get(name)
        if told is None:
            return own if name == "userId" else None
        derive = identity.user_id if name == "userId" else identity.agent_id
        if own is not None and str(told) not in (own, str(derive(call.grant.host_id, own))):
            raise PermissionDenied(f"{name} is not that of this credential")
        return own or str(call.uuid(name))

    async def update_bank(self, call: CommandCall) -> Result:
        """Change background and disposition of a bank."""
        bank, changes = await self.reach(call), call.fields
        if not changes:
            raise _refuse("data", "takes background and disposition")
        if not isinstance(changes.get("background", ""), str) or not isinstance(changes.get("disposition", {}), dict):
            raise _refuse("data", "background is a text, disposition an object")
        if {"language", RUNTIME} & changes.get("disposition", {}).keys():
            raise _refuse(
                "disposition",
                f"a bank's language is changed by PATCH /api/v1/banks, and {RUNTIME} is set when it is made",
            )
        await self._dependencies.authorisation.require(call.grant, Action.CHANGE_BANK, bank)
        limit_text("background", len(changes.get("background", "").encode(errors="replace")), self._settings)
        changes = await run_off_loop(
            measure_value(changes), Redactor.of(self._settings, call.grant).redact_value, changes
        )
        host, bank_id = call.grant.host_id, identity.bank_id(call.grant.host_id, bank)
        version = await self._dependencies.banks.update(
            host, bank, changes, version=call.expected, identity_=call.derive_id(bank_id, "event"), user=call.grant.user
        )
        return {"bankId": str(bank_id), "aggregateVersion": version}

    async def delete_bank(self, call: CommandCall) -> Result:
        """End an empty bank."""
        bank, host = await self.reach(call), call.grant.host_id
        await self._dependencies.authorisation.require(call.grant, Action.ERASE_SHARED, bank)
        bank_id = identity.bank_id(host, bank)
        version = await self._dependencies.banks.delete(
            host, bank, version=call.expected, identity_=call.derive_id(bank_id, "event"), user=call.grant.user
        )
        return {"bankId": str(bank_id), "aggregateVersion": version}

    async def create_doc(self, call: CommandCall) -> Result:
        """Add a document with its text; the same text is the same document."""
        fields, bank = call.fields, await self.reach(call)
        if "originalText" not in fields:
            raise _refuse("originalText", "is needed: the document's id follows from it")
        body = {"bank": bank, "content": fields["originalText"]}
        body |= {name: fields[name] for name in ("title", "metadata") if name in fields}
        added = await self.knowledge.add_document(call.grant, body)
        ids = {"bankId": str(identity.bank_id(call.grant.host_id, bank)), "docId": str(added.doc_id)}
        return {**ids, "created": not added.duplicate, "position": added.position}

    async def delete_doc(self, call: CommandCall) -> Result:
        """End a document with its units."""
        if call.expected is not None:
            raise _refuse("aggregateVersion", "is not compared for documents, whose text never changes")
        bank = await self.reach(call)
        await self.knowledge.forget_document(call.grant, bank, call.uuid("docId"))
        return {"bankId": str(identity.bank_id(call.grant.host_id, bank)), "docId": str(call.uuid("docId"))}

    async def retain_unit(self, call: CommandCall) -> Result:
        """Retain a unit as a single memory: by its id, by the key, else by its text."""
        fields, grant = call.fields, call.grant
        given = {"content": fields.get("content"), "kind": fields.get("factType"), "metadata": fields.get("metadata")}
        given |= {"occurred_at": fields.get("eventDate"), "title": fields.get("context")}
        body = parse_body(MemoryBody, {name: value for name, value in given.items() if value is not None})
        limit_text("content", len(body.content.encode()), self._settings)
        limit_metadata(body.metadata)
        redactor = Redactor.of(self._settings, grant)
        content = await run_off_loop(len(body.content), redactor.redact_text, body.content)
        bank = await self.reach(call)
        if body.metadata.get(PINNED) == "true":
            await self._dependencies.authorisation.require(grant, Action.PIN, bank)
        name, by = self._identify(call, identity.bank_id(grant.host_id, bank), content)
        memory = NewMemory(
            bank=bank,
            memory_id=name,
            content=content,
            kind=body.kind,
            title=body.title and redactor.redact_text(body.title),
            user_id=grant.user,
            occurred_at=body.occurred_at,
            metadata=body.metadata,
            agent=grant.agent,
        )
        told = {"bankId": str(identity.bank_id(grant.host_id, bank)), "identifiedBy": by, "memoryId": name}
        # Most are new: only for the others is anything read.
        kept = await self._dependencies.memories.keep_first(grant.host_id, memory)
        if kept is None:
            if (there := await self._find_retained(grant, memory, once=by == "key")) is not None:
                return {**told, "unitId": str(there), "created": False}
            kept = await self._dependencies.memories.keep(grant.host_id, memory, _refuse_replacement)
        self._dependencies.notifier.notify(*READY_AT_ONCE, Stage.PROJECTION)
        return {**told, "unitId": str(kept.unit_id), "created": True, "position": kept.position}

    def _identify(self, call: CommandCall, bank: UUID, content: str) -> tuple[str, str]:
        """Return the name of a retained unit's memory, and the source of that name."""
        if call.data.get("unitId") is not None:
            return str(call.uuid("unitId")), "unitId"
        if (named := call.derive_id(bank, "unit")) is not None:
            return str(named), "key"
        return id_of_text(content), "text"

    async def _find_retained(self, grant: Grant, memory: NewMemory, *, once: bool) -> UUID | None:
        """Return the unit that was retained under this name; None: there is none, or it ended and may begin anew.

        With `once` a unit that ended counts, too: a late retry does not bring it back. Raises KeyReused for another.
        """
        try:
            return await self._dependencies.memories.find_same(grant.host_id, memory)
        except NotFound:
            lives = await self._list_lives(grant.host_id, memory.bank, memory.memory_id) if once else ()
            return lives[0] if lives else None

    async def _list_lives(self, host: UUID, bank: str, name: str) -> Sequence[UUID]:
        try:
            return await self._dependencies.memories.list_lives(host, bank, name)
        except NotFound:
            return ()

    async def delete_unit(self, call: CommandCall) -> Result:
        """End a unit, with the facts that have no other source."""
        return await self._delete(call, "unitId", Aggregate.UNIT)

    async def delete_reflection(self, call: CommandCall) -> Result:
        """End a reflection."""
        return await self._delete(call, "reflectionId", Aggregate.REFLECTION)

    async def _delete(self, call: CommandCall, name: str, only: Aggregate) -> Result:
        bank, unit = await self.reach(call), call.uuid(name)
        found = await self._find_unit(call.grant, bank, unit)
        done = await self.units.forget(call.grant, bank, found, version=call.expected, only=only)
        ids = {"bankId": str(identity.bank_id(call.grant.host_id, bank)), name: str(found)}
        return {**ids, "position": done.position}

    async def _find_unit(self, grant: Grant, bank: str, told: UUID) -> UUID:
        """Return the log's id of a unit that was retained under this id, else the id itself."""
        try:
            return await self._dependencies.memories.find(grant.host_id, bank, str(told))
        except NotFound:
            return told


async def _refuse_replacement(_unit: UUID) -> None:
    """Refuse to replace a unit that another request has just retained."""
    raise TurnBusy("this unit is being retained by another request; try again")


def _parse_uuid(name: str, told: Any) -> UUID:
    try:
        return UUID(str(told))
    except ValueError:
        raise _refuse(name, "must be a UUID") from None


def _refuse(name: str, why: str) -> Invalid:
    return Invalid(FieldProblem(name, why))


E = EventType
_UNITS_OF_LINK = ("fromUnitId", "toUnitId")
_HISTORY = ("messages", "metadata")


def _take(*names: str) -> frozenset[str]:
    return frozenset(names)


#: The actions, with all that each takes beside bank and versions.
ACTIONS: Mapping[str, ServiceAction | EventAction] = MappingProxyType(
    {
        "createAgentMemoryBank": ServiceAction(
            Commands.create_bank, _take("agentDefId", "userId", "bankName"), Aggregate.BANK
        ),
        "updateAgentMemoryBank": ServiceAction(Commands.update_bank, _take("background", "disposition")),
        "deleteAgentMemoryBank": ServiceAction(Commands.delete_bank),
        "createAgentMemoryDoc": ServiceAction(
            Commands.create_doc, _take("originalText", "title", "metadata"), Aggregate.DOC
        ),
        "deleteAgentMemoryDoc": ServiceAction(Commands.delete_doc, _take("docId")),
        "retainAgentMemoryUnit": ServiceAction(
            Commands.retain_unit,
            _take("unitId", "content", "factType", "metadata", "eventDate", "context"),
            Aggregate.UNIT,
        ),
        "deleteAgentMemoryUnit": ServiceAction(Commands.delete_unit, _take("unitId")),
        "deleteAgentMemoryReflection": ServiceAction(Commands.delete_reflection, _take("reflectionId")),
        "createAgentMemoryDirective": EventAction(
            E.DIRECTIVE_CREATED, Action.DIRECT, id_field="directiveId", texts=("name", "content"), others=("priority",)
        ),
        "updateAgentMemoryDirective": EventAction(
            E.DIRECTIVE_UPDATED, Action.DIRECT, texts=("name", "content"), others=("priority",)
        ),
        "deleteAgentMemoryDirective": EventAction(E.DIRECTIVE_DELETED, Action.DIRECT),
        "createAgentMemoryEntity": EventAction(
            E.ENTITY_CREATED, Action.ENTITIES, id_field="entityId", texts=("canonicalName",), others=("metadata",)
        ),
        "updateAgentMemoryEntity": EventAction(
            E.ENTITY_UPDATED, Action.ENTITIES, texts=("canonicalName",), others=("metadata",)
        ),
        "deleteAgentMemoryEntity": EventAction(E.ENTITY_DELETED, Action.ENTITIES),
        "linkAgentMemoryUnitEntity": EventAction(E.UNIT_ENTITY_LINKED, Action.LINK, units=("unitId",)),
        "unlinkAgentMemoryUnitEntity": EventAction(E.UNIT_ENTITY_UNLINKED, Action.LINK, units=("unitId",)),
        "createAgentMemoryLink": EventAction(E.LINK_CREATED, Action.LINK, units=_UNITS_OF_LINK, others=("weight",)),
        "updateAgentMemoryLink": EventAction(E.LINK_UPDATED, Action.LINK, units=_UNITS_OF_LINK, others=("weight",)),
        "deleteAgentMemoryLink": EventAction(E.LINK_DELETED, Action.LINK, units=_UNITS_OF_LINK),
        "createAgentSessionHistory": EventAction(E.SESSION_CREATED, None, others=_HISTORY),
        "appendAgentSessionHistory": EventAction(E.SESSION_APPENDED, None, others=_HISTORY),
        "compactAgentSessionHistory": EventAction(E.SESSION_COMPACTED, None, others=_HISTORY),
        "deleteAgentSessionHistory": EventAction(E.SESSION_DELETED, Action.ERASE_SHARED),
    }
)
#: Actions that are known and not offered, with the reason.
NOT_OFFERED: Mapping[str, str] = MappingProxyType(
    {
        "updateAgentMemoryUnit": "is not offered: PATCH /api/v1/units corrects a text, and vectors and facts follow",
        "createAgentMemoryReflection": "is not offered: reflections are derived from facts",
        "updateAgentMemoryReflection": "is not offered: reflections are derived from facts",
        "updateAgentMemoryDoc": "is not offered: another text is another document",
    }
)
