"""A certificate authority of one test, and what it signs."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.packages import program

DAYS = "2"


@dataclass(frozen=True, slots=True)
class Certificate:
    """Files of a certificate and its key (PEM)."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates; nothing but a client that is given `certificate` trusts them."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._openssl = program("openssl", "openssl")
        self.certificate = folder / f"{name}.crt"
        self._key = folder / f"{name}.key"
        self._run(
            "req", "-x509", *self._new_key(self._key), "-subj", f"/CN={name}", "-days", DAYS, "-out", self.certificate
        )  # fmt: skip

    def sign(self, common_name: str, *names: str) -> Certificate:
        """Make a certificate for DNS names (or none: a client's, by its common name)."""
        stem = self._folder / f"{common_name}-{len(list(self._folder.iterdir()))}"
        made = Certificate(stem.with_suffix(".crt"), stem.with_suffix(".key"))
        request, extensions = stem.with_suffix(".csr"), stem.with_suffix(".ext")
        alternatives = ",".join(f"DNS:{name}" for name in names)
        extensions.write_text(f"subjectAltName={alternatives}\n" if names else "basicConstraints=CA:FALSE\n")
        self._run("req", *self._new_key(made.key), "-subj", f"/CN={common_name}", "-out", request)
        signing = ("-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial", "-extfile", extensions)
        self._run("x509", "-req", "-in", request, "-days", DAYS, *signing, "-out", made.certificate)
        return made

    @staticmethod
    def _new_key(path: Path) -> tuple[str | Path, ...]:
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", path)

    def _run(self, *arguments: str | Path) -> None:
        subprocess.run([self._openssl, *arguments], check=True, capture_output=True)
