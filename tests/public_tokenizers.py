"""Two public tokenizers, to which what a prompt pays is held."""

import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

#: One process of the run reads their vocabularies, which takes a second, and runs every test that asks them.
one_process = pytest.mark.xdist_group("public tokenizers")


@cache
def load_tokenizers() -> Mapping[str, Any]:
    """Return each by the name of its vocabulary."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it reads its vocabularies in the old way
        import bpe_openai  # noqa: PLC0415 - it reads them at once
    return {name: bpe_openai.get_encoding(name) for name in ("o200k_base", "cl100k_base")}
