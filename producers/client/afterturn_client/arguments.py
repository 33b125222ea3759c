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


def check_objects(name: str, value: object, what: str, otherwise: str = "") -> None:
    """Raise InvalidRequestError for what is no list of mappings.

    `what` says what each may be, and `otherwise` what may stand in place of the list.
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        may_be = f"{otherwise} or a list" if otherwise else "a list"
        raise InvalidRequestError(f"{name} must be {may_be}, each {what}; not {type(value).__name__}")
    for n, one in enumerate(value):
        if not isinstance(one, Mapping):
            raise InvalidRequestError(f"{name}[{n}] must be {what}; not {type(one).__name__}")


def check_metadata(value: object) -> None:
    """Raise InvalidRequestError for what is no mapping of texts by name."""
    if not isinstance(value, Mapping):
        raise InvalidRequestError(f"metadata must be texts by name, not {type(value).__name__}")
    for name, one in value.items():
        check_text("a name in metadata", name)
        check_text("a value in metadata", one)


def check_seconds(name: str, value: object) -> None:
    """Raise InvalidRequestError for what is no number of seconds above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise InvalidRequestError(f"{name} must be a number of seconds above 0")


def check_texts(name: str, value: object) -> None:
    """Raise InvalidRequestError for what is no list of texts."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise InvalidRequestError(f"{name} must be a list of texts, not {type(value).__name__}")
    for n, one in enumerate(value):
        check_text(f"{name}[{n}]", one)
