"""Makes the fast variant of an ONNX sentence model: its activations become 8-bit integers too."""

import os
from pathlib import Path

import onnx
from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions  # type: ignore[attr-defined] # untyped
from onnxruntime.quantization.quant_utils import QuantType, add_pre_process_metadata
from onnxruntime.quantization.quantize import quantize_dynamic


def quantise(source: Path, target: Path) -> None:
    """Write the dynamically quantised variant of `source` to `target`; takes seconds.

    A graph with 8-bit weights keeps them behind nodes that turn them back to floats, where the quantiser
    does not see them: so those nodes are folded away first.
    """
    folded = target.with_name("folded.onnx")
    _fold(source, folded)
    graph = onnx.load(folded)
    add_pre_process_metadata(graph)  # the quantiser advises the folding that was just done
    quantize_dynamic(graph, target, per_channel=True, weight_type=QuantType.QInt8)
    folded.unlink()


def _fold(source: Path, target: Path) -> None:
    options = SessionOptions()
    options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = os.fspath(target)
    InferenceSession(os.fspath(source), options, providers=["CPUExecutionProvider"])
