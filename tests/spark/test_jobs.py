"""The jobs for spark-submit: settings, batch and stream, exit codes and errors in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sparklog
from sparklog.errors import InvalidConfigError, InvalidNameError, UnknownTopicError
from sparklog.spark.jobs import ConsumeJob, ProduceJob, consume, explain, produce, read_job, run
from tests.support.spark_session import REPOSITORY

SCHEMA = "id INT, customer STRING"


@pytest.fixture
def home(tmp_path):
    """A folder with a log and files of orders."""
    sparklog.connect(tmp_path / "log").close()
    write_orders(tmp_path, "first", 0, 30)
    return tmp_path


def write_orders(home, name, start, end):
    (home / "in").mkdir(exist_ok=True)
    orders = ({"id": n, "customer": f"c{n % 3}"} for n in range(start, end))
    (home / "in" / f"{name}.json").write_text("\n".join(map(json.dumps, orders)))


def produce_job(home, **given):
    place = {"log": str(home / "log"), "checkpoint": str(home / "checkpoint-produce")}
    return ProduceJob(**place, **given)


def orders_job(home, **given):
    return produce_job(
        home, topic="orders", format="json", input=str(home / "in"), key="customer", **given
    )


def consume_job(home, **given):
    place = {"log": str(home / "log"), "checkpoint": str(home / f"checkpoint-{given['topic']}")}
    return ConsumeJob(**place, **given)


def records(home, topic):
    log = sparklog.connect(home / "log")
    with log.consumer(topic, auto_offset_reset="earliest") as consumer:
        found = []
        while batch := consumer.poll(timeout_ms=0):
            found += batch
    return found


def settings(tmp_path, text):
    path = tmp_path / "job.toml"
    path.write_text(text)
    return path


def test_settings_shipped_are_the_jobs_defaults(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for section, job in (("produce", ProduceJob()), ("consume", ConsumeJob())):
        shipped = read_job(job, REPOSITORY / "conf" / f"{section}.toml", section, {})
        assert shipped == type(job)(topic="events", log=str(tmp_path / "data" / "log"))


def test_settings_arguments_win_over_the_file(tmp_path):
    path = settings(tmp_path, '[produce]\ntopic = "a"\nrows = 5\n')
    job = read_job(ProduceJob(), path, "produce", {"topic": "b", "rows": None})
    assert (job.topic, job.rows) == ("b", 5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('topics = "a"', r"job.toml: \[produce\] has no 'topics'; known: topic, log"),
        ("rows = 'many'", "rows = 'many' must be a whole number"),
        ("topic = 7", "topic = 7 must be a text"),
        ('topic = "a"\nformat = "xml"', "format = 'xml' .* rate, json"),
        ('topic = "a"\nformat = "json"', "needs input"),
        ('topic = "a"\nformat = "json"\ninput = "x"\nmode = "available"', "needs schema"),
        ("topic = ", "job.toml cannot be read"),
    ],
)
def test_settings_that_are_wrong_are_named(tmp_path, text, says):
    path = settings(tmp_path, f"[produce]\n{text}\n")
    with pytest.raises(InvalidConfigError, match=says):
        read_job(ProduceJob(), path, "produce", {})


def test_settings_without_topic_or_output_are_refused(tmp_path):
    path = settings(tmp_path, "[consume]\n")
    with pytest.raises(InvalidNameError, match="topic name is empty"):
        read_job(ConsumeJob(), path, "consume", {})
    with pytest.raises(InvalidConfigError, match="needs output, the name of a topic"):
        read_job(ConsumeJob(), path, "consume", {"topic": "a", "format": "topic"})


def test_error_of_a_python_worker_is_told_in_our_words():
    text = "[STREAM_FAILED] ...\nTraceback\nsparklog.errors.UnknownTopicError: no topic 'x'\n\tat"
    assert explain(Exception(text)) == "no topic 'x'"
    assert explain(Exception("first\nsecond")) == "first"
    assert explain(ValueError()) == "ValueError"


def test_run_error_is_one_line_and_exit_code_one(capsys):
    def work():
        raise UnknownTopicError("no topic 'x'")

    assert run("consume", work) == 1
    assert capsys.readouterr() == ("", "consume: no topic 'x'\n")


def test_produce_rate_as_a_batch_creates_the_topic(spark, home, capsys):
    produce(produce_job(home, topic="events", rows=100, partitions=2))
    found = records(home, "events")
    assert len(found) == 100
    assert "created topic events with 2 partitions" in capsys.readouterr().out
    first = min(found, key=lambda record: int(record.key))
    assert json.loads(first.value)["number"] == 0


def test_produce_available_writes_each_file_once(spark, home, capsys):
    job = orders_job(home, schema=SCHEMA, mode="available")
    produce(job)
    write_orders(home, "second", 30, 40)
    produce(job)
    found = records(home, "orders")
    assert sorted(json.loads(r.value)["id"] for r in found) == list(range(40))
    assert {r.key.decode() == json.loads(r.value)["customer"] for r in found} == {True}
    assert "batch 1: 10 records" in capsys.readouterr().out


def test_consume_to_parquet_has_the_columns_of_the_values_once(spark, home):
    produce(orders_job(home))
    job = consume_job(
        home, topic="orders", format="parquet", output=str(home / "out"), schema=SCHEMA
    )
    consume(job)
    consume(job)
    frame = spark.read.parquet(str(home / "out"))
    assert set(frame.columns) == {"partition", "offset", "timestamp", "key", "id", "customer"}
    assert sorted(row.id for row in frame.collect()) == list(range(30))


def test_consume_to_topic_and_delta_is_whole(spark, home):
    produce(orders_job(home))
    sparklog.connect(home / "log").create_topic("copy", partitions=2)
    consume(consume_job(home, topic="orders", format="topic", output="copy"))
    pairs = [sorted((r.key, r.value) for r in records(home, t)) for t in ("orders", "copy")]
    assert pairs[0] == pairs[1]
    consume(consume_job(home, topic="copy", format="delta", output=str(home / "table")))
    assert spark.read.format("delta").load(str(home / "table")).count() == 30


def test_consume_of_a_topic_that_is_not_there_is_one_line(spark, home, capsys):
    assert run("consume", lambda: consume(consume_job(home, topic="nope"))) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("consume: ")
    assert "'nope'" in error


def submit(*arguments, cwd):
    """spark-submit as a person calls it, with this project's interpreter named."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK"))}
    kept |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(
        [str(Path(sys.executable).with_name("spark-submit")), *arguments],
        env=kept,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=280,
    )


