"""`afterturn mcp`, `hook` and `hooks`: commands that run beside an agent, delegated to `afterturn-client`."""

import typer
from afterturn_client import command


def mcp_command(context: typer.Context) -> None:
    """Serve the memory tools over standard input and output, for MCP clients that start a program."""
    raise typer.Exit(command.main(["mcp", *context.args]))


def hook_command(context: typer.Context) -> None:
    """Run a hook of a coding agent: recall beside each prompt, keep each turn."""
    raise typer.Exit(command.main(["hook", *context.args]))


def hooks_command(context: typer.Context) -> None:
    """Install the hooks into a coding agent's settings, or remove them."""
    raise typer.Exit(command.main(["hooks", *context.args]))
