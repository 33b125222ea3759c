"""How far a bank's stages are."""

from dataclasses import dataclass

from afterturn_client.contract.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness(Shape):
    """The log position up to which each stage of the bank is complete."""

    position: int
    """the bank's highest position that this answer shows"""
    embedded: int
    """position up to which every text has its vector"""
    extracted: int
    """position up to which names, dates and facts are extracted"""
    projected: int
    """position up to which counts, facts in time and reflections are made"""
    pending: int
    """undone rows of extraction, embedding and projection; very many are counted while a read goes on"""
    waited_ms: int = 0
    """milliseconds that the call waited for the position it asked for"""
    met: bool = True
    """whether that position was reached; true where none was asked for"""


#: The freshness of a bank that nothing was written to.
UNWRITTEN = Freshness(position=0, embedded=0, extracted=0, projected=0, pending=0)
