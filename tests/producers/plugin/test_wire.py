"""Answers of the contract are written as they are declared, in steps."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from producers.plugin.wire import Found, Memory, Namespace
from store.off_loop import LONG_CHARACTERS, run_steps
from tests.tables import each_row

AT = datetime(2026, 3, 2, 12, tzinfo=UTC)
METADATA = {"deep": [None, {"n": 2**70}], "text": "\u20ac"}
NAMESPACES = [Namespace(name=f"team:{n}", kind="team", created_at=AT, metadata=METADATA) for n in range(20)]
MEMORIES = [
    Memory(id=str(n), namespace="team:0", content="x", kind="fact", source="agent", created_at=AT) for n in range(3)
]


@each_row("memories", [(), MEMORIES])
@each_row("cursor", [None, 'a"b'])
@each_row("namespaces", [(), NAMESPACES])
def test_an_answer_is_written_whole_a_memory_or_namespace_a_step(
    memories: Sequence[Memory], cursor: str | None, namespaces: Sequence[Namespace]
) -> None:
    found = Found(memories=tuple(memories), next_cursor=cursor, namespaces=tuple(namespaces))
    whole = {"memories": []} | json.loads(found.model_dump_json(exclude_none=True, exclude_defaults=True))
    assert json.loads(run_steps(found.encode())) == whole
    assert len(list(found.encode())) == len(memories) + len(namespaces)


def test_namespaces_with_metadata_are_long_to_write() -> None:
    assert Found(memories=(), namespaces=tuple(NAMESPACES)).effort > LONG_CHARACTERS
