"""The console in a real browser: memory is read and repaired, a recall is explained, and nothing foreign gets in."""

import asyncio
import re
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import httpx
import pytest
from playwright.async_api import Browser, Response, Route
from starlette.responses import HTMLResponse

from producers.service import operator_work
from store import identity
from store.ledger.workers import WorkerRegistry
from store.tenancy.console_sessions import ConsoleSessions
from store.tenancy.operator_keys import OperatorKeys
from tests.client.loopback import closed_port
from tests.producers.conftest import Tenant, World
from tests.producers.console.browser import COLOUR_RULES, Visitor, visit
from tests.producers.console.heard import HEARD
from tests.producers.console.said import remember
from tests.serving import serve
from tests.workers.targets import hand_to

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]


async def test_a_person_walks_from_the_sign_in_to_why_an_answer_came_first(ana: Tenant, visitor: Visitor) -> None:
    await remember(ana, "I moved to Ljubljana in May", "The boiler is old", "Rosa likes tea")
    await visitor.sign_in(ana.token)
    await visitor.click("default", role="link")
    await visitor.click("Ask this bank", role="link")
    await visitor.page.get_by_label("Question").fill("Where did I move to in May?")
    await visitor.click("Ask")
    why = visitor.page.get_by_role("table", name="Why it ranks here").first
    await why.wait_for()
    assert "lexical" in await why.inner_text()
    assert "I moved to Ljubljana in May" in await visitor.page.locator(".result").first.inner_text()
    assert "<memory_reference>" in await visitor.page.locator("pre").inner_text()
    # The question is content, and no address holds it.
    assert "Ljubljana" not in visitor.page.url
    assert "move" not in visitor.page.url


async def test_a_question_is_asked_with_filters_that_stay_in_the_address(ana: Tenant, visitor: Visitor) -> None:
    [kept] = await remember(ana, "The key is under the mat", session="home")
    [missed] = await remember(ana, "The key of the office is with Rosa", session="office")
    await visitor.sign_in(ana.token)
    await visitor.open("recall?bank=default&sessions=home")
    await visitor.page.get_by_label("Question").fill("Where is the key?")
    await visitor.click("Ask")
    await visitor.sees("under the mat")
    assert await visitor.page.get_by_text("with Rosa").count() == 0
    assert "sessions=home" in visitor.page.url
    for unit, told in (
        (missed, "A filter leaves it out: Sessions."),
        (kept, "It came: it is result 1."),
        (str(uuid4()), "has no unit of this id"),
    ):
        await visitor.page.get_by_label("Id of the unit").fill(unit)
        await visitor.click("Find out why")
        await visitor.sees(told)
    # The browser says of an answer 404 that a resource was not there; here it is the answer that was asked for.
    visitor.forgive("404")


async def test_an_answer_tells_its_figures_and_moments_choose_what_it_knows(ana: Tenant, visitor: Visitor) -> None:
    for turn, (month, text) in enumerate((("03", "The key is under the mat"), ("06", "The key is with Rosa"))):
        said = {"session_id": "s", "turn_id": str(turn), "messages": [{"role": "user", "content": text}]}
        moment = {"occurred_at": f"2026-{month}-02T22:30:00Z"}
        assert (await ana.http.post("/api/v1/turns", json=said | moment)).status_code == 201
    await visitor.sign_in(ana.token)

    async def ask(settings: dict[str, Any]) -> str:
        await visitor.open(f"recall?{urlencode({'bank': 'default', **settings})}")
        await visitor.page.get_by_label("Question").fill("Where is the key?")
        await visitor.click("Ask")
        await visitor.sees("What a prompt gets")
        return await visitor.page.locator(".results").inner_text()

    whole = await ask({})
    assert "under the mat" in whole
    assert "with Rosa" in whole
    figures = await visitor.page.locator(".figures").inner_text()
    assert "on topic" in figures
    [tokens] = map(int, re.findall(r"Tokens\s+(\d+)", figures))
    assert "rows pending" in figures
    assert re.search(r"\d ms", await visitor.page.locator(".steps").inner_text())
    # In the reader's zone, where it is the day after, with UTC on hover.
    shown = visitor.page.locator('time[datetime^="2026-06-02T22:30"]').first
    assert await shown.inner_text() == "3 Jun 2026, 00:30"
    assert await shown.get_attribute("title") == "2026-06-02 22:30:00 UTC"
    earlier = await ask({"as_of": "2026-04-01T00:00:00"})
    assert "under the mat" in earlier
    assert "with Rosa" not in earlier
    assert await ask({"known_at": "2020-01-01T00:00:00"}) == ""
    await visitor.sees("Nothing was found")
    assert (await ask({"max_tokens": str(tokens - 1)})).count("The key is") == 1


