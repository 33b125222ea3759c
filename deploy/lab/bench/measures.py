"""The results of a benchmark: measures with floors and targets, and the machine."""

import operator
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

Sign = Literal["<=", ">="]

HOLDS: Mapping[Sign, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge}
#: Settings of the server that change the cost of a commit, and so every floor.
SETTINGS = ("fsync", "synchronous_commit", "full_page_writes", "shared_buffers")

VERSIONS = text("""
    select current_setting('server_version') as postgresql,
           (select extversion from pg_extension where extname = 'vector') as pgvector""")
SETTING = text("select name, current_setting(name) as value from unnest(cast(:names as text[])) name")


@dataclass(frozen=True, slots=True)
class MeasureTarget:
    """A target: a limit of the ratio to the floor if there is one, else of the figure itself."""

    sign: Sign
    number: float

    def holds(self, value: float) -> bool:
        """Return whether a value meets the target."""
        return HOLDS[self.sign](value, self.number)

    def __str__(self) -> str:
        short = f"{self.number:.1f}"
        return f"{self.sign} {short if float(short) == self.number else self.number}"


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of ours, in `unit`, with its target and its floor if it has one."""

    measure: str
    unit: str
    ours: float
    target: MeasureTarget
    floor: float | None = None

    @property
    def ratio(self) -> float | None:
        """Our figure divided by the floor; None without a floor."""
        return None if self.floor is None else self.ours / self.floor

    @property
    def met(self) -> bool:
        """Whether the target is met."""
        return self.target.holds(self.ours if self.ratio is None else self.ratio)

    def as_json(self) -> dict[str, Any]:
        """Return the row that `afterturn bench --json` prints."""
        return {
            "measure": self.measure,
            "unit": self.unit,
            "floor": _round_figure(self.floor),
            "ours": _round_figure(self.ours),
            "ratio": _round_figure(self.ratio),
            "target": str(self.target),
            "met": self.met,
        }


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine of a run, and the server's settings that influence the floors."""

    cores: int
    postgresql: str
    pgvector: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return its cores and versions as every benchmark prints them."""
        return {"cores": self.cores, "postgresql": self.postgresql, "pgvector": self.pgvector}

    @classmethod
    async def read(cls, connection: AsyncConnection) -> "Machine":
        """Return the machine as the server and the operating system report it."""
        versions = (await connection.execute(VERSIONS)).one()
        settings = await connection.execute(SETTING, {"names": list(SETTINGS)})
        named = {row.name: row.value for row in settings}
        return cls(len(os.sched_getaffinity(0)), versions.postgresql, versions.pgvector, named)


@dataclass(frozen=True, slots=True)
class BenchOutcome:
    """The outcome of a benchmark; `sizes` is the size of the run, `parts` holds the components of its figures."""

    machine: Machine
    measures: Sequence[Measure]
    sizes: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        """Whether every target is met."""
        return all(measure.met for measure in self.measures)

    def as_json(self) -> dict[str, Any]:
        """Return the object that `afterturn bench --json` prints."""
        return {
            "machine": self.machine.as_json(),
            "measures": [measure.as_json() for measure in self.measures],
            "settings": dict(self.machine.settings),
            "sizes": dict(self.sizes),
            "parts": {name: _round_figure(figure) for name, figure in self.parts.items()},
        }


def _round_figure(figure: float | None) -> float | None:
    return None if figure is None else round(figure, 4)
