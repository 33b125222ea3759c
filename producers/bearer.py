"""Reads the key of a request: every HTTP interface takes it as a bearer token."""

from starlette.datastructures import Headers


def read_bearer(headers: Headers) -> str:
    """Return the token of the header `authorization`; empty where there is none, another scheme, or a second header.

    Of two, a proxy may have checked the other one.
    """
    said = headers.getlist("authorization")
    scheme, _, token = (said[0] if len(said) == 1 else "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