async def test_two_settings_and_two_questions_stand_side_by_side(ana: Tenant, visitor: Visitor) -> None:
    await remember(ana, "The key is under the mat", session="home")
    await remember(ana, "The key of the office is with Rosa", session="office")
    await visitor.sign_in(ana.token)
    await visitor.open("recall?bank=default")
    await visitor.page.get_by_label("Question").fill("Where is the key?")
    await visitor.click("Ask")
    await visitor.sees("with Rosa")
    await visitor.click("Keep to compare")
    await visitor.page.locator("form.ask summary").click()
    await visitor.page.get_by_label("Sessions").fill("home")
    await visitor.click("Ask")
    kept, now = (visitor.page.get_by_role("region", name=name, exact=True) for name in ("Kept", "Now"))
    await now.wait_for()
    assert "Sessions: home" in await now.inner_text()
    assert await kept.get_by_role("listitem").count() == 2
    [only] = await now.get_by_role("listitem").all()
    assert "under the mat" in await only.inner_text()
    gone = kept.get_by_role("listitem").filter(has_text="with Rosa")
    assert "only here" in await gone.inner_text()
    await visitor.page.get_by_label("Question").fill("Who has the key of the office?")
    await visitor.click("Clear filters")
    await visitor.click("Ask")
    await now.filter(has_text="Who has the key of the office?").wait_for()
    await visitor.sees("2 units are in both.")
    await visitor.click("Stop comparing")
    await visitor.sees("What a prompt gets")


async def test_content_is_asked_for_and_each_look_is_on_record(world: World, ana: Tenant, visitor: Visitor) -> None:
    await remember(ana, "The Grimpenmire is deep")
    await visitor.sign_in(ana.token)
    await visitor.open("bank?bank=default&view=units")
    await visitor.sees("Content is hidden")
    assert await looks(world, ana) == []
    await visitor.click("Show content")
    await visitor.sees("The Grimpenmire is deep")
    assert await looks(world, ana) == ["GET /api/v1/units"]
    await visitor.click("Hide content")
    await visitor.sees("Content is hidden")


async def looks(world: World, tenant: Tenant) -> list[str]:
    """Return the looks at content that the console had on record."""
    assert await world.recorder.flush()
    rows = await world.sql(
        "select operation from afterturn.call_audit_t a join afterturn.host_t h using (host_id) where h.name = :host"
        " and door = 'console' and operation ~ 'units|turns|recall' order by call_id",
        host=tenant.host,
    )
    return [row.operation for row in rows]


async def test_a_unit_is_corrected_pinned_and_forgotten(ana: Tenant, visitor: Visitor) -> None:
    [unit] = await remember(ana, "We meet on Tuesday")
    await visitor.sign_in(ana.token)
    await visitor.open(f"unit?bank=default&unit_id={unit}")
    await visitor.click("Show content")
    await visitor.click("Correct")
    await visitor.sees("as version 2")
    await visitor.page.get_by_label("New text").fill("We meet on Wednesday")
    await visitor.click("Correct it")
    await visitor.sees("Corrected.")
    await visitor.sees("Versions before")
    await visitor.click("Pin")
    await visitor.sees("returns this unit first")
    await visitor.click("Pin it")
    await visitor.sees("Pinned.")
    shown = (await ana.http.get(f"/api/v1/units/{unit}")).json()
    assert (shown["text"], shown["pinned"]) == ("We meet on Wednesday", True)
    for value, told in (("2031-05-01T12:00:00", "The end is set."), ("", "The unit never ends.")):
        await visitor.click("End")
        await visitor.sees("From then on no answer shows the unit.")
        await visitor.page.get_by_label("Ends at; empty: never").fill(value)
        await visitor.click("Set the end")
        await visitor.sees(told)
        # Berlin is two hours ahead in May.
        end = (await ana.http.get(f"/api/v1/units/{unit}")).json()["expires_at"]
        assert end == ("2031-05-01T10:00:00+00:00" if value else None)
    await visitor.click("Forget")
    await visitor.sees("No read of the bank default shows it any more")
    await visitor.click("Forget it")
    await visitor.sees("This unit is forgotten.")
    assert (await ana.http.get(f"/api/v1/units/{unit}")).status_code == 404


