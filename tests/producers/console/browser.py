"""A real browser on the console: Debian's Chromium, driven by Playwright; what it reports as a fault fails the test."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from axe_playwright_python.base import AXE_FILE_PATH  # type: ignore[import-untyped]  # it has no types
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from tests.packages import program
from tests.producers.console.heard import HEARD

#: Reported before any script of the page runs, so that the test sees every violation of the policy.
WATCH = """
    window.__violations = [];
    addEventListener("securitypolicyviolation", (event) =>
        window.__violations.push(`${event.violatedDirective} ${event.blockedURI}`));"""
#: Half a megabyte of script: a page has it once it is judged, and not whenever it is loaded.
AXE = Path(AXE_FILE_PATH).read_text()
#: Every rule of these kinds; in other colours those about colours, which alone can tell otherwise there.
ALL_RULES = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
COLOUR_RULES = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
#: Judges the page; what passes, most of the page, is not told.
JUDGE = """
async ([rules, levels]) => {
    const { violations } = await axe.run(document, { runOnly: rules, resultTypes: ["violations"] });
    return violations.filter((one) => levels.includes(one.impact)).flatMap((one) => one.nodes.map((node) =>
        `${one.id}: ${node.html.slice(0, 120)} ${(node.failureSummary ?? "").slice(0, 200)}`));
}"""
#: The longest wait for one thing on a page, in milliseconds: a wrong test ends soon, and a busy machine is no fault.
ACTION_MS = 120_000
SERIOUS = ("serious", "critical")
#: How a page is looked at: the window's width in pixels, and its colours.
LOOKS: tuple[tuple[int, Literal["light", "dark"]], ...] = (
    (360, "light"),
    (360, "dark"),
    (1280, "light"),
    (1280, "dark"),
)
HEIGHT = 900


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    """Start the browser; without it the test is skipped, or fails where packages are required."""
    chromium = program("chromium", "chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        await browser.close()


@dataclass
class Visitor:
    """A person at a page: what the browser reported as wrong, except what a test expects."""

    url: str
    page: Page
    wrong: list[str] = field(default_factory=list)

    async def open(self, address: str = "") -> None:
        """Go to an address of the console, `memory` or `unit?bank=...`."""
        await self.page.goto(f"{self.url}/console#/{address}")

    async def sign_in(self, key: str) -> None:
        await self.page.goto(f"{self.url}/console")
        await self.page.get_by_role("textbox").fill(key)
        await self.page.get_by_role("button", name="Sign in").click()
        await self.page.get_by_role("button", name="Sign out").wait_for()

    async def sees(self, text: str) -> None:
        """Wait until a text stands on the page."""
        await self.page.get_by_text(text).first.wait_for()

    async def click(self, name: str, *, role: Any = "button") -> None:
        await self.page.get_by_role(role, name=name, exact=True).first.click()

    async def fits(self) -> bool:
        """Whether nothing is wider than the window."""
        script = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        return bool(await self.page.evaluate(script))

    async def find_serious_faults(self, rules: Mapping[str, Any] = ALL_RULES) -> list[str]:
        """Return what axe-core calls serious or critical, by rule and place."""
        if not await self.page.evaluate("'axe' in window"):
            await self.page.evaluate(AXE)
        found: list[str] = await self.page.evaluate(JUDGE, [rules, SERIOUS])
        return found

    async def reads_well(self, address: str = "") -> None:
        """Nothing that axe-core calls serious, and nothing wider than the window, however the page is looked at."""
        for width, colours in LOOKS:
            await self.page.set_viewport_size({"width": width, "height": HEIGHT})
            await self.page.emulate_media(color_scheme=colours)
            rules = ALL_RULES if colours == "light" else COLOUR_RULES
            assert await self.find_serious_faults(rules) == [], (address, width, colours)
            assert await self.fits(), (address, width, colours)

    async def hears(self, page: str) -> None:
        """Wait until the accessibility tree, which a screen reader reads, holds what `HEARD` has of this page."""
        await expect(self.page.locator("main")).to_match_aria_snapshot(HEARD[page], timeout=ACTION_MS)

    def forgive(self, what: str) -> None:
        """Forget errors of the network that a test brought about, such as a refusal's status."""
        self.wrong = [one for one in self.wrong if not (one.startswith("console: Failed to load") and what in one)]

    async def picture(self, path: Path) -> None:
        await self.page.screenshot(path=path, full_page=True)

    async def faults(self) -> list[str]:
        """Return everything that the browser reported: errors of scripts, alerts, violations of the policy."""
        return self.wrong + list(await self.page.evaluate("window.__violations"))


@asynccontextmanager
async def open_profile(browser: Browser, *, dark: bool = False, width: int = 1280) -> AsyncIterator[BrowserContext]:
    """Open a fresh profile of the browser."""
    profile = await browser.new_context(
        color_scheme="dark" if dark else "light",
        viewport={"width": width, "height": HEIGHT},
        locale="en-GB",
        timezone_id="Europe/Berlin",
        reduced_motion="reduce",
    )
    profile.set_default_timeout(ACTION_MS)
    await profile.add_init_script(WATCH)
    yield profile
    await profile.close()


@asynccontextmanager
async def open_page(profile: BrowserContext, url: str) -> AsyncIterator[Visitor]:
    """Open a page; what the browser reported must be nothing in the end. The profile keeps files and nothing else."""
    page = await profile.new_page()
    visitor = Visitor(url, page)
    page.on("console", lambda one: visitor.wrong.append(f"console: {one.text}") if one.type == "error" else None)
    page.on("pageerror", lambda error: visitor.wrong.append(f"script: {error}"))

    async def dismiss(dialog: Any) -> None:
        visitor.wrong.append(f"alert: {dialog.message}")
        await dialog.dismiss()

    page.on("dialog", dismiss)
    elsewhere: list[str] = []
    page.on("request", lambda one: None if one.url.startswith(url) else elsewhere.append(one.url))
    try:
        yield visitor
        faults = await visitor.faults()
        assert not faults, faults
        assert not elsewhere, elsewhere
    finally:
        session = await profile.new_cdp_session(page)
        await session.send("Storage.clearDataForOrigin", {"origin": url, "storageTypes": "cookies,local_storage"})
        for one in profile.pages:
            await one.close()


@asynccontextmanager
async def visit(browser: Browser, url: str, *, dark: bool = False, width: int = 1280) -> AsyncIterator[Visitor]:
    """Open a page in a fresh profile."""
    async with open_profile(browser, dark=dark, width=width) as profile, open_page(profile, url) as visitor:
        yield visitor
