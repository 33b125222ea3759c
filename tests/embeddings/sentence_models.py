"""A sentence model small enough to be made by a test: each word has a random direction, in every language."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def make_sentence_model(folder: Path, words: Sequence[Sequence[str]], dimensions: int = 384, seed: int = 1) -> Path:
    """Fill a folder as exporters do; words of one group mean the same."""
    folder.mkdir(parents=True)
    vocabulary = {word: n for n, word in enumerate((*SPECIAL, *(word for group in words for word in group)))}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 64, "pad_token": "[PAD]"}))
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    chance = np.random.default_rng(seed)
    directions = [
        *np.zeros((len(SPECIAL), dimensions)),
        *(direction for group in words for direction in [chance.normal(size=dimensions)] * len(group)),
    ]
    onnx.save(_build_graph(np.array(directions, dtype=np.float32)), folder / "model.onnx")
    return folder


def _build_graph(directions: np.ndarray) -> onnx.ModelProto:
    """Look up each token's direction."""
    node = helper.make_node("Gather", ["directions", "input_ids"], ["last_hidden_state"])
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"])
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["texts", "tokens", None])
    weights = numpy_helper.from_array(directions, "directions")
    graph = helper.make_graph([node], "directions of words", inputs, [output], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
