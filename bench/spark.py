"""Spark reading, writing and copying topics, beside Spark's own Kafka connector.

One session for both systems, with the settings that `sparklog.spark.session()` gives, and one JVM,
which has compiled both by the time of the best round; rounds alternate. Both read topics that hold
the same rows with the same placement, filled by each one's fastest way: ours by `send_arrow`,
Kafka's (lz4) by its tuned sink. What is read or written is counted. A copy by ours is exactly once,
by Kafka's at least once; ours is synced to disk before it is acknowledged, Kafka's is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

import sparklog
from bench import spark_trigger
from bench.kafka_server import KafkaUnavailableError, Peer, kafka_or_not, spark_kafka_jars
from bench.measure import Measure, Outcome
from bench.spark_peers import Kafka, Sparklog, System
from bench.spark_rows import KEY_BYTES, VALUE_BYTES, fill, write_rows
from bench.spark_session import ADVISED, DEFAULT, spark_session
from bench.turns import Task, best_rates, check, timed

FILLED = "filled"
TUNED = ", tuned"
# Ours, and the peers that it is compared with.
COMPARED = {
    "read, aggregate": ("Kafka read, aggregate", "Kafka read, aggregate, tuned"),
    "read, noop": ("Kafka read, noop", "Kafka read, noop, tuned"),
    "read, noop, columns=key": ("read, noop",),
    "batch write": ("Kafka batch write", "Kafka batch write, tuned"),
    "stream copy": ("Kafka stream copy", "Kafka stream copy, tuned"),
}


def run(folder: Path, full: bool) -> Outcome:
    """Rows a second of reading, writing and copying; then the time of a small trigger."""
    count = 10_000_000 if full else 2_000_000
    rounds = 3
    rows = write_rows(folder / "rows", count)
    ours = Sparklog(folder / "logs")
    notes = [
        f"{count:,} rows; best of {rounds}; one session and JVM for both; "
        "ours syncs to disk, Kafka's stays in page cache"
    ]
    with kafka_or_not(folder / "kafka") as peer:
        jars, peer = _connector(peer)
        theirs = Kafka(peer.bootstrap) if peer.bootstrap is not None else None
        with spark_session(ADVISED, jars, folder / "advised") as spark:
            measures = _throughput(Bench(spark, rows, count, folder), ours, theirs, rounds)
        triggers, note = spark_trigger.measure(
            folder / "trigger", ours, theirs, {"advised": ADVISED, "default": DEFAULT}, jars, full
        )
    return Outcome([*measures, *triggers], [*notes, note], peer.why_not)


def _connector(peer: Peer) -> tuple[list[str], Peer]:
    """The connector's jars; without them there is nothing to compare with."""
    if peer.bootstrap is None:
        return [], peer
    try:
        return spark_kafka_jars(), peer
    except KafkaUnavailableError as error:
        return [], Peer(None, str(error))


def _throughput(bench: Bench, ours: Sparklog, theirs: System | None, rounds: int) -> list[Measure]:
    ours.create(FILLED)
    fill(sparklog.connect(ours.root(FILLED)), FILLED, bench.rows)
    tasks = bench.tasks(ours, tuned=False)
    tasks.append(bench.task(ours, "read", "read, noop, columns=key", bench.read_keys))
    if theirs is not None:
        theirs.create(FILLED)
        bench.write(theirs, FILLED, tuned=True)
        tasks += [*bench.tasks(theirs, tuned=False), *bench.tasks(theirs, tuned=True)]
    # Alike beside alike: Spark ends Python workers that were idle for a minute, and the first of
    # ours after Kafka's turns would pay for new ones.
    tasks.sort(key=lambda task: _kind(task.name))
    return _measures(tasks, best_rates(tasks, rounds))


