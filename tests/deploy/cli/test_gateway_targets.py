"""`afterturn gateway set|unset|list-targets|reseal`: whose turns go where is said by an operator, no key is shown."""

from pathlib import Path
from typing import Any

import pytest
from afterturn_client.contract.installation import Finding
from cryptography.fernet import Fernet
from pydantic import SecretStr

from deploy.components import doctor_checks
from deploy.components.doctor_checks import DoctorTarget
from deploy.components.doctor_rules import CheckVerdict
from deploy.components.gateways import TargetAccess
from deploy.local.stack import Stack
from deploy.settings import Settings
from store.ledger.circuit_breakers import Gate, GatePolicy, gate_name
from store.ledger.stages import Stage
from store.tenancy.gateway_targets import UNSET, GatewayTargets
from store.tenancy.keys import Keys
from tests.deploy.operated import HOST_ID, Busy
from tests.workers.targets import SEALING
from workers.settings import DeliverySettings

KEY = "uk_Harrowgatemere-4711"
URL = "https://gateway.example.com"


async def keys_of(busy: Busy, sealing: str = SEALING) -> dict[str, str]:
    """The keys that the stack's workers open, by the gateway's user."""
    access = TargetAccess(DeliverySettings(sealing_keys=SecretStr(sealing)))
    async with busy.opened() as database:
        return {one.user.user_id: access(one).user_key for one in await GatewayTargets(database).sealed()}


async def set_target(busy: Busy, *more: str, user: str = "acme", url: str = URL) -> dict[str, Any]:
    [target] = (await busy.answer("gateway", "set", url, "--user-id", user, *more, said=KEY + "\n"))["targets"]
    return dict(target)


async def new_host(busy: Busy, name: str) -> None:
    async with busy.opened() as database:
        await Keys(database).create(name, "test")


async def test_a_target_is_set_for_a_tenant_and_for_a_bank_and_listed(busy: Busy, tmp_path: Path) -> None:
    await new_host(busy, "acme")
    made = await set_target(busy, "--host", "acme", "--scope", "all_user_memory", url=URL + ":443/")
    assert {
        name: made[name] for name in ("tenant", "bank", "url", "user_id", "sessions", "key", "state", "waiting")
    } == {
        "tenant": "acme",
        "bank": None,
        "url": URL,
        "user_id": "acme",
        "sessions": "chat:<bank>/<session>",
        "key": "sealed",
        "state": "in force",
        "waiting": 0,
    }
    file = tmp_path / "key"
    file.write_text(KEY + "2\n")
    of_bank = await busy.answer(
        "gateway", "set", URL, "--user-id", "b", "--bank", "plans", "--user-key-file", str(file)
    )
    assert (of_bank["targets"][0]["sessions"], of_bank["targets"][0]["bank"]) == ("chat:<session>", None)
    assert {"acme": KEY, "b": KEY + "2"}.items() <= (await keys_of(busy)).items()
    listed = (await busy.answer("gateway", "list-targets"))["targets"]
    assert [(one["tenant"], one["user_id"]) for one in listed] == [
        ("acme", "acme"),
        ("default", "user-1"),
        ("default", "b"),
    ]
    assert [one["user_id"] for one in (await busy.answer("gateway", "list-targets", "--host", "acme"))["targets"]] == [
        "acme"
    ]
    await busy.append(("monday", "1"), bank="plans")
    listed = (await busy.answer("gateway", "list-targets"))["targets"]
    assert [(one["bank"], one["waiting"]) for one in listed if one["user_id"] == "b"] == [("plans", 1)]


async def test_a_target_that_is_unset_skips_what_waits_and_says_so(busy: Busy) -> None:
    await busy.append(("monday", "1"), ("tuesday", "1"))
    unset = await busy.answer("gateway", "unset")
    assert (len(unset["targets"]), unset["skipped"]) == (1, 2)
    assert await busy.states(Stage.GATEWAY) == ["skipped"] * 2
    shown = await busy.answer("gateway", "show", "monday/1")
    [job] = [job for job in shown["jobs"] if job["stage"] == "gateway"]
    assert (job["category"], job["reason"], job["gateway"]["session"]) == ("unset", UNSET, "chat:default/monday")
    assert [note["event"] for note in shown["history"]] == ["operator_unset_gateway"]
    assert (await busy.answer("gateway", "list-targets"))["targets"] == []
    [ended] = (await busy.answer("gateway", "list-targets", "--unset"))["targets"]
    assert (ended["state"], ended["key"]) == ("unset", "none")
    again = await busy.run("gateway", "unset")
    assert (again.exit_code, "list-targets" in again.stderr) == (1, True)


async def test_what_an_operator_does_to_targets_is_in_the_call_audit(busy: Busy) -> None:
    await set_target(busy)
    await busy.answer("gateway", "unset")
    await busy.run("gateway", "list-targets")
    calls = (await busy.answer("audit", "list", "--door", "operator"))["calls"]
    assert [(call["operation"], call["tenant"], call["rows"]) for call in calls] == [
        ("gateway unset", "default", 2),
        ("gateway set", "default", 1),
    ]


