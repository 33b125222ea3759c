"""What the model that reads turns may do, by tenant and bank."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID


def _allow_all(_host: UUID, _bank: UUID) -> bool:
    return True


def _refuse_all(_host: UUID, _bank: UUID) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ModelRights:
    """Whether the model gets a bank's turns (`read`), and ends the facts that it says are to be deleted (`delete`)."""

    read: Callable[[UUID, UUID], bool] = _allow_all
    delete: Callable[[UUID, UUID], bool] = _refuse_all
