"""`afterturn demo --keep`: its memory stays to be looked at in the console, until Ctrl-C.

With AFTERTURN_PICTURES=FOLDER (`make pictures`) the pictures of README and docs are written there; with
AFTERTURN_LOOKS=FOLDER one of every page, at each width and in both themes, to be looked at.
"""

import asyncio
import base64
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.patience import wait_until
from tests.processes import spawned
from tests.producers.console.browser import Visitor, open_browser, visit

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.xdist_group("the demo that stays")]

CLI = (sys.executable, "-P", "-m", "deploy.cli")
LINK = re.compile(r"signs in once\): (http://127\.0\.0\.1:\d+)/console(#link=[\w-]+)")
DATA = re.compile(r"afterturn console --data (\S+)")
#: Seconds until the demo has shown its figures, on a busy machine.
LONGEST_S = 900.0
#: Each picture: its page, what is asked there, and a text that it must show.
PICTURES = {
    "memory": ("bank?bank=demo", "", "january-first-talk"),
    "recall": ("recall?bank=demo&k=5", "Who is Ines's mother?", "My mother Ilona lives in Szeged"),
    "person": ("person?name=Ines&bank=demo", "", "Ines's birthday is 3 April"),
    "around": ("around?name=Ines&bank=demo", "", "Units with both"),
    "now": ("now", "", "projection"),
}
#: Those that README and docs show; the others are looked at in both themes alone.
SHOWN = frozenset({"memory", "recall"})
WIDTH, HEIGHT, QUALITY = 1280, 900, 80
#: Every page, by the name of its picture: its address, and what it shows of the demo's memory.
PAGES = {
    "banks": ("memory", "demo"),
    "sessions": ("bank?bank=demo", "january-first-talk"),
    "units": ("bank?bank=demo&view=units", "Ines"),
    "facts": ("bank?bank=demo&view=facts", "Ines"),
    "memories": ("bank?bank=demo&view=memories", "single memory"),
    "entities": ("bank?bank=demo&view=entities", "Mentions"),
    "documents": ("bank?bank=demo&view=documents", "document"),
    "directives": ("bank?bank=demo&view=directives", "directive"),
    "reflections": ("bank?bank=demo&view=reflections", "reflection"),
    "session": ("session?bank=demo&session_id=january-first-talk", "Accepted"),
    "people": ("people", "What is known of a person"),
    "person": ("person?name=Ines&bank=demo", "Ines's birthday is 3 April"),
    "around": ("around?name=Ines&bank=demo", "Units with both"),
    "work": ("work", "the oldest first"),
    "letters": ("letters", "There is no turn queue"),
    "now": ("now", "projection"),
    "operate": ("operate", "default"),
    "targets": ("targets", "Whose turns are delivered"),
    "vectors": ("vectors", "live"),
    "audit": ("audit", "GET /api/v1"),
    "settings": ("settings", "api.console.enabled"),
    "doctor": ("doctor", "PostgreSQL version"),
    "erasure": ("erasure", "Count what would go"),
}
#: Pages that are reached by a link of another one: that one's address, the link, and what they show.
LINKED = {
    "turn": ("session?bank=demo&session_id=january-first-talk", "main table tbody a", "Messages"),
    "unit": ("bank?bank=demo&view=units", "main a.card.unit", "Facts drawn from it"),
    "tenant": ("operate", "main table tbody a", "the whole tenant"),
}
#: From a telephone to a large screen, in pixels.
WIDTHS = (400, 1280, 1920)
#: The most bytes of one picture.
MOST_BYTES = 80_000