def test_spark_submit_with_the_defaults_file_consumes_to_the_console(home):
    log = sparklog.connect(home / "log")
    log.create_topic("orders", partitions=2)
    with log.producer() as producer:
        for n in range(10):
            producer.send("orders", b"order-%d" % n)
    done = submit(
        "--properties-file",
        str(REPOSITORY / "conf" / "spark-defaults.conf"),
        str(REPOSITORY / "jobs" / "consume.py"),
        "--topic",
        "orders",
        "--log",
        "log",
        cwd=home,
    )
    assert done.returncode == 0, done.stderr
    assert "order-9" in done.stdout
    assert "orders-to-console: 10 records" in done.stdout
    assert "small batches" not in done.stderr  # no advice: the file has the settings


@pytest.mark.parametrize("job", ["produce", "consume"])
def test_job_that_cannot_run_says_so_before_spark_starts(home, job):
    script = REPOSITORY / "jobs" / f"{job}.py"
    arguments = ["--topic", "a", "--format", "json"]
    done = subprocess.run(
        [sys.executable, str(script), *arguments], capture_output=True, text=True, cwd=home
    )
    needed = "input" if job == "produce" else "output"
    assert done.returncode == 1
    assert done.stderr == f"{job}: format = 'json' needs {needed}, a folder" + (
        " of files\n" if job == "produce" else "\n"
    )
    usage = subprocess.run([sys.executable, str(script), "--nope"], capture_output=True, text=True)
    assert usage.returncode == 2
