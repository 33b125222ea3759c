"""Values of a recall: the query and its answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

from afterturn_client.contract.freshness import Freshness
from afterturn_client.contract.knowledge import Directive
from afterturn_client.contract.recall import NO_EVIDENCE, Evidence, Explanation
from afterturn_client.reference import FrameForm

#: Most units of an answer.
MOST_K = 100
#: Which time of a unit the filters `begin` and `end` compare: when its event occurred, or when it was said.
TimeOf = Literal["occurred", "said"]


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """A question to one bank; an empty filter lets every unit pass.

    With `k` alone the answer is `k` whole units. With `max_tokens` it is passages whose block in a prompt, of this
    `form`, has at most this number of tokens, at most `k` of them; with neither, passages of
    `RecallSettings.answer_tokens`. Units that score less than `min_score` are left out. `merged`: the answer is merged
    with those of other banks. Without `k`, or where it is to be `helpful`, an answer ends where its scores fall off.

    `session_name` is the agent's own name of the session that asks: its newest messages without a vector are embedded
    first, and its newest `skip_recent` messages, which the agent has in its context, are left out of the answer. With
    `only_session` only this session is searched, with `exclude_session` all but this one; otherwise only `sessions`, if
    any are named. `roles` are roles of speakers; `begin` (inclusive) and `end` (exclusive) bound the time that
    `time_of` names. `kinds` are fact types; a unit has to carry one of `tags` and all of `metadata`, and to come from a
    turn of `user`. `as_of` hides units that happened later, `known_at` units that were recorded later: a text that was
    corrected since is restored from the log as it was then; facts that ended by the correction stay ended. `without`
    names arms, rules, "names", "reflections", "directives" or "rerank" that are left out, to measure what each
    contributes. `tells_users`: units of several users bear the names that these state as their own.
    `asker` is the caller's own id of the user who asks.
    """

    bank: str
    text: str = field(repr=False)
    k: int | None = None
    session_name: str | None = None
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
    form: FrameForm = "lines"
    merged: bool = False
    helpful: bool = False
    without: Sequence[str] = ()
    tells_users: bool = False
    asker: str | None = None

    @property
    def most(self) -> int:
        """The most units of the answer."""
        return MOST_K if self.k is None else self.k

    @property
    def ends_early(self) -> bool:
        """Whether the answer ends where its scores fall off."""
        return self.helpful or self.k is None

    def count_room(self, usual: int) -> int | None:
        """Return the budget of tokens of the answer, `usual` without `k` and `max_tokens`; None: whole units."""
        return usual if self.max_tokens is None and self.k is None else self.max_tokens


@dataclass(slots=True)
class Recalled:
    """One unit of an answer; `session_name`, `turn_name` and `turn_names` are the agent's own names.

    `turn_names` are the turns of all duplicates, the unit's own first; `arms` are the arms that scored it above 0.
    `bank` is set if several banks were asked; `tokens` are those of its line in a block; `confidence` is that of a
    fact, from 0 to 1, if it is known; `pinned`: its pin put it first; `cut`: `text` is only a part of the unit's text.
    `successors` are the units that take its place, later statements of the same speaker on the same subject;
    `withdrawn`: the question asks for a fact of it that was forgotten. `times`
    are those that its text names, where the question asks when (`told_times.py`); `user_id` is the user of its turn.
    Only `tokens` is set later: a frozen class, and a copy for the tokens, took .2 ms an answer.
    """

    unit_id: UUID
    kind: str
    text: str = field(repr=False)
    score: float
    session_name: str | None
    turn_name: str | None
    turn_names: tuple[str, ...]
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
    successors: tuple[UUID, ...] = ()
    user_id: UUID | None = None
    withdrawn: bool = False
    times: tuple[str, ...] = ()

    @property
    def former(self) -> bool:
        """Whether what it says no longer holds: its speaker said later what takes its place, or it was forgotten."""
        return bool(self.successors) or self.withdrawn


@dataclass(frozen=True, slots=True)
class RecallAnswer:
    """The units found, best first (equal scores by unit id), and the freshness of this read; `took` in ms by step.

    `degraded` names the parts that failed, with the reason; the answer comes from the others. `directives` are the
    bank's, the most important first. `evidence` flags how likely the units answer the question, `bank_known` whether
    there is such a bank; `room` is the budget of tokens that was kept to. `characters` is how much text of candidates
    was read. `unembedded`: how many of the newest texts were searched by words alone, since they had no vector in time.
    """

    items: tuple[Recalled, ...]
    freshness: Freshness
    took: Mapping[str, float] = field(default_factory=dict)
    degraded: tuple[str, ...] = ()
    directives: tuple[Directive, ...] = ()
    evidence: Evidence = NO_EVIDENCE
    bank_known: bool = True
    room: int | None = None
    tokens: int = 0
    characters: int = 0
    unembedded: int = 0
