"""Checks arguments where they are given: a value of a wrong type never reaches a request.

Errors name the argument and what it may be, never its value.
"""

from collections.abc import Mapping, Sequence

from afterturn_client.errors import InvalidRequestError


def check_text(name: str, value: object) -> str:
    """Return a text. Raises InvalidRequestError for anything else."""
    if not isinstance(value, str):
        raise InvalidRequestError(f"{name} must be a text (str), not {type(value).__name__}")
    return value


def check_name(name: str, value: object) -> str:
    """Return a text that names something. Raises InvalidRequestError for anything else, and for a blank one."""
    if not check_text(name, value).strip():
        raise InvalidRequestError(f"{name} must not be blank")
    return str(value)


def check_objects(name: str, value: object, what: str) -> None:
    """Raise InvalidRequestError for what is no list of mappings; `what` says what each may be."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        raise InvalidRequestError(f"{name} must be a list, each {what}; not {type(value).__name__}")
    for n, one in enumerate(value):
        if not isinstance(one, Mapping):
            raise InvalidRequestError(f"{name}[{n}] must be {what}; not {type(one).__name__}")


def check_texts(name: str, value: object) -> None:
    """Raise InvalidRequestError for what is no list of texts."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise InvalidRequestError(f"{name} must be a list of texts, not {type(value).__name__}")
    for n, one in enumerate(value):
        check_text(f"{name}[{n}]", one)