def _measures(tasks: list[Task], best: list[float]) -> list[Measure]:
    measures = [
        Measure(task.name, round(rate), "rows/s", task.panel, task.system)
        for task, rate in zip(tasks, best, strict=True)
    ]
    by_title = {measure.title: measure for measure in measures}
    for name, peers in COMPARED.items():
        for peer in peers:
            if peer in by_title:
                by_title[name].compare(by_title[peer])
    return measures


def _kind(name: str) -> int:
    """What it does, tuned or not, as a place in the order of the table."""
    return list(COMPARED).index(name.removesuffix(TUNED))


@dataclass(frozen=True)
class Bench:
    """What is timed, the same for both systems."""

    spark: SparkSession
    rows: Path
    count: int
    folder: Path

    def tasks(self, system: System, tuned: bool) -> list[Task]:
        """Reading and writing, in the default or the tuned variant."""
        works = {
            "read, aggregate": ("read", self.aggregate),
            "read, noop": ("read", self.read),
            "batch write": ("write", self.write_fresh),
            "stream copy": ("write", self.copy),
        }
        return [
            self.task(system, panel, name + (TUNED if tuned else ""), work, tuned)
            for name, (panel, work) in works.items()
        ]

    def task(
        self,
        system: System,
        panel: str,
        name: str,
        work: Callable[[System, int, bool], float],
        tuned: bool = False,
    ) -> Task:
        """One of them."""
        return Task(
            system.system,
            f"spark {panel}",
            name,
            self.count,
            lambda number: work(system, number, tuned),
        )

    def aggregate(self, system: System, _: int, tuned: bool) -> float:
        """Every record goes into five figures, which say whether all came."""
        frame = self._read(system, tuned).agg(
            F.count("*"),
            F.sum(F.octet_length("key")),
            F.sum(F.octet_length("value")),
            F.max("offset"),
            F.max("timestamp"),
        )
        found = []
        seconds = timed(lambda: found.extend(frame.collect()))
        check(found[0][0], self.count)
        check(found[0][1], self.count * KEY_BYTES)
        check(found[0][2], self.count * VALUE_BYTES)
        return seconds

    def read(self, system: System, _: int, tuned: bool) -> float:
        """All columns into nothing."""
        return timed(lambda: _noop(self._read(system, tuned)))

    def read_keys(self, system: System, _: int, tuned: bool) -> float:
        """One column into nothing."""
        frame = self._read(system, tuned, {"columns": "key"})
        return timed(lambda: _noop(frame))

    def write_fresh(self, system: System, number: int, tuned: bool) -> float:
        """The rows into an empty topic."""
        topic = f"write-{number}-{tuned}"
        system.create(topic)
        seconds = timed(lambda: self.write(system, topic, tuned))
        check(system.count(topic), self.count)
        system.remove(topic)
        return seconds

    def write(self, system: System, topic: str, tuned: bool) -> None:
        """The rows into a topic."""
        frame = self.spark.read.parquet(str(self.rows))
        sink = frame.write.format(system.format).options(**system.sink(topic, tuned))
        sink.mode("append").save()

    def copy(self, system: System, number: int, tuned: bool) -> float:
        """A topic into an empty one by a stream that ends; tuned at both ends or at none."""
        topic = f"copy-{number}-{tuned}"
        system.create(topic)
        source = self.spark.readStream.format(system.format)
        frame = source.options(**system.source(FILLED, tuned)).load().select("key", "value")
        sink = frame.writeStream.format(system.format).options(**system.sink(topic, tuned))
        sink = sink.option("checkpointLocation", str(self.folder / f"{system.format}-{topic}"))
        sink = sink.trigger(availableNow=True)
        seconds = timed(lambda: _finish(sink))
        check(system.count(topic), self.count)
        system.remove(topic)
        return seconds

    def _read(self, system: System, tuned: bool, more: dict[str, str] | None = None) -> DataFrame:
        options = {**system.source(FILLED, tuned), **(more or {})}
        return self.spark.read.format(system.format).options(**options).load()


def _noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _finish(stream: DataStreamWriter) -> None:
    stream.start().awaitTermination()
