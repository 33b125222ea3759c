"""Errors of the contract kit.

KitError
  UnusableError    nothing can be judged: a wrong argument, nothing listens, no health
  NoAnswerError    one request got no answer in time, or none that is HTTP
  DeviationError   a case cannot go on: the plugin does not do what the case builds on
"""

from producers.contract_kit.findings import ContractFinding


class KitError(Exception):
    """Base of the errors of the kit."""


class UnusableError(KitError):
    """Nothing can be judged; the message says why and what to do next."""


class NoAnswerError(KitError):
    """A request (`did`) got no answer; the message says why."""

    def __init__(self, did: str, reason: str) -> None:
        super().__init__(reason)
        self.did = did


class DeviationError(KitError):
    """The plugin deviates from the contract in a way that ends the case."""

    def __init__(self, finding: ContractFinding) -> None:
        super().__init__(finding.saw)
        self.finding = finding
