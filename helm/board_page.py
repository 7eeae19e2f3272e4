#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Draws Grafana boards without Grafana: every panel's own query, asked of a Prometheus, as one page
of SVG a board.

helm/board_page.py --prometheus http://127.0.0.1:9090 --folder /tmp/boards [--minutes 60]
"""

import argparse
import html
import json
import math
import pathlib
import re
import time
import urllib.parse
import urllib.request

from boards import FOLDER

POINTS = 240  # of a line, at most
WIDTH, PLOT_HEIGHT, LEFT, BOTTOM = 420, 96, 58, 18
COLORS = ("#3274d9", "#d9622b", "#299c46", "#a352cc", "#c4a000", "#0e8f8f", "#d0407f", "#7a6a58")
LINES_MAX = 12  # in a legend
LEVEL_COLORS = {
    "green": "#299c46",
    "orange": "#d9822b",
    "red": "#c4162a",
    "blue": "#3274d9",
    "purple": "#a352cc",
}
STYLE = """
body { margin: 16px; font: 13px system-ui, sans-serif; background: #f4f5f5; color: #24292e }
main { display: grid; grid-template-columns: repeat(24, 1fr); grid-auto-rows: 24px; gap: 8px }
section {
  background: #fff; border: 1px solid #d8dadd; border-radius: 3px; padding: 8px; min-width: 0;
  overflow: auto
}
h1 { font-size: 18px; font-weight: 500 } h2 { font-size: 13px; font-weight: 600; margin: 0 0 2px }
.level { color: #fff; border-radius: 3px; padding: 0 8px }
table { width: 100%; border-collapse: collapse } td { padding: 4px; border-top: 1px solid #d8dadd }
p { margin: 0 0 4px; color: #6a7076; font-size: 11px } .stat { font-size: 30px; font-weight: 600 }
svg { width: 100%; display: block } svg text { font-size: 10px; fill: #6a7076 }
.grid { stroke: #e4e6e8 }
ul { list-style: none; padding: 0; margin: 2px 0 0; font-size: 11px }
li { display: inline-block; margin-right: 10px; overflow-wrap: anywhere }
@media (max-width: 900px) {
  main { grid-auto-rows: auto } section { grid-area: auto / span 24 !important }
}
@media (prefers-color-scheme: dark) {
  body { background: #111217; color: #d8d9da }
  section { background: #181b1f; border-color: #2c3235 } .grid { stroke: #2c3235 }
}
"""


# ---- questions ----


class Prometheus:
    """`seconds` back from now."""

    def __init__(self, url: str, seconds: float, variables: dict):
        self._url, self._end = url.rstrip("/"), time.time()
        self.begin, self.end = self._end - seconds, self._end
        self._step = max(1.0, seconds / POINTS)
        self._variables = variables

    def lines(self, target: dict) -> list:
        """(legend, [(time, value)]) of every series that has a value."""
        query = expression(
            target["expr"], {**self._variables, "__range": f"{int(self.end - self.begin)}s"}
        )
        arguments = urllib.parse.urlencode(
            {"query": query, "start": self.begin, "end": self.end, "step": self._step}
        )
        with urllib.request.urlopen(
            f"{self._url}/api/v1/query_range?{arguments}", timeout=60
        ) as answer:
            series = json.load(answer)["data"]["result"]
        found = [
            (legend(target, one["metric"]), [(when, float(value)) for when, value in one["values"]])
            for one in series
        ]
        finite = [
            (name, [point for point in points if math.isfinite(point[1])]) for name, points in found
        ]
        return sorted((name, points) for name, points in finite if points)


def expression(query: str, variables: dict) -> str:
    """The query as Grafana would send it."""
    for name in sorted(variables, key=len, reverse=True):
        query = query.replace(f"${name}", variables[name])
    return query


def legend(target: dict, labels: dict) -> str:
    return re.sub(
        r"{{\s*(\w+)\s*}}", lambda found: labels.get(found[1], ""), target["legendFormat"]
    )


# ---- drawing ----


def text_of(value: float, unit: str) -> str:
    """A value as people read it: 1.5 GiB, 12 ms, 99.5 %."""
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "s" and 0 < abs(value) < 1:
        return f"{1e3 * value:.3g} ms" if abs(value) >= 1e-3 else f"{1e6 * value:.3g} µs"
    base, suffix = {
        "bytes": (1024, "iB"),
        "Bps": (1000, "B/s"),
        "s": (1000, " s"),
        "reqps": (1000, "/s"),
        "cps": (1000, "/s"),
    }.get(unit, (1000, ""))
    power = 0
    while abs(value) >= base and power < 4:
        value, power = value / base, power + 1
    prefix = " KMGT"[power].strip()
    if unit == "bytes":
        return f"{value:.4g} {prefix}{suffix}" if prefix else f"{value:.4g} B"
    return f"{value:.3g}{' ' if unit == 'Bps' else ''}{prefix}{suffix}"


def ticks(top: float, base: int) -> list:
    """About four values from 0 to `top` or above, round in units of `base`'s powers."""
    if top <= 0:
        return [0.0, 1.0]
    unit = base ** max(0, math.floor(math.log(top, base))) if base != 10 else 1
    step = unit * 10 ** math.floor(math.log10(top / unit / 3))
    step *= next(factor for factor in (1, 2, 5, 10) if top / (step * factor) <= 4)
    return [step * i for i in range(math.ceil(top / step - 1e-9) + 1)]


def level_of(value: float, steps: list) -> str:
    """The colour of a value by the panel's thresholds; None: it has none."""
    return next(
        (
            LEVEL_COLORS[step["color"]]
            for step in reversed(steps)
            if step["value"] is None or value >= step["value"]
        ),
        None,
    )


def scale(lines: list, field: dict) -> list:
    """Marks of the axis of values: from 0, or from the panel's own soft limits as far as the values
    are inside."""
    values = [value for _, points in lines for _, value in points]
    low, high = (field.get("custom", {}).get(f"axisSoft{end}", 0) for end in ("Min", "Max"))
    if low > 0 and min(values) >= low and max(values) <= high:
        return [low + (high - low) * i / 4 for i in range(5)]
    return ticks(max([high, *values]), 1024 if field["unit"] == "bytes" else 10)


def colors_of(lines: list, overrides: list) -> list:
    """A colour for each line: its own, if the panel has one for its name."""
    own = {
        each["matcher"]["options"]: LEVEL_COLORS[each["properties"][0]["value"]["fixedColor"]]
        for each in overrides
    }
    return [own.get(name, COLORS[i % len(COLORS)]) for i, (name, _) in enumerate(lines)]


def graph(lines: list, colors: list, field: dict, begin: float, end: float, moments: list) -> str:
    """An SVG with both axes; time runs from `begin` to `end`. Thresholds are dashed; `moments` are
    (colour, time) of annotations."""
    unit, marks = field["unit"], scale(lines, field)
    x = lambda when: LEFT + (when - begin) / (end - begin) * (WIDTH - LEFT - 6)
    y = lambda value: 8 + (1 - (value - marks[0]) / (marks[-1] - marks[0])) * PLOT_HEIGHT
    parts = [
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{y(mark):.1f}" y2="{y(mark):.1f}"/>'
        f'<text x="{LEFT - 5}" y="{y(mark) + 3:.1f}" text-anchor="end">{text_of(mark, unit)}</text>'
        for mark in marks
    ]
    for fraction in (0.1, 0.5, 0.9):
        when = begin + fraction * (end - begin)
        parts.append(
            f'<text x="{x(when):.1f}" y="{PLOT_HEIGHT + 8 + BOTTOM - 4}" '
            f'text-anchor="middle">{time.strftime("%H:%M:%S", time.localtime(when))}</text>'
        )
    for step in field.get("thresholds", {}).get("steps", []):
        if step["value"] is not None and marks[0] <= step["value"] <= marks[-1]:
            at = f'{y(step["value"]):.1f}'
            parts.append(
                f'<line x1="{LEFT}" x2="{WIDTH}" y1="{at}" y2="{at}" stroke-dasharray="4" '
                f'stroke="{LEVEL_COLORS[step["color"]]}"/>'
            )
    for color, when in moments:
        parts.append(
            f'<line x1="{x(when):.1f}" x2="{x(when):.1f}" y1="8" y2="{PLOT_HEIGHT + 8}" '
            f'stroke-opacity=".25" stroke="{LEVEL_COLORS[color]}"/>'
        )
    for i, (_, points) in enumerate(lines):
        path = " ".join(f"{x(when):.1f},{y(value):.1f}" for when, value in points)
        parts.append(
            f'<polyline fill="none" stroke="{colors[i]}" stroke-width="1.5" points="{path}"/>'
        )
    return f'<svg viewBox="0 0 {WIDTH} {PLOT_HEIGHT + 8 + BOTTOM}">{"".join(parts)}</svg>'


def legend_list(lines: list, colors: list) -> str:
    items = [
        f'<li><span style="color: {colors[i]}">■</span> {html.escape(name)}</li>'
        for i, (name, _) in enumerate(lines[:LINES_MAX])
    ]
    if len(lines) > LINES_MAX:
        items.append(f"<li>and {len(lines) - LINES_MAX} more</li>")
    return f"<ul>{''.join(items)}</ul>"


def timeline(lines: list, steps: list, begin: float, end: float) -> str:
    """A row for each line, coloured by its value from moment to moment."""
    x = lambda when: 110 + (when - begin) / (end - begin) * (2 * WIDTH - 116)
    parts = []
    for row, (name, points) in enumerate(lines):
        parts.append(
            f'<text x="104" y="{20 * row + 14}" text-anchor="end">{html.escape(name)}</text>'
        )
        times = [when for when, _ in points] + [end]
        step = (
            min(later - when for when, later in zip(times, times[1:]))
            if len(points) > 1
            else end - begin
        )
        for (when, value), later in zip(points, times[1:]):
            until = min(later, when + 2 * step)  # where a series ends there is nothing
            parts.append(
                f'<rect x="{x(when):.1f}" y="{20 * row + 2}" '
                f'width="{x(until) - x(when) + 0.3:.1f}" height="16" '
                f'fill="{level_of(value, steps)}"/>'
            )
    return f'<svg viewBox="0 0 {2 * WIDTH} {20 * len(lines) + 4}">{"".join(parts)}</svg>'


def is_recent(line: tuple, begin: float, end: float) -> bool:
    """Whether the series still has values."""
    return line[1][-1][0] > end - (end - begin) / 20


def panel_html(panel: dict, lines: list, begin: float, end: float, moments: list) -> str:
    field = panel["fieldConfig"]["defaults"]
    steps = field.get("thresholds", {}).get("steps", [])
    if panel["type"] == "table":
        rows = [name for name, points in lines if is_recent((name, points), begin, end)]
        body = (
            "<table>"
            + "".join(f"<tr><td>{html.escape(name)}</td></tr>" for name in rows)
            + "</table>"
            if rows
            else f'<div class="stat">{field["noValue"]}</div>'
        )
    elif not lines or panel["type"] == "stat" and not is_recent(lines[0], begin, end):
        body = '<div class="stat">–</div>'
    elif panel["type"] == "stat":
        value = lines[0][1][-1][1]
        color = level_of(value, steps)
        style = f' level" style="background: {color}' if color else ""
        body = f'<div class="stat{style}">{text_of(value, field["unit"])}</div>'
    elif panel["type"] == "state-timeline":
        body = timeline(lines, steps, begin, end)
    else:
        colors = colors_of(lines, panel["fieldConfig"]["overrides"])
        body = graph(lines, colors, field, begin, end, moments) + legend_list(lines, colors)
    at = panel["gridPos"]
    return (
        f'<section style="grid-area: {at["y"] + 1} / {at["x"] + 1} / span {at["h"]} / '
        f'span {at["w"]}"><h2>{html.escape(panel["title"])}</h2>'
        f'<p>{html.escape(panel["description"])}</p>{body}</section>'
    )


def page(board: dict, prometheus: Prometheus) -> tuple:
    """The board's HTML, and the titles of panels that showed nothing."""
    sections, empty = [], []
    moments = [
        (each["iconColor"], when)
        for each in board["annotations"]["list"]
        for _, points in prometheus.lines({"expr": each["expr"], "legendFormat": ""})
        for when, _ in points
    ]
    for panel in board["panels"]:
        lines = [line for target in panel["targets"] for line in prometheus.lines(target)]
        if not lines:
            empty.append(panel["title"])
        sections.append(panel_html(panel, lines, prometheus.begin, prometheus.end, moments))
    title = html.escape(board["title"])
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width"><title>{title}</title>'
        f"<style>{STYLE}</style><h1>{title}</h1><main>{''.join(sections)}</main></html>\n"
    ), empty


def write_pages(url: str, folder: pathlib.Path, seconds: float, rate_interval: str) -> dict:
    """A page a board in `folder`. Returns board -> titles of panels that showed nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    variables = {"namespace": ".*", "job": ".*", "instance": ".*", "__rate_interval": rate_interval}
    missing = {}
    for file in sorted(FOLDER.glob("*.json")):
        text, missing[file.stem] = page(
            json.loads(file.read_text()), Prometheus(url, seconds, variables)
        )
        (folder / f"{file.stem}.html").write_text(text)
    return missing


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--prometheus", default="http://127.0.0.1:9090", help="its address (default: %(default)s)"
    )
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="where the pages go")
    parser.add_argument(
        "--minutes", type=float, default=60, help="back from now (default: %(default)s)"
    )
    parser.add_argument(
        "--rate-interval", default="1m", help="at least four scrapes (default: %(default)s)"
    )
    asked = parser.parse_args()
    for board, empty in write_pages(
        asked.prometheus, asked.folder, 60 * asked.minutes, asked.rate_interval
    ).items():
        print(
            f"{asked.folder / board}.html"
            + (f"; without data: {', '.join(empty)}" if empty else "")
        )


if __name__ == "__main__":
    main()
