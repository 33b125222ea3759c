"""What runs inside an agent's process: the Afterturn client.

Hands out `AsyncAfterturn`, its blocking twin `Afterturn`, what they take and answer, and their errors;
`afterturn_client.gateway` speaks to a Memory Gateway, `afterturn_client.hybrid` is an agent's whole memory in a few
lines, and `afterturn_client.curated` its two files with the tool that changes them.
"""

from afterturn_client.answers import (
    BankLanguage,
    CorrectionReceipt,
    Document,
    DocumentPage,
    DocumentReceipt,
    Freshness,
    Health,
    RecallAnswer,
    Recalled,
    RecallJob,
    RecallJobState,
    RefusedTurn,
    StageStatus,
    TurnReceipt,
    TurnStatus,
    Unit,
)
from afterturn_client.client import Afterturn, AsyncAfterturn
from afterturn_client.errors import (
    AfterturnError,
    ApiError,
    BadRequestError,
    EventRefusedError,
    GatewayError,
    InvalidAnswerError,
    InvalidArgumentError,
    InvalidRequestError,
    NotFoundError,
    PayloadTooLargeError,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitedError,
    ResourceBusyError,
    TurnConflictError,
    UnauthenticatedError,
    UnavailableError,
    UnknownOutcomeError,
    UnreachableError,
)
from afterturn_client.lifecycle import KeptTurn, PreparedTurn
from afterturn_client.profiles import Fact, Profile
from afterturn_client.retry import RetryPolicy
from afterturn_client.turns import Message, NewTurn

__all__ = [
    "Afterturn",
    "AfterturnError",
    "ApiError",
    "AsyncAfterturn",
    "BadRequestError",
    "BankLanguage",
    "CorrectionReceipt",
    "Document",
    "DocumentPage",
    "DocumentReceipt",
    "EventRefusedError",
    "Fact",
    "Freshness",
    "GatewayError",
    "Health",
    "InvalidAnswerError",
    "InvalidArgumentError",
    "InvalidRequestError",
    "KeptTurn",
    "Message",
    "NewTurn",
    "NotFoundError",
    "PayloadTooLargeError",
    "PermissionDeniedError",
    "PreparedTurn",
    "Profile",
    "QuotaExceededError",
    "RateLimitedError",
    "RecallAnswer",
    "RecallJob",
    "RecallJobState",
    "Recalled",
    "RefusedTurn",
    "ResourceBusyError",
    "RetryPolicy",
    "StageStatus",
    "TurnConflictError",
    "TurnReceipt",
    "TurnStatus",
    "UnauthenticatedError",
    "UnavailableError",
    "Unit",
    "UnknownOutcomeError",
    "UnreachableError",
]
