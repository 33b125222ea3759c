"""Two public tokenizers, to which what a prompt pays is held."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its vocabularies in the old way
    import bpe_openai

TOKENIZERS = {name: bpe_openai.get_encoding(name) for name in ("o200k_base", "cl100k_base")}
