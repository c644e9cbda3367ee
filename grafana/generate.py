"""Grafana's dashboards: `panels.DASHBOARDS` in, `dashboards/*.json` out (`python grafana/generate.py`).

What all panels have in common (data source, places in the grid, colours of severities) is written once here; the JSON
is what Grafana 11 and newer read, from a file, a ConfigMap or by hand. What stands in the folder is what this makes.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))  # Python leaves it out where PYTHONSAFEPATH is set
from model import Dashboard, Panel

from panels import DASHBOARDS

HERE: Final = Path(__file__).parent
DATASOURCE: Final = {"type": "grafana-postgresql-datasource", "uid": "${datasource}"}
COLUMNS: Final = 24
_RED, _ORANGE, _BLUE, _GREEN = "red", "orange", "blue", "green"
_SEVERITY_COLOURS: Final = {"critical": _RED, "warning": _ORANGE, "info": _BLUE}
_VERDICT_COLOURS: Final = {"holds": _GREEN, "breached": _RED, "unknown": "#8e8e8e"}


def rendered(dashboard: Dashboard) -> str:
    """The JSON that Grafana reads."""
    model = {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": list(dashboard.tags),
        "schemaVersion": 41,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "time": {"from": dashboard.span, "to": "now"},
        "timezone": "utc",
        "refresh": "5m",
        "links": [
            {"type": "dashboards", "tags": ["tidegauge"], "title": "Tidegauge", "asDropdown": True, "keepTime": True}
        ],
        "templating": {"list": list(_variables(dashboard))},
        "annotations": {"list": list(_annotations(dashboard))},
        "panels": list(_panels(dashboard.panels)),
    }
    return json.dumps(model, indent=2) + "\n"


def _variables(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    yield {
        "name": "datasource",
        "label": "Store",
        "type": "datasource",
        "query": DATASOURCE["type"],
        "current": {},
        "hide": 0,
    }
    yield {
        "name": "console",
        "label": "Console",
        "description": "Where the console is, for links: https://tidegauge.example.com",
        "type": "textbox",
        "query": "",
        "current": {},
        "hide": 0,
    }
    for name, sql in dashboard.variables:
        yield {
            "name": name,
            "label": name.capitalize(),
            "type": "query",
            "datasource": DATASOURCE,
            "definition": sql,
            "query": sql,
            "refresh": 2,
            "sort": 0,
            "multi": False,
            "includeAll": False,
            "current": {},
            "hide": 0,
        }


def _annotations(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    for annotation in dashboard.annotations:
        yield {
            "name": annotation.name,
            "datasource": DATASOURCE,
            "enable": True,
            "iconColor": annotation.colour,
            "target": {
                "refId": "Anno",
                "datasource": DATASOURCE,
                "format": "table",
                "editorMode": "code",
                "rawQuery": True,
                "rawSql": annotation.sql.strip(),
            },
        }


def _panels(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    left = top = row_height = 0
    for number, panel in enumerate(panels, start=1):
        if left + panel.width > COLUMNS:
            left, top, row_height = 0, top + row_height, 0
        yield {
            "id": number,
            "title": panel.title,
            "description": panel.about,
            "type": panel.kind,
            "datasource": DATASOURCE,
            "gridPos": {"x": left, "y": top, "w": panel.width, "h": panel.height},
            "targets": [
                {
                    "refId": "A",
                    "datasource": DATASOURCE,
                    "format": "time_series" if panel.kind == "timeseries" else "table",
                    "editorMode": "code",
                    "rawQuery": True,
                    "rawSql": panel.sql.strip(),
                }
            ],
            "fieldConfig": {"defaults": _defaults(panel), "overrides": list(_overrides(panel))},
            "options": _options(panel),
        }
        left, row_height = left + panel.width, max(row_height, panel.height)


def _defaults(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"custom": {"filterable": True} if panel.kind == "table" else {}}
    if panel.unit:
        defaults["unit"] = panel.unit
    if panel.bad_from is not None:
        steps = [{"color": _GREEN, "value": None}, {"color": _RED, "value": panel.bad_from}]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    else:
        defaults["color"] = {"mode": "palette-classic" if panel.kind in ("timeseries", "barchart") else "fixed"}
    if panel.kind == "timeseries":
        defaults["custom"] = {"drawStyle": "line", "showPoints": "always", "spanNulls": True, "fillOpacity": 10}
    return defaults


def _overrides(panel: Panel) -> Iterator[dict[str, Any]]:
    if panel.kind == "table":
        for column, colours in (("severity", _SEVERITY_COLOURS), ("verdict", _VERDICT_COLOURS)):
            options = {text: {"color": colour, "index": at} for at, (text, colour) in enumerate(colours.items())}
            yield {
                "matcher": {"id": "byName", "options": column},
                "properties": [
                    {"id": "mappings", "value": [{"type": "value", "options": options}]},
                    {"id": "custom.cellOptions", "value": {"type": "color-text"}},
                ],
            }
    if panel.kind == "piechart":
        for text, colour in _VERDICT_COLOURS.items():
            yield {
                "matcher": {"id": "byName", "options": text},
                "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}],
            }
    for column, says, url in panel.links:
        yield {
            "matcher": {"id": "byName", "options": column},
            "properties": [{"id": "links", "value": [{"title": says, "url": url}]}],
        }


def _options(panel: Panel) -> dict[str, Any]:
    match panel.kind:
        case "stat":
            reduce = {"calcs": ["lastNotNull"], "fields": "", "values": False}
            return {"reduceOptions": reduce, "colorMode": "value", "graphMode": "none", "textMode": "value"}
        case "piechart":
            reduce = {"calcs": ["lastNotNull"], "fields": "", "values": True}
            legend = {"displayMode": "table", "placement": "right", "values": ["value"]}
            return {"pieType": "donut", "reduceOptions": reduce, "legend": legend}
        case "barchart":
            return {
                "xField": "broker",
                "orientation": "horizontal",
                "legend": {"displayMode": "list", "placement": "bottom"},
            }
        case "timeseries":
            return {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}}
        case _:
            return {"showHeader": True, "cellHeight": "sm"}


def main() -> int:
    """Writes all; with `--check` says which are not what they should be."""
    stale = 0
    for dashboard in DASHBOARDS:
        path = HERE / "dashboards" / f"{dashboard.uid}.json"
        text = rendered(dashboard)
        if "--check" in sys.argv[1:]:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                print(f"{path.name} is not what generate.py makes: run `python grafana/generate.py`", file=sys.stderr)
                stale = 1
        else:
            path.write_text(text, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main())