async def test_a_change_made_elsewhere_is_told_and_not_overwritten(ana: Tenant, visitor: Visitor) -> None:
    [unit] = await remember(ana, "We meet on Tuesday")
    await visitor.sign_in(ana.token)
    await visitor.open(f"unit?bank=default&unit_id={unit}")
    await visitor.click("Show content")
    await visitor.click("Correct")
    await visitor.page.get_by_label("New text").fill("We meet on Wednesday")
    assert (await ana.http.patch(f"/api/v1/units/{unit}", json={"content": "We meet on Sunday"})).status_code == 200
    await visitor.click("Correct it")
    await visitor.page.get_by_role("alert").wait_for()
    await visitor.click("Cancel")
    await visitor.click("Forget")
    await visitor.click("Forget it")
    await visitor.sees("It was changed elsewhere meanwhile: it is at version 2, you saw 1.")
    assert (await ana.http.get(f"/api/v1/units/{unit}")).json()["text"] == "We meet on Sunday"
    visitor.forgive("409")


async def test_lists_page_on_the_server(ana: Tenant, visitor: Visitor) -> None:
    for n in range(23):
        await remember(ana, f"text {n}", session=f"session-{n:02}")
    await visitor.sign_in(ana.token)
    asked: list[str] = []
    visitor.page.on("request", lambda one: asked.append(one.url))
    await visitor.open("bank?bank=default&view=units")
    await visitor.click("Show content")
    await visitor.sees("Page 1")
    assert await visitor.page.locator(".card.unit").count() == 20
    await visitor.click("Next page")
    await visitor.sees("Page 2")
    assert await visitor.page.locator(".card.unit").count() == 3
    await visitor.click("Previous page")
    await visitor.page.locator(".card.unit").nth(19).wait_for()
    assert sum("/api/v1/units" in one for one in asked) == 3


async def test_a_long_turn_is_read_in_short_answers(ana: Tenant, visitor: Visitor) -> None:
    said = [{"role": "user", "content": f"{nth} " + "\x01日" * 5_000} for nth in range(45)]
    body = {"session_id": "long", "turn_id": "1", "messages": said}
    assert (await ana.http.post("/api/v1/turns", json=body)).status_code == 201
    answers: list[Response] = []
    await visitor.sign_in(ana.token)

    def keep(answer: Response) -> None:
        answers.append(answer)

    visitor.page.on("response", keep)
    await visitor.open("turn?session_id=long&turn_id=1")
    await visitor.click("Show content")
    await visitor.page.locator(".card.unit").nth(19).wait_for()
    await visitor.sees("there is more: open it")
    await visitor.click("Next page")
    await visitor.click("Next page")
    await visitor.sees("Page 3")
    assert await visitor.page.locator(".card.unit").count() == 5
    sizes = [len(await one.body()) for one in answers if "/api/v1/turns" in one.url]
    assert max(sizes) < 200_000
    assert max(sizes) > 50_000


async def test_a_session_ends_with_the_sign_out_and_a_revoked_key(world: World, visitor: Visitor) -> None:
    tenant = await world.tenant()
    await visitor.sign_in(tenant.token)
    await visitor.page.reload()
    await visitor.click("Sign out")
    await visitor.page.get_by_role("textbox").wait_for()
    await visitor.page.reload()
    await visitor.page.get_by_role("textbox").wait_for()
    await visitor.sign_in(tenant.token)
    [info] = await world.keys.list(tenant.host)
    await world.keys.revoke(tenant.host, info.key_id)
    world.app.state.console = ConsoleSessions(world.database)  # as another process, which believes nothing yet
    await visitor.open("recall")
    await visitor.open("memory")
    await visitor.sees("Your session has ended")
    visitor.forgive("401")
    await tenant.http.aclose()


async def test_a_link_signs_in_once_and_leaves_no_trace_in_the_address(ana: Tenant, visitor: Visitor) -> None:
    code = (await ana.http.post("/api/v1/console/links", json={"keys": [ana.token]})).json()["link"]
    await visitor.page.goto(f"{visitor.url}/console#link={code}")
    await visitor.click("Sign out")
    assert code not in visitor.page.url
    await visitor.page.goto(f"{visitor.url}/console#link={code}")
    await visitor.page.reload()
    await visitor.page.goto(f"{visitor.url}/console?again#link={code}")
    await visitor.sees("this link opens nothing (any more)")
    visitor.forgive("401")


