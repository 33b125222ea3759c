"""Errors of embeddings.

EmbeddingError
  x ModelMissing      the packages that bring the model are not installed
  x ModelMismatch     the model's files, or the service that has it, answer unlike the model they should be
  x ModelUnreachable  the service that has the model does not answer in time
  x EmbedderClosed    the embedder was asked after it was closed
  x RerankerUnusable  the cross-encoder cannot be loaded, or answers what is no score
"""


class EmbeddingError(Exception):
    """No vectors can be had; never carries the text that was to be embedded."""


class ModelMissing(EmbeddingError):
    """The packages that bring the model are not installed."""


class ModelMismatch(EmbeddingError):
    """What answers is unlike the model it should be: damaged files, a wrong runtime, another model behind the URL."""


class ModelUnreachable(EmbeddingError):
    """The service that has the model did not answer before the deadline; it may another time."""


class EmbedderClosed(EmbeddingError):
    """The embedder was asked for vectors after it was closed."""


class RerankerUnusable(EmbeddingError):
    """The cross-encoder cannot be loaded, or answers what is no score."""
