"""No two things of a bank have one id, whatever a session is called."""

import re
from pathlib import Path
from uuid import UUID, uuid5

from store import identity
from store.identity import NamedKind
from tests.tables import each_row

ROOT = Path(__file__).parents[2]
BANK = UUID(int=7)
PACKAGES = ("store", "workers", "producers", "deploy")
#: An id that is made of a bank's and a text.
OF_A_BANK = re.compile(r"uuid5\(\s*(?:[\w.]+\.)?bank(?:_id)?\b")


@each_row("kind", NamedKind)
def test_a_session_that_is_called_like_another_thing_has_an_id_of_its_own(kind: NamedKind) -> None:
    assert identity.session_id(BANK, f"{kind}:porto") != identity.named_id(BANK, kind, "porto")
    assert identity.session_id(BANK, f"{kind}:porto") != identity.session_id(BANK, f"{kind}:ghent")
    assert identity.session_id(BANK, f"{kind}:porto") == uuid5(BANK, f"session\n{kind}:porto")


@each_row("name", ["monday", "entity", "entities:porto", "memory", "my entity:porto", ":"])
def test_any_other_session_has_the_id_of_its_name(name: str) -> None:
    assert identity.session_id(BANK, name) == uuid5(BANK, name)


def test_every_id_of_a_bank_is_made_in_one_place() -> None:
    """A kind that is made elsewhere would be missing among those that no session may be called like."""
    files = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    made = [str(file.relative_to(ROOT)) for file in files if OF_A_BANK.search(file.read_text())]
    assert made == ["store/identity.py"]
    source = (ROOT / made[0]).read_text()
    assert len(OF_A_BANK.findall(source)) == len(("session_id", "memory_session", "named_id"))


def test_an_agent_that_is_named_by_anothers_id_is_another_agent() -> None:
    planner = identity.agent_id(BANK, "planner")
    assert identity.agent_id(BANK, str(planner)) != planner
    assert identity.agent_id(BANK, planner.hex) not in (planner, identity.agent_id(BANK, str(planner)))
