"""The base of a section of the settings tree; here, since every package has sections, and this one is the lowest."""

from pydantic import BaseModel, ConfigDict


class SettingsSection(BaseModel):
    """A section of the settings: it does not change, and names that it does not know are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")
