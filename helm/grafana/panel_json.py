# SPDX-License-Identifier: Apache-2.0
"""A panel as Grafana's JSON."""

from grafana.panel import Panel
from grafana.queries import chosen

SOURCE = {"type": "prometheus", "uid": "${datasource}"}

# Lines that mean the same in every panel have the same colour.
LINES = {
    "ready": "green",
    "succeeded": "green",
    "ok": "green",
    "moving": "blue",
    "building": "purple",
    "degraded": "orange",
    "cancelled": "orange",
    "lost": "red",
    "failed": "red",
}

# The columns of the table of alerts.
COLUMNS_OF_ALERTS = {
    "id": "organize",
    "options": {
        "excludeByName": {
            name: True
            for name in (
                "Time",
                "Value",
                "__name__",
                "alertstate",
                "prometheus",
                "container",
                "endpoint",
                "pod",
            )
        },
        "indexByName": {
            name: i
            for i, name in enumerate(("severity", "alertname", "namespace", "job", "instance"))
        },
    },
}


def panel_json(panel: Panel, identity: int, place: dict) -> dict:
    return {
        "id": identity,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.words,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": field_json(panel), "overrides": overrides_json(panel)},
        "options": options_json(panel),
        "targets": targets_json(panel),
        **({"transformations": [COLUMNS_OF_ALERTS]} if panel.kind == "table" else {}),
    }


def targets_json(panel: Panel) -> list:
    # A value of now: where the series has ended there is none, and not the last one that was.
    instant = {"table": {"instant": True, "format": "table"}, "stat": {"instant": True}}.get(
        panel.kind, {}
    )
    return [
        {
            "refId": chr(ord("A") + i),
            "datasource": SOURCE,
            "expr": query,
            "legendFormat": legend,
            **instant,
        }
        for i, (legend, query) in enumerate(queries(panel))
    ]


def queries(panel: Panel) -> list:
    """(legend, query) pairs."""
    pairs = (
        panel.query
        if isinstance(panel.query, tuple)
        else ((panel.legend or panel.title, panel.query),)
    )
    return [(legend, chosen(query)) for legend, query in pairs]


def field_json(panel: Panel) -> dict:
    field = {"unit": panel.unit, "noValue": "none fires" if panel.kind == "table" else "no data"}
    if not panel.scale:
        field["min"] = 0
    if panel.kind == "timeseries":
        field["custom"] = {
            **dict(zip(("axisSoftMin", "axisSoftMax"), panel.scale)),
            "thresholdsStyle": {"mode": "dashed+area" if panel.levels else "off"},
        }
    if panel.levels:
        field["thresholds"] = {
            "mode": "absolute",
            "steps": [{"color": color, "value": value} for color, value in panel.levels],
        }
        if panel.kind != "timeseries":
            field["color"] = {"mode": "thresholds"}
    return field


def options_json(panel: Panel) -> dict:
    legend = {
        "showLegend": True,
        "displayMode": "list",
        "placement": "bottom",
        "calcs": ["lastNotNull"],
    }
    if panel.kind == "stat":
        return {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "graphMode": "none",
            "colorMode": "background" if panel.levels else "none",
        }
    if panel.kind == "state-timeline":
        return {
            "mergeValues": True,
            "showValue": "never",
            "alignValue": "left",
            "rowHeight": 0.8,
            "legend": {"showLegend": False},
            "tooltip": {"mode": "single", "sort": "none"},
        }
    if panel.kind == "table":
        return {"showHeader": True, "cellHeight": "sm"}
    return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}


def overrides_json(panel: Panel) -> list:
    if panel.kind != "timeseries" or panel.legend not in ("{{phase}}", "{{outcome}}"):
        return []
    return [
        {
            "matcher": {"id": "byName", "options": name},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}],
        }
        for name, color in LINES.items()
    ]
