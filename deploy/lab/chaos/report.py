"""Renders the outcome of a chaos run as text."""

from collections.abc import Mapping
from typing import Any

from deploy.lab.chaos.outcome import ChaosOutcome

KNOWLEDGE = ("documents", "documents_lost", "directives", "directives_lost")
FIGURES = ("accepted", "done", "dead", "lost", "applied_twice", "out_of_order", "gateway_sent_twice", "gateway_unknown")


def render_outcome(outcome: ChaosOutcome) -> str:
    """Return the outcome as lines of text."""
    shown = outcome.as_json()
    lines = [f"{name.replace('_', ' '):<20}{shown[name]:>8}" for name in (*FIGURES, *KNOWLEDGE)]
    verdict = "All of it held" if not outcome.failures else f"It did not hold: {'; '.join(outcome.failures)}"
    return "\n".join(
        [*_render_faults(shown), "", *lines, "", *_render_recovery(shown), f"{verdict}, in {shown['seconds']:.0f} s."]
    )


def _render_faults(shown: Mapping[str, Any]) -> list[str]:
    return [f"{name.replace('_', ' '):<20}{times:>8}" for name, times in shown["faults"].items()]


def _render_recovery(shown: Mapping[str, Any]) -> list[str]:
    equal = "as they are without faults" if shown["tables_equal"] else "not as they are without faults"
    first, last, samples = (shown[name] for name in ("recovery_p50_s", "recovery_p99_s", "recovery_samples"))
    return [
        f"{samples} faults interrupted work. It went on {first} s after them (median), {last} s (99th percentile).",
        f"The tables are {equal}.",
    ]
