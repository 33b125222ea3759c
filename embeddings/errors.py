"""What can go wrong with embeddings.

EmbeddingError
  x ModelMissing    the packages that bring the model are not installed
  x ModelMismatch   the model's files answer unlike the model they should be
  x EmbedderClosed  the embedder was asked after it was closed
"""


class EmbeddingError(Exception):
    """No vectors can be had; never carries the text that was to be embedded."""


class ModelMissing(EmbeddingError):
    """The packages that bring the model are not installed."""


class ModelMismatch(EmbeddingError):
    """The model's files answer unlike the model they should be: damaged, foreign, or a wrong runtime."""


class EmbedderClosed(EmbeddingError):
    """The embedder was asked for vectors after it was closed."""
