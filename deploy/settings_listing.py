"""Lists settings as a person may see them: secrets are masked."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

MASK = "********"


def list_settings(part: BaseModel, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every setting below a part as (dotted key, value fit to be shown)."""
    for name in type(part).model_fields:
        value = getattr(part, name)
        if isinstance(value, BaseModel):
            yield from list_settings(value, f"{above}{name}.")
        else:
            yield above + name, mask_value(value)


def mask_value(value: Any) -> Any:
    """Return a value with secrets masked; of a URL, its password and query."""
    if isinstance(value, SecretStr):
        plain = value.get_secret_value()
        return (_mask_url(plain) if "://" in plain else MASK) if plain else ""
    if isinstance(value, bool | int | float) or value is None:
        return value
    return _mask_url(str(value)) if "://" in str(value) else str(value)


def _mask_url(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return MASK
    login, at, place = parts.netloc.rpartition("@")
    user, colon, _password = login.partition(":")
    if "@" in user or "/" in user or not place or "@" in parts.path:
        return MASK
    query = MASK if parts.query else ""
    return parts._replace(netloc=f"{user}{colon}{MASK if colon else ''}{at}{place}", query=query, fragment="").geturl()
