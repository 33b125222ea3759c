"""Measures the floor of the stages: the processor time of their bare library calls.

The processor time of both ends of a call counts, the caller and the server (the gateway's process, the backend),
because both use the cores that the pipeline has.
"""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import httpx
import orjson
from sqlalchemy import text

from deploy.lab.bench.bench_database import BenchDatabase
from deploy.lab.bench.pipeline_stack import GATEWAY_KEY, GATEWAY_USER, PipelineStack
from deploy.lab.bench.usage import read_cpu_seconds
from embeddings.batching import group_by_length
from embeddings.model_files import model_folder
from embeddings.settings import EmbeddingSettings, Variant
from store.memory.turns import NewTurn
from store.tenancy.gateway_targets import CHAT
from store.text.rules import MessageText, TurnText, extract_turn
from workers import gateway_machine as machine

if TYPE_CHECKING:
    from fastembed import TextEmbedding

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
#: Limits of a batch of texts: by tokens with padding, and by number of texts.
TOKENS = (128, 256, 512, 1024)
SIZES = (1, 2, 4, 8, 16, 32)

EMBEDDED = text("""
    select u.content from afterturn.agent_memory_unit_t u
     where u.host_id = :host and exists (select from afterturn.unit_vector_t v
            where v.host_id = u.host_id and v.bank_id = u.bank_id and v.unit_id = u.unit_id)""")


def time_rules(turns: Sequence[NewTurn]) -> float:
    """Apply the extraction rules to turns; return the processor time in seconds."""
    offered = [_make_turn_text(turn) for turn in turns]
    before = time.process_time()
    for turn in offered:
        extract_turn(turn)
    return time.process_time() - before


def _make_turn_text(turn: NewTurn) -> TurnText:
    return TurnText(tuple(MessageText(m.role, m.content, m.name) for m in turn.messages), turn.occurred_at)


async def read_embedded_texts(ground: BenchDatabase, host: UUID) -> list[str]:
    """Return the texts of a host that the stages embedded."""
    async with ground.owner.connect() as connection:
        return list((await connection.execute(EMBEDDED, {"host": host})).scalars())


def time_embedding(embedded: Sequence[str], cache: Path, variant: Variant, sample: int) -> float:
    """Embed texts by fastembed on one thread, with the fastest way to batch; return the processor time in seconds."""
    model = _open_model(model_folder(EmbeddingSettings(variant=variant), cache))
    some = embedded[:: max(1, len(embedded) // sample)]
    _time_batches(model, [some])
    # The fastest batching of a sample is used for all; each sorts the texts by length.
    best = min(_list_batchings(model, some), key=lambda way: _time_batches(model, way[1]))[0]
    return _time_batches(model, dict(_list_batchings(model, list(embedded)))[best])


def _open_model(folder: Path) -> "TextEmbedding":
    os.environ["HF_HUB_OFFLINE"] = "1"
    from fastembed import TextEmbedding  # noqa: PLC0415 - its import takes a second

    return TextEmbedding(MODEL, cache_dir=str(folder.parent), specific_model_path=str(folder), threads=1, cuda=False)


def _list_batchings(model: "TextEmbedding", embedded: Sequence[str]) -> Iterator[tuple[str, list[list[str]]]]:
    lengths = [model.token_count(one) for one in embedded]
    for tokens in TOKENS:
        yield f"{tokens} tokens", [[embedded[n] for n in batch] for batch in group_by_length(lengths, tokens)]
    ordered = [embedded[n] for n in sorted(range(len(embedded)), key=lengths.__getitem__)]
    for size in SIZES:
        yield f"{size} texts", [ordered[n : n + size] for n in range(0, len(ordered), size)]


def _time_batches(model: "TextEmbedding", cut: Sequence[Sequence[str]]) -> float:
    before = time.process_time()
    for batch in cut:
        list(model.embed(batch, batch_size=len(batch)))
    return time.process_time() - before


async def time_gateway_posts(stack: PipelineStack, turns: Sequence[NewTurn]) -> float:
    """Post turns to the gateway by httpx alone; return the processor time of both sides in seconds."""
    calls = [call for turn in turns for call in encode_gateway_calls(turn)]
    headers = {"content-type": "application/json"}
    async with httpx.AsyncClient(base_url=stack.gateway_url, trust_env=False, headers=headers) as client:
        before = time.process_time() + read_cpu_seconds(stack.gateway_pid)
        for path, body in calls:
            (await client.post(path, content=body)).raise_for_status()
        return time.process_time() + read_cpu_seconds(stack.gateway_pid) - before


def encode_gateway_calls(turn: NewTurn) -> Iterator[tuple[str, bytes]]:
    """Yield path and body of each call that delivers a turn to the gateway."""
    said = [
        machine.TranscriptMessage(m.role, m.content, m.occurred_at) for m in turn.messages if m.occurred_at is not None
    ]
    sent = machine.build_delivery(said, GATEWAY_USER)
    if sent is None:
        return
    session = f"{CHAT}{turn.bank}/{turn.session_name}"
    of_session = {"user_id": GATEWAY_USER, "user_key": GATEWAY_KEY, "session_id": session}
    scope = {"app_id": "default", "project_id": "default"}
    messages = [
        {"sender_id": m.sender_id, "role": m.role, "timestamp": m.timestamp_ms, "content": m.content} for m in sent
    ]
    yield "/memories/add", orjson.dumps({**of_session, **scope, "messages": messages})
    yield "/memories/flush", orjson.dumps({**of_session, **scope})
