"""How a process of the service starts: what it imports is not walked over for garbage."""

import gc

from deploy.components.process_setup import importing


def test_no_walk_for_garbage_comes_while_a_process_imports_nor_meets_what_was_imported() -> None:
    before = gc.get_freeze_count()
    with importing():
        assert not gc.isenabled()
        imported = [[number] for number in range(10_000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= before + len(imported)
