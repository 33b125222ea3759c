"""Clients that close their connections at the end of a `with` block."""

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Closed at the end of `with`."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClosing(ABC):
    """Closed at the end of `async with`."""

    __slots__ = ()

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
