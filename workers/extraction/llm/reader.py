"""A model that reads turns, behind an OpenAI-compatible `/v1/responses`: one call a turn, whose text is not kept."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from embeddings.endpoint import Endpoint, EndpointError, EndpointLimits
from store.text.rules.model import TurnText
from workers.extraction.llm.answer import ModelReading, NoAnswer, parse_answer
from workers.extraction.llm.request import MINED_ROLE, KnownFact, build_request, derive_version
from workers.metrics import MODEL_CALLS, MODEL_DROPPED, MODEL_SECONDS
from workers.settings import EnrichmentSettings

#: The most characters of known facts in a request.
KNOWN_CHARACTERS = 8_192
#: Instructions, tool and JSON around the text of a request, and how many bytes a character may become.
ENVELOPE_BYTES, BYTES_A_CHARACTER = 65_536, 12
#: The most bytes of a reply that are read.
REPLY_BYTES = 2_097_152


@dataclass(frozen=True, slots=True)
class LlmReader:
    """A reader of turns by one model; its findings carry `version`."""

    endpoint: Endpoint
    settings: EnrichmentSettings

    @property
    def version(self) -> str:
        """The extractor version of this model's findings."""
        return derive_version(self.settings.model)

    async def read(self, turn: TurnText, known: Sequence[KnownFact] = ()) -> ModelReading:
        """Ask the model once and return its findings; `known` facts go along. Raises EndpointError, NoAnswer."""
        settings = self.settings
        body = build_request(
            turn,
            known,
            model=settings.model,
            max_output_tokens=settings.max_output_tokens,
            max_characters=settings.max_input_characters,
        )
        started, outcome = time.monotonic(), "ok"
        try:
            found = parse_answer(await self.endpoint.post(body), turn, known)
        except (EndpointError, NoAnswer) as error:
            outcome = error.category if isinstance(error, EndpointError) else error.fault
            raise
        finally:
            MODEL_SECONDS.observe(time.monotonic() - started)
            MODEL_CALLS.labels(outcome).inc()
        MODEL_DROPPED.inc(found.dropped)
        return found

    async def close(self) -> None:
        """Close the connections."""
        await self.endpoint.close()


def build_reader(settings: EnrichmentSettings) -> LlmReader | None:
    """Return the reader these settings choose; None where enrichment is off."""
    if not settings.enabled:
        return None
    limits = EndpointLimits(
        request_bytes=(settings.max_input_characters + KNOWN_CHARACTERS) * BYTES_A_CHARACTER + ENVELOPE_BYTES,
        reply_bytes=REPLY_BYTES,
        seconds=settings.timeout_seconds,
    )
    return LlmReader(Endpoint(settings.url, settings.api_key.get_secret_value(), limits), settings)


def has_user_words(turn: TurnText) -> bool:
    """Return whether a turn has words of the user, the only ones that facts are taken from."""
    return any(message.role == MINED_ROLE and message.content.strip() for message in turn.messages)
