"""A memory plugin over a small vector index, with one capability: `embedding`. The example of vector-plugin.md.

    python vector_plugin.py --listen 127.0.0.1:9100 --file memories.sqlite

`VectorIndex` is what a vector database does: replace it by the client of yours. `VectorStore` says what contract v1
makes of it. It needs numpy and the contract kit.
"""

import argparse
import json
import math
import signal
import sqlite3
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from producers.contract_kit.flat_plugin import (
    Body,
    FlatHandler,
    FlatServer,
    FlatStore,
    PluginError,
    bad_request,
    check_id,
    check_name,
    not_found,
    now,
)

Vector = NDArray[np.float32]

LARGEST = sys.float_info.max
#: Seconds that a request waits for another process that writes to the file.
BUSY_S = 5.0
#: The deletion of a namespace is one of its memories; the key of a memory is its namespace and its id.
SCHEMA = """
create table if not exists namespace (name text primary key, body text not null);
create table if not exists memory (
  namespace text not null references namespace on delete cascade,
  id text not null,
  kind text not null,
  created_at text not null,
  body text not null,
  vector blob,
  primary key (namespace, id)
);
"""
#: The memories of some namespaces and kinds, each a JSON list of names.
OF_THESE = "namespace in (select value from json_each(?)) and kind in (select value from json_each(?))"


class OtherDimensions(Exception):
    """The index holds vectors of another number of dimensions; the text says which."""


class VectorIndex:
    """Vectors of one length with metadata, by namespace and id, in one SQLite file: compared exactly, by cosine.

    Every call is one transaction and opens the file anew, so that an index that is away is noticed at once. Raises
    sqlite3.Error while the file is away or damaged.
    """

    def __init__(self, file: Path) -> None:
        self._url = f"{file.absolute().as_uri()}?mode=rw"
        index = sqlite3.connect(f"{self._url}c", uri=True, timeout=BUSY_S)
        index.executescript(SCHEMA)
        index.close()

    def ping(self) -> None:
        """Read from the index."""
        with self.open() as index:
            index.execute("select count(*) from namespace").fetchone()

    def upsert(self, namespace: str, memory_id: str, vector: Vector | None, body: Body) -> None:
        """Insert a memory, or replace it under its id and keep its time; a retry doubles nothing.

        Raises sqlite3.IntegrityError where the namespace does not exist, OtherDimensions.
        """
        values = None if vector is None else vector.tobytes()
        with self.open(writes=True) as index:
            check_dimensions(index, vector)
            index.execute(
                "insert into memory (namespace, id, kind, created_at, body, vector) values (?, ?, ?, ?, ?, ?)"
                " on conflict (namespace, id) do update"
                " set kind = excluded.kind, body = excluded.body, vector = excluded.vector",
                (namespace, memory_id, body["kind"], now(), json.dumps(body), values),
            )

    def query(self, namespaces: Sequence[str], kinds: Sequence[str], vector: Vector, limit: int) -> list[Body]:
        """Return the nearest memories that have a vector, the nearest first; equal ones, the newest first."""
        with self.open() as index:
            check_dimensions(index, vector)
            rows = index.execute(
                f"select vector, created_at, id, namespace from memory where {OF_THESE} and vector is not null",
                (json.dumps(namespaces), json.dumps(kinds)),
            ).fetchall()
            stored = np.frombuffer(b"".join(row[0] for row in rows), np.float32).reshape(-1, len(vector))
            scored = zip((stored @ vector).tolist(), (row[1:] for row in rows), strict=True)
            nearest = sorted(scored, reverse=True)[:limit]
            return [read_memory(index, *key) | {"score": score} for score, key in nearest]

    def newest(self, namespaces: Sequence[str], kinds: Sequence[str], limit: int) -> list[Body]:
        """Return the newest memories, with a vector or without."""
        with self.open() as index:
            keys = index.execute(
                f"select created_at, id, namespace from memory where {OF_THESE} order by 1 desc, 2 desc limit ?",
                (json.dumps(namespaces), json.dumps(kinds), limit),
            ).fetchall()
            return [read_memory(index, *key) for key in keys]

    def delete(self, namespace: str, memory_id: str) -> bool:
        """Delete a memory; return whether it was there."""
        with self.open(writes=True) as index:
            gone = index.execute("delete from memory where (namespace, id) = (?, ?)", (namespace, memory_id))
            return gone.rowcount > 0

    @contextmanager
    def open(self, *, writes: bool = False) -> Iterator[sqlite3.Connection]:
        """Lend a connection to the file, which must exist, in a transaction that ends with the block."""
        index = sqlite3.connect(self._url, uri=True, timeout=BUSY_S, isolation_level=None)
        try:
            index.execute("pragma foreign_keys = on")
            index.execute("begin immediate" if writes else "begin")
            yield index
            index.execute("commit")
        finally:
            index.close()