@pytest.mark.law("L6")
async def test_an_operators_key_is_shown_no_content(world: World, visitor: Visitor) -> None:
    await visitor.sign_in(await OperatorKeys(world.database).create("on call"))
    for address in ("memory", "recall", "bank?view=units", "turn?session_id=s&turn_id=1", f"unit?unit_id={uuid4()}"):
        await visitor.open(address)
        await visitor.sees("An operator's key sees work and never content.")
    visitor.forgive("403")


async def fail(world: World, tenant: Tenant, *turns: str, stage: str = "extraction") -> None:
    """Store turns whose work in a stage is dead."""
    await remember(tenant, *turns)
    await world.sql(
        "update afterturn.ledger_t l set status = 'dead', attempts = 5, error_category = 'timeout',"
        " error_reason = 'no answer' from afterturn.host_t h where h.host_id = l.host_id and h.name = :host"
        " and l.stage = :stage returning 1",
        host=tenant.host,
        stage=stage,
    )


async def states(world: World, tenant: Tenant, stage: str = "extraction") -> list[str]:
    rows = await world.sql(
        "select l.status from afterturn.ledger_t l join afterturn.host_t h using (host_id) where h.name = :host"
        " and l.stage = :stage order by l.position",
        host=tenant.host,
        stage=stage,
    )
    return [row.status for row in rows]


async def test_a_dead_row_is_retried_by_a_click_and_another_dropped(
    world: World, ana: Tenant, visitor: Visitor
) -> None:
    await fail(world, ana, "one", "two")
    await visitor.sign_in(await OperatorKeys(world.database).create("on call"))
    await visitor.open(f"work?{urlencode({'tenant': ana.host, 'status': 'dead'})}")
    await visitor.sees("timeout: no answer")
    await visitor.click("Retry")
    await visitor.sees("1 dead rows match. Each is requeued with a fresh attempt budget")
    await visitor.page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    await visitor.sees("1 changed.")
    assert sorted(await states(world, ana)) == ["dead", "pending"]
    await visitor.click("Drop")
    await visitor.page.get_by_label("Why they are dropped").fill("no use")
    await visitor.page.get_by_role("dialog").get_by_role("button", name="Drop").click()
    await visitor.sees("Nothing matches")
    assert sorted(await states(world, ana)) == ["pending", "skipped"]
    await visitor.open(f"work?{urlencode({'tenant': ana.host})}")
    await visitor.page.get_by_role("link", name="extraction").first.click()
    await visitor.sees("Work of a turn")
    await visitor.page.get_by_role("table", name="Rows").wait_for()


async def test_a_delivery_is_settled_as_a_person_found_it(world: World, ana: Tenant, visitor: Visitor) -> None:
    await hand_to(world.database, identity.host_id(ana.host), closed_port())
    await remember(ana, "one")
    await world.sql(
        "update afterturn.ledger_t l set status = 'add_unknown' from afterturn.host_t h"
        " where h.host_id = l.host_id and h.name = :host and l.stage = 'gateway' returning 1",
        host=ana.host,
    )
    assert await states(world, ana, "gateway") == ["add_unknown"]
    await visitor.sign_in(await OperatorKeys(world.database).create("on call"))
    await visitor.open(f"work?{urlencode({'tenant': ana.host, 'status': 'unknown'})}")
    await visitor.page.get_by_role("link", name="gateway").click()
    await visitor.click("Settle")
    await visitor.page.get_by_label("It did not arrive: leave it").check()
    await visitor.page.get_by_role("dialog").get_by_role("button", name="Settle").click()
    await visitor.sees("Settled.")
    assert await states(world, ana, "gateway") == ["skipped"]


async def test_unknown_deliveries_that_match_are_settled_together_and_show_their_steps(
    world: World, ana: Tenant, visitor: Visitor
) -> None:
    await hand_to(world.database, identity.host_id(ana.host), closed_port(), user=ana.host)
    await remember(ana, "one", "two")
    await world.sql(
        "update afterturn.ledger_t l set status = 'add_unknown' from afterturn.host_t h"
        " where h.host_id = l.host_id and h.name = :host and l.stage = 'gateway' returning 1",
        host=ana.host,
    )
    await visitor.sign_in(await OperatorKeys(world.database).create("on call"))
    await visitor.open(f"work?{urlencode({'tenant': ana.host})}")
    await visitor.page.get_by_role("link", name="gateway").first.click()
    steps = visitor.page.get_by_role("region", name="Steps of the delivery").get_by_role("listitem")
    await steps.nth(2).wait_for()
    shown = [await steps.nth(place).locator(".chip").inner_text() for place in range(3)]
    assert shown == ["done", "unknown", "pending"]
    await visitor.open(f"work?{urlencode({'tenant': ana.host})}")
    await visitor.click("Settle all unknown")
    await visitor.sees("2 unknown deliveries match.")
    await visitor.page.get_by_label("It arrived: flush it").check()
    await visitor.page.get_by_role("dialog").get_by_role("button", name="Settle").click()
    await visitor.sees("2 changed.")
    assert await states(world, ana, "gateway") == ["added"] * 2


