"""The schema's history: alembic revisions, then the functions, which are always the newest."""

from importlib.resources import files
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import Script, ScriptDirectory

from store.migrations.compatibility import OLDEST_CODE

FOLDER = Path(__file__).parents[1] / "sql"
#: Scripts that read a registry of the application, which is passed to SQL before the other scripts run.
REGISTRIES = ("schema_version", "stages", "events")
#: The others as they are run: what is asked while a function is made stands before it.
FUNCTIONS = (
    "projections",
    "projections_of_banks",
    "projections_of_units",
    "projections_of_sessions",
    "session_summaries",
    "keys",
    "log",
    "authority",
    "quotas",
    "turns",
    "plugin_memories",
    "ledger_ready_streams",
    "ledger_claims",
    "ledger_claim_items",
    "ledger_pruning",
    "ledger_quarantine",
    "circuit_breakers",
    "ledger_depth",
    "freshness",
    "gateway_deliveries",
    "log_bulk",
    "derived_state",
    "erasure_of_events",
    "replay",
    "erasure_of_rows",
    "replay_of_turns",
    "vector_indexes",
    "views",
    "planner_statistics",
    "row_security",
)


def _make_config(owner_url: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(files(__package__)))
    config.attributes["url"] = owner_url
    return config


def upgrade_schema(owner_url: str) -> None:
    """Migrate the database to this code's schema; safe to repeat, and to call from several processes at once.

    Must not be called from a running event loop. Raises the driver's errors when the database cannot be reached.
    """
    command.upgrade(_make_config(owner_url), "head")


def newest_revision() -> str:
    """Return the newest revision this code knows."""
    return list_revisions()[-1]


def list_revisions() -> tuple[str, ...]:
    """Return the revisions this code knows, the first one first."""
    return tuple(script.revision for script in _list_scripts())


def oldest_code() -> str:
    """Return the newest revision known to the oldest code that works with this code's schema."""
    declared = [str(getattr(one.module, OLDEST_CODE)) for one in _list_scripts() if hasattr(one.module, OLDEST_CODE)]
    return declared[-1] if declared else list_revisions()[0]


def _list_scripts() -> list[Script]:
    return list(ScriptDirectory.from_config(_make_config("")).walk_revisions())[::-1]
