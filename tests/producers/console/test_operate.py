"""Operate in a real browser: tenants, keys, quotas, gateway targets, audit, settings, doctor, erasure."""

import pytest
from httpx import AsyncClient

from store import identity
from store.tenancy.gateway_targets import GatewayTargets
from store.tenancy.operator_keys import OperatorKeys
from store.tenancy.quotas import Quotas
from tests.patience import until
from tests.producers.conftest import Tenant, World
from tests.producers.console.browser import Visitor
from tests.producers.console.said import remember

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]


async def make_operator(world: World, *, makes_keys: bool = True) -> str:
    return await OperatorKeys(world.database).create("on call", makes_keys=makes_keys)


async def press(visitor: Visitor, name: str) -> None:
    """Press a button of the open dialog."""
    await visitor.page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()


async def read_secret(visitor: Visitor) -> str:
    return await visitor.page.locator(".secret code").inner_text()


async def status_of(visitor: Visitor, key: str) -> int:
    async with AsyncClient(base_url=visitor.url, headers={"authorization": f"Bearer {key}"}) as client:
        return (await client.get("/api/v1/banks")).status_code


async def is_refused(visitor: Visitor, key: str) -> bool:
    return await status_of(visitor, key) == 401


async def test_a_key_is_made_shown_once_rotated_and_revoked(world: World, visitor: Visitor) -> None:
    name = f"acme {identity.host_id(visitor.url).hex[:6]}"
    await visitor.sign_in(await make_operator(world))
    await visitor.open("operate")
    await visitor.click("New key")
    await visitor.page.get_by_label("Tenant", exact=True).fill(name)
    await visitor.page.get_by_label("What it is for").fill("support bot")
    await press(visitor, "Make the key")
    made = await read_secret(visitor)
    assert await status_of(visitor, made) == 200
    await visitor.click("I have it")
    assert await visitor.page.get_by_text(made).count() == 0
    await visitor.open(f"tenant?id={identity.host_id(name)}")
    await visitor.sees("support bot")
    await visitor.click("Rotate")
    await visitor.page.get_by_label("Hours for which the old key still works").fill("0")
    await press(visitor, "Rotate")
    rotated = await read_secret(visitor)
    assert await status_of(visitor, rotated) == 200
    await until(lambda: is_refused(visitor, made), "the old key is refused")
    await visitor.page.get_by_role("button", name="Revoke").first.wait_for()
    await visitor.click("Revoke")
    await visitor.sees("it never works again")
    await press(visitor, "Revoke")
    await visitor.sees("Revoked.")
    await until(lambda: is_refused(visitor, rotated), "the revoked key is refused")
    await visitor.page.reload()
    await visitor.sees("support bot")
    for secret in (made, rotated):
        assert secret not in await visitor.page.content()


async def test_a_key_that_makes_no_keys_is_offered_none(world: World, ana: Tenant, visitor: Visitor) -> None:
    await visitor.sign_in(await make_operator(world, makes_keys=False))
    await visitor.open(f"tenant?id={identity.host_id(ana.host)}")
    await visitor.sees("This operator's key makes no keys")
    assert await visitor.page.get_by_role("button", name="New key").count() == 0
    assert await visitor.page.get_by_role("button", name="Rotate").count() == 0
    await visitor.open("targets")
    await visitor.page.get_by_role("heading", name="Gateway targets").wait_for()
    assert await visitor.page.get_by_role("button", name="Set a target").count() == 0


async def test_a_quota_is_set_for_a_tenant_and_for_a_bank(world: World, ana: Tenant, visitor: Visitor) -> None:
    await remember(ana, "one", "two")
    await visitor.sign_in(await make_operator(world))
    await visitor.open(f"tenant?id={identity.host_id(ana.host)}")
    await visitor.click("Set")
    await visitor.page.get_by_role("dialog").get_by_label("Turns", exact=True).fill("1000")
    await press(visitor, "Set")
    await visitor.sees("2 of 1,000")
    await visitor.click("Limit one bank")
    await visitor.page.get_by_role("dialog").get_by_label("Bank", exact=True).fill("default")
    await visitor.page.get_by_role("dialog").get_by_label("Turns", exact=True).fill("4")
    await press(visitor, "Set")
    await visitor.sees("2 of 4")
    shown = await Quotas(world.database, world.clock).show(ana.host)
    assert [(one.bank, one.limits.max_turns) for one in shown] == [(None, 1000), ("default", 4)]