async def test_a_row_leads_to_its_turn_and_the_turn_to_its_rows(world: World, ana: Tenant, visitor: Visitor) -> None:
    await fail(world, ana, "The boiler is old")
    await visitor.sign_in(ana.token)
    await visitor.open("work")
    await visitor.page.get_by_label("Key of an operator").fill(await OperatorKeys(world.database).create("on call"))
    await visitor.click("Sign in")
    await visitor.page.get_by_label("Tenant").fill(ana.host)
    await visitor.page.keyboard.press("Enter")
    await visitor.page.get_by_role("link", name="Remove the filter Tenant").wait_for()
    await visitor.page.get_by_role("link", name="extraction").first.click()
    await visitor.click("Show the turn")
    await visitor.click("Show content")
    await visitor.sees("The boiler is old")
    await visitor.page.get_by_role("link", name="Its rows of work").click()
    await visitor.page.get_by_role("table", name="Rows").wait_for()
    await visitor.sees("timeout: no answer")


async def test_all_that_match_are_counted_first_and_then_changed(world: World, ana: Tenant, visitor: Visitor) -> None:
    await fail(world, ana, *(f"turn {n}" for n in range(7)))
    other = await world.tenant()
    await fail(world, other, "of another tenant")
    await visitor.sign_in(await OperatorKeys(world.database).create("on call"))
    await visitor.open("work")
    await visitor.page.get_by_label("Tenant").fill(ana.host)
    await visitor.page.keyboard.press("Enter")
    await visitor.page.get_by_role("link", name="Remove the filter Tenant").wait_for()
    await visitor.click("Count")
    await visitor.sees("7 dead")
    changes: list[str] = []
    visitor.page.on("request", lambda one: changes.append(one.url) if one.method == "POST" else None)
    await visitor.click("Retry all dead")
    await visitor.sees("7 dead rows match.")
    assert await states(world, ana) == ["dead"] * 7
    await visitor.page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    await visitor.sees("7 changed.")
    assert await states(world, ana) == ["pending"] * 7
    assert [one.rpartition("/operator")[2] for one in changes] == ["/jobs/matching"], "one call changes them"
    assert await states(world, other) == ["dead"]
    # Filters stand there when nothing matches, and in the address.
    await visitor.page.get_by_label("Error").fill("nothing")
    await visitor.page.keyboard.press("Enter")
    await visitor.sees("Nothing matches")
    assert "category=nothing" in visitor.page.url
    await visitor.page.get_by_role("link", name="Remove the filter Error").click()
    await visitor.page.get_by_role("table", name="Work").wait_for()
    await other.http.aclose()


async def test_long_work_shows_how_far_it_is(
    world: World, ana: Tenant, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_work, "MOST_CHANGED", 2)
    monkeypatch.setattr(operator_work, "TOGETHER_S", 0.0)
    await fail(world, ana, *(f"turn {n}" for n in range(5)))
    await visitor.sign_in(await OperatorKeys(world.database).create("on call"))
    may_go_on, calls = asyncio.Event(), list[Route]()

    async def hold_the_second(route: Route) -> None:
        calls.append(route)
        if len(calls) > 1:
            await may_go_on.wait()
        await route.continue_()

    await visitor.page.route("**/jobs/matching", hold_the_second)
    await visitor.open(f"work?{urlencode({'tenant': ana.host})}")
    await visitor.click("Retry all dead")
    await visitor.sees("5 dead rows match.")
    await visitor.page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    await visitor.page.get_by_role("dialog").get_by_role("status").filter(has_text="2 of 5").wait_for()
    may_go_on.set()
    await visitor.sees("5 changed.")
    assert await states(world, ana) == ["pending"] * 5


