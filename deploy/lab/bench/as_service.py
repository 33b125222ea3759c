"""A bench that calls the service in its own process has it run as in the API's."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from deploy.api.process import THREAD_SWITCH_S
from deploy.components.process_setup import freeze_loaded_objects


@contextmanager
def run_as_service() -> Iterator[None]:
    """Set the interpreter as the API's process does once its model is loaded, for as long as the block lasts.

    Else the collector walks over all that was loaded, 0.1 s at a time, and every call that is under way waits.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(THREAD_SWITCH_S)
    freeze_loaded_objects()
    try:
        yield
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before)
