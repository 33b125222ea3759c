"""What the model that reads turns may do, by tenant and bank."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID


def _allow(_host: UUID, _bank: UUID) -> bool:
    return True


def _refuse(_host: UUID, _bank: UUID) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ModelRights:
    """Whether the model gets a bank's turns (`read`), and ends the facts that it says are to be deleted (`delete`)."""

    read: Callable[[UUID, UUID], bool] = _allow
    delete: Callable[[UUID, UUID], bool] = _refuse
