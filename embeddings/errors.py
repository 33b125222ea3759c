"""Errors of embeddings.

EmbeddingError
  x ModelMissing      the packages that bring the model are not installed
  x ModelMismatch     the model's files, or its service, give other vectors than the expected model
  x ModelUnreachable  the service that has the model does not answer in time
  x OtherModelLive    the live generation of vectors is of a model that this process has not
  x EmbedderClosed    the embedder was asked after it was closed
  x RerankerUnusable  the cross-encoder cannot be loaded, or answers what is no score
"""


class EmbeddingError(Exception):
    """Base of the errors of embedding; never carries the text that was to be embedded."""


class ModelMissing(EmbeddingError):
    """The packages that bring the model are not installed."""


class ModelMismatch(EmbeddingError):
    """The vectors are not those of the expected model: damaged files, a wrong runtime, another model at the URL."""


class ModelUnreachable(EmbeddingError):
    """The service that has the model did not answer before the deadline; a retry may succeed."""


class OtherModelLive(EmbeddingError):
    """The live generation of vectors is of a model that this process has not; the text says what to do."""


class EmbedderClosed(EmbeddingError):
    """The embedder was asked for vectors after it was closed."""


class RerankerUnusable(EmbeddingError):
    """The cross-encoder cannot be loaded, or answers what is no score."""
