"""What people tell of themselves in chats of six languages, and who has a role from now on.

For each language one set of sentences was used while the rules were written, and another was labelled before them.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from store.text.rules import MessageText
from store.text.rules.endings import find_endings
from tests.figures import FIGURE
from tests.store.text.rules.test_statements import read_labels, stated

SETS = sorted(path.stem for path in (Path(__file__).parent / "languages").glob("*.tsv"))
PRECISION, RECALL = 0.97, 0.88
#: A denial of a value in any role is one of more kinds than this.
_FEW_KINDS = 15


def stated_with_roles(text: str) -> set[str]:
    """Return what a text states; with `>` the roles of which it tells who has them from now on."""
    found = find_endings(MessageText("user", text), 0)
    return {
        *stated(text),
        *(f">{one.kinds[0]}" for one in found if one.keeps),
        *(f"!user_*={one.value}" for one in found if len(one.kinds) > _FEW_KINDS and one.value),
    }


@pytest.mark.parametrize("name", SETS)
def test_each_language_tells_what_it_states(name: str, record_property: Callable[[str, object], None]) -> None:
    rows = read_labels(f"languages/{name}")
    assert len({said for said, _ in rows}) == len(rows)
    found = [(wanted, stated_with_roles(said)) for said, wanted in rows]
    right = sum(len(wanted & ours) for wanted, ours in found)
    precision = right / sum(len(ours) for _, ours in found)
    recall = right / sum(len(wanted) for wanted, _ in found)
    record_property(FIGURE, f"{name}: precision {precision:.3f}, recall {recall:.3f} on {len(rows)} sentences")
    assert precision >= PRECISION
    assert recall >= RECALL
