"""The description of a running stack that `afterturn up` writes to DIR/stack.json for other commands."""

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_serializer

from deploy.local.folder_lock import is_held
from deploy.local.private_files import write_private
from embeddings.settings import EmbeddingSettings
from store.recall.settings import RecallSettings
from workers.settings import EnrichmentSettings

FILE = "stack.json"
SECRET_FIELDS = ("database_url", "operator_url", "owner_url", "redis_url", "gateway_sealing_keys")
#: Fields of the READY line.
SHOWN = {"api", "metrics", "docs", "plugin", "api_key_file", "database_url", "redis_url"}
PASSWORD = re.compile(r"(?<=://)([^:@/]*):[^@/]*@")


class StackNotRunning(Exception):
    """No stack runs in the data folder; the text says what to do next."""


class StackProcess(BaseModel):
    """One process of a stack."""

    model_config = ConfigDict(frozen=True)

    name: str
    pid: int


class Stack(BaseModel):
    """Addresses of a stack's API and servers; the servers' URLs hold passwords, so the file is 0600."""

    model_config = ConfigDict(frozen=True)

    version: Literal[1] = 1
    pid: int
    #: URL on this machine, so the API key may be sent over plain http.
    api: str
    metrics: str
    docs: str
    #: URL of the Prometheus of `--dashboards`; empty without one.
    prometheus: str = ""
    #: Address of the memory plugin, if it has a listener: a URL, or unix:/PATH.
    plugin: str | None = None
    api_key_file: Path
    #: File of the key with which operators' commands of this machine call the API.
    operator_key_file: Path | None = None
    database_url: SecretStr
    operator_url: SecretStr
    owner_url: SecretStr
    redis_url: SecretStr
    postgres_dir: Path
    #: Settings of the stack, for commands that must act with the same ones; without credentials of external services.
    recall: RecallSettings = Field(default_factory=RecallSettings)
    embedding: EmbeddingSettings = Field(default_factory=EmbeddingSettings)
    enrichment: EnrichmentSettings = Field(default_factory=EnrichmentSettings)
    #: Keys with which `afterturn gateway set` seals, separated by commas.
    gateway_sealing_keys: SecretStr = SecretStr("")
    processes: tuple[StackProcess, ...] = ()
    #: Of a remote service: the key that commands send, and whether it may be sent over plain http.
    key: SecretStr | None = Field(default=None, exclude=True)
    #: What the key was read from, for errors.
    key_source: str = Field(default="", exclude=True)
    allow_http: bool = True
    #: Whether the database is reached through a pooler in transaction mode.
    transaction_pooling: bool = Field(default=False, exclude=True)

    @field_serializer(*SECRET_FIELDS, when_used="json")
    def _reveal_secret(self, secret: SecretStr) -> str:
        return secret.get_secret_value()

    @field_serializer("embedding", when_used="json")
    def _without_key(self, embedding: EmbeddingSettings) -> dict[str, Any]:
        return embedding.model_dump(mode="json", exclude={"remote": {"api_key"}})

    @field_serializer("enrichment", when_used="json")
    def _without_its_key(self, enrichment: EnrichmentSettings) -> dict[str, Any]:
        return enrichment.model_dump(mode="json", exclude={"api_key"})

    def save(self, data: Path) -> None:
        """Write DIR/stack.json atomically, readable only by its owner."""
        write_private(data / FILE, self.model_dump_json(indent=2) + "\n")

    def ready_line(self) -> str:
        """Return the line `READY {...}` that tells other programs that the stack is ready; passwords are masked."""
        shown = self.model_dump_json(include=SHOWN, exclude={"plugin"} if self.plugin is None else None)
        return f"READY {PASSWORD.sub(_mask_password, shown)}"

    def api_key(self) -> str:
        """Return the API key of the stack's default host; raises OSError when its file cannot be read."""
        return self.key.get_secret_value() if self.key else self.api_key_file.read_text(encoding="ascii").strip()

    def operator_key(self) -> str:
        """Return the key of this machine's operator, or ''; raises OSError when its file cannot be read."""
        return self.operator_key_file.read_text(encoding="ascii").strip() if self.operator_key_file else ""


def choose_data_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the default data folder: AFTERTURN_DATA, else the platform's folder for user data."""
    named = (os.environ if environ is None else environ).get("AFTERTURN_DATA")
    return Path(named).expanduser() if named else platformdirs.user_data_path("afterturn")


def find_stack(data: Path | None = None) -> Stack:
    """Return the stack that runs in a data folder (None: the default one); raises StackNotRunning."""
    folder = (data or choose_data_folder()).expanduser().absolute()
    try:
        text = (folder / FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
    except OSError as error:
        raise StackNotRunning(f"{folder / FILE} cannot be read: {error.strerror}") from error
    if not text or not is_held(folder):
        raise StackNotRunning(
            f"no stack runs in {folder}: start one with `afterturn up --data {shlex.quote(str(folder))}`, "
            "or name the folder of a running one with --data or AFTERTURN_DATA"
        )
    try:
        return Stack.model_validate_json(text)
    except ValidationError:  # its text would quote passwords
        raise StackNotRunning(f"{folder / FILE} is of another version: use the `afterturn` that runs there") from None


def _mask_password(found: re.Match[str]) -> str:
    return f"{found[1]}:***@"
