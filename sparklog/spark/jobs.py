"""The jobs that `jobs/produce.py` and `jobs/consume.py` submit: files or a rate in, topics out.

A job is a frozen description, checked before Spark starts: from a settings file, and from
arguments that win over it. Both ways are streams with a checkpoint, and so exactly once into a
topic, a file sink or a Delta table; only `mode = "batch"` of a produce job writes all of its input
each time it runs.

What they do not do: they transform nothing beyond JSON. Copy the file, and write your own.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

import sparklog
from sparklog.errors import InvalidConfigError, SparklogError
from sparklog.names import check_name
from sparklog.spark.frames import from_json_records, to_json_records
from sparklog.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

PRODUCE_FORMATS = ("rate", "json", "csv", "parquet", "text")
CONSUME_FORMATS = ("console", "topic", "delta", "parquet", "json")
PRODUCE_MODES = ("batch", "available", "continuous")
CONSUME_MODES = ("available", "continuous")
POLL_SECONDS = 1
Job = TypeVar("Job", "ProduceJob", "ConsumeJob")


@dataclass(frozen=True)
class ProduceJob:
    """What to write into a topic. A topic that is not there is created."""

    topic: str = ""
    log: str = "./data/log"
    format: str = "rate"
    input: str = ""
    schema: str = ""
    key: str = ""
    mode: str = "batch"
    partitions: int = 4
    rows: int = 100_000
    rows_per_second: int = 1_000
    checkpoint: str = ""
    storage_options: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse what could not run."""
        _check_words(self, format=PRODUCE_FORMATS, mode=PRODUCE_MODES)
        if self.format != "rate" and not self.input:
            raise InvalidConfigError(f"format = {self.format!r} needs input, a folder of files")
        if self.format in ("json", "csv") and self.mode != "batch" and not self.schema:
            raise InvalidConfigError(
                f"format = {self.format!r} as a stream needs schema, such as 'id INT, name STRING'"
            )


@dataclass(frozen=True)
class ConsumeJob:
    """Where to bring a topic's records. `output` is a folder, or for format "topic" its name."""

    topic: str = ""
    log: str = "./data/log"
    format: str = "console"
    output: str = ""
    schema: str = ""
    starting: str = "earliest"
    mode: str = "available"
    trigger: str = "1 second"
    checkpoint: str = ""
    storage_options: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse what could not run."""
        _check_words(self, format=CONSUME_FORMATS, mode=CONSUME_MODES)
        if self.format != "console" and not self.output:
            what = "the name of a topic" if self.format == "topic" else "a folder"
            raise InvalidConfigError(f"format = {self.format!r} needs output, {what}")
        if self.format == "topic":
            check_name(self.output)


def read_job(job: Job, settings_file: Path, section: str, given: Mapping[str, Any]) -> Job:
    """The job as the file's section describes it, with what is given beside it (None: nothing)."""
    settings = _read_settings(settings_file, section)
    known = {f.name: type(getattr(job, f.name)) for f in fields(job)}
    for name, value in settings.items():
        if name not in known:
            raise InvalidConfigError(
                f"{settings_file}: [{section}] has no {name!r}; known: {', '.join(known)}"
            )
        if known[name] in (str, int) and type(value) is not known[name]:
            raise InvalidConfigError(
                f"{settings_file}: [{section}] {name} = {value!r} must be a "
                f"{'text' if known[name] is str else 'whole number'}"
            )
    settings |= {name: value for name, value in given.items() if value is not None}
    found = replace(job, **settings)
    check_name(found.topic)
    found.check()
    return replace(found, log=_whole_root(found.log))


def produce(job: ProduceJob) -> None:
    """Run a produce job to its end; a continuous one until it is interrupted."""
    log = sparklog.connect(job.log, job.storage_options)
    if job.topic not in log.topics():
        log.create_topic(job.topic, partitions=job.partitions)
        _say(f"created topic {job.topic} with {job.partitions} partitions")
    with _spark("produce") as spark:
        records = _input(spark, job)
        if job.mode == "batch":
            counted = Observation()
            records = records.observe(counted, F.count(F.lit(1)).alias("rows"))
            _at_log(records.write, job).option("topic", job.topic).mode("append").save()
            _say(f"{counted.get['rows']:,} records produced to {job.topic}")
        else:
            writer = _at_log(records.writeStream, job).option("topic", job.topic)
            _run(writer, job, f"{job.format}-to-{job.topic}")


def consume(job: ConsumeJob) -> None:
    """Run a consume job to its end; a continuous one until it is interrupted."""
    if job.format == "topic":
        sparklog.connect(job.log, job.storage_options, create=False).topic(job.output)
    with _spark("consume", delta=job.format == "delta") as spark:
        source = _at_log(spark.readStream, job).option("subscribe", job.topic)
        source = source.option("startingOffsets", job.starting)
        records = source.option("includeHeaders", "true").load()
        if job.format == "topic":
            writer = _at_log(records.select("key", "value", "headers").writeStream, job)
            writer = writer.option("topic", job.output)
        else:
            writer = _readable(records, job).writeStream.format(job.format)
            writer = writer.option("path", job.output) if job.output else writer
        _run(writer, job, f"{job.topic}-to-{job.format}")