async def test_a_gateway_target_is_set_and_unset(world: World, ana: Tenant, visitor: Visitor) -> None:
    await visitor.sign_in(await make_operator(world))
    await visitor.open(f"targets?tenant={ana.host}")
    await visitor.sees("No target is set")
    await visitor.click("Set a target")
    dialog = visitor.page.get_by_role("dialog")
    for label, text in (
        ("Address of the gateway", "http://elsewhere.example"),
        ("User at the gateway", ana.host),
        ("Key of this user", "uk_Grimpenmire"),
    ):
        await dialog.get_by_label(label).fill(text)
    await press(visitor, "Set it")
    await visitor.sees("base_url must begin with")
    await dialog.get_by_label("Address of the gateway").fill("https://gateway.example")
    await press(visitor, "Set it")
    await visitor.sees("The target is set.")
    await visitor.sees("https://gateway.example")
    assert "uk_Grimpenmire" not in await visitor.page.content()
    visitor.forgive("422")
    await visitor.click("Unset")
    await visitor.sees("0 waiting deliveries end as skipped")
    await press(visitor, "Unset")
    await visitor.sees("1 targets unset, 0 deliveries skipped.")
    await visitor.sees("No target is set")
    assert [one.target.state for one in await GatewayTargets(world.database).list(identity.host_id(ana.host))] == []


async def test_the_audit_is_filtered_by_the_address(world: World, ana: Tenant, visitor: Visitor) -> None:
    await remember(ana, "The Grimpenmire is deep")
    assert (await ana.http.get("/api/v1/units/nothing")).status_code >= 400
    assert await world.recorder.flush()
    await visitor.sign_in(await make_operator(world))
    await visitor.open(f"audit?tenant={ana.host}")
    table = visitor.page.get_by_role("table", name="Audit")
    await table.get_by_text("POST /api/v1/turns", exact=True).wait_for()
    await visitor.page.get_by_label("Result").select_option("true")
    await visitor.page.get_by_role("link", name="Remove the filter Result").wait_for()
    await table.get_by_text("GET /api/v1/units/{unit_id}").first.wait_for()
    assert await table.get_by_text("POST /api/v1/turns", exact=True).count() == 0
    assert "Grimpenmire" not in await visitor.page.content()


async def test_settings_and_doctor_are_shown(world: World, visitor: Visitor) -> None:
    await visitor.sign_in(await make_operator(world))
    await visitor.open("settings")
    await visitor.page.get_by_label("Name contains").fill("database.url")
    await visitor.sees("environment AFTERTURN_DATABASE__URL")
    assert await visitor.page.get_by_text("api.port").count() == 0
    assert world.postgres.app_url not in await visitor.page.content()
    await visitor.open("doctor")
    await visitor.sees("row-level security holds the application's role")
    await visitor.click("Check again")
    await visitor.sees("PostgreSQL version")


async def test_a_session_is_counted_erased_and_has_a_receipt(ana: Tenant, visitor: Visitor) -> None:
    await remember(ana, "one", "two", session="monday")
    await visitor.sign_in(ana.token)
    await visitor.open("erasure")
    await visitor.page.get_by_label("Session", exact=True).fill("monday")
    await visitor.click("Count what would go")
    await visitor.sees("This would be gone")
    assert len((await ana.http.get("/api/v1/turns", params={"session_id": "monday"})).json()["turns"]) == 2
    await visitor.click("Erase for good")
    await visitor.sees("It cannot be undone.")
    await press(visitor, "Erase for good")
    await visitor.page.get_by_role("heading", name="Receipt").wait_for()
    await visitor.page.locator(".chip.good", has_text="done").wait_for()
    assert (await ana.http.get("/api/v1/turns", params={"session_id": "monday"})).json()["turns"] == []
    receipt = visitor.page.url.partition("id=")[2]
    await visitor.open("erasure")
    await visitor.page.get_by_label("Id of a receipt").fill(receipt)
    await visitor.click("Show")
    await visitor.sees(receipt)


async def test_operate_is_readable_for_everyone(world: World, ana: Tenant, visitor: Visitor) -> None:
    await remember(ana, "one")
    await visitor.sign_in(await make_operator(world))
    for address, text in (
        ("operate", "Show its work"),
        (f"tenant?id={identity.host_id(ana.host)}", "the whole tenant"),
        ("targets?unset=true", "Whose turns are delivered"),
        (f"audit?tenant={ana.host}", "Within"),
        ("settings", "api.console.enabled"),
        ("doctor", "PostgreSQL version"),
        ("erasure", "A key of the tenant is needed"),
    ):
        await visitor.open(address)
        await visitor.sees(text)
        await visitor.reads_well(address)
        if address != "erasure":
            await visitor.hears(address.partition("?")[0])
    await visitor.page.get_by_label("Key of a tenant").fill(ana.token)
    await visitor.click("Sign in")
    await visitor.hears("erasure")
    await visitor.page.get_by_label("Session", exact=True).fill("monday")
    await visitor.click("Count what would go")
    await visitor.sees("This would be gone")
    await visitor.reads_well()
    await visitor.open(f"tenant?id={identity.host_id(ana.host)}")
    await visitor.click("New key")
    await visitor.sees("The key opens what you say here")
    await visitor.reads_well()
