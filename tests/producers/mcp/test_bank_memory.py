"""The memory settings of a bank: its own, else its tenant's, else those of all."""

from producers.mcp.bank_memory import BankMemory
from producers.mcp.settings import McpSettings, TurnMemorySettings
from producers.settings import ApiSettings
from store import identity
from store.retention import TierRetention
from tests.producers.conftest import World, broker_of, build
from tests.producers.mcp.test_tools import call, client_of, said
from tests.servers import TestValkey

SETTINGS = TurnMemorySettings.model_validate(
    {
        "l1_retention_days": 2,
        "tenants": {
            "acme": {
                "l2_retention_days": 14,
                "search_limit": 1,
                "banks": {"support": {"expiry": "contract", "l1_retention_days": 0}},
            }
        },
    }
)


def test_a_banks_own_settings_go_before_its_tenants_and_these_before_those_of_all() -> None:
    acme, other = identity.host_id("acme"), identity.host_id("other")
    retention = BankMemory(SETTINGS).build_retention()
    expected = {
        (acme, "support"): TierRetention(0, 14, likes_end=True),
        (acme, "default"): TierRetention(2, 14),
        (other, "support"): TierRetention(2, 7),
    }
    for (host, bank), tiers in expected.items():
        assert retention.of(host, identity.bank_id(host, bank)) == tiers
    limits = {place: BankMemory(SETTINGS).of(*place).search_limit for place in expected}
    assert limits == {(acme, "support"): 1, (acme, "default"): 1, (other, "support"): 5}
    assert BankMemory(TurnMemorySettings()).of(acme, "support") == TurnMemorySettings()


async def test_a_prepared_turn_keeps_to_the_limits_of_its_tenant_and_bank(world: World, valkey: TestValkey) -> None:
    ana, ben = await world.tenant(), await world.tenant()
    tenants = {ana.host: {"recent_context_items": 1, "banks": {"wide": {"recent_context_items": 3}}}}
    memory = TurnMemorySettings.model_validate({"search_limit": 0, "recall_facts_limit": 0, "tenants": tenants} | {
        "recent_context_items": 2
    })  # fmt: skip
    made = build(world.postgres, broker_of(valkey.url, "by-bank"), settings=ApiSettings(mcp=McpSettings(memory=memory)))
    try:
        for tenant, project, items in ((ana, "default", 1), (ana, "wide", 3), (ben, "default", 2), (ben, "wide", 2)):
            async with client_of(made, tenant) as client:
                place = {"project": project, "session_id": "s"}
                for n in range(4):
                    given = [said(f"boiler {n}")]
                    await call(client, "memory_after_turn", **place, turn_id=str(n), input_items=given)
                shown = await call(client, "memory_before_turn", **place, current_input="which?")
                assert [one for one in shown["input_items"] if one == said("boiler 3")]
                assert (
                    len([one for one in shown["input_items"] if one in [said(f"boiler {n}") for n in range(4)]])
                    == items
                )
    finally:
        await ana.http.aclose()
        await ben.http.aclose()
        await made.close()