def run(name: str, work: Callable[[], None]) -> int:
    """Do the work; the exit code. An error is one line, with the traceback on SPARKLOG_DEBUG=1."""
    try:
        work()
    except KeyboardInterrupt:
        _say(f"{name} stopped")
    except (SparklogError, PySparkException, Py4JError, OSError) as error:
        if os.environ.get("SPARKLOG_DEBUG") == "1":
            raise
        print(f"{name}: {explain(error)}", file=sys.stderr)
        return 1
    return 0


def explain(error: Exception) -> str:
    """An error in one line: sparklog's own words, if they are in what Spark made of them."""
    text = str(error).strip()
    ours = re.search(r"^sparklog\.errors\.\w+: (.+)$", text, re.MULTILINE)
    return ours[1] if ours else (text.splitlines() or [type(error).__name__])[0]


def _whole_root(root: str) -> str:
    """The log's root as every process of a cluster understands it: they work in other folders."""
    return root if "://" in root else str(Path(root).resolve())


def _check_words(job: ProduceJob | ConsumeJob, **allowed: tuple[str, ...]) -> None:
    for name, words in allowed.items():
        if getattr(job, name) not in words:
            raise InvalidConfigError(
                f"{name} = {getattr(job, name)!r} is not allowed: it must be one of "
                f"{', '.join(words)}"
            )


def _read_settings(settings_file: Path, section: str) -> dict[str, Any]:
    toml: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        settings = toml.loads(settings_file.read_text(encoding="utf-8")).get(section, {})
    except (OSError, ValueError) as error:
        raise InvalidConfigError(f"{settings_file} cannot be read: {error}") from error
    if not isinstance(settings, dict):
        raise InvalidConfigError(f"{settings_file}: {section} must be a section, [{section}]")
    return settings


@contextmanager
def _spark(name: str, delta: bool = False) -> Iterator[SparkSession]:
    """The session that runs, or one for this job alone."""
    running = SparkSession.getActiveSession()
    spark = session(None if running else f"sparklog-{name}", delta=delta)
    try:
        if running is None:
            spark.sparkContext.setLogLevel("ERROR")
        yield spark
    finally:
        if running is None:
            spark.stop()


def _at_log(reader_or_writer: Any, job: ProduceJob | ConsumeJob) -> Any:
    """The sparklog format at the job's log."""
    placed = reader_or_writer.format("sparklog").option("path", job.log)
    if job.storage_options:
        placed = placed.option("storage_options", json.dumps(dict(job.storage_options)))
    return placed


def _input(spark: SparkSession, job: ProduceJob) -> DataFrame:
    """The job's input as records."""
    streaming = job.mode != "batch"
    reader: Any = spark.readStream if streaming else spark.read
    if job.format == "rate":
        if streaming:
            rows = reader.format("rate").option("rowsPerSecond", job.rows_per_second).load()
        else:
            rows = spark.range(job.rows).selectExpr("now() AS timestamp", "id AS value")
        return to_json_records(rows.withColumnRenamed("value", "number"), key=F.col("number"))
    if job.format == "text":
        return reader.format("text").load(job.input).select("value")  # type: ignore[no-any-return]
    if job.schema:
        reader = reader.schema(job.schema)
    if job.format == "csv":
        reader = reader.option("header", "true")
    elif job.format == "parquet" and streaming and not job.schema:
        reader = reader.schema(spark.read.parquet(job.input).schema)
    return to_json_records(
        reader.format(job.format).load(job.input), key=F.col(job.key) if job.key else None
    )


def _readable(records: DataFrame, job: ConsumeJob) -> DataFrame:
    """Records for people and tables: text, or the columns of the JSON in them."""
    place = ("partition", "offset", "timestamp")
    if job.schema:
        return from_json_records(records, job.schema).select(*place, "key", "value.*")
    return records.select(*place, *(F.col(name).cast("string") for name in ("key", "value")))


def _run(writer: DataStreamWriter, job: ProduceJob | ConsumeJob, name: str) -> None:
    """Run a stream, with a line for each batch that had rows."""
    checkpoint = job.checkpoint or f"./data/checkpoints/{name}"
    if isinstance(job, ConsumeJob) and job.format == "console":
        writer = writer.option("truncate", "false")
    if job.mode == "available":
        writer = writer.trigger(availableNow=True)
    elif isinstance(job, ConsumeJob):
        writer = writer.trigger(processingTime=job.trigger)
    _say(f"{name}: checkpoint {checkpoint}")
    query = writer.option("checkpointLocation", checkpoint).start()
    shown, rows = -1, 0
    try:
        ended = False
        while not ended:
            ended = bool(query.awaitTermination(POLL_SECONDS))
            shown, rows = _show_progress(query, shown, rows)
    finally:
        query.stop()
    _say(f"{name}: {rows:,} records")


def _show_progress(query: StreamingQuery, shown: int, rows: int) -> tuple[int, int]:
    """Show the batches after `shown`; the newest shown, and the rows so far."""
    for progress in query.recentProgress:
        if progress.batchId <= shown:
            continue
        shown = progress.batchId
        if progress.numInputRows:
            rows += progress.numInputRows
            rate = progress.processedRowsPerSecond
            _say(f"batch {shown}: {progress.numInputRows:,} records, {rate:,.0f}/s")
    return shown, rows


def _say(text: str) -> None:
    print(text, flush=True)
