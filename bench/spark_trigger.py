"""The time of a micro-batch while records come in at a steady rate: source to `noop`.

A process of its own produces one record at a time with its client's default linger, to each
partition in turn, and a query runs trigger after trigger as fast as it can. What counts is
`triggerExecution` in the query's progress, of triggers that had rows, after a warm-up. Both systems
take turns under the same session; the turn with the best median counts. The session's defaults are
measured too, since the checkpoint's file manager costs as much as the work.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.latency import RATE
from bench.measure import Measure
from bench.spark_peers import Kafka, Sparklog
from bench.spark_session import spark_session

ROUNDS = 2
WARM_UP_SECONDS = 6
START_SECONDS = 60
ROWS_SHARE_MIN = 0.5  # a query that falls behind must not look quick
PERCENTS = (50, 99)
TOPIC = "steady"
WHOLE = "triggerExecution"

Durations = dict[str, int]
"""Milliseconds by the name that Spark gives the stage."""


def measure(
    folder: Path,
    ours: Sparklog,
    theirs: Kafka | None,
    sessions: dict[str, dict[str, str]],
    jars: list[str],
    full: bool,
) -> tuple[list[Measure], str]:
    """Percentiles of ours and of Kafka in each kind of session, and what to note about them."""
    seconds = 15 if full else 8
    found: list[Measure] = []
    for kind, settings in sessions.items():
        with spark_session(settings, jars, folder / kind) as spark:
            best = _best(spark, folder / kind, [s for s in (ours, theirs) if s], seconds)
        measures = [
            m for system, best_turn in best.items() for m in _measures(system, kind, best_turn)
        ]
        for one, peer in zip(measures, measures[len(PERCENTS) :], strict=False):
            one.compare(peer)
        found += measures
    return found, f"triggers at {RATE:,} records/s, best of {ROUNDS} times {seconds} s"


def _best(
    spark: SparkSession, folder: Path, systems: list[Sparklog | Kafka], seconds: int
) -> dict[str, list[Durations]]:
    """The triggers of the turn with the best median, by system."""
    best: dict[str, list[Durations]] = {}
    for number in range(ROUNDS):
        for system in systems:
            topic = f"{TOPIC}-{folder.name}-{number}"
            os.sync()
            found = _triggers(spark, system, topic, folder / f"{system.format}-{number}", seconds)
            old = best.get(system.system, found)
            best[system.system] = min(old, found, key=lambda t: _percentile(t, WHOLE, 50))
            system.remove(topic)
    return best


def _measures(system: str, kind: str, triggers: list[Durations]) -> list[Measure]:
    """With the median of every stage beside them, to see where the time goes."""
    stages = {name: _percentile(triggers, name, 50) for name in triggers[0]}
    return [
        Measure(
            f"trigger p{percent}, {kind} settings",
            _percentile(triggers, WHOLE, percent),
            "ms",
            "trigger",
            system,
            extra={"triggers": len(triggers), **stages},
        )
        for percent in PERCENTS
    ]


def _percentile(triggers: list[Durations], stage: str, percent: int) -> float:
    return round(float(np.percentile([t.get(stage, 0) for t in triggers], percent)), 1)


def _triggers(
    spark: SparkSession, system: Sparklog | Kafka, topic: str, query_checkpoint: Path, seconds: int
) -> list[Durations]:
    """What the stages of triggers with rows took, in ms, those of the warm-up left out."""
    system.create(topic)
    source = {**system.source(topic), "startingOffsets": "latest"}
    frame = spark.readStream.format(system.format).options(**source).load()
    sink = frame.writeStream.format("noop").option("checkpointLocation", str(query_checkpoint))
    query = sink.start()
    context = multiprocessing.get_context("spawn")
    total = RATE * (START_SECONDS + WARM_UP_SECONDS + seconds) * 2  # it is stopped before
    process = context.Process(target=system.send_steadily, args=(topic, total), daemon=True)
    process.start()
    try:
        _wait_for_rows(query)
        time.sleep(WARM_UP_SECONDS)
        warm = query.recentProgress[-1]["batchId"]
        time.sleep(seconds)
        progress = [p for p in query.recentProgress if p["batchId"] > warm]
        alive = process.is_alive()
    finally:
        process.kill()
        process.join()
        if query.isActive:
            query.processAllAvailable()  # else Spark logs what it cuts off
        query.stop()
    rows = sum(p["numInputRows"] for p in progress)
    if not alive or rows < RATE * seconds * ROWS_SHARE_MIN:
        raise AssertionError(
            f"{system.system}: {rows} rows in {seconds} s, expected {RATE} a second; the producer "
            f"{'ran' if alive else 'had ended'}"
        )
    return [p["durationMs"] for p in progress if p["numInputRows"]]


def _wait_for_rows(query: StreamingQuery) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not any(p["numInputRows"] for p in query.recentProgress):
        if time.monotonic() > deadline or not query.isActive:
            raise AssertionError(f"no rows came in {START_SECONDS} s: {query.exception()}")
        time.sleep(0.2)
