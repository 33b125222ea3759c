"""Makes the plain 8-bit variant of an ONNX sentence model: its activations become 8-bit integers too."""

import os
from pathlib import Path

import onnx
from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions  # type: ignore[attr-defined] # untyped
from onnxruntime.quantization.quant_utils import QuantType, add_pre_process_metadata
from onnxruntime.quantization.quantize import quantize_dynamic


def quantise_model(source: Path, target: Path) -> None:
    """Write the dynamically quantised variant of `source` to `target`; takes seconds.

    A graph with 8-bit weights has nodes that turn them back to floats, and the quantiser does not see weights
    behind these: so constants are folded first.
    """
    folded = target.with_name("folded.onnx")
    fold_constants(source, folded)
    graph = onnx.load(folded)
    add_pre_process_metadata(graph)  # the quantiser advises the folding that was just done
    quantize_dynamic(
        graph,
        target,
        per_channel=True,
        # Of 7 bits: with 8, sums overflow on processors without instructions of their own for 8-bit products.
        reduce_range=True,
        weight_type=QuantType.QInt8,
        nodes_to_exclude=_find_sensitive_products(graph),
    )
    folded.unlink()


def _find_sensitive_products(graph: onnx.ModelProto) -> list[str]:
    """Return the names of the products that 8-bit inputs harm most: where the first two layers narrow again."""
    shapes = {weights.name: tuple(weights.dims) for weights in graph.graph.initializer}
    products = [node for node in graph.graph.node if node.op_type == "MatMul" and node.input[1] in shapes]
    narrowing = [node.name for node in products if shapes[node.input[1]][0] > shapes[node.input[1]][-1]]
    return narrowing[:2]


def fold_constants(source: Path, target: Path) -> None:
    """Write the graph of `source` with its constant parts folded, so that weights are plain numbers, to `target`."""
    options = SessionOptions()
    options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = os.fspath(target)
    InferenceSession(os.fspath(source), options, providers=["CPUExecutionProvider"])
