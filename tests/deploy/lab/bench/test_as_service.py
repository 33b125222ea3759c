"""A bench in its own process: the interpreter is set as the API's is, and as it was afterwards."""

import gc
import sys

import pytest

from deploy.api.process import THREAD_SWITCH_S
from deploy.lab.bench.as_service import run_as_service


def test_what_is_loaded_is_out_of_the_collectors_sight_while_the_block_lasts() -> None:
    before = sys.getswitchinterval()
    with run_as_service():
        assert gc.get_freeze_count() > len(sys.modules)
        assert sys.getswitchinterval() == pytest.approx(THREAD_SWITCH_S)
    assert gc.get_freeze_count() == 0
    assert sys.getswitchinterval() == before > THREAD_SWITCH_S
