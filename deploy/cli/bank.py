"""`afterturn bank`: set the properties of a bank."""

from typing import Annotated

import typer

from deploy.cli.options import DataOption, JsonOption, create_group
from deploy.cli.output import print_json
from deploy.cli.running_stack import find_running_stack, open_client
from store.text.word_rules import AUTO, NONE, supported_languages

LANGUAGES = ", ".join((AUTO, NONE, *supported_languages()))

bank_app = create_group()


@bank_app.command(
    "language",
    help=f"""Set the language of a bank, which decides its stop words and stems.

`auto` reads each word by its script, Latin letters as English; `none` leaves words as they stand. Older memories are
indexed anew within about a minute, and found meanwhile. One of: {LANGUAGES}.

**Example:** `afterturn bank language support de`
""",
)
def language_command(
    bank: Annotated[str, typer.Argument(metavar="BANK", help="The bank.")],
    language: Annotated[str, typer.Argument(metavar="LANGUAGE", help="Its language.")],
    *,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change a bank's language."""
    with open_client(find_running_stack(data), bank) as client:
        done = client.set_language(language)
    if as_json:
        print_json({"ok": True, "bank": done.bank, "language": done.language, "settled": done.settled})
    else:
        print(f"{done.bank}: {done.language}{'' if done.settled else '; older words follow'}")


@bank_app.callback()
def _keep_group() -> None:
    """Make a single command keep its name: without this, typer would drop it."""
