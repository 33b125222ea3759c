"""Makes the lean variant of the sentence model from the one that the package ships."""

from pathlib import Path

from embeddings import lean_graph, lean_weights
from embeddings.quantise import fold
from embeddings.reference import TEXTS


def make_lean(source: Path, tokenizer: Path, target: Path) -> None:
    """Write the lean variant of `source` to `target`; takes seconds. The same files always make the same."""
    folded = target.with_name("folded.onnx")
    fold(source, folded)
    lean_graph.write(lean_weights.read(folded, tokenizer, TEXTS), target)
    folded.unlink()
