"""A small fault of our own code, and the tests that must turn red when it is planted."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault: in `file`, `before` (found exactly once) becomes `after`; then each of `tests` in `held_by` fails."""

    law: str
    fault: str
    file: str
    before: str
    after: str
    held_by: str
    tests: tuple[str, ...]
