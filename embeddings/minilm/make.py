"""Makes the lean variant of the sentence model from the one that the package ships."""

from pathlib import Path

from embeddings.minilm import graph, weights
from embeddings.minilm.quantise import fold_constants
from embeddings.minilm.reference import TEXTS


def make_lean(source: Path, tokenizer: Path, target: Path) -> None:
    """Write the lean variant of `source` to `target`; takes seconds. The same input gives the same output."""
    folded = target.with_name("folded.onnx")
    fold_constants(source, folded)
    graph.write_graph(weights.read_weights(folded, tokenizer, TEXTS), target)
    folded.unlink()
