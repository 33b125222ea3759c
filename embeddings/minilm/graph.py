"""Writes the sentence model as an ONNX graph of our own: the same model in fewer, cheaper steps, with 8-bit products.

The costly steps are written as onnxruntime's processor kernels run them fastest:
- Tokens lie by place, then by text: attention reads queries, keys and values where they are, without a transposition.
- Padding is masked in the values and in the sums that divide them, not in each pair of tokens.
- The inputs of a product share one scale. Where some are much larger than the rest they are made smaller, and their
weights as much larger (SmoothQuant, arXiv 2211.10438, at one half); the few neurons that are far larger than all
others for every text stay in floats. So all products can have 8 bits, and the vectors are nearer to full precision
than those of the plain variant, which leaves two of twelve wide products in floats.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from embeddings.minilm.weights import Floats, Product, Weights

HEADS = 12
LAYERS = 6
WIDTH = 384
#: A neuron whose output exceeds this stays in floats; the next largest reach 9.
TOWERING = 10.0
#: The largest factor by which a small input is raised: rare texts have larger inputs than the measured ones.
MOST_RAISED = 4.0
#: A weight of a product is a whole number up to this: a processor without instructions of its own for 8-bit products
#: (AVX2 without VNNI) adds two of them in 16 bits, where 255 times more than 64 would overflow.
MOST_OF_A_WEIGHT = 64
#: Attention's exponents are clipped to plus or minus this, far beyond any the model has: sums stay finite and positive.
FARTHEST = 60.0
_OURS = "com.microsoft"


@dataclass(slots=True)
class Graph:
    """An ONNX graph while it is written; its values are referred to by name."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    numbers: dict[str, onnx.TensorProto] = field(default_factory=dict)

    def keep(self, name: str, numbers: NDArray[np.generic]) -> str:
        """Add a constant to the graph and return its name."""
        self.numbers[name] = numpy_helper.from_array(np.array(numbers, order="C"), name)
        return name

    def ints(self, *numbers: int) -> str:
        """Add a constant list of integers (a shape, axes, places) and return its name."""
        return self.keep(f"ints {numbers}", np.array(numbers, dtype=np.int64))

    def do(self, operation: str, *inputs: str, ours: bool = False, outputs: int = 1, **how: Any) -> Any:
        """Add a node and return the name of its output, or the names when there are several."""
        made = [f"{operation} {len(self.nodes)}.{nth}" for nth in range(outputs)]
        self.nodes.append(helper.make_node(operation, inputs, made, domain=_OURS if ours else "", **how))
        return made[0] if outputs == 1 else made

    def model(self, result: str) -> onnx.ModelProto:
        """Return the ONNX model of all nodes, with the inputs and the output that fastembed expects."""
        self.nodes.append(helper.make_node("Identity", [result], ["last_hidden_state"]))
        graph = helper.make_graph(
            self.nodes,
            "all-MiniLM-L6-v2, lean",
            [helper.make_tensor_value_info(n, TensorProto.INT64, ["b", "s"]) for n in ("input_ids", "attention_mask")],
            [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["b", "s", WIDTH])],
            list(self.numbers.values()),
        )
        imports = [helper.make_opsetid("", 18), helper.make_opsetid(_OURS, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)


def write_graph(weights: Weights, target: Path) -> None:
    """Write the graph of these weights to a file."""
    graph = Graph()
    mask = _add_mask(graph)
    states = _add_embedding(graph, weights)
    for layer in range(LAYERS):
        states = _add_attention(graph, weights, f"layer.{layer}", states, mask)
        states = _fed_forward(graph, weights, f"layer.{layer}", states)
    onnx.save(graph.model(graph.do("Transpose", states, perm=[1, 0, 2])), target)


def _add_mask(graph: Graph) -> tuple[str, str]:
    """Return the mask of tokens as factors of values (place, text, 1) and of heads' sums (text, head, place, 1)."""
    by_text = graph.do("Cast", "attention_mask", to=TensorProto.FLOAT)
    by_place = graph.do("Transpose", by_text, perm=[1, 0])
    of_heads = graph.do("Expand", graph.do("Unsqueeze", by_text, graph.ints(1, 3)), graph.ints(1, HEADS, 1, 1))
    return graph.do("Unsqueeze", by_place, graph.ints(2)), of_heads


def _add_embedding(graph: Graph, weights: Weights) -> str:
    ids = graph.do("Transpose", "input_ids", perm=[1, 0])
    kept, scale = _round_weights(weights.of("word_embeddings.weight"), axis=1)
    words = graph.do("Cast", graph.do("Gather", graph.keep("words", kept), ids), to=TensorProto.FLOAT)
    words = graph.do("Mul", words, graph.do("Gather", graph.keep("words' scale", scale), ids))
    at_place = weights.of("position_embeddings.weight") + weights.of("token_type_embeddings.weight")[0]
    places = graph.keep("places", at_place[:, None, :])
    length = graph.do("Shape", ids, start=0, end=1)
    states = graph.do("Add", words, graph.do("Slice", places, graph.ints(0), length))
    return _add_normalisation(graph, weights, "embeddings.LayerNorm", states)


def _add_normalisation(graph: Graph, weights: Weights, name: str, states: str) -> str:
    kept = [graph.keep(f"{name}.{part}", weights.of(f"{name}.{part}")) for part in ("weight", "bias")]
    normed: str = graph.do("LayerNormalization", states, *kept, axis=-1, epsilon=1e-12)
    return normed


def _add_attention(graph: Graph, weights: Weights, layer: str, states: str, mask: tuple[str, str]) -> str:
    names = [f"{layer}.attention.self.{part}" for part in ("query", "key", "value")]
    products = [weights.products[name] for name in names]
    divisors = _balance_inputs(products[0])
    inputs = _add_balancing(graph, f"{layer}.attention", states, divisors)
    query, key, value = (
        _add_product(graph, name, inputs, one.weights * divisors[:, None], one.bias)
        for name, one in zip(names, products, strict=True)
    )
    value = graph.do("Mul", value, mask[0])
    by_head = graph.ints(0, 0, HEADS, WIDTH // HEADS)
    query, key, value = (graph.do("Reshape", one, by_head) for one in (query, key, value))
    scale = float(np.sqrt(HEADS / WIDTH))
    near = graph.do("FusedMatMul", query, key, ours=True, transBatchA=1, transBatchB=1, transB=1, alpha=scale)
    limits = (graph.keep(f"{limit}", np.array(limit, dtype=np.float32)) for limit in (-FARTHEST, FARTHEST))
    parts = graph.do("Exp", graph.do("Clip", near, *limits))
    sums = graph.do("FusedMatMul", parts, value, ours=True, transBatchB=1)
    sums = graph.do("Div", sums, graph.do("MatMul", parts, mask[1]))
    seen = graph.do("Reshape", graph.do("Transpose", sums, perm=[2, 0, 1, 3]), graph.ints(0, 0, WIDTH))
    name = f"{layer}.attention.output"
    dense = weights.products[f"{name}.dense"]
    out = _add_product(graph, f"{name}.dense", _add_quantisation(graph, seen), dense.weights, dense.bias)
    return _add_normalisation(graph, weights, f"{name}.LayerNorm", graph.do("Add", out, states))


def _fed_forward(graph: Graph, weights: Weights, layer: str, states: str) -> str:
    wide, narrow = weights.products[f"{layer}.intermediate.dense"], weights.products[f"{layer}.output.dense"]
    divisors = _balance_inputs(wide)
    inputs = _add_balancing(graph, f"{layer}.intermediate", states, divisors)
    towering = narrow.peaks > TOWERING
    outs = []
    for name, which in (("many", ~towering), ("few", towering)):
        if not which.any():
            continue
        raised = wide.weights[:, which] * divisors[:, None]
        middle = _add_product(graph, f"{layer}.intermediate.{name}", inputs, raised, wide.bias[which])
        middle = graph.do("Gelu", middle, ours=True)
        if name == "few":
            outs.append(graph.do("MatMul", middle, graph.keep(f"{layer}.output.{name}", narrow.weights[which])))
        else:
            quantised = _add_quantisation(graph, middle)
            outs.append(_add_product(graph, f"{layer}.output.{name}", quantised, narrow.weights[which], narrow.bias))
    for out in outs:
        states = graph.do("Add", out, states)
    return _add_normalisation(graph, weights, f"{layer}.output.LayerNorm", states)


def _balance_inputs(product: Product) -> Floats:
    """Return a divisor for each input of a product; its weights are multiplied by it."""
    level = np.sqrt(product.peaks / np.median(product.peaks))
    divisors: Floats = np.maximum(level, 1 / MOST_RAISED).astype(np.float32)
    return divisors


def _add_balancing(graph: Graph, name: str, states: str, divisors: Floats) -> Sequence[str]:
    return _add_quantisation(graph, graph.do("Mul", states, graph.keep(f"{name}.levels", 1 / divisors)))


def _add_quantisation(graph: Graph, states: str) -> Sequence[str]:
    """Add the quantisation of states; return the names of the 8-bit numbers, their scale and their zero point."""
    quantised: Sequence[str] = graph.do("DynamicQuantizeLinear", states, outputs=3)
    return quantised


def _add_product(graph: Graph, name: str, inputs: Sequence[str], weights: Floats, bias: Floats) -> str:
    """Add a product of 8-bit numbers, whose weights have a scale for each output; return its name."""
    rounded, scale = _round_weights(weights, axis=0, most=MOST_OF_A_WEIGHT)
    numbers = {"weights": rounded, "scale": scale[0], "bias": bias}
    kept = [graph.keep(f"{name}.{part}", values) for part, values in numbers.items()]
    states, level, zero = inputs
    product: str = graph.do("MatMulIntegerToFloat", states, kept[0], level, kept[1], zero, "", kept[2], ours=True)
    return product


def _round_weights(weights: Floats, axis: int, most: int = 127) -> tuple[NDArray[np.int8], Floats]:
    """Return the weights as whole numbers from -`most` to `most`, and their scales, one for each slice along `axis`."""
    largest = np.abs(weights).max(axis=axis, keepdims=True)
    scale = np.maximum(largest / most, np.finfo(np.float32).tiny).astype(np.float32)
    return np.clip(np.round(weights / scale), -most, most).astype(np.int8), scale
