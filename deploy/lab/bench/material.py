"""The turns of the pipeline benchmark: the demo's conversation in several banks.

Random words would contain no names and facts, and cause little work in the stages.
"""

from collections.abc import Iterator

from deploy.lab.demo.data import DemoTurn, load_demo
from store.memory.turns import NewMessage, NewTurn


def repeat_conversation(banks: int) -> Iterator[list[NewTurn]]:
    """Yield, for each bank, the conversation's turns in order."""
    turns = load_demo().turns
    for nth in range(banks):
        yield [_make_turn(f"bank-{nth}", turn) for turn in turns]


def _make_turn(bank: str, turn: DemoTurn) -> NewTurn:
    messages = [NewMessage(m.role, m.content, name=m.name, occurred_at=m.timestamp) for m in turn.messages]
    return NewTurn(
        bank,
        turn.session_id,
        turn.turn_id,
        messages,
        user_id=turn.user_id,
        occurred_at=turn.occurred_at,
        gateway=True,
    )
