"""A cross-encoder small enough to be made by a test: its score is how many words question and text share."""

import json
from collections.abc import Iterable
from pathlib import Path

import onnx
from onnx import TensorProto, helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WINDOW = 64


def cross_encoder(folder: Path, words: Iterable[str]) -> Path:
    """Fill a folder as exporters do; the model knows these words alone."""
    (folder / "onnx").mkdir(parents=True)
    vocabulary = {word: n for n, word in enumerate([*SPECIAL, *dict.fromkeys(words)])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    window = {"model_max_length": WINDOW, "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(window))
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    onnx.save(_graph(), folder / "onnx" / "model.onnx")
    return folder


def _graph() -> onnx.ModelProto:
    """Count the pairs of equal words, one of the question (type 0), one of the text (type 1), less one half."""
    nodes = [
        helper.make_node("Cast", ["token_type_ids"], ["of_text"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["one", "of_text"], ["of_question"]),
        helper.make_node("Greater", ["input_ids", "last_special"], ["is_word"]),
        helper.make_node("Cast", ["is_word"], ["words"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["words", "of_question"], ["asked"]),
        helper.make_node("Mul", ["words", "of_text"], ["told"]),
        helper.make_node("Unsqueeze", ["input_ids", "axis_2"], ["ids_down"]),
        helper.make_node("Unsqueeze", ["input_ids", "axis_1"], ["ids_across"]),
        helper.make_node("Equal", ["ids_down", "ids_across"], ["is_same"]),
        helper.make_node("Cast", ["is_same"], ["same"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["asked", "axis_2"], ["asked_down"]),
        helper.make_node("Unsqueeze", ["told", "axis_1"], ["told_across"]),
        helper.make_node("Mul", ["same", "asked_down"], ["found"]),
        helper.make_node("Mul", ["found", "told_across"], ["shared"]),
        helper.make_node("ReduceSum", ["shared", "both_axes"], ["count"], keepdims=0),
        helper.make_node("Unsqueeze", ["count", "axis_1"], ["column"]),
        helper.make_node("Sub", ["column", "half"], ["logits"]),
    ]
    numbers = [
        helper.make_tensor("one", TensorProto.FLOAT, [], [1.0]),
        helper.make_tensor("half", TensorProto.FLOAT, [], [0.5]),
        helper.make_tensor("last_special", TensorProto.INT64, [], [len(SPECIAL) - 1]),
        helper.make_tensor("axis_1", TensorProto.INT64, [1], [1]),
        helper.make_tensor("axis_2", TensorProto.INT64, [1], [2]),
        helper.make_tensor("both_axes", TensorProto.INT64, [2], [1, 2]),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["pairs", "tokens"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["pairs", 1])
    graph = helper.make_graph(nodes, "shared words", inputs, [output], numbers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
