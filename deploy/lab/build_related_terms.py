"""Make the table of related words (store/recall/query_expansion.py) from the sentence model.

Run as `python -m deploy.lab.build_related_terms FILE`.
"""

import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from embeddings.model_files import model_folder
from embeddings.registry import create_embedder
from embeddings.settings import EmbeddingSettings
from store.text.terms import BIGRAM_PREFIX, analyse_text

#: The vocabulary is ordered by how common a word is: so many stems get a row.
ROWS = 9000
NEAREST = 12
LEAST_COSINE = 0.5

_WORD = re.compile(r"[a-z]{3,}")


def main(target: Path) -> None:
    """Write the table."""
    settings = EmbeddingSettings()
    with tempfile.TemporaryDirectory() as data:
        stems = read_vocabulary(settings, Path(data))
        vectors = asyncio.run(create_embedder(settings, Path(data)).embed(list(stems.values())))
    target.write_text("".join(f"{row}\n" for row in _build_rows(list(stems), vectors)), encoding="utf-8")


def read_vocabulary(settings: EmbeddingSettings, data: Path) -> dict[str, str]:
    """Return the whole words of the model's vocabulary by their stem, the commonest form of each, commonest first."""
    folder = model_folder(settings, data / "models")
    words = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    found: dict[str, str] = {}
    for word in sorted(filter(_WORD.fullmatch, words), key=words.__getitem__):
        for stem in analyse_text(word).counts:
            if not stem.startswith(BIGRAM_PREFIX):
                found.setdefault(stem, word)
    return found


def _build_rows(stems: Sequence[str], vectors: NDArray[np.float32]) -> Iterator[str]:
    for nth, stem in enumerate(stems[:ROWS]):
        cosines = vectors @ vectors[nth]
        near = [int(at) for at in np.argsort(-cosines)[: NEAREST + 1] if at != nth and cosines[at] >= LEAST_COSINE]
        if near:
            yield f"{stem}\t" + " ".join(f"{stems[at]}:{round(float(cosines[at]) * 100)}" for at in near[:NEAREST])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