async def test_a_service_that_says_nothing_is_waited_for_no_longer_than_a_minute(ana: Tenant, visitor: Visitor) -> None:
    await visitor.page.add_init_script(SOON)
    await visitor.sign_in(ana.token)
    silent = asyncio.Event()

    async def say_nothing(route: Route) -> None:
        await silent.wait()
        await route.continue_()

    await visitor.page.route("**/api/v1/users*", say_nothing)
    await visitor.open("people")
    await visitor.page.get_by_role("alert").filter(has_text="The service took longer than a minute.").wait_for()
    assert await visitor.page.get_by_text("Loading").count() == 0
    silent.set()
    await visitor.click("Try again")
    await visitor.sees("No user yet")
    await visitor.page.unroute_all(behavior="ignoreErrors")


#: Has the minute that a page waits for an answer pass within two seconds.
SOON = """
const wait = AbortSignal.timeout;
AbortSignal.timeout = (ms) => wait.call(AbortSignal, ms === 60_000 ? 2_000 : ms);"""


async def test_a_key_of_an_operator_is_added_to_a_session(world: World, ana: Tenant, visitor: Visitor) -> None:
    worker = f"test:{uuid4().hex[:6]}"
    await WorkerRegistry(world.database).begin(worker, "0.1.0", ["extraction"])
    await remember(ana, "The boiler is old")
    await visitor.sign_in(ana.token)
    await visitor.open("now")
    await visitor.sees("A key of an operator is needed")
    await visitor.page.get_by_label("Key of an operator").fill(await OperatorKeys(world.database).create("on call"))
    await visitor.click("Sign in")
    await visitor.sees("Queues")
    await visitor.sees(worker)
    await visitor.open("bank?bank=default")
    await visitor.sees("monday")


#: Poison for every name and text: markup, a script's end, a scheme, marks of direction, one long word, quotes.
POISON = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "javascript:alert(3)",
    "\u202e\u2066 turned \u200b around \u2069",
    "W" * 100_000,
    "\"'`; ${alert(4)} {{alert(5)}}\n\nline two",
)


async def test_a_poisoned_memory_is_shown_as_text(ana: Tenant, visitor: Visitor) -> None:
    """A report of the policy, an error of a script or an alert fails the test, whichever page it is on."""
    bank = '<img src=x onerror=alert(6)> "bank" \u202e'
    session = "<b onclick=alert(7)>javascript:alert(8)\u202e'\""
    user = "<svg onload=alert(9)>"
    poison = [{"role": "user", "name": text[:100].replace("\n", " "), "content": text} for text in POISON]
    said = {"bank": bank, "session_id": session, "turn_id": session, "user_id": user, "messages": poison}
    reply = await ana.http.post("/api/v1/turns", json={**said, "metadata": {"<i>": "<script>"}, "tags": ["<tag>"]})
    assert reply.status_code == 201, reply.text
    shown = await ana.http.get("/api/v1/turns", params={"bank": bank, "session_id": session, "turn_id": session})
    units = [one["unit_id"] for one in shown.json()["messages"]]
    await visitor.sign_in(ana.token)
    names = {"bank": bank, "session_id": session, "turn_id": session}
    await visitor.page.get_by_role("link", name="<img src=x").click()
    await visitor.page.get_by_role("link", name="<b onclick").click()
    await visitor.page.get_by_role("link", name="<b onclick").last.click()
    await visitor.click("Show content")
    await visitor.sees("</script><script>alert(2)</script>")
    assert await visitor.fits()
    await visitor.open(f"bank?{urlencode({**names, 'view': 'units'})}")
    await visitor.sees("<img src=x onerror=alert(1)>")
    assert await visitor.fits()
    for unit in units:
        await visitor.open(f"unit?{urlencode({'bank': bank, 'unit_id': unit})}")
        await visitor.page.locator(".unit-whole").wait_for()
        assert await visitor.fits()
    await visitor.open(f"unit?{urlencode({'bank': bank, 'unit_id': units[3]})}")
    await visitor.sees("U+202E")
    await visitor.open(f"recall?{urlencode({'bank': bank, 'tags': '<tag>', 'user_id': user})}")
    await visitor.page.get_by_label("Question").fill("<img src=x onerror=alert(10)> around script alert")
    await visitor.click("Ask")
    await visitor.page.locator(".result").first.wait_for()
    assert await visitor.fits()


