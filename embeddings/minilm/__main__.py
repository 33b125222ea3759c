"""Makes a variant of the local model: `python -m embeddings.minilm VARIANT SOURCE TOKENIZER TARGET`.

A process of its own, because making it takes 270 MB that a service would never give back.
"""

import sys
from pathlib import Path

from embeddings.minilm.make import make_lean
from embeddings.minilm.quantise import quantise_model
from embeddings.settings import Variant


def main(variant: str, source: str, tokenizer: str, target: str) -> None:
    """Write a variant of the model at `source` to `target`."""
    if Variant(variant) is Variant.LEAN:
        make_lean(Path(source), Path(tokenizer), Path(target))
    else:
        quantise_model(Path(source), Path(target))


if __name__ == "__main__":
    main(*sys.argv[1:])
