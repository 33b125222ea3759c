"""Measures the speed of the model on this machine."""

from collections.abc import Sequence

#: Estimated characters per token, as in English, so that no tokenizer and no thread is needed.
CHARACTERS_PER_TOKEN = 4.0
#: Estimated tokens that a text costs in addition: its two special tokens and its share of a model run.
TOKENS_PER_TEXT = 6.0
#: The fixed cost of a model run, in tokens.
TOKENS_PER_RUN = 12.0
#: Limit of a slow run's influence, as a multiple of the pace so far.
SLOWEST = 2.0
#: Milliseconds per token before anything was measured.
FIRST_GUESS_MS = 0.1
#: Share of the newest run in the average.
NEWEST_WEIGHT = 0.2


class TokenPace:
    """A moving average of milliseconds per token; starts from a guess and follows the measurements."""

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._ms_per_token = FIRST_GUESS_MS

    def estimate_ms(self, texts: Sequence[str]) -> float:
        """Return the milliseconds these texts would take; 0 for no texts."""
        return self._ms_per_token * self._tokens(texts)

    def learn(self, texts: Sequence[str], took_ms: float) -> None:
        """Include in the average that these texts took `took_ms` milliseconds."""
        if texts:
            found = min(took_ms / self._tokens(texts), SLOWEST * self._ms_per_token)
            self._ms_per_token += NEWEST_WEIGHT * (found - self._ms_per_token)

    def _tokens(self, texts: Sequence[str]) -> float:
        longest = float(self._max_tokens)
        run = TOKENS_PER_RUN if texts else 0.0
        return run + sum(min(longest, len(text) / CHARACTERS_PER_TOKEN) + TOKENS_PER_TEXT for text in texts)
