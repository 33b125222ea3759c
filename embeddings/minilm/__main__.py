"""Makes a variant of the local model: `python -m embeddings.minilm VARIANT SOURCE TOKENIZER TARGET`.

A process of its own, because making it takes 270 MB that a service would never give back.
"""

import sys
from pathlib import Path

from embeddings.minilm import graph, weights
from embeddings.minilm.quantise import fold_constants, quantise_model
from embeddings.minilm.reference import TEXTS
from embeddings.settings import Variant


def main(variant: str, source: str, tokenizer: str, target: str) -> None:
    """Write a variant of the model at `source` to `target`."""
    if Variant(variant) is Variant.LEAN:
        make_lean(Path(source), Path(tokenizer), Path(target))
    else:
        quantise_model(Path(source), Path(target))


def make_lean(source: Path, tokenizer: Path, target: Path) -> None:
    """Write the lean variant of `source` to `target`; takes seconds. The same input gives the same output."""
    folded = target.with_name("folded.onnx")
    fold_constants(source, folded)
    graph.write_graph(weights.read_weights(folded, tokenizer, TEXTS), target)
    folded.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
