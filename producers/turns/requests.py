"""Parses requests of before_turn and after_turn. Pure: JSON in, items or a typed error out."""

from dataclasses import dataclass
from typing import Any, Literal

from afterturn_client.reference import FrameForm
from pydantic import ConfigDict, Field

from producers.errors import FieldProblem, Invalid, TooLarge
from producers.service.fields import (
    BANK_BYTES,
    POSITION_MAX,
    TURN_BYTES,
    BankName,
    End,
    MinPosition,
    Moment,
    SpeakerId,
    WaitMs,
    session_name,
)
from producers.service.wire import WireModel
from producers.turns.history import choose_current
from producers.turns.items import MAX_ITEMS, Item, clean_items
from store.log.storable import check_text

DEFAULT_INPUT_TOKENS = 120_000
Items = list[dict[str, Any]]
#: Fields of both calls that hold items.
ITEM_FIELDS = ("conversation_items", "current_input", "input_items", "output_items")


class InvalidTurnInput(Invalid):
    """The input breaks a rule of the contract: `code` and `field`; the text begins with the code."""

    def __init__(self, code: str, field: str, message: str) -> None:
        super().__init__(FieldProblem(field, f"{code}: {message}"))
        self.code = code
        self.field = field


class _LifecycleBody(WireModel):
    """Fields of both calls."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    project: str | None = Field(None, description="another name of `bank`")
    bank: BankName | None = Field(None, description="name of the bank; left out: `default`")
    session_id: str = Field("", description="the caller's own id of the session, which is needed")
    turn_id: str = Field("", description="the caller's own id of the turn, which is needed; a retry sends the same")
    user_id: SpeakerId = None
    conversation_items: Items = Field(
        default_factory=list,
        repr=False,
        description="the whole history, where the caller keeps it itself; the next two say which part is current",
    )
    current_input_start: int = Field(0, description="index of the first current item in `conversation_items`")
    current_input_count: int = Field(0, description="number of current items; 0: to the end")
    min_position: MinPosition = None


class BeforeTurnBody(_LifecycleBody):
    """A turn that is about to begin."""

    current_input: Items = Field(
        default_factory=list,
        repr=False,
        description="items that the turn asks with; needed where `conversation_items` is empty",
    )
    base_instructions: str | None = Field(None, repr=False, description="accepted, and not used")
    max_input_tok: int = Field(
        DEFAULT_INPUT_TOKENS, ge=0, le=POSITION_MAX, description="most tokens of the answer's items; 0: no limit"
    )
    reference: FrameForm | None = Field(
        None, description="form of what is recalled: `lines` for a reader, `json` with every field; null: as set"
    )
    scope: Literal["project", "session"] | None = Field(
        None,
        description="whether to recall from the whole bank or from this session alone; left out: as the service is set",
    )
    wait_ms: WaitMs = 0


class AfterTurnBody(_LifecycleBody):
    """A completed turn."""

    input_items: Items = Field(default_factory=list, repr=False, description="items that the turn asked with")
    output_items: Items = Field(default_factory=list, repr=False, description="items that the model answered with")
    occurred_at: Moment | None = Field(
        None, description="time of items that have no time of their own (`timestamp`, `created_at`); left out: now"
    )
    expires_at: End = None


@dataclass(frozen=True, slots=True)
class TurnReference:
    """Project, session and turn, by the agent's own ids."""

    project: str
    session: str
    turn: str


def read_place(body: _LifecycleBody) -> TurnReference:
    """Return the turn that a body names. Raises InvalidTurnInput, Invalid where `project` and `bank` differ."""
    if body.project is not None and body.bank is not None and body.project != body.bank:
        raise Invalid(FieldProblem("project", "is another name for bank: give one of them"))
    project = body.bank or ("default" if body.project is None else body.project)
    check_session(project, body.session_id)
    if not body.turn_id.strip():
        raise InvalidTurnInput("TURN_ID_REQUIRED", "turn_id", "must not be blank")
    _limit_text(body.turn_id, "turn_id", TURN_BYTES)
    return TurnReference(project, body.session_id, body.turn_id)


def check_session(project: str, session: str) -> None:
    """Check the names of a project and a session. Raises InvalidTurnInput, Invalid."""
    if not project.strip():
        raise InvalidTurnInput("PROJECT_REQUIRED", "project", "must not be blank")
    if not session.strip():
        raise InvalidTurnInput("SESSION_ID_REQUIRED", "session_id", "must not be blank")
    try:
        session_name(session)
    except ValueError:
        rule = "must have 1 to 128 bytes, not be . or .., and hold no slash, backslash or control character"
        raise InvalidTurnInput("SESSION_ID_INVALID", "session_id", rule) from None
    _limit_text(project, "project", BANK_BYTES)


def _limit_text(text: str, field: str, limit: int) -> None:
    try:
        fits = len(check_text(text).encode()) <= limit
    except ValueError:
        fits = False
    if not fits:
        raise Invalid(FieldProblem(field, f"must have 1 to {limit} bytes that can be stored"))


def limit_items(asked: Any) -> None:
    """Refuse a body before it is measured and parsed whose items fit no call. Raises TooLarge.

    A prepared turn may bring MAX_ITEMS of history and as many current ones; `clean_items` limits each.
    """
    for field in ITEM_FIELDS if isinstance(asked, dict) else ():
        if isinstance(asked.get(field), list) and len(asked[field]) > 2 * MAX_ITEMS:
            raise TooLarge(field, "max_items", MAX_ITEMS, "items")


def read_before(body: BeforeTurnBody, most_bytes: int) -> tuple[list[Item], list[Item]]:
    """Return the caller's history, and the current items. Raises InvalidTurnInput for no current input."""
    if body.conversation_items:
        at, to = choose_current(body.conversation_items, body.current_input_start, body.current_input_count)
        whole, given = body.conversation_items[:at], body.conversation_items[at:to]
        field = "conversation_items"
    else:
        whole, given, field = [], body.current_input, "current_input"
    if not given:
        message = "current_input is required when conversation_items is empty, and the current slice must hold an item"
        raise InvalidTurnInput("CURRENT_INPUT_REQUIRED", field, message)
    current = clean_items(given, field, most_bytes)
    if not current:
        raise InvalidTurnInput("CURRENT_INPUT_REQUIRED", field, "holds nothing but recalled text")
    return clean_items(whole, field, most_bytes), current


@dataclass(frozen=True, slots=True)
class Completed:
    """The content of a turn: the request without frames, whose digest identifies the turn; input and output.

    `echoes`: the input may begin with stored history.
    """

    request: list[Any]
    given: list[Item]
    output: list[Item]
    echoes: bool


def read_after(body: AfterTurnBody, most_bytes: int) -> Completed:
    """Return the content of a completed turn. Raises Invalid, TooLarge."""
    items = clean_items(body.conversation_items, "conversation_items", most_bytes)
    given = clean_items(body.input_items, "input_items", most_bytes)
    output = clean_items(body.output_items, "output_items", most_bytes)
    if not body.conversation_items:
        return Completed([given, output], given, output, echoes=True)
    at, to = choose_current(body.conversation_items, body.current_input_start, body.current_input_count)
    current = clean_items(body.conversation_items[at:to], "conversation_items", most_bytes)
    before = clean_items(body.conversation_items[:at], "conversation_items", most_bytes)
    return Completed([items, len(before), len(current), given, output], current, output, echoes=False)
