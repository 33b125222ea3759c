"""The question to recall and its answer, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

from store.ledger.freshness import Freshness
from store.memory.directives import Directive

#: Most units of an answer.
MOST_K = 100
#: What a moment of a unit is: when what it tells of happened, or when it was said.
TimeOf = Literal["occurred", "said"]


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """A question to one bank; empty filters filter nothing.

    With `k` alone the answer is `k` whole units. With `max_tokens` it is passages that together have no more
    tokens, at most `k` of them; with neither, as many as `RecallSettings.answer_tokens` hold. What scores less than
    `min_score` is left out.

    `session_id` is the agent's own name of the session that asks: its newest messages are read first, and the newest
    `skip_recent` of them, which the agent has before it anyway, are not told again. With `only_session` nothing else is
    searched, with `exclude_session` all but it; `sessions` are the only ones otherwise. `roles` are those of who said
    it, `begin` and `end` the time, by `time_of`, of which `end` is no longer in it. `kinds` are fact types; a unit has
    to carry one of `tags` and all of `metadata`, and to come from a turn of `user`. `as_of` hides what happened later,
    `known_at` what was recorded later: a text that was corrected since says what it said then, as the log has it; facts
    that ended with it stay ended. `without` names arms, rules, "names", "directives" or "rerank" that are left out, to
    see what they are good for.
    """

    bank: str
    text: str = field(repr=False)
    k: int | None = None
    session_id: str | None = None
    exclude_session: bool = False
    skip_recent: int = 0
    only_session: bool = False
    sessions: Sequence[str] = ()
    roles: Sequence[str] = ()
    begin: datetime | None = None
    end: datetime | None = None
    time_of: TimeOf = "occurred"
    kinds: Sequence[str] = ()
    tags: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict, repr=False)
    user: UUID | None = None
    as_of: datetime | None = None
    known_at: datetime | None = None
    explain: bool = False
    max_tokens: int | None = None
    min_score: float | None = None
    without: Sequence[str] = ()

    @property
    def most(self) -> int:
        """How many units the answer has at most."""
        return MOST_K if self.k is None else self.k

    def count_room(self, usual: int) -> int | None:
        """Return how many tokens the answer's passages have together, `usual` where nothing is said; None: units."""
        return usual if self.max_tokens is None and self.k is None else self.max_tokens


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
    where that is known; `pinned`: it stands where it does because it is pinned; `cut`: the text is only a
    part of what the unit says.
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


About = Literal["named", "other_speaker"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Whether an answer is likely to hold what was asked for: flags, which leave nothing out.

    The best score (None: nothing was found), whether it is one of the topic, and of whom the best is.
    """

    top: float | None = None
    on_topic: bool = False
    about: About | None = None


@dataclass(frozen=True, slots=True)
class RecallAnswer:
    """The units found, best first (equal scores by unit id), and how fresh this read is; `took` in ms by step.

    `degraded` names the parts that did not answer, with the reason; the others answered without them. `directives` are
    what the bank's keepers have laid down, the most important first. `evidence` says whether the units are likely to
    answer at all, `bank_known` whether there is such a bank; `room` is the budget of tokens that was kept to.
    """

    items: tuple[Recalled, ...]
    freshness: Freshness
    took: Mapping[str, float] = field(default_factory=dict)
    degraded: tuple[str, ...] = ()
    directives: tuple[Directive, ...] = ()
    evidence: Evidence = Evidence()
    bank_known: bool = True
    room: int | None = None
