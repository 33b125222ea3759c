"""The Afterturn client, for agents.

Exports `AsyncAfterturn`, `Afterturn`, which blocks, their arguments, answers and errors;
`afterturn_client.gateway` speaks to a Memory Gateway, `afterturn_client.hybrid` is an agent's whole memory in a few
lines, and `afterturn_client.curated` its two files with the tool that changes them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from afterturn_client.exports import *  # noqa: F403 - its `__all__` is what this package exports
    from afterturn_client.exports import __all__ as __all__


def __getattr__(name: str) -> object:
    """Return an exported name. httpx is imported with the first: a hook must be ready to end in time before that."""
    # What is exported are classes; other names are modules, for the import system to find.
    if name == "__all__" or name[:1].isupper():
        exports = import_module("afterturn_client.exports")
        if hasattr(exports, name):
            return getattr(exports, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *import_module("afterturn_client.exports").__all__})
