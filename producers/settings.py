"""What can be chosen about the doors and the nudges."""

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class BrokerSettings(BaseModel):
    """The Redis or Valkey that says when; `redis://[user:password@]host:port/db`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: SecretStr = Field(default=SecretStr(""), description="where Redis or Valkey is")
    namespace: str = Field(
        default="afterturn",
        pattern=r"^[a-z][a-z0-9_-]{0,62}$",
        description="first part of every key, so that several systems can share one server",
    )


class ApiSettings(BaseModel):
    """The HTTP door: where it listens and what it takes at most."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(default="127.0.0.1", min_length=1, description="address to listen on")
    port: int = Field(default=8300, ge=0, le=65535, description="port to listen on; 0 picks a free one")
    max_messages: int = Field(default=64, ge=1, le=1024, description="messages of one turn")
    max_message_bytes: int = Field(default=262_144, ge=1024, le=16_777_216, description="UTF-8 bytes of one message")
    max_request_bytes: int = Field(default=2_097_152, ge=4096, le=67_108_864, description="bytes of one request's body")