@dataclass(frozen=True)
class KeptDemo:
    """A demo that has shown its figures and stays; its output is in the file `said`."""

    process: "subprocess.Popen[bytes]"
    said: Path

    def find(self, what: re.Pattern[str]) -> re.Match[str]:
        """Return where the output says something."""
        text = self.said.read_text()
        found = what.search(text)
        assert found, text
        return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures are written."""
    chosen = os.environ.get("AFTERTURN_PICTURES")
    made = Path(chosen).absolute() if chosen else tmp_path_factory.mktemp("pictures")
    made.mkdir(parents=True, exist_ok=True)
    return made


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptDemo]:
    said = tmp_path_factory.mktemp("demo") / "said"
    with said.open("wb") as output, spawned([*CLI, "demo", "--keep"], stdout=output, stderr=output) as process:

        def stays() -> bool:
            return bool(LINK.search(said.read_text())) or process.poll() is not None

        wait_until(stays, "the link", LONGEST_S, pause_s=0.5)
        kept = KeptDemo(process, said)
        # The demo waits for its turns some minutes and then shows what there is; its last writes it never waits for.
        # A delivery that timed out on a busy machine is told by the status, and is in no page that is looked at.
        drain = [*CLI, "jobs", "drain", "--timeout", f"{LONGEST_S:.0f}s", "--data", kept.find(DATA)[1]]
        subprocess.run(drain, capture_output=True, check=False)
        yield kept


async def test_the_console_shows_the_memory_of_the_demo(kept: KeptDemo, folder: Path) -> None:
    api, link = kept.find(LINK).groups()
    for dark in (False, True):
        async with open_browser() as browser, visit(browser, api, dark=dark, width=WIDTH) as visitor:
            await visitor.page.goto(f"{api}/console{await asyncio.to_thread(make_link, kept) if dark else link}")
            await visitor.page.get_by_role("button", name="Sign out").wait_for()
            for name, (address, question, text) in PICTURES.items():
                await show(visitor, address, question, text)
                picture = await take_picture(visitor)
                assert len(picture) < MOST_BYTES, name
                file = f"{name}-dark" if dark else name
                if file in SHOWN:
                    (folder / f"{file}.webp").write_bytes(picture)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_every_page_shows_the_demo_at_every_width(kept: KeptDemo, *, dark: bool) -> None:
    api, looks = kept.find(LINK)[1], os.environ.get("AFTERTURN_LOOKS")
    async with open_browser() as browser, visit(browser, api, dark=dark) as visitor:
        await visitor.page.goto(f"{api}/console{await asyncio.to_thread(make_link, kept)}")
        await visitor.page.get_by_role("button", name="Sign out").wait_for()
        for width in WIDTHS:
            await visitor.page.set_viewport_size({"width": width, "height": HEIGHT})
            for name in (*PAGES, *LINKED, "recall"):
                await walk_to(visitor, name)
                if width == WIDTH:
                    assert await visitor.find_serious_faults() == [], name
                if looks:
                    path = Path(looks) / f"{name}-{width}{'-dark' if dark else ''}.png"
                    await visitor.picture(path)


async def walk_to(visitor: Visitor, name: str) -> None:
    """Open a page, and wait until it shows what it has to show."""
    if name in LINKED:
        address, link, text = LINKED[name]
        await show(visitor, address, "", PAGES[next(page for page, (at, _) in PAGES.items() if at == address)][1])
        await visitor.page.locator(link).first.click()
        await visitor.sees(text)
        assert await visitor.fits(), name
        return
    address, question, text = PICTURES[name] if name == "recall" else (PAGES[name][0], "", PAGES[name][1])
    await show(visitor, address, question, text)


def make_link(kept: KeptDemo) -> str:
    """Make another link, as `afterturn console` does."""
    command = [*CLI, "console", "--data", kept.find(DATA)[1]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return "#" + done.stdout.strip().partition("#")[2]


async def show(visitor: Visitor, address: str, question: str, text: str) -> None:
    await visitor.open(address)
    if question:
        await visitor.page.get_by_label("Question").fill(question)
        await visitor.click("Ask")
    await visitor.page.get_by_text(text).or_(visitor.page.get_by_text("Content is hidden")).first.wait_for()
    if await visitor.page.get_by_text("Content is hidden").count():
        await visitor.click("Show content")
    await visitor.sees(text)
    assert await visitor.fits()
    # A button that was pressed has the focus; the heading of a page shows none.
    await visitor.page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")


async def take_picture(visitor: Visitor) -> bytes:
    """Take a picture of the window as WebP."""
    session = await visitor.page.context.new_cdp_session(visitor.page)
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": 1}
    taken = await session.send(
        "Page.captureScreenshot", {"format": "webp", "quality": QUALITY, "clip": clip, "optimizeForSpeed": False}
    )
    await session.detach()
    return base64.b64decode(taken["data"])


def test_ctrl_c_stops_everything_and_removes_the_memory(kept: KeptDemo) -> None:
    api, data = kept.find(LINK)[1], Path(kept.find(DATA)[1])
    assert httpx.get(f"{api}/health/live").status_code == 200
    assert data.exists()
    kept.process.send_signal(signal.SIGINT)
    # 1: the demo itself found a fault, such as a delivery that timed out on a busy machine.
    assert kept.process.wait(120) in {0, 1}
    assert "Traceback" not in kept.said.read_text()
    assert not data.exists()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{api}/health/live")