async def test_a_key_is_sealed_anew_with_a_new_sealing_key_and_the_old_one_is_of_no_more_use(busy: Busy) -> None:
    await set_target(busy)
    new = Fernet.generate_key().decode()
    stack_with(busy, f"{new},{SEALING}")
    assert await busy.answer("gateway", "reseal") == {"resealed": 2, "lost": 0}
    assert (await keys_of(busy, new))["acme"] == KEY
    stack_with(busy, SEALING)
    lost = await busy.run("gateway", "reseal")
    assert (lost.exit_code, "set those targets again" in lost.stderr) == (1, True)


def stack_with(busy: Busy, keys: str) -> None:
    """Have the stack run with these sealing keys."""
    stack = Stack.model_validate_json((busy.folder / "stack.json").read_text())
    stack.model_copy(update={"gateway_sealing_keys": SecretStr(keys)}).save(busy.folder)


@pytest.mark.parametrize(
    "wrong, says, status",
    [
        (["not a url", "--user-id", "u"], "must look like http", 2),
        ([f"https://user:{KEY}@h", "--user-id", "u"], "must hold no user and no password", 2),
        (["http://gateway.example.com", "--user-id", "u"], "must begin with https://", 2),
        ([URL, "--user-id", ""], "must have 1 to 256 bytes", 2),
        ([URL, "--user-id", "u", "--scope", "web"], "current_chat, resources or all_user_memory", 2),
        ([URL, "--user-id", "u", "--host", "nowhere"], "make a key for it first", 1),
        ([URL, "--user-id", "u", "--user-key-file", "/nowhere/key"], "the key cannot be read", 2),
    ],
)
async def test_what_is_wrong_is_said_and_nothing_is_set(busy: Busy, wrong: list[str], says: str, status: int) -> None:
    refused = await busy.run("gateway", "set", *wrong, said=KEY)
    assert refused.exit_code == status
    assert says in " ".join(refused.stderr.replace("│", " ").split())
    assert KEY not in refused.stdout + refused.stderr
    assert list(await keys_of(busy)) == ["user-1"]


@pytest.mark.parametrize("said", ["", "\n", "one\ntwo\n", "x" * 5000])
async def test_a_key_is_one_line(busy: Busy, said: str) -> None:
    refused = await busy.run("gateway", "set", URL, "--user-id", "u", said=said)
    assert (refused.exit_code, "one line" in refused.stderr) == (2, True)


async def test_a_gateway_user_of_another_tenant_is_refused_with_its_name(busy: Busy) -> None:
    await new_host(busy, "acme")
    await set_target(busy)
    refused = await busy.run("gateway", "set", URL, "--user-id", "acme", "--host", "acme", said=KEY)
    assert (refused.exit_code, "host 'default'" in refused.stderr) == (1, True)


async def test_without_a_sealing_key_no_key_is_taken(busy: Busy) -> None:
    stack_with(busy, "")
    refused = await busy.run("gateway", "set", URL, "--user-id", "u", said=KEY)
    assert (refused.exit_code, "gateway.sealing_keys" in refused.stderr) == (2, True)


@pytest.mark.law("L7")
async def test_no_key_is_in_anything_an_operator_sees_nor_in_the_database(busy: Busy) -> None:
    await set_target(busy)
    shown = []
    for command in (["gateway", "list-targets"], ["gateway", "list-targets", "--unset"], ["gateway", "reseal"]):
        for form in ([], ["--json"]):
            result = await busy.run(*command, *form)
            shown.append(result.stdout + result.stderr)
    shown += [repr(one) for one in await findings(busy)]
    rows = await busy.tell("select cast(t as text) as row from afterturn.gateway_target_t t")
    audit = (await busy.answer("audit", "list"))["calls"]
    assert KEY not in f"{shown}{rows}{audit}"
    assert SEALING not in f"{shown}{rows}{audit}"
    assert len(rows) == 2


async def test_doctor_says_of_a_key_that_the_stack_cannot_open_what_to_do(busy: Busy) -> None:
    [fine] = await findings(busy)
    assert (fine.verdict, fine.seen) == (CheckVerdict.OK, "1 in force; every key that was set can be opened")
    stack_with(busy, Fernet.generate_key().decode())
    [wrong] = await findings(busy)
    assert (wrong.verdict, "tenant default, user-1 at http" in wrong.seen) == (CheckVerdict.FAIL, True)
    assert "afterturn gateway set" in wrong.remedy


async def test_doctor_says_of_a_gateway_that_is_not_called_because_it_fails(busy: Busy) -> None:
    async with busy.opened() as database:
        [one] = await GatewayTargets(database).list(HOST_ID)
        name = gate_name("gateway", str(one.target.target_id))
        await Gate(database, name, GatePolicy(threshold=1)).report(well=False)
    found = await findings(busy)
    assert [one.verdict for one in found] == [CheckVerdict.OK, CheckVerdict.WARN]
    assert "user-1 at http" in found[1].seen


async def findings(busy: Busy) -> list[Finding]:
    """What doctor finds of gateway targets."""
    stack = Stack.model_validate_json((busy.folder / "stack.json").read_text())
    return [one async for one in doctor_checks.check_gateways(DoctorTarget(Settings(), stack))]
