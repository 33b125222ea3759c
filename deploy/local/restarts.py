"""The supervisor's one metric, written where the API's exposition collects the samples of all processes."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prometheus_client.mmap_dict import MmapedDict, mmap_key

from deploy.observability.samples import reserve_file

#: `Any`, because prometheus_client has no annotations for it.
FILE_OF_SAMPLES: Any = MmapedDict
METRIC = "afterturn_process_deaths"
HELP = "Processes of this stack that ended unasked, by name"


class DeathCounter:
    """Counts deaths by process name in the multi-process format of prometheus_client.

    prometheus_client's counters choose that format from the environment at import, which has already happened
    when a command reaches this point; so the file is written directly.
    """

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        """Create the counters in an existing folder, each at zero."""
        path = folder / f"counter_{os.getpid()}.db"
        reserve_file(path)
        self._file: Any = FILE_OF_SAMPLES(str(path))
        for name in names:
            self._file.read_value(self._key(name))

    def count(self, name: str) -> None:
        """Add one death."""
        key = self._key(name)
        value, _ = self._file.read_value(key)
        self._file.write_value(key, value + 1, 0.0)

    @staticmethod
    def _key(name: str) -> str:
        return str(mmap_key(METRIC, f"{METRIC}_total", ["process"], [name], HELP))
