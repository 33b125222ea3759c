"""What is asked of the memory and what it answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from store.ledger.freshness import Freshness
from store.memory.directives import Directive

DEFAULT_K = 10


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """A question to one bank; empty filters filter nothing.

    `session_id` is the agent's own name of the session that asks: its newest messages are read first, and the newest
    `skip_recent` of them, which the agent has before it anyway, are not told again. With `only_session` nothing else is
    searched, with `exclude_session` all but it. `kinds` are fact types; a unit has to carry one of `tags` and all of
    `metadata`, and to come from a turn of `user`. `as_of` hides what happened later, `known_at` what was recorded
    later: a text that was corrected since says what it said then, as the log has it; facts that ended with it stay
    ended. `max_tokens` bounds the texts of
    the answer together. `without` names arms, rules, "directives" or "rerank" that are left out, to see what
    they are good for.
    """

    bank: str
    text: str = field(repr=False)
    k: int = DEFAULT_K
    session_id: str | None = None
    exclude_session: bool = False
    skip_recent: int = 0
    only_session: bool = False
    kinds: Sequence[str] = ()
    tags: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict, repr=False)
    user: UUID | None = None
    as_of: datetime | None = None
    known_at: datetime | None = None
    explain: bool = False
    max_tokens: int | None = None
    without: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ArmScore:
    """Where one arm put a unit: rank from 1 among the units compared; its raw score counts `weight` times."""

    rank: int
    score: float
    weight: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a unit stands where it does: each arm's view, and by how much each rule moved the score."""

    arms: Mapping[str, ArmScore]
    moved: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Recalled:
    """One unit found; `session_id`, `turn_id` and `turn_ids` are the agent's own names.

    `turn_ids` are all turns the unit stands for, its own first; `arms` those that found something in it. `bank` is told
    where several were asked, `tokens` where there is a budget of them; `confidence` is how sure a fact is, from 0 to 1,
    where that is known; `pinned`: it stands where it does because it is pinned; `cut`: the text is only the beginning.
    """

    unit_id: UUID
    kind: str
    text: str = field(repr=False)
    score: float
    session_id: str | None
    turn_id: str | None
    turn_ids: tuple[str, ...]
    role: str | None
    name: str | None = field(repr=False)
    occurred_at: datetime
    arms: tuple[str, ...]
    explain: Explanation | None = None
    bank: str | None = None
    tokens: int | None = None
    confidence: float | None = None
    pinned: bool = False
    cut: bool = False


@dataclass(frozen=True, slots=True)
class RecallAnswer:
    """The units found, best first (equal scores by unit id), and how fresh this read is; `took` in ms by step.

    `degraded` names the parts that did not answer, with the reason; the others answered without them. `directives` are
    what the bank's keepers have laid down, the most important first.
    """

    items: tuple[Recalled, ...]
    freshness: Freshness
    took: Mapping[str, float] = field(default_factory=dict)
    degraded: tuple[str, ...] = ()
    directives: tuple[Directive, ...] = ()
