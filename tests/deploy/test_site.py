"""The documentation builds as a site, without a network: every link leads somewhere, the references are complete."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.cli.app import COMMANDS
from deploy.settings import Settings
from tests.deploy.observability.test_observability import rules
from tests.site_pages import describe_commands, describe_settings, list_fields

ROOT = Path(__file__).parents[2]
#: What a page loads by itself, from another site.
LOADED = re.compile(r'<(?:script|img|link)[^>]+(?:src|href)="(https?:)?//')


def build(site: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(site), *more]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    )


@pytest.mark.slow
def test_the_site_builds_and_its_pages_load_nothing_from_elsewhere(tmp_path: Path) -> None:
    done = build(tmp_path / "site")
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 20
    assert not [page.name for page in pages if LOADED.search(page.read_text(encoding="utf-8"))]
    runbook = (tmp_path / "site" / "runbook.html").read_text(encoding="utf-8")
    for alert in rules("prometheus/alerts.yml"):
        assert f'id="{alert["alert"].lower()}"' in runbook


@pytest.mark.slow
def test_a_link_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# Page\n\nSee [another](nowhere.md) and [a part](#of-it).\n")
    config = re.sub(r"(?s)\nnav:.*", "\n", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    config = config.replace("docs_dir: docs", f"docs_dir: {docs}").replace("hooks: [tests/site_pages.py]\n", "")
    (tmp_path / "mkdocs.yml").write_text(config)
    done = build(tmp_path / "site", "--config-file", str(tmp_path / "mkdocs.yml"))
    assert done.returncode == 1
    assert "nowhere.md" in done.stderr
    assert "#of-it" in done.stderr


def test_the_references_have_every_setting_and_every_command() -> None:
    settings = describe_settings()
    for key, field in list_fields(Settings):
        assert f"| `{key}`<br>" in settings
        assert field.description, key
    commands = describe_commands()
    assert set(COMMANDS) <= set(re.findall(r"^## (\S+)$", commands, re.MULTILINE))
    assert "### db migrate" in commands
    assert "`--processes`" in commands
