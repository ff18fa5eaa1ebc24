"""A real Kafka broker for comparison: one KRaft node on free loopback ports.

Needs `java` and `mvn`. The jars are fetched once into bench/.kafka by Maven as the machine has it
set up. The broker belongs to the `with` block that started it and is stopped by its process id,
whatever happens in the block. Everything that keeps it from starting is a KafkaUnavailableError of
one line, so that a benchmark can go on without its peer and say why.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

CACHE = Path(__file__).parent / ".kafka"
START_SECONDS = 60
STOP_SECONDS = 20
READY = "Kafka Server started"


class Jar(NamedTuple):
    """A Maven artifact; `alone` leaves its dependencies out."""

    group: str
    name: str
    version: str
    alone: bool = False


BROKER_JARS = (
    Jar("org.apache.kafka", "kafka_2.13", "4.3.1"),
    Jar("org.apache.kafka", "kafka-tools", "4.3.1"),
    Jar("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
)
SPARK_JARS = (
    Jar("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0", alone=True),
    Jar("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0", alone=True),
    Jar("org.apache.kafka", "kafka-clients", "3.9.2", alone=True),
    Jar("org.apache.commons", "commons-pool2", "2.12.1"),
)

# The flags of Kafka's own start script: the peer runs as its makers run it.
JVM_FLAGS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    "-Dlog4j2.level=INFO",
)

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.dirs={data}
"""

# Colours, and where this machine gets its jars from, which is nobody's business in a table.
_NOISE = re.compile(r"\x1b\[[0-9;]*m|\(?\w+://\S+|\[ERROR\]|-> \[Help \d+\]")


class KafkaUnavailableError(RuntimeError):
    """There is no broker to compare with; the message is one line that says why."""


class Peer(NamedTuple):
    """Where the broker listens, or why there is none."""

    bootstrap: str | None
    why_not: str = ""


@contextmanager
def kafka_or_not(folder: Path) -> Iterator[Peer]:
    """A broker if there can be one; only its start is forgiven, not errors in the block."""
    with ExitStack() as stack:
        try:
            peer = Peer(stack.enter_context(kafka_broker(folder)))
        except KafkaUnavailableError as error:
            peer = Peer(None, str(error))
        yield peer


@contextmanager
def kafka_broker(folder: Path) -> Iterator[str]:
    """Start a broker with its logs in this folder; yields its bootstrap address."""
    java = _program("java")
    class_path = str(_jars("broker", BROKER_JARS) / "*")
    folder.mkdir(parents=True, exist_ok=True)
    broker, controller = _free_ports(2)
    properties = folder / "server.properties"
    properties.write_text(
        _PROPERTIES.format(broker=broker, controller=controller, data=folder.resolve() / "data")
    )
    storage = [java, "-cp", class_path, "kafka.tools.StorageTool"]
    cluster = _run([*storage, "random-uuid"], "Kafka's random-uuid").strip()
    _run([*storage, "format", "-t", cluster, "-c", str(properties)], "Kafka's storage format")
    output = folder / "broker.out"
    with output.open("wb") as sink:
        process = subprocess.Popen(
            [java, *JVM_FLAGS, "-cp", class_path, "kafka.Kafka", str(properties)],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait_until_ready(process, output)
            yield f"127.0.0.1:{broker}"
        finally:
            _stop(process)


def spark_kafka_jars() -> list[str]:
    """The jars of Spark's Kafka connector, for `spark.jars` (joined with commas)."""
    return sorted(str(jar) for jar in _jars("spark", SPARK_JARS).glob("*.jar"))


def _wait_until_ready(process: subprocess.Popen[bytes], output: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while READY not in (text := output.read_text(errors="replace")):
        last = _last_line(text)
        if process.poll() is not None:
            raise KafkaUnavailableError(f"the broker ended with {process.returncode}: {last}")
        if time.monotonic() > deadline:
            raise KafkaUnavailableError(f"the broker was not up in {START_SECONDS} s: {last}")
        time.sleep(0.1)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _jars(name: str, jars: tuple[Jar, ...]) -> Path:
    """The folder with these jars and what they need, fetched if it is not there yet.

    The folder appears under its name only when it is complete, together with its pom: a fetch that
    was cut off, or other versions, are fetched again.
    """
    pom = _pom(jars)
    home = CACHE / name
    if (home / "pom.xml").exists() and (home / "pom.xml").read_text() == pom:
        return home / "libs"
    maven = _program("mvn")
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=CACHE) as part:
        fresh = Path(part) / "fresh"
        fresh.mkdir()
        (fresh / "pom.xml").write_text(pom)
        libs = f"-DoutputDirectory={fresh / 'libs'}"
        goal = "dependency:copy-dependencies"
        command = [maven, "-B", "-q", "-f", str(fresh / "pom.xml"), goal, libs]
        _run(command, f"Maven's fetch of the {name} jars")
        shutil.rmtree(home, ignore_errors=True)
        fresh.rename(home)
    return home / "libs"


def _pom(jars: tuple[Jar, ...]) -> str:
    lines = [
        '<project xmlns="http://maven.apache.org/POM/4.0.0">',
        "  <modelVersion>4.0.0</modelVersion>",
        "  <groupId>bench</groupId><artifactId>peer</artifactId><version>1</version>",
        "  <dependencies>",
    ]
    for jar in jars:
        lines += [
            "    <dependency>",
            f"      <groupId>{jar.group}</groupId>",
            f"      <artifactId>{jar.name}</artifactId>",
            f"      <version>{jar.version}</version>",
        ]
        if jar.alone:
            everything = "<groupId>*</groupId><artifactId>*</artifactId>"
            lines.append(f"      <exclusions><exclusion>{everything}</exclusion></exclusions>")
        lines.append("    </dependency>")
    return "\n".join([*lines, "  </dependencies>", "</project>", ""])


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise KafkaUnavailableError(f"no {name!r} on the PATH, which the Kafka broker needs")
    return path


def _run(command: list[str], what: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        error = next((x for x in done.stdout.splitlines() if "ERROR" in x), "")
        reason = error or _last_line(done.stderr) or _last_line(done.stdout)
        raise KafkaUnavailableError(f"{what} failed: {_NOISE.sub('', reason).strip()}")
    return done.stdout


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def _free_ports(count: int) -> list[int]:
    """Ports that are free now; all held at once, so that they differ."""
    with ExitStack() as stack:
        ports = []
        for _ in range(count):
            held = stack.enter_context(socket.socket())
            held.bind(("127.0.0.1", 0))
            ports.append(int(held.getsockname()[1]))
        return ports
