"""Checks the URL of a Redis or Valkey before it is used: libraries quote parts of a URL that they cannot read."""

from urllib.parse import urlsplit

from pydantic import SecretStr
from pydantic_core import PydanticCustomError
from redis.connection import parse_url

#: How the URL of a Redis or Valkey may begin, and what to do about a password that ends it too early.
REDIS_SCHEMES = ("redis://", "rediss://", "unix://")
NOT_ENCODED = "in a user or password, write / # ? @ : and % percent-encoded (%2F %23 %3F %40 %3A %25)"


def check_redis_url(url: SecretStr) -> SecretStr:
    """Return the URL of a Redis or Valkey, or an empty one. Raises PydanticCustomError, which repeats no part of it."""
    told = url.get_secret_value()
    flaw = ""
    try:
        parts = urlsplit(told)
        if told and not told.startswith(REDIS_SCHEMES):
            flaw = f"must begin with one of {', '.join(REDIS_SCHEMES)}"
        elif "@" in parts.path + parts.query + parts.fragment:
            # Something in the password ended what stands before the host.
            flaw = NOT_ENCODED
        elif told:
            parse_url(told)  # type: ignore[no-untyped-call]  # redis leaves it without annotations
    except ValueError:
        flaw = f"is no URL of the form redis://[user:password@]host:port/db; {NOT_ENCODED}"
    if flaw:
        raise PydanticCustomError("redis_url", "{flaw}", {"flaw": flaw})
    return url
