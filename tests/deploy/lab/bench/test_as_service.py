"""A bench in its own process: the interpreter is set as the API's is, and as it was afterwards."""

import gc
import sys

import pytest

from deploy.api.process import THREAD_SWITCH_S
from deploy.components.process_setup import COLLECTED_AFTER
from deploy.lab.bench.as_service import run_as_service


def test_what_is_loaded_is_out_of_the_collectors_sight_while_the_block_lasts() -> None:
    gc.unfreeze()
    before, collected = sys.getswitchinterval(), gc.get_threshold()
    with run_as_service():
        assert gc.get_freeze_count() > len(sys.modules)
        assert gc.get_threshold() == COLLECTED_AFTER > collected
        assert sys.getswitchinterval() == pytest.approx(THREAD_SWITCH_S)
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == collected
    assert sys.getswitchinterval() == before > THREAD_SWITCH_S
