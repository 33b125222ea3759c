"""Generations of vectors as operators see them: the models, how far each is built, and how two of them compare."""

from dataclasses import dataclass
from datetime import datetime

from afterturn_client.contract.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation(Shape):
    """The vectors of one sentence model."""

    generation: int
    """number of the generation"""
    model: str
    """name of the model"""
    dimension: int
    """numbers of a vector"""
    state: str
    """`live`: recall compares its vectors; `building`; `retired`: it was live, and is kept up to date; `dropping`"""
    since: datetime
    """time at which the state began"""
    vectors: int
    """vectors that the last pass over all stored texts made, or deleted"""
    share: float
    """share of the tenants, banks and log that this pass has gone through, from 0 to 1"""
    complete_at: datetime | None
    """time at which every text had its vector; null: texts may lack one"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerModel(Shape):
    """The sentence model that a worker process's settings name."""

    worker: str
    """name of the process"""
    model: str | None
    """name of the model; null: the process is of a version that does not say"""
    generation: int | None
    """number of the model's generation; null: as above"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationList(Shape):
    """Generations of vectors, and the models that settings of processes name."""

    generations: tuple[Generation, ...]
    """generations, by number"""
    model: str | None
    """name of the model that the settings of the process that answers name; null: it has none"""
    workers: tuple[WorkerModel, ...]
    """worker processes, the oldest first"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationComparison(Shape):
    """Some questions to the live generation and to another; pages are added up."""

    live: str
    """name of the live model"""
    compared: str
    """name of the other model"""
    questions: int
    """number of questions; stored texts serve as such"""
    nearest: int
    """number of nearest texts, at most ten a question"""
    shared: int
    """number of these that both models have"""
    exact: int
    """number of texts that exact searches of the other generation find, filtered ones included"""
    found: int
    """number of these that recall's searches find"""
    banks: int
    """number of banks whose last question this page has"""
    cursor: str | None
    """asks for the next questions; null: every bank was asked"""
