"""Builds Grafana's dashboards: `python -m deploy.lab.build_dashboards` writes deploy/grafana."""

import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "grafana"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
#: Width and height of a panel in Grafana's units, of which a row has 24.
WIDTH, HEIGHT = 12, 8
STAT_WIDTH, STAT_HEIGHT, COLUMNS = 6, 4, 24


#: Deployments, marked on every graph: a version that was not there a minute ago.
DEPLOYMENTS = "count by (version) (afterturn_build_info) unless count by (version) (afterturn_build_info offset 1m)"


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel: its title, Grafana's unit, what it tells, the PromQL expression, and the legend of a line.

    `kind` is Grafana's type of panel; a stat turns yellow and red from its `limits` on.
    """

    title: str
    unit: str
    about: str
    expression: str
    legend: str = ""
    kind: str = "timeseries"
    limits: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard; `uid` is also the name of its file."""

    uid: str
    title: str
    panels: Sequence[Panel]


def read_dashboards() -> Sequence[Dashboard]:
    """Return the dashboards of `dashboards.toml`, in its order."""
    found = tomllib.loads(Path(__file__).with_name("dashboards.toml").read_text(encoding="utf-8"))
    return [
        Dashboard(one["uid"], one["title"], [Panel(**panel) for panel in one["panels"]]) for one in found["dashboards"]
    ]


DASHBOARDS = read_dashboards()


def build_dashboard(dashboard: Dashboard) -> dict[str, Any]:
    """Return a dashboard in Grafana's import format, with the Prometheus data source as an input."""
    runbook = {"name": "runbook", "type": "textbox", "label": "Runbook", "query": "docs/runbook.md"}
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    return {
        "title": dashboard.title,
        "uid": dashboard.uid,
        "tags": ["afterturn"],
        "timezone": "browser",
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "annotations": {
            "list": [
                {
                    "name": "Deployments",
                    "enable": True,
                    "iconColor": "blue",
                    "datasource": SOURCE,
                    "expr": DEPLOYMENTS,
                    "titleFormat": "version {{version}}",
                }
            ]
        },
        "links": [
            {"type": "dashboards", "tags": ["afterturn"], "title": "Afterturn", "asDropdown": True},
            {"type": "link", "title": "Runbook", "url": "${runbook}", "targetBlank": True},
        ],
        "templating": {"list": [source, runbook]},
        "panels": list(_build_panels(dashboard.panels)),
    }


def _build_panels(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    column, row = 0, 0
    for nth, panel in enumerate(panels):
        width, height = (STAT_WIDTH, STAT_HEIGHT) if panel.kind == "stat" else (WIDTH, HEIGHT)
        if column + width > COLUMNS or (column and panels[nth - 1].kind == "stat" != panel.kind):
            column, row = 0, row + (STAT_HEIGHT if panels[nth - 1].kind == "stat" else HEIGHT)
        yield _build_panel(panel, nth + 1, {"h": height, "w": width, "x": column, "y": row})
        column += width


def _build_panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    target: dict[str, Any] = {"refId": "A", "expr": panel.expression}
    if panel.kind == "table":
        target |= {"format": "table", "instant": True}
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.kind == "stat":
        colours = zip((None, *panel.limits), ("green", "yellow", "red"), strict=False)
        steps = [{"value": value, "color": colour} for value, colour in colours]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "gridPos": place,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [target | ({"legendFormat": panel.legend} if panel.legend else {})],
    }


def render_dashboard(dashboard: Dashboard) -> str:
    """Return the text of a dashboard's file."""
    return json.dumps(build_dashboard(dashboard), indent=2) + "\n"


def main() -> None:
    """Write every dashboard."""
    for dashboard in DASHBOARDS:
        (FOLDER / f"{dashboard.uid}.json").write_text(render_dashboard(dashboard), encoding="utf-8")


if __name__ == "__main__":
    main()