class Namespaces(MutableMapping[str, Body]):
    """The namespaces of an index, as the flat plugin's dictionary of them; deleting one deletes its memories."""

    def __init__(self, index: VectorIndex) -> None:
        self.open = index.open

    def __getitem__(self, name: str) -> Body:
        with self.open() as index:
            found = index.execute("select body from namespace where name = ?", (name,)).fetchone()
        if found is None:
            raise KeyError(name)
        body: Body = json.loads(found[0])
        return body

    def __setitem__(self, name: str, body: Body) -> None:
        with self.open(writes=True) as index:
            index.execute(
                "insert into namespace (name, body) values (?, ?)"
                " on conflict (name) do update set body = excluded.body",
                (name, json.dumps(body)),
            )

    def __delitem__(self, name: str) -> None:
        with self.open(writes=True) as index:
            index.execute("delete from namespace where name = ?", (name,))

    def __iter__(self) -> Iterator[str]:
        with self.open() as index:
            return iter([name for (name,) in index.execute("select name from namespace order by name")])

    def __len__(self) -> int:
        return len(list(iter(self)))


class VectorStore(FlatStore):
    """The contract's decisions over an index: what has a vector is searched by it, a query without one lists."""

    capabilities = ("embedding",)

    def __init__(self, index: VectorIndex) -> None:
        super().__init__()
        self.index = index
        self.namespaces = Namespaces(index)

    def health(self) -> Body:
        """Return the HealthResponse, once the index was read."""
        self.index.ping()
        return super().health()

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace and its memories."""
        check_name(name)
        with self.lock:
            self.known_namespace(name)
            del self.namespaces[name]

    def write(self, name: str, body: Body) -> Body:
        """Write a memory by the index's own upsert."""
        check_name(name)
        fields, vector = self.memory_fields(body), read_vector(body)
        memory_id = check_id(body["id"]) if body.get("id") is not None else str(uuid4())
        try:
            with self.lock:
                self.index.upsert(name, memory_id, vector, fields)
        except sqlite3.IntegrityError:
            raise not_found(f"no namespace {name}") from None
        return {"id": memory_id, "namespace": name}

    def find(self, names: Sequence[str], kinds: Sequence[str], limit: int, body: Body) -> list[Body]:
        """Return what is nearest to the search's vector; without one, the newest."""
        vector = read_vector(body)
        if vector is None:
            return self.index.newest(names, kinds, limit)
        return self.index.query(names, kinds, vector, limit)

    def forget(self, memory_id: str, body: Body) -> None:
        """Forget a memory of the namespace that asks; any other does not exist for it."""
        name = check_name(body.get("requested_by_namespace"))
        key = (name, check_id(memory_id))
        with self.lock:
            if not self.index.delete(*key):
                raise not_found("memory not found in namespace")


class VectorHandler(FlatHandler):
    """Answers 503 while the index is away, and 400 for vectors that it does not compare."""

    def route(self) -> tuple[int, Body | None]:
        """Return the status and the body that answer this request."""
        try:
            return super().route()
        except OtherDimensions as error:
            raise bad_request(str(error)) from None
        except sqlite3.Error:
            raise PluginError(503, "unavailable", "the index cannot be read") from None


def read_vector(body: Body) -> Vector | None:
    """Return the body's embedding in unit length; None for none. Raises PluginError for what is no direction."""
    numbers = body.get("embedding")
    if numbers is None or numbers == []:
        return None
    if not isinstance(numbers, list) or not all(type(one) in {int, float} and abs(one) <= LARGEST for one in numbers):
        raise bad_request("embedding must be a list of finite numbers")
    largest = max(abs(one) for one in numbers)
    if not largest:
        raise bad_request("embedding must not be zeros alone")
    scaled = [one / largest for one in numbers]
    length = math.hypot(*scaled)
    return np.array([one / length for one in scaled], np.float32)


def check_dimensions(index: sqlite3.Connection, vector: Vector | None) -> None:
    """Compare a vector's length with that of the vectors in the index. Raises OtherDimensions."""
    known = index.execute("select length(vector) / 4 from memory where vector is not null limit 1").fetchone()
    if vector is not None and known is not None and known[0] != len(vector):
        raise OtherDimensions(f"embedding must have {known[0]} numbers, as those that are stored; it has {len(vector)}")


def read_memory(index: sqlite3.Connection, created_at: str, memory_id: str, namespace: str) -> Body:
    """Return a memory as an answer has it."""
    [body] = index.execute("select body from memory where (namespace, id) = (?, ?)", (namespace, memory_id)).fetchone()
    return {"id": memory_id, "namespace": namespace, "created_at": created_at, **json.loads(body)}


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description="A memory plugin over a vector index in one file.")
    parser.add_argument("--listen", default="127.0.0.1:9100", metavar="HOST:PORT", help="port 0 takes a free one")
    parser.add_argument("--file", default="memories.sqlite", type=Path, help="where the index is kept")
    asked = parser.parse_args()
    host, _, port = asked.listen.rpartition(":")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with FlatServer((host, int(port)), VectorStore(VectorIndex(asked.file)), VectorHandler) as server:
        print(f"listening on http://{host}:{server.server_address[1]}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            sys.exit(130)


if __name__ == "__main__":
    main()
