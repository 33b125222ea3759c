"""Counts lost, duplicated and unordered deliveries from the gateway's own file."""

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
    """What the file shows. `untrue` are turns that count as delivered and are not in it as answered well."""

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
    """Read the calls of a run in their order.

    `words` knows turns by their two messages, `positions` where they stand in the log. A call that was told to come
    again (429) was not processed and does not count. Each turn whose add was answered well may be flushed once.
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
    """Return the turn whose two messages, and session, an add carries."""
    try:
        asked, answered = (message["content"] for message in call.body["messages"])
        turn = words.get((asked, answered))
        return turn if turn and call.body["session_id"] == _name_session(turn) else None
    except (KeyError, TypeError, ValueError):
        return None


def _name_session(turn: ChaosTurn) -> str:
    """Return what a turn's session is called at the gateway of its tenant."""
    return f"{CHAT}{turn.bank}/{turn.session}"


def _count_late(adds: Iterable[ChaosTurn], positions: Mapping[ChaosTurn, int]) -> int:
    """Count adds that came after the add of a later turn of their session."""
    newest: dict[str, int] = {}
    late = 0
    for turn in adds:
        position = positions.get(turn, 0)
        late += position < newest.get(turn.session, 0)
        newest[turn.session] = max(position, newest.get(turn.session, 0))
    return late
