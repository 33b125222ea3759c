"""Validates names in command-line arguments by the API's rules.

This refuses an empty name, which comes from an unset shell variable: as a user id it would select the memories without
a user.
"""

from collections.abc import Callable
from typing import Any

import typer
from pydantic import TypeAdapter, ValidationError

from producers.service.fields import BankName, Name, SessionName


def _create_parser(field: Any) -> Callable[[str], str]:
    rule: TypeAdapter[str] = TypeAdapter(field)

    def parsed(text: str) -> str:
        try:
            return rule.validate_python(text)
        except ValidationError as error:
            raise typer.BadParameter(error.errors()[0]["msg"]) from None

    return parsed


#: Parses the name of a host, a user or an agent; raises typer.BadParameter, as the next two do.
parse_name = _create_parser(Name)
#: Parses the name of a bank.
parse_bank = _create_parser(BankName)
#: Parses the name of a session.
parse_session = _create_parser(SessionName)
