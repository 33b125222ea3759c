"""A hub on loopback that has one model, by the part of the hub's API that its own client asks for."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.responses import JSONResponse, Response

from tests.client.loopback import Loopback, Seen, loopback

COMMIT = "c" * 40


@contextmanager
def hub_of(repository: str, folder: Path) -> Iterator[Loopback]:
    """Serve the files of a folder as the newest commit of a repository."""

    def answer(seen: Seen) -> Response:
        about = f"/api/models/{repository}"
        if seen.path in {about, f"{about}/revision/main", f"{about}/revision/{COMMIT}"}:
            names = [{"rfilename": file.name} for file in files]
            return JSONResponse({"id": repository, "modelId": repository, "sha": COMMIT, "siblings": names})
        if seen.path == f"{about}/tree/{COMMIT}":
            return JSONResponse(
                [
                    {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": _digest(file)}
                    for file in files
                ]
            )
        file = folder / seen.path.rpartition("/")[2]
        if not seen.path.startswith(f"/{repository}/resolve/") or not file.is_file():
            return JSONResponse({"error": "not found"}, 404, {"x-error-code": "EntryNotFound"})
        headers = {"etag": f'"{_digest(file)}"', "x-repo-commit": COMMIT}
        return Response(file.read_bytes(), headers=headers, media_type="application/octet-stream")

    files = sorted(folder.iterdir())
    with loopback() as server:
        server.answer = answer
        yield server


def _digest(file: Path) -> str:
    return hashlib.sha1(file.read_bytes(), usedforsecurity=False).hexdigest()
