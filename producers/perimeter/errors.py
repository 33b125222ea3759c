"""Errors of the perimeter; no text of one holds content, a key, or a URL, but a plugin's own message may be in it.

PerimeterError
├── InvalidCall            the call breaks a rule; nothing was sent
├── NotConfigured          no plugin is set
├── NotPermitted           the caller does not reach this namespace
├── UnknownCaller          no key, or one of no workspace
├── PluginRefused          the plugin answered 4xx: `status`, `code`
├── PluginUnavailable      the plugin cannot answer now; whether a write was done is not known
│   ├── CircuitOpen        it failed too often: nothing was sent
│   └── PluginOverloaded   it answered 429: nothing was done, `retry_after_s`
├── EmbedderUnavailable    the perimeter's embedder gives no vector now; no text was sent
│   └── EmbedderUnusable   nor will it before an operator mends it
├── UnreadableAnswer       the plugin answered 2xx with a body that does not fit the contract
└── TreeError              the tree of workspaces does not give the caller's namespaces
    ├── WorkspaceNotFound
    ├── OrphanedWorkspace  a parent does not exist
    ├── WorkspaceCycle     the parents lead back
    ├── TreeTooDeep        the root is further than 50 parents away
    └── TreeUnreadable     the file or table cannot be read
"""

from collections.abc import Mapping
from typing import Any

from producers.errors import ProducerError

NOT_CONFIGURED = "memory plugin is not configured (set MEMORY_PLUGIN_URL)"


class PerimeterError(ProducerError):
    """Base of the errors that the perimeter raises on purpose."""

    #: The code for programs.
    wire_code = "internal"
    retryable = False


class InvalidCall(PerimeterError):
    """The call breaks a rule; nothing was sent."""

    wire_code = "bad_request"


class NotConfigured(PerimeterError):
    """No plugin is set."""

    wire_code = "unavailable"

    def __init__(self) -> None:
        super().__init__(NOT_CONFIGURED)


class NotPermitted(PerimeterError):
    """The caller does not reach this namespace."""

    wire_code = "forbidden"


class UnknownCaller(PerimeterError):
    """No key, or one that names no workspace."""

    wire_code = "unauthenticated"


class PluginRefused(PerimeterError):
    """The plugin answered 4xx; the message is the plugin's own."""

    def __init__(self, status: int, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.wire_code = code
        self._details = details or {}

    @property
    def details(self) -> Mapping[str, Any]:
        """The details of the plugin's error."""
        return self._details


class PluginUnavailable(PerimeterError):
    """The plugin cannot answer now; whether a write was done is not known."""

    wire_code = "unavailable"
    retryable = True


class CircuitOpen(PluginUnavailable):
    """The plugin failed too often and gets no calls for a while; nothing was sent."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"memory is unavailable: the plugin failed repeatedly and is asked again in {seconds:.0f} s")
        self.retry_after_s = seconds


class PluginOverloaded(PluginUnavailable):
    """The plugin answered 429; nothing was done."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the memory plugin is overloaded and asks to come again in {seconds:.0f} s")
        self.retry_after_s = seconds


class EmbedderUnavailable(PerimeterError):
    """The perimeter's embedder gives no vector now; no text was sent."""

    wire_code = "unavailable"
    retryable = True
    said = "the perimeter's sentence model gives no vector now, and no text was sent: try again"

    def __init__(self) -> None:
        super().__init__(self.said)


class EmbedderUnusable(EmbedderUnavailable):
    """The perimeter's embedder gives no vector before an operator mends it; no text was sent."""

    retryable = False
    said = "the perimeter's sentence model cannot be used, and no text was sent: its operator finds why in its log"


class UnreadableAnswer(PerimeterError):
    """The plugin answered 2xx with a body that does not fit the contract; a write may have been done."""


class TreeError(PerimeterError):
    """The tree of workspaces does not give the caller's namespaces, so the caller reaches none."""

    wire_code = "forbidden"


class WorkspaceNotFound(TreeError):
    """There is no such workspace."""

    wire_code = "not_found"


class OrphanedWorkspace(TreeError):
    """A parent on the path to the root does not exist."""


class WorkspaceCycle(TreeError):
    """The parents form a cycle."""


class TreeTooDeep(TreeError):
    """The root is too many parents away."""


class TreeUnreadable(TreeError):
    """The file or table of workspaces cannot be read."""

    wire_code = "unavailable"
    retryable = True
