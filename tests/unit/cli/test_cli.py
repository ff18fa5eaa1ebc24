"""The command `sparklog`, run as people run it, on a real log in a temporary folder."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import sparklog
from tests.support.command import COMMAND, Run, environment


@pytest.fixture
def topic(root: Path) -> str:
    """A topic of one partition with the records a=1, b=2 and c=3 at 1000, 2000 and 3000 ms."""
    log = sparklog.connect(root)
    log.create_topic("orders")
    with log.producer() as producer:
        for number, key in enumerate((b"a", b"b", b"c"), start=1):
            producer.send("orders", b"%d" % number, key, timestamp_ms=number * 1000)
    log.close()
    return "orders"


def one_line_error(done: subprocess.CompletedProcess[bytes]) -> str:
    text = done.stderr.decode()
    assert text.startswith("sparklog: ") and text.count("\n") == 1
    return text


def test_help_does_not_import_arrow() -> None:
    code = (
        "import sys; from sparklog.cli.main import main; sys.argv = ['sparklog', '--help']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([name for name in ('pyarrow', 'pyspark', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env=environment(None), check=True
    )
    assert b"[log]" in done.stdout
    assert done.stdout.endswith(b"[]\n")


def test_version_is_the_package_version(run: Run) -> None:
    assert run("--version").stdout.decode() == f"sparklog {sparklog.__version__}\n"


def test_topics_create_alter_describe_delete(run: Run) -> None:
    run("topics", "create", "t", "--partitions", "2", "--config", "retention.ms=5000")
    shown = json.loads(run("topics", "describe", "t", "--json").stdout)
    assert len(shown["partitions"]) == 2
    assert shown["overrides"]["retention.ms"] == "5000"
    changes = ("--config", "max.message.bytes=99", "--unset", "retention.ms", "--partitions", "3")
    run("topics", "alter", "t", *changes)
    shown = json.loads(run("topics", "describe", "t", "--json").stdout)
    assert len(shown["partitions"]) == 3
    assert shown["config"]["max.message.bytes"] == "99"
    assert "retention.ms" not in shown["overrides"]
    assert b"max.message.bytes" in run("topics", "describe", "t").stdout
    run("topics", "delete", "t", code=2)
    run("topics", "delete", "t", "--yes")
    assert json.loads(run("topics", "list", "--json").stdout) == []


def test_topics_list_shows_records(run: Run, topic: str) -> None:
    listed = json.loads(run("topics", "list", "--json").stdout)
    assert listed == [{"name": "orders", "partitions": 1, "records": 3}]
    assert b"orders" in run("topics", "list").stdout


def test_produce_lines_with_keys_and_headers_are_consumed(run: Run) -> None:
    run("topics", "create", "t")
    options = ("--key-separator", "::", "--header", "h=x", "--header", "h=y", "--acks", "1")
    done = run("produce", "t", *options, stdin=b"k::v::w\nl::\n")
    assert done.stderr == b"2 records produced to t\n"
    lines = [json.loads(line) for line in run("consume", "t", "--json").stdout.splitlines()]
    assert [(r["offset"], r["key"], r["value"]) for r in lines] == [(0, "k", "v::w"), (1, "l", "")]
    assert lines[0]["headers"] == [{"key": "h", "value": "x"}, {"key": "h", "value": "y"}]
    assert run("consume", "t", "--format", "key-value").stdout == b"k\tv::w\nl\t\n"


def test_produce_json_takes_back_what_consume_json_gave(run: Run, tmp_path: Path) -> None:
    run("topics", "create", "a", "--partitions", "2")
    run("topics", "create", "b", "--partitions", "2")
    records = [
        {"key": None, "value": "é", "partition": 1, "timestamp_ms": 5, "headers": {"h": "1"}},
        {"key_base64": "/w==", "value": None, "partition": 1, "timestamp_ms": 6},
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, records)))
    run("produce", "a", "--json", "--file", "in.jsonl", "--producer-id", "cli")
    first = run("consume", "a", "--json").stdout
    run("produce", "b", "--json", stdin=first)
    second = run("consume", "b", "--json").stdout
    assert first.replace(b'"topic": "a"', b'"topic": "b"') == second
    shown = [json.loads(line) for line in first.splitlines()]
    assert [(r["partition"], r["timestamp_ms"]) for r in shown] == [(1, 5), (1, 6)]
    assert shown[1]["key_base64"] == "/w==" and shown[1]["value"] is None


def test_produce_bad_json_line_is_named_and_earlier_records_stay(run: Run) -> None:
    run("topics", "create", "t")
    done = run("produce", "t", "--json", stdin=b'{"value":"1"}\n{"vlaue":"2"}\n', code=1)
    message = one_line_error(done)
    assert "record 2" in message and "vlaue" in message
    assert run("consume", "t").stdout == b"1\n"


@pytest.mark.parametrize(
    ("start", "values"),
    [
        ("earliest", b"1\n2\n3\n"),
        ("latest", b""),
        ("1", b"2\n3\n"),
        ("3", b""),
        ("@1500", b"2\n3\n"),
        ("1970-01-01T00:00:03Z", b"3\n"),
        ("1970-01-01T00:00:02", b"2\n3\n"),
        ("2970-01-01", b""),
    ],
)
def test_consume_from(run: Run, topic: str, start: str, values: bytes) -> None:
    assert run("consume", topic, "--from", start).stdout == values


def test_consume_max_partition_and_table(run: Run, topic: str) -> None:
    assert run("consume", topic, "--max", "2", "--partition", "0").stdout == b"1\n2\n"
    assert "1970-01-01T00:00:03.000Z" in run("consume", topic, "--format", "table").stdout.decode()
    assert "no partition 7" in one_line_error(run("consume", topic, "--partition", "7", code=1))


def test_consume_offset_out_of_range_is_an_error(run: Run, topic: str) -> None:
    assert "out of range" in one_line_error(run("consume", topic, "--from", "9", code=1))


def test_consume_offset_of_several_partitions_is_usage_error(run: Run) -> None:
    run("topics", "create", "t", "--partitions", "2")
    assert b"--partition" in run("consume", "t", "--from", "0", code=2).stderr


def test_consume_follow_sees_new_records_and_ends_on_interrupt(
    run: Run, topic: str, root: Path
) -> None:
    command = [*COMMAND, "consume", topic, "-f"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(root)
    ) as follower:
        assert follower.stdout is not None and follower.stderr is not None
        assert [follower.stdout.readline() for _ in range(3)] == [b"1\n", b"2\n", b"3\n"]
        run("produce", topic, stdin=b"new\n")
        assert follower.stdout.readline() == b"new\n"
        follower.send_signal(signal.SIGINT)
        assert follower.wait(20) == 0
        assert follower.stderr.read() == b""


def test_consume_into_closed_pipe_is_quiet(run: Run, root: Path) -> None:
    run("topics", "create", "t")
    run("produce", "t", stdin=b"0123456789\n" * 50_000)
    with subprocess.Popen(
        [*COMMAND, "consume", "t"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(root),
    ) as reader:
        assert reader.stdout is not None and reader.stderr is not None
        assert reader.stdout.readline() == b"0123456789\n"
        reader.stdout.close()
        assert reader.wait(20) == 0
        assert reader.stderr.read() == b""


def test_dump_commit_segment_and_checkpoint(run: Run, topic: str, root: Path) -> None:
    folder = root / "topics" / topic
    commit = run("dump", str(folder / "_delta_log" / f"{1:020d}.json")).stdout.decode()
    assert "add partition: 0 offsets: 0..2 count: 3" in commit
    assert "operation: WRITE" in commit
    (segment,) = folder.glob("p0/*.parquet")
    plain = run("dump", str(segment)).stdout.decode().splitlines()
    assert "count: 3" in plain[0] and "compression: lz4 row groups: 1" in plain[0]
    assert plain[3] == (
        "offset_delta: 2 timestamp: 1970-01-01T00:00:03.000Z keySize: 1 valueSize: 1 headers: 0"
    )
    assert "key: c payload: 3" in run("dump", str(segment), "--records").stdout.decode()
    log = sparklog.connect(root)
    version = log.topic(topic).checkpoint()
    log.close()
    path = folder / "_delta_log" / f"{version:020d}.checkpoint.parquet"
    assert b"\nadd: 1\n" in run("dump", str(path)).stdout


def test_dump_of_torn_missing_or_foreign_file_is_an_error(
    run: Run, topic: str, root: Path, tmp_path: Path
) -> None:
    (segment,) = (root / "topics" / topic).glob("p0/*.parquet")
    torn = tmp_path / "torn.parquet"
    torn.write_bytes(segment.read_bytes()[:-20])
    assert "torn.parquet" in one_line_error(run("dump", str(torn), code=1))
    assert "gone.parquet" in one_line_error(run("dump", str(tmp_path / "gone.parquet"), code=1))
    assert "not a commit" in one_line_error(run("dump", __file__, code=1))


def test_log_is_found_by_option_then_environment_then_file(
    run: Run, topic: str, root: Path, tmp_path: Path
) -> None:
    bare = environment(None)
    message = one_line_error(run("topics", "list", code=1, env=bare))
    for way in ("--log", "SPARKLOG_ROOT", "conf/sparklog.toml"):
        assert way in message
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "sparklog.toml").write_text(f'[log]\nroot = "{root}"\n')
    assert b"orders" in run("topics", "list", env=bare).stdout
    elsewhere = environment(tmp_path / "elsewhere")
    assert "elsewhere" in one_line_error(run("topics", "list", code=1, env=elsewhere))
    assert b"orders" in run("topics", "list", "--log", str(root), env=elsewhere).stdout
    assert b"orders" in run("--log", str(root), "topics", "list", env=elsewhere).stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("topics", "list"),
        ("topics", "describe", "t"),
        ("topics", "alter", "t", "--partitions", "2"),
        ("topics", "delete", "t", "--yes"),
        ("consume", "t"),
    ],
)
def test_commands_that_read_never_create_the_log(
    run: Run, root: Path, arguments: tuple[str, ...]
) -> None:
    assert "no log" in one_line_error(run(*arguments, code=1))
    assert not root.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("topics", "describe", "nope"),
        ("topics", "alter", "nope", "--partitions", "2"),
        ("topics", "delete", "nope", "--yes"),
        ("produce", "nope"),
        ("consume", "nope"),
    ],
)
def test_unknown_topic_is_named(run: Run, topic: str, arguments: tuple[str, ...]) -> None:
    assert "'nope'" in one_line_error(run(*arguments, stdin=b"x\n", code=1))


def test_bad_config_is_named(run: Run) -> None:
    done = run("topics", "create", "t", "--config", "retention.sm=1", code=1)
    assert "retention.sm" in one_line_error(done)
    run("topics", "create", "t", "--config", "retention.ms", code=2)


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("topics", "alter", "orders"),
        ("topics", "create", "t", "--partitions", "many"),
        ("consume", "orders", "--from", "yesterday"),
        ("produce", "orders", "--acks", "2"),
        ("produce", "orders", "--header", "x"),
        ("produce", "orders", "--file", "absent"),
    ],
)
def test_wrong_usage_exits_with_2(run: Run, topic: str, arguments: tuple[str, ...]) -> None:
    assert run(*arguments, code=2).stdout == b""


def test_debug_shows_the_traceback(run: Run, topic: str) -> None:
    assert b"Traceback" in run("consume", "nope", "--debug", code=1).stderr
