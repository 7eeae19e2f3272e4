# SPDX-License-Identifier: Apache-2.0
"""A board as Grafana's JSON: its panels in rows, what chooses series, and when moves ran."""

from grafana.panel_json import SOURCE, panel_json
from grafana.queries import chosen

COLUMNS, TALL, FLAT = 24, 8, 4
LINKS = [
    {
        "type": "dashboards",
        "title": "remesh",
        "tags": ["remesh"],
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
        "icon": "",
        "targetBlank": False,
        "tooltip": "",
        "url": "",
    }
]


def board_json(name: str, panels: list) -> dict:
    return {
        "uid": f"remesh-{name}",
        "title": f"remesh / {name}",
        "tags": ["remesh"],
        "editable": False,
        "schemaVersion": 39,
        "version": 1,
        "refresh": "30s",
        "timezone": "browser",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables()},
        "annotations": {"list": annotations()},
        "links": LINKS,
        "panels": placed(panels),
    }


def placed(panels: list) -> list:
    """Left to right; a row is as high as its first panel."""
    result, x, y, height = [], 0, 0, 0
    for identity, panel in enumerate(panels, start=1):
        width, high = (
            (COLUMNS // 6, FLAT) if panel.kind == "stat" else (panel.width or COLUMNS // 3, TALL)
        )
        if x + width > COLUMNS or (x > 0 and high != height):
            x, y = 0, y + height
        height = high
        result.append(panel_json(panel, identity, {"x": x, "y": y, "w": width, "h": high}))
        x += width
    return result


def variables() -> list:
    """The source of data, then what narrows down the series."""
    return [
        {
            "type": "datasource",
            "name": "datasource",
            "label": "Data source",
            "query": "prometheus",
            "current": {},
            "options": [],
            "refresh": 1,
            "hide": 0,
            "skipUrlSync": False,
        },
        # Without Kubernetes there is no such label.
        variable("namespace", "Namespace", "label_values(remesh_build_info, namespace)", ".*"),
        variable(
            "job", "job", 'label_values(remesh_build_info{namespace=~"$namespace"}, job)', ".+"
        ),
        variable(
            "instance",
            "instance",
            'label_values(remesh_build_info{namespace=~"$namespace",job=~"$job"}, instance)',
            ".+",
        ),
    ]


def variable(name: str, label: str, query: str, every: str) -> dict:
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": every,
        "sort": 1,
        "current": {"text": "All", "value": "$__all"},
        "options": [],
        "hide": 0,
        "skipUrlSync": False,
    }


def annotations() -> list:
    return [
        annotation(
            "Moves", "blue", "sum(remesh_executions_running{CHOSEN}) > 0", "a move is running"
        ),
        annotation(
            "Failed moves",
            "red",
            'sum(increase(remesh_executions_total{CHOSEN,outcome="failed"}[2m])) > 0',
            "a move failed",
        ),
    ]


def annotation(name: str, color: str, query: str, title: str) -> dict:
    return {
        "name": name,
        "enable": True,
        "hide": False,
        "iconColor": color,
        "datasource": SOURCE,
        "expr": chosen(query),
        "step": "30s",
        "titleFormat": title,
        "textFormat": "remeshctl executions list says which",
        "useValueForTime": False,
    }
