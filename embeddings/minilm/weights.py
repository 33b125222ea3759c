"""Reads the weights of the sentence model from its graph, in full precision."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper
from onnxruntime import InferenceSession  # type: ignore[attr-defined] # untyped
from tokenizers import Tokenizer

from embeddings.errors import ModelMismatch

Found = TypeVar("Found")
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Product:
    """A dense layer: `weights` (inputs, outputs), `bias` (outputs), `peaks` (inputs): the largest inputs measured."""

    weights: Floats
    bias: Floats
    peaks: Floats


@dataclass(frozen=True, slots=True)
class Weights:
    """The numbers and dense layers of the model, by the names that its layers have in its graph."""

    numbers: Mapping[str, Floats]
    products: Mapping[str, Product]

    def of(self, name: str) -> Floats:
        """Return the numbers whose name ends with `name`. Raises ModelMismatch."""
        return _first_of((numbers for full, numbers in self.numbers.items() if full.endswith(name)), name)


def read_weights(folded: Path, tokenizer: Path, texts: Sequence[str]) -> Weights:
    """Read the weights of a graph that holds them as plain numbers; `texts` are run to measure the products' inputs.

    Raises ModelMismatch for a graph of another model.
    """
    model = onnx.load(folded)
    numbers = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    found = {
        _name_role(model, node, numbers): node
        for node in model.graph.node
        if node.op_type == "MatMul" and node.input[1] in numbers
    }
    if not found:
        raise ModelMismatch("the model's graph has no products of known weights")
    peaks = _measure_peaks(model, list(dict.fromkeys(node.input[0] for node in found.values())), tokenizer, texts)
    products = {
        role: Product(numbers[node.input[1]], numbers[f"{role}.bias"], peaks[node.input[0]])
        for role, node in found.items()
    }
    return Weights(numbers, {role[role.index("layer.") :]: product for role, product in products.items()})


def _first_of(found: Iterator[Found], what: str) -> Found:
    for one in found:
        return one
    raise ModelMismatch(f"the model's graph has no {what}")


def _name_role(model: onnx.ModelProto, product: onnx.NodeProto, numbers: Mapping[str, object]) -> str:
    """Return the name of a product: that of the bias that is added to it."""
    added = _first_of((node for node in model.graph.node if product.output[0] in node.input), "bias of a product")
    bias: str = _first_of((name for name in added.input if name in numbers), "bias of a product")
    return bias.removesuffix(".bias")


def _measure_peaks(
    model: onnx.ModelProto, names: Sequence[str], tokenizer: Path, texts: Sequence[str]
) -> dict[str, Floats]:
    """Return the largest magnitudes that these values reach over the texts, by name, one for each last dimension."""
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    watched.graph.output.extend(onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in names)
    session = InferenceSession(watched.SerializeToString(), providers=["CPUExecutionProvider"])
    words = Tokenizer.from_file(os.fspath(tokenizer))
    words.enable_truncation(256)
    words.no_padding()
    seen: dict[str, list[Floats]] = {name: [] for name in names}
    for text in texts:
        ids = np.array([words.encode(text).ids])
        told = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        for name, values in zip(names, session.run(list(names), told), strict=True):
            seen[name].append(np.abs(np.asarray(values)).max(axis=(0, 1)))
    return {name: np.maximum.reduce(values) for name, values in seen.items()}