async def test_a_page_of_another_origin_reads_and_changes_nothing(ana: Tenant, visitor: Visitor) -> None:
    """Another server on this machine is sent the cookie, since cookies know no ports; that is worth nothing to it."""
    [unit] = await remember(ana, "We meet on Tuesday")
    await visitor.sign_in(ana.token)
    stolen: list[str] = []

    async def foreign(scope: Any, receive: Any, send: Any) -> None:
        del receive
        stolen.extend(value.decode() for name, value in scope["headers"] if name == b"cookie")
        await HTMLResponse("<!doctype html><title>foreign</title><p>foreign</p>")(scope, None, send)  # type: ignore[arg-type]  # reads nothing

    async with serve(foreign) as elsewhere:
        page = await visitor.page.context.new_page()
        await page.goto(f"{elsewhere}/api/v1/trap")
        tried = await page.evaluate(ATTACK, [visitor.url, unit])
        framed = await page.evaluate(FRAME, f"{visitor.url}/console")
        await page.close()
    assert tried == ["refused"] * 5
    assert framed == "blocked"
    assert (await ana.http.get(f"/api/v1/units/{unit}")).json()["text"] == "We meet on Tuesday"
    [cookie] = {one.partition("afterturn_console=")[2] for one in stolen if "afterturn_console=" in one}
    async with httpx.AsyncClient(base_url=visitor.url, headers={"cookie": f"afterturn_console={cookie}"}) as thief:
        assert (await thief.get("/api/v1/banks")).status_code == 401
        assert (await thief.get("/api/v1/banks", headers={"x-console-session": "x" * 43})).status_code == 401
    visitor.forgive("another origin")


#: What a page of another origin tries: to read, to change, to sign the browser in, also as a form would.
ATTACK = """
async ([url, unit]) => {
    const tries = [
        [`${url}/api/v1/units/${unit}`, {}],
        [`${url}/api/v1/units/${unit}`, { headers: { "x-console-session": "x" } }],
        [`${url}/api/v1/units/${unit}`, { method: "DELETE" }],
        [`${url}/api/v1/turns`, { method: "POST", mode: "no-cors", body: "{}" }],
        [`${url}/api/v1/console/session`, { method: "POST", mode: "no-cors", body: '{"key":"at_x"}' }],
    ];
    const told = [];
    for (const [address, more] of tries)
        told.push(await fetch(address, { credentials: "include", ...more })
            .then((reply) => (reply.type === "opaque" ? "refused" : `read ${reply.status}`), () => "refused"));
    return told;
}"""
FRAME = """
(address) => new Promise((told) => {
    const frame = document.createElement("iframe");
    frame.addEventListener("load", () => {
        let seen = "blocked";
        try { if (frame.contentDocument.querySelector("#console")) seen = "shown"; } catch { seen = "blocked"; }
        told(seen);
    });
    frame.src = address;
    document.body.append(frame);
})"""


NEEDED = "A key of an operator is needed"


async def test_every_page_is_readable_for_everyone(world: World, ana: Tenant, visitor: Visitor) -> None:
    """Nothing that axe-core calls serious, nothing wider than the window, and each thing has its role and name."""
    [unit] = await remember(ana, "I moved to Ljubljana in May")
    await visitor.page.goto(f"{visitor.url}/console")
    await visitor.sees("Sign in")
    await visitor.reads_well()
    await visitor.sign_in(ana.token)
    turn = (await ana.http.get("/api/v1/turns", params={"session_id": "monday"})).json()["turns"][0]["turn_id"]
    await visitor.open("bank?view=units")
    await visitor.click("Show content")
    for address, text in (
        ("memory", "Banks that your key reaches"),
        ("bank", "monday"),
        ("bank?view=units", "Ljubljana"),
        ("session?session_id=monday", turn),
        (f"turn?session_id=monday&turn_id={turn}", "extraction"),
        (f"unit?unit_id={unit}", "Facts drawn from it"),
        ("now", NEEDED),
        ("people", "What is known of a person"),
        ("person?name=Rosa&bank=default", "No fact is known"),
        ("recall?k=3", "Ask a question"),
    ):
        await visitor.open(address)
        await visitor.sees(text)
        await visitor.reads_well(address)
        if (heard := address if address in HEARD else address.partition("?")[0]) in HEARD and text != NEEDED:
            await visitor.hears(heard)
    await visitor.page.get_by_label("Question").fill("Where did I move to?")
    await visitor.click("Ask")
    await visitor.sees("What a prompt gets")
    await visitor.reads_well()
    await visitor.hears("answer")
    await visitor.open("now")
    await visitor.page.get_by_label("Key of an operator").fill(await OperatorKeys(world.database).create("all"))
    await visitor.click("Sign in")
    await visitor.sees("Queues")
    await visitor.reads_well()
    await visitor.hears("now")
    await visitor.open(f"work?tenant={ana.host}")
    await visitor.page.get_by_role("table", name="Work").wait_for()
    await visitor.reads_well()
    await visitor.hears("work")
    await visitor.page.get_by_role("link", name="extraction").first.click()
    await visitor.page.get_by_role("table", name="Rows").wait_for()
    await visitor.reads_well()
    await visitor.open(f"unit?unit_id={unit}")
    await visitor.click("Forget")
    await visitor.sees("Erase it from the log as well")
    await visitor.reads_well()
    await visitor.hears("forget")


