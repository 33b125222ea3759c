"""`afterturn contract-test`, delegated to the package `memory-plugin-kit`."""

import typer

from producers.contract_kit.command import run_contract_test


def contract_test_command(context: typer.Context) -> None:
    """Test any memory plugin against every clause of contract v1, over HTTP."""
    raise typer.Exit(run_contract_test(context.args))
