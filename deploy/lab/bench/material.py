"""Turns of the pipeline benchmark: the demo's conversation in several banks.

Random words name no person and no thing, and the stages would find little to do in them.
"""

from collections.abc import Iterator

from deploy.lab.demo.data import DemoTurn, load_demo
from store.memory.turns import NewMessage, NewTurn


def repeat_conversation(banks: int) -> Iterator[list[NewTurn]]:
    """Yield the conversation's turns in order, once a bank."""
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
