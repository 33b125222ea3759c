"""The memory settings of each bank: its own, else its tenant's, else those of all."""

from uuid import UUID

from producers.mcp.settings import BankMemorySettings, TurnMemorySettings
from producers.turns.requests import DEFAULT_INPUT_TOKENS
from store import identity
from store.memory.session_summaries import SummaryLimits
from store.retention import FactRetention, TierRetention

#: About how long a token is.
BYTES_A_TOKEN = 4


class BankMemory:
    """The settings of the life cycle of turns by bank."""

    def __init__(self, settings: TurnMemorySettings) -> None:
        """Keep the settings of all, of tenants and of banks."""
        self._usual = settings
        self._hosts: dict[UUID, TurnMemorySettings] = {}
        self._banks: dict[UUID, TurnMemorySettings] = {}
        for name, tenant in settings.tenants.items():
            host = identity.host_id(name)
            self._hosts[host] = _merge_settings(settings, tenant)
            for bank, own in tenant.banks.items():
                self._banks[identity.bank_id(host, bank)] = _merge_settings(self._hosts[host], own)

    def of(self, host: UUID, bank: str) -> TurnMemorySettings:
        """Return the settings of a tenant's bank, by the bank's whole name."""
        if not self._hosts:
            return self._usual
        return self._banks.get(identity.bank_id(host, bank)) or self._hosts.get(host) or self._usual

    def _find(self, host: UUID, bank: UUID) -> TurnMemorySettings:
        return self._banks.get(bank) or self._hosts.get(host) or self._usual

    def limit_summaries(self, host: UUID, bank: UUID) -> SummaryLimits:
        """Return when the sessions of a tenant's bank, by its id, are summarised."""
        settings = self._find(host, bank)
        tokens = settings.compact_threshold * DEFAULT_INPUT_TOKENS
        return SummaryLimits(settings.recent_context_items, int(tokens * BYTES_A_TOKEN))

    def may_model_read(self, host: UUID, bank: UUID) -> bool:
        """Return whether the model that reads turns gets those of a tenant's bank."""
        return self._find(host, bank).model_reads

    def may_model_delete(self, host: UUID, bank: UUID) -> bool:
        """Return whether the facts of a tenant's bank end that this model says are to be deleted."""
        return self._find(host, bank).model_deletions == "apply"

    def build_retention(self) -> FactRetention:
        """Return how long passing facts of each bank hold."""
        return FactRetention(
            _build_tiers(self._usual),
            {host: _build_tiers(one) for host, one in self._hosts.items()},
            {bank: _build_tiers(one) for bank, one in self._banks.items()},
        )


def _merge_settings(below: TurnMemorySettings, own: BankMemorySettings) -> TurnMemorySettings:
    changes = own.model_dump(exclude_none=True, exclude={"banks", "expiry"})
    if own.expiry is not None:
        changes["tiers"] = below.tiers.model_copy(update={"expiry": own.expiry})
    return below.model_copy(update=changes)


def _build_tiers(settings: TurnMemorySettings) -> TierRetention:
    return TierRetention(
        settings.l1_retention_days, settings.l2_retention_days, likes_end=settings.tiers.expiry == "contract"
    )
