"""Counts lost, duplicated and misordered deliveries from the gateway's own file."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from deploy.lab.chaos.gateway import RecordedCall
from deploy.lab.chaos.gateway_process import AnswerMode
from deploy.lab.chaos.talk import ChaosTurn
from store.tenancy.gateway_targets import CHAT


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """The counts from the file; `untrue` are turns recorded as delivered without a successful call in the file."""

    sent_twice: int
    flushed_twice: int
    out_of_order: int
    foreign: int
    untrue: int


def count_deliveries(
    calls: Iterable[RecordedCall],
    words: Mapping[tuple[str, str], ChaosTurn],
    positions: Mapping[ChaosTurn, int],
    delivered: Collection[UUID],
) -> DeliveryCounts:
    """Count the deliveries in the calls of a run, which are in order.

    `words` maps pairs of messages to turns, `positions` turns to log positions. A call answered with 429 was not
    processed and does not count. Each successfully added turn may be flushed once.
    """
    adds: list[tuple[ChaosTurn, AnswerMode]] = []
    flushes: Counter[str] = Counter()
    foreign = 0
    for call in calls:
        if call.mode is AnswerMode.LIMITED:
            continue
        if call.operation == "flush":
            flushes[call.body["session_id"]] += 1
        elif (turn := _find_turn(call, words)) is not None:
            adds.append((turn, call.mode))
        else:
            foreign += 1
    taken = {turn for turn, mode in adds if mode is AnswerMode.OK}
    sent = Counter(turn for turn, _ in adds)
    added = Counter(_name_session(turn) for turn in taken)
    return DeliveryCounts(
        sent_twice=sum(times > 1 for times in sent.values()),
        flushed_twice=sum(max(0, times - added[session]) for session, times in flushes.items()),
        out_of_order=_count_late([turn for turn, _ in adds], positions),
        foreign=foreign,
        untrue=len(set(delivered) - {turn.id for turn in taken}),
    )


def _find_turn(call: RecordedCall, words: Mapping[tuple[str, str], ChaosTurn]) -> ChaosTurn | None:
    """Return the turn whose two messages and session an add contains, else None."""
    try:
        asked, answered = (message["content"] for message in call.body["messages"])
        turn = words.get((asked, answered))
        return turn if turn and call.body["session_id"] == _name_session(turn) else None
    except (KeyError, TypeError, ValueError):
        return None


def _name_session(turn: ChaosTurn) -> str:
    """Return the name of a turn's session at the gateway of its tenant."""
    return f"{CHAT}{turn.bank}/{turn.session}"


def _count_late(adds: Iterable[ChaosTurn], positions: Mapping[ChaosTurn, int]) -> int:
    """Return the number of adds that came after the add of a later turn of their session."""
    newest: dict[str, int] = {}
    late = 0
    for turn in adds:
        position = positions.get(turn, 0)
        late += position < newest.get(turn.session, 0)
        newest[turn.session] = max(position, newest.get(turn.session, 0))
    return late
