"""Base models of bodies and parameters. Answers are shapes of the contract, but for a portal command's open fields."""

from pydantic import BaseModel, ConfigDict


class WireModel(BaseModel):
    """A body that is sent or answered. A field without a default is always there; the others may be left out."""

    model_config = ConfigDict(frozen=True)


class RequestModel(WireModel):
    """A body that is sent: fields it does not name and values of another type are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Parameters(BaseModel):
    """A query's parameters: those that it does not name are refused. This one names none."""

    model_config = ConfigDict(extra="forbid", frozen=True)
