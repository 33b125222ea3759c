"""The page at /docs loads nothing from another site, and the browser is told that it may not."""

import base64
import hashlib
import re
from html.parser import HTMLParser

from tests.producers.conftest import World

#: What of a tag names something to load or to go to.
NAMING = ("src", "href", "srcset", "action", "data", "poster")


class Loading(HTMLParser):
    """What a page loads, and the scripts that stand in it."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.scripts: list[str] = []
        self._in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [value or "" for name, value in attrs if name in NAMING]
        self._in_script = tag == "script" and not any(name == "src" for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        self._in_script = self._in_script and tag != "script"

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.scripts.append(data)


async def test_everything_the_page_loads_is_served_by_this_service(world: World) -> None:
    async with world.client() as client:
        page = await client.get("/docs")
        reading = Loading()
        reading.feed(page.text)
        assert len(reading.loaded) == len(("style", "icon", "script"))
        for path in reading.loaded:
            assert re.fullmatch(r"/(?!/)[\w./-]+", path)
            answer = await client.get(path)
            assert answer.status_code == 200
            assert answer.content
        [script] = reading.scripts
        assert "//" not in script
        assert "url: '/openapi.json'" in script
        # Swagger UI asks another site for its judgement unless it is told not to.
        assert '"validatorUrl": null' in script


async def test_a_browser_at_the_root_is_sent_to_the_page_and_a_program_learns_of_it(world: World) -> None:
    async with world.client() as client:
        browser = await client.get("/", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
        program = await client.get("/")
    assert (browser.status_code, browser.headers["location"]) == (302, "/console")
    assert (program.status_code, program.json()["error"]["code"]) == (404, "NOT_FOUND")
    assert "/docs" in program.json()["error"]["message"]


async def test_the_browser_may_load_nothing_from_elsewhere_and_run_no_other_script(world: World) -> None:
    async with world.client() as client:
        page = await client.get("/docs")
    policy = {
        name: set(sources)
        for name, *sources in (part.split() for part in page.headers["content-security-policy"].split(";"))
    }
    reading = Loading()
    reading.feed(page.text)
    [script] = reading.scripts
    hashed = f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
    assert policy["script-src"] == {"'self'", hashed}
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == {"'none'"}
    allowed = {"'self'", "'none'", "'unsafe-inline'", "data:", hashed}
    assert set().union(*policy.values()) <= allowed


async def test_what_the_page_is_made_of_gives_no_other_file_away(world: World) -> None:
    async with world.client() as client:
        for path in ("/docs/assets/", "/docs/assets/../__init__.py", "/docs/assets/%2e%2e/__init__.py"):
            assert (await client.get(path)).status_code == 404
        assert (await client.get("/docs/oauth2-redirect")).status_code == 404
