"""What the plugin commands work with: DATABASE_URL, MEMORY_PLUGIN_*, the tree of workspaces, the sentence model."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from sqlalchemy.ext.asyncio import AsyncEngine

from deploy.cli.output import exit_with
from deploy.cli.running_stack import read_settings
from deploy.components.settings_model import SettingsModel
from producers.perimeter.client import PluginAddress, parse_timeout
from producers.perimeter.embedder import LazyEmbedder
from producers.perimeter.trees import FileTree, TableTree, TreeTable, WorkspaceTree
from store.connections import create_engine

CONNECT_S = 5.0

WorkspacesOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The tree of workspaces (JSON or YAML): `workspaces`, a list of id, parent, name; or `table`, how the "
        "table of DATABASE_URL is called (default: the table workspaces, with id, parent_id, name, status).",
    ),
]
EmbedderOption = Annotated[
    bool,
    typer.Option(
        "--embedder",
        help="Send vectors to a plugin with the capability embedding: the model of the settings `embedding.*` makes "
        "them, and is loaded at the first text.",
    ),
]


def create_model(config: Path | None) -> SettingsModel:
    """Return the sentence model of the settings, not loaded; exits 2 for unusable settings."""
    settings = read_settings(config)
    return SettingsModel(settings.embedding, settings.data)


@asynccontextmanager
async def open_embedder(model: SettingsModel | None) -> AsyncIterator[LazyEmbedder | None]:
    """Yield an embedder that loads the model at its first text; None without a model."""
    if model is None:
        yield None
        return
    embedder = LazyEmbedder(model.load_own)
    try:
        yield embedder
    finally:
        await embedder.aclose()
        await model.close()


def plugin_address(timeout: str) -> PluginAddress | None:
    """Return the plugin's address, None when MEMORY_PLUGIN_URL is not set; `timeout` is the default time-out."""
    url, ca_file = os.environ.get("MEMORY_PLUGIN_URL"), os.environ.get("MEMORY_PLUGIN_CA_FILE")
    if not url:
        return None
    return PluginAddress(
        url,
        parse_timeout(os.environ.get("MEMORY_PLUGIN_TIMEOUT") or timeout),
        os.environ.get("MEMORY_PLUGIN_TOKEN") or None,
        Path(ca_file) if ca_file else None,
    )


@asynccontextmanager
async def open_engine(url: str) -> AsyncIterator[AsyncEngine | None]:
    """Yield an engine for the platform's database, its sessions in UTC; None when no URL is set."""
    if not url:
        yield None
        return
    engine = create_engine(url, timeout_s=CONNECT_S, driver={"server_settings": {"timezone": "UTC"}}, pool_size=2)
    try:
        yield engine
    finally:
        await engine.dispose()


def describe_workspaces(file: Path | None) -> Mapping[str, Any]:
    """Return the contents of the --workspaces file; exits 2 when it is invalid."""
    try:
        described = yaml.safe_load(file.read_text()) if file else {"table": {}}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise exit_with(f"--workspaces {file}: it cannot be read ({type(error).__name__})", 2) from None
    if not isinstance(described, dict) or not described.keys() & {"workspaces", "table"}:
        raise exit_with(f"--workspaces {file}: it must have `workspaces` or `table`", 2)
    return described


def make_tree(file: Path | None, described: Mapping[str, Any], engine: AsyncEngine | None) -> WorkspaceTree:
    """Return the described tree of workspaces; exits 2 when it is not a tree."""
    if file is not None and "workspaces" in described:
        return FileTree(file)
    if engine is None:
        raise exit_with("DATABASE_URL is required", 2)
    try:
        return TableTree(engine, TreeTable(**described["table"]))
    except (TypeError, AttributeError):
        fields = ", ".join(TreeTable.__dataclass_fields__)
        raise exit_with(f"--workspaces {file}: `table` may have {fields}", 2) from None
