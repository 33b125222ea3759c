"""The model's folder: assembled once, whole or not at all."""

import multiprocessing
from pathlib import Path

import onnx
import pytest

from embeddings.errors import ModelMismatch
from embeddings.minilm.__main__ import make_lean
from embeddings.model_files import model_folder
from embeddings.settings import EmbeddingSettings, Variant

WEIGHTS = EmbeddingSettings(variant=Variant.WEIGHTS)


def test_the_folder_is_made_once(tmp_path: Path) -> None:
    first = model_folder(WEIGHTS, tmp_path)
    made_at = (first / "model.onnx").stat().st_mtime_ns
    assert model_folder(WEIGHTS, tmp_path) == first
    assert (first / "model.onnx").stat().st_mtime_ns == made_at


def test_processes_that_start_at_once_share_one_folder(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        folders = pool.starmap(model_folder, [(WEIGHTS, tmp_path)] * 3)
    assert len(set(folders)) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", folders[0].name]


def test_each_variant_has_its_own_folder(tmp_path: Path) -> None:
    weights = model_folder(WEIGHTS, tmp_path)
    lean = model_folder(EmbeddingSettings(), tmp_path)
    assert weights != lean
    assert (weights / "model.onnx").read_bytes() != (lean / "model.onnx").read_bytes()


def test_what_a_killed_process_left_is_cleared_away(tmp_path: Path) -> None:
    (tmp_path / ".making-left").mkdir()
    folder = model_folder(WEIGHTS, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", folder.name]


def test_a_graph_of_another_model_is_refused_and_hangs_nobody(tmp_path: Path) -> None:
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    shape = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = onnx.helper.make_graph([node], "another", shape[:1], shape[1:])
    onnx.save(
        onnx.helper.make_model(graph, ir_version=10, opset_imports=[onnx.helper.make_opsetid("", 18)]),
        tmp_path / "model.onnx",
    )
    with pytest.raises(ModelMismatch):
        make_lean(tmp_path / "model.onnx", tmp_path / "tokenizer.json", tmp_path / "lean.onnx")
