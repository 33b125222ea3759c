"""Runs the service within a benchmark's process under the interpreter settings of the API's process."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from deploy.api.process import THREAD_SWITCH_S
from deploy.components.process_setup import freeze_loaded_objects


@contextmanager
def run_as_service() -> Iterator[None]:
    """Set the interpreter during the block as the API's process does once its model is loaded.

    Otherwise a full garbage collection takes 0.1 s, for which all running calls wait.
    """
    before, collected = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(THREAD_SWITCH_S)
    freeze_loaded_objects()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*collected)
        sys.setswitchinterval(before)
