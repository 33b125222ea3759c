"""Hashes passwords as PostgreSQL stores them, so that none is part of a statement that a server may log."""

import base64
import hashlib
import hmac
import secrets

#: PostgreSQL's defaults.
ITERATIONS, SALT_BYTES = 4096, 16


def make_verifier(password: str) -> str:
    """Return the SCRAM-SHA-256 verifier of an ASCII password, as `ALTER ROLE ... PASSWORD` takes it (RFC 5803)."""
    salt = secrets.token_bytes(SALT_BYTES)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode("ascii"), salt, ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    encoded = [base64.b64encode(part).decode("ascii") for part in (salt, stored, server)]
    return f"SCRAM-SHA-256${ITERATIONS}:{encoded[0]}${encoded[1]}:{encoded[2]}"
