"""What the package offers by name; imported when one of the names is first used."""

from afterturn_client.answers import (
    Health,
    RecallAnswer,
    RecallJobState,
    RefusedTurn,
    TurnReceipt,
)
from afterturn_client.blocking_client import Afterturn
from afterturn_client.client import AsyncAfterturn
from afterturn_client.contract.banks import BankDetails, DirectiveDetails, ListedBank
from afterturn_client.contract.banks import ChangedBank as BankLanguage
from afterturn_client.contract.commands import CommandReceipt
from afterturn_client.contract.facts import Fact, Profile
from afterturn_client.contract.freshness import Freshness
from afterturn_client.contract.graph import (
    Cooccurrence,
    CooccurrencePage,
    Entity,
    EntityPage,
    LinkPage,
    Mention,
    MentionPage,
    UnitLink,
)
from afterturn_client.contract.knowledge import Directive as ListedDirective
from afterturn_client.contract.knowledge import Document, DocumentPage
from afterturn_client.contract.knowledge import Reflection as ListedReflection
from afterturn_client.contract.lists import ListedSession, ListedTurn, ListedUnit, ListedUser
from afterturn_client.contract.recall import Recalled, RecallJob
from afterturn_client.contract.receipts import CorrectionReceipt, DocumentReceipt, MemoryReceipt
from afterturn_client.contract.sessions import SessionDetails, SessionMessage
from afterturn_client.contract.turns import KeptTurn, PreparedTurn, StageStatus, TurnMessage, TurnStatus
from afterturn_client.contract.units import Unit
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
    QueueFullError,
    QueueRefusedError,
    QuotaExceededError,
    RateLimitedError,
    ResourceBusyError,
    TurnConflictError,
    TurnEndedError,
    TurnErasedError,
    UnauthenticatedError,
    UnavailableError,
    UnknownOutcomeError,
    UnreachableError,
)
from afterturn_client.lists import (
    Page,
)
from afterturn_client.retry import RetryPolicy
from afterturn_client.turns import Message, NewTurn

__all__ = [
    "Afterturn",
    "AfterturnError",
    "ApiError",
    "AsyncAfterturn",
    "BadRequestError",
    "BankDetails",
    "BankLanguage",
    "CommandReceipt",
    "Cooccurrence",
    "CooccurrencePage",
    "CorrectionReceipt",
    "DirectiveDetails",
    "Document",
    "DocumentPage",
    "DocumentReceipt",
    "Entity",
    "EntityPage",
    "EventRefusedError",
    "Fact",
    "Freshness",
    "GatewayError",
    "Health",
    "InvalidAnswerError",
    "InvalidArgumentError",
    "InvalidRequestError",
    "KeptTurn",
    "LinkPage",
    "ListedBank",
    "ListedDirective",
    "ListedReflection",
    "ListedSession",
    "ListedTurn",
    "ListedUnit",
    "ListedUser",
    "MemoryReceipt",
    "Mention",
    "MentionPage",
    "Message",
    "NewTurn",
    "NotFoundError",
    "Page",
    "PayloadTooLargeError",
    "PermissionDeniedError",
    "PreparedTurn",
    "Profile",
    "QueueFullError",
    "QueueRefusedError",
    "QuotaExceededError",
    "RateLimitedError",
    "RecallAnswer",
    "RecallJob",
    "RecallJobState",
    "Recalled",
    "RefusedTurn",
    "ResourceBusyError",
    "RetryPolicy",
    "SessionDetails",
    "SessionMessage",
    "StageStatus",
    "TurnConflictError",
    "TurnEndedError",
    "TurnErasedError",
    "TurnMessage",
    "TurnReceipt",
    "TurnStatus",
    "UnauthenticatedError",
    "UnavailableError",
    "Unit",
    "UnitLink",
    "UnknownOutcomeError",
    "UnreachableError",
]
