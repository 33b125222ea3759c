"""Measures of a benchmark with their floors and targets, and the machine."""

import operator
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

Sign = Literal["<=", ">="]

HOLDS: Mapping[Sign, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge}
#: Settings of the server that change what a commit costs, and with it every floor.
SETTINGS = ("fsync", "synchronous_commit", "full_page_writes", "shared_buffers")

VERSIONS = text("""
    select current_setting('server_version') as postgresql,
           (select extversion from pg_extension where extname = 'vector') as pgvector""")
SETTING = text("select name, current_setting(name) as value from unnest(cast(:names as text[])) name")


@dataclass(frozen=True, slots=True)
class MeasureTarget:
    """What must hold: of the ratio where there is a floor, else of the figure itself."""

    sign: Sign
    number: float

    def holds(self, value: float) -> bool:
        """Say whether a figure meets it."""
        return HOLDS[self.sign](value, self.number)

    def __str__(self) -> str:
        short = f"{self.number:.1f}"
        return f"{self.sign} {short if float(short) == self.number else self.number}"


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of ours, in `unit`, beside its floor if it has one."""

    measure: str
    unit: str
    ours: float
    target: MeasureTarget
    floor: float | None = None

    @property
    def ratio(self) -> float | None:
        """Ours divided by the floor."""
        return None if self.floor is None else self.ours / self.floor

    @property
    def met(self) -> bool:
        """Say whether the target holds."""
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
    """Where it was measured, and the server's settings that change a floor."""

    cores: int
    postgresql: str
    pgvector: str
    settings: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    async def read(cls, connection: AsyncConnection) -> "Machine":
        """Ask the server and the operating system."""
        versions = (await connection.execute(VERSIONS)).one()
        settings = await connection.execute(SETTING, {"names": list(SETTINGS)})
        named = {row.name: row.value for row in settings}
        return cls(len(os.sched_getaffinity(0)), versions.postgresql, versions.pgvector, named)


@dataclass(frozen=True, slots=True)
class BenchOutcome:
    """All that one bench found; `sizes` are how much it ran, `parts` what the figures are made of."""

    machine: Machine
    measures: Sequence[Measure]
    sizes: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        """Say whether every target holds."""
        return all(measure.met for measure in self.measures)

    def as_json(self) -> dict[str, Any]:
        """Return the object that `afterturn bench --json` prints."""
        machine = self.machine
        return {
            "machine": {"cores": machine.cores, "postgresql": machine.postgresql, "pgvector": machine.pgvector},
            "measures": [measure.as_json() for measure in self.measures],
            "settings": dict(machine.settings),
            "sizes": dict(self.sizes),
            "parts": {name: _round_figure(figure) for name, figure in self.parts.items()},
        }


def _round_figure(figure: float | None) -> float | None:
    return None if figure is None else round(figure, 4)
