"""What came out: a JSON file per benchmark, and a table and a plot of all of them.

The table and the plot are made from the files, so that running one benchmark anew keeps the
others; each says when it was taken and in which size.
"""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from bench.measure import KAFKA, OURS, PARQUET, Measure, Outcome

RESULTS = Path(__file__).parent / "results"
COLOURS = {OURS: "#d95f02", KAFKA: "#4c6a92", PARQUET: "#9aa5a0"}
LESS_IS_BETTER = ("ms", "MiB")
# Panel and unit of the figures that are drawn, in the order of the panels; all are in the table.
DRAWN = {
    ("produce", "rows/s"): "Produce, rows/s",
    ("consume", "rows/s"): "Consume, rows/s",
    ("latency", "ms"): "Send to receipt in another process, ms",
    ("versions", "ms"): "A topic of many versions, ms",
    ("one by one", "commits/s"): "Contention, one record a commit, commits/s",
    ("gathering", "records/s"): "Contention, default linger, records/s",
    ("spark read", "rows/s"): "Spark read, rows/s",
    ("spark write", "rows/s"): "Spark write and stream copy, rows/s",
    ("trigger", "ms"): "Spark micro-batch at 1,000 records/s, ms",
}


def save(name: str, outcome: Outcome, full: bool, seconds: float) -> None:
    """Keep the figures of one benchmark."""
    RESULTS.mkdir(exist_ok=True)
    result = {
        "benchmark": name,
        "full": full,
        "seconds": round(seconds, 1),
        "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {
            "cpus": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "notes": outcome.notes,
        "no_kafka": outcome.no_kafka,
        "rows": [measure.to_json() for measure in outcome.measures],
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")


def write(names: list[str]) -> str:
    """Make the table and the plot of what is there; returns the table."""
    results = [
        json.loads(path.read_text())
        for path in (RESULTS / f"{name}.json" for name in names)
        if path.exists()
    ]
    text = _table(results)
    (RESULTS / "table.md").write_text(text)
    _plot(results)
    return text


def _table(results: list[dict[str, Any]]) -> str:
    lines = [
        "| benchmark | measure | value | unit | ratio | to peer |",
        "|---|---|---:|---|---:|---|",
    ]
    for result in results:
        for measure in _measures(result):
            lines += _table_rows(result["benchmark"], measure)
        if result["no_kafka"]:
            why = result["no_kafka"].replace("|", "/")
            lines.append(f"| {result['benchmark']} | Kafka: not run | | | | {why} |")
    lines += ["", "A ratio is ours / peer in the same run: rates want more, times less.", ""]
    for result in results:
        size = "full size" if result["full"] else "small size, not for publishing"
        notes = "; ".join(result["notes"])
        lines.append(f"- {result['benchmark']} ({size}, {result['taken']}): {notes}")
    return "\n".join(lines) + "\n"


def _table_rows(benchmark: str, measure: Measure) -> list[str]:
    """A row, and one more for each further peer."""
    ratios = [(f"{ratio:.2f}", peer) for peer, ratio in measure.ratios.items()] or [("", "")]
    value = f"{measure.value:,.0f}" if measure.value >= 1000 else f"{measure.value:,}"
    rows = [f"| {benchmark} | {measure.title} | {value} | {measure.unit} |"]
    rows += ["| | | | |"] * (len(ratios) - 1)
    return [f"{row} {r} | {peer} |" for row, (r, peer) in zip(rows, ratios, strict=True)]


def _measures(result: dict[str, Any]) -> list[Measure]:
    return [Measure(**row) for row in result["rows"]]


def _plot(results: list[dict[str, Any]]) -> None:
    """Two panels of bars a row."""
    found = [measure for result in results for measure in _measures(result)]
    panels = {
        title: [m for m in found if (m.panel, m.unit) == kind] for kind, title in DRAWN.items()
    }
    panels = {title: measures for title, measures in panels.items() if measures}
    if not panels:
        return
    sizes = [len(measures) for measures in panels.values()]
    heights = [max(sizes[start : start + 2]) + 1 for start in range(0, len(sizes), 2)]
    height = 0.42 * sum(heights) + 0.5 * len(heights) + 0.6
    figure, axes = plt.subplots(
        len(heights),
        2,
        figsize=(14, height),
        height_ratios=heights,
        squeeze=False,
    )
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, (title, measures) in zip(axes.flat, panels.items(), strict=False):
        _bars(axis, title, measures)
    labels = [s for s in COLOURS if any(m.system == s for ms in panels.values() for m in ms)]
    handles = [Rectangle((0, 0), 1, 1, color=COLOURS[label]) for label in labels]
    figure.legend(handles, labels, loc="upper center", ncols=len(labels), frameon=False)
    if not all(result["full"] for result in results):
        figure.text(0.99, 0.005, "small sizes: not for publishing", ha="right", color="#888888")
    figure.tight_layout(rect=(0, 0.2 / height, 1, 1 - 0.45 / height), h_pad=2.0)
    figure.savefig(RESULTS / "bench.png", dpi=110)
    plt.close(figure)


def _bars(axis: Axes, title: str, measures: list[Measure]) -> None:
    if measures[0].panel in ("latency", "trigger"):  # each figure beside its peer's
        names = [m.name for m in measures if m.system == OURS]
        measures = sorted(measures, key=lambda m: names.index(m.name))
    values = [measure.value for measure in measures]
    places = range(len(measures))
    colours = [COLOURS[measure.system] for measure in measures]
    bars = axis.barh(places, values, color=colours, height=0.7)
    axis.bar_label(bars, [_short(value) for value in values], padding=4, fontsize=9)
    axis.set_yticks(places, [measure.title for measure in measures], fontsize=9)
    axis.set_ylim(max(len(measures), 3) - 0.4, -0.6)  # few bars are not too thick
    better = "less" if measures[0].unit in LESS_IS_BETTER else "more"
    wide = max(values) > 20 * min(values)
    scale = ", log scale" if wide else ""
    axis.set_title(f"{title} ({better} is better{scale})", fontsize=11, loc="left")
    if wide:
        axis.set_xscale("log")
        axis.set_xlim(min(values) / 2, max(values) * 3)
    else:
        axis.set_xlim(0, max(values) * 1.15)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(axis="x", labelsize=8)
    axis.xaxis.set_major_formatter(lambda value, _: _short(value))


def _short(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.3g} M"
    return f"{value / 1e3:.3g} k" if value >= 1e3 else f"{value:.3g}"