async def test_the_console_is_worked_by_keyboard_alone_and_speaks_german(ana: Tenant, visitor: Visitor) -> None:
    [unit] = await remember(ana, "I moved to Ljubljana in May")
    await visitor.page.goto(f"{visitor.url}/console")
    await visitor.page.locator("input:focus").wait_for()
    await visitor.page.keyboard.type(ana.token)
    await visitor.page.keyboard.press("Enter")
    await visitor.sees("Banks that your key reaches")
    await visitor.page.get_by_label("Language").select_option("de")
    await visitor.sees("Banken, die Ihr Schlüssel erreicht")
    await visitor.page.get_by_role("link", name="default").wait_for()
    # A page that is opened has the focus on its heading: the first bank is next.
    await visitor.page.keyboard.press("Tab")
    await visitor.page.keyboard.press("Enter")
    await visitor.page.get_by_role("table", name="Sitzungen").wait_for()
    assert "bank=default" in visitor.page.url
    # A dialog has the keyboard, is left by Escape, and gives the focus back to the button that opened it.
    await visitor.open(f"unit?unit_id={unit}")
    await visitor.page.get_by_role("button", name="Inhalt zeigen").press("Enter")
    pin = visitor.page.get_by_role("button", name="Anheften", exact=True)
    await pin.press("Enter")
    await visitor.page.get_by_role("dialog", name="Diese Einheit anheften").wait_for()
    await visitor.page.keyboard.press("Escape")
    await visitor.page.get_by_role("dialog").wait_for(state="detached")
    assert await pin.evaluate("(one) => one === document.activeElement")
    await visitor.page.keyboard.press("Enter")
    await (
        visitor.page.get_by_role("dialog")
        .get_by_role("button", name="Abbrechen")
        .and_(visitor.page.locator(":focus"))
        .wait_for()
    )
    await visitor.page.keyboard.press("Tab")
    await visitor.page.keyboard.press("Enter")
    await visitor.sees("Angeheftet.")


#: Writes something that can be read on the light page and not on the dark one.
GREY_IN_THE_DARK = """
() => {
    const text = document.createElement("p");
    text.style.color = "light-dark(#000, #333)";
    text.textContent = "grey";
    document.querySelector("main").append(text);
}"""


async def test_what_would_be_a_fault_is_found(ana: Tenant, browser: Browser, url: str) -> None:
    """The watch of the other tests sees a refused style, an error of a script, an alert and an unreadable picture."""
    with pytest.raises(AssertionError) as found:
        async with visit(browser, url) as visitor:
            await visitor.sign_in(ana.token)
            await visitor.page.evaluate(
                """() => {
                    const picture = document.createElement("img");
                    picture.setAttribute("style", "color: red");
                    document.querySelector("main").append(picture);
                    setTimeout(() => { throw new Error("a fault of a script"); });
                    setTimeout(() => alert("an alert"));
                }"""
            )
            assert "image-alt" in "".join(await visitor.find_serious_faults())
            await visitor.page.evaluate(GREY_IN_THE_DARK)
            assert "color-contrast" not in "".join(await visitor.find_serious_faults())
            await visitor.page.emulate_media(color_scheme="dark")
            assert "color-contrast" in "".join(await visitor.find_serious_faults(COLOUR_RULES))
    for what in ("style-src", "a fault of a script", "an alert"):
        assert what in str(found.value)


async def test_a_text_that_is_too_faint_in_the_dark_alone_is_found(ana: Tenant, visitor: Visitor) -> None:
    await visitor.sign_in(ana.token)
    await visitor.page.evaluate(
        """() => {
            const colours = new CSSStyleSheet();
            colours.replaceSync("@media (prefers-color-scheme: dark) { .faint { color: #222; background: #111 } }");
            document.adoptedStyleSheets.push(colours);
            const text = document.createElement("p");
            text.className = "faint";
            text.textContent = "hardly to be read";
            document.querySelector("main").append(text);
        }"""
    )
    with pytest.raises(AssertionError, match="360, 'dark'"):
        await visitor.reads_well()
