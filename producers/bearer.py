"""Reads the key of a request: every HTTP interface takes it as a bearer token."""

from starlette.datastructures import Headers


def read_bearer(headers: Headers) -> str:
    """Return the token of the header `authorization`; empty where there is none, or another scheme."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
