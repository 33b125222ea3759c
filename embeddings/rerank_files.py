"""Checks the folder of a cross-encoder: an ONNX model and its tokenizer."""

from pathlib import Path

#: Paths at which exporters put the model; the first that exists is taken.
MODEL_FILES = ("model.onnx", "onnx/model.onnx", "onnx/model_quantized.onnx", "onnx/model_int8.onnx")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")


def model_file(folder: Path) -> str:
    """Return the path of the model's file within the folder. Raises ValueError, which names what is missing."""
    missing = [name for name in TOKENIZER_FILES if not (folder / name).is_file()]
    found = next((name for name in MODEL_FILES if (folder / name).is_file()), None)
    if found is None:
        missing.append(MODEL_FILES[0])
    if found is None or missing:
        raise ValueError(f"is no folder of a cross-encoder: there is no {', no '.join(missing)}")
    return found
