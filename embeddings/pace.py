"""Measures the speed of the model on this machine."""

from collections.abc import Sequence

#: English has about four characters a token; counting them takes no tokenizer and no thread.
CHARACTERS_PER_TOKEN = 4.0
#: Every text pays for its two frame tokens and its share of a model run.
TOKENS_PER_TEXT = 6.0
#: What a model run costs beside its texts.
TOKENS_PER_RUN = 12.0
#: A run that was held up by something else counts as at most this many usual ones.
SLOWEST = 2.0


class TokenPace:
    """A running measure of milliseconds per token; starts from a guess and follows what it is told."""

    def __init__(self, max_tokens: int, ms_per_token: float = 0.1, weight: float = 0.2) -> None:
        self._max_tokens = max_tokens
        self._ms_per_token = ms_per_token
        self._weight = weight

    def estimate_ms(self, texts: Sequence[str]) -> float:
        """Return the milliseconds these texts would take; 0 for none."""
        return self._ms_per_token * self._tokens(texts)

    def learn(self, texts: Sequence[str], took_ms: float) -> None:
        """Take in that these texts took so long."""
        if texts:
            found = min(took_ms / self._tokens(texts), SLOWEST * self._ms_per_token)
            self._ms_per_token += self._weight * (found - self._ms_per_token)

    def _tokens(self, texts: Sequence[str]) -> float:
        longest = float(self._max_tokens)
        run = TOKENS_PER_RUN if texts else 0.0
        return run + sum(min(longest, len(text) / CHARACTERS_PER_TOKEN) + TOKENS_PER_TEXT for text in texts)
