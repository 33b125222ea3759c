"""Fetches models of fastembed's list by name from the hub, in a process of its own: this one never asks a hub.

The hub is `HF_ENDPOINT`, else huggingface.co. With `HF_HUB_OFFLINE` set by the operator nothing is fetched: the model
has to be in the folder for models already, in the hub's cache layout.
"""

import os
import subprocess
import sys
import tempfile
import threading
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

#: The longest a download may take, in seconds: models have up to gigabytes.
DOWNLOAD_S = 1800.0
POLL_S = 0.2
HUB = "https://huggingface.co"
#: Whether the operator forbids the hub: read before this process forbids it to itself.
OFFLINE = os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in {"1", "TRUE", "YES", "ON"}

_FETCH = """
import sys
from huggingface_hub import model_info
kind, name, cache = sys.argv[1:]
if kind == "TextEmbedding":
    from fastembed import TextEmbedding as Model
else:
    from fastembed.rerank.cross_encoder import TextCrossEncoder as Model
sources = [one["sources"]["hf"] for one in Model.list_supported_models() if one["model"].lower() == name.lower()]
if not sources:
    sys.exit("it is not in fastembed's list")
try:
    model_info(sources[0], timeout=10)
except Exception as error:
    sys.exit(f"the hub does not give it ({type(error).__name__})")
Model(name, cache_dir=cache, cuda=False, lazy_load=True)
"""


class ModelKind(StrEnum):
    """What fastembed calls a model of this kind."""

    SENTENCES = "TextEmbedding"
    CROSS_ENCODER = "TextCrossEncoder"


def fetch_model(kind: ModelKind, name: str, cache: Path, closing: threading.Event) -> str:
    """Download a model to `cache`; return '' or why it cannot be had, with the next step. Blocks until `closing`."""
    if OFFLINE:
        return f"HF_HUB_OFFLINE is set and the model is not in {cache}"
    environment = {**os.environ, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    environment.pop("HF_HUB_OFFLINE", None)
    argv = [sys.executable, "-P", "-c", _FETCH, kind.value, name, str(cache)]
    quiet = subprocess.DEVNULL
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(argv, env=environment, stdin=quiet, stdout=quiet, stderr=said) as fetching:  # noqa: S603 - ours
            give_up = threading.Timer(DOWNLOAD_S, fetching.kill)
            give_up.start()
            while fetching.poll() is None and not closing.wait(POLL_S):
                pass
            give_up.cancel()
            fetching.kill()
        if fetching.returncode == 0:
            return ""
        said.seek(0)
        last = said.read().decode(errors="replace").strip().rpartition("\n")[2]
    hub = urlsplit(os.environ.get("HF_ENDPOINT") or HUB).hostname
    return (
        f"{last[:200] or 'the download ended early'}; the hub is {hub}: set HF_ENDPOINT to a mirror, or copy the model "
        f"to {cache} from a machine that reaches one"
    )
