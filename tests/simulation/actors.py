"""Who acts in a run: producers, consumers, an admin, and the director that ends it.

Each actor is an ordinary user of the public clients on a thread of the scheduler. It catches what
a user would catch, goes on as a user would, and writes down what it was told.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa

from sparklog.clients.chunk import RecordFuture
from sparklog.clients.consumer import Consumer
from sparklog.clients.log import Log
from sparklog.clients.producer import Producer
from sparklog.errors import (
    OutcomeUnknownError,
    SparklogError,
    StoreError,
    TopicExistsError,
    TopicReplacedError,
    UnknownTopicError,
)
from tests.simulation.history import ConsumerSession, EndOffsets, Read, Send, Status
from tests.simulation.scheduler import Killed
from tests.simulation.world import CHURN, MAIN, World

INCARNATIONS_MAX = 4
BATCH_RECORDS_MAX = 4
ADMIN_ROUNDS = 4
QUIET_POLLS = 3


def start_all(world: World) -> None:
    """Spawn every actor of the plan; the topics are made by the first."""
    plan = world.plan
    starters: list[tuple[str, Callable[[], None]]] = []
    for number in range(plan.auto_producers):
        starters.append((f"auto{number}", lambda n=number: auto_producer(world, f"auto{n}")))
    for number in range(plan.named_producers):
        starters.append((f"named{number}.0", lambda n=number: named_producer(world, f"named{n}")))
    if plan.twins:
        for twin in ("a", "b"):
            starters.append((f"twin.{twin}", lambda t=twin: _twin(world, t)))
    if plan.admin:
        starters.append(("admin", lambda: admin(world)))
    if plan.churn:
        starters.append(("churner", lambda: churner(world)))
        starters.append(("churn-producer", lambda: churn_producer(world, "churn-producer")))
    for name, body in starters:
        _spawn_writer(world, name, body, mortal=name not in ("admin", "churner"))
    world.scheduler.spawn("tail", lambda: tail_consumer(world, "tail", MAIN, arrow=False))
    world.scheduler.spawn("arrow-tail", lambda: tail_consumer(world, "arrow-tail", MAIN, True))
    if plan.churn:
        world.scheduler.spawn("churn-tail", lambda: tail_consumer(world, "churn-tail", CHURN, True))
    world.scheduler.spawn("observer", lambda: observer(world))
    world.scheduler.spawn("director", lambda: director(world))


def make_topics(world: World) -> None:
    """Create what the plan needs, before any actor runs and any fault fires."""
    log = world.open_log("setup")
    log.create_topic(MAIN, world.plan.partitions, topic_config(world))
    if world.plan.churn:
        log.create_topic(CHURN, 1, topic_config(world))


def topic_config(world: World) -> dict[str, object]:
    """A topic's configuration: checkpoints come often, and commits go early if so planned."""
    config: dict[str, object] = {"delta.checkpointInterval": world.plan.checkpoint_interval}
    if world.plan.clean_up:
        config["delta.logRetentionDuration"] = "interval 2 seconds"
    return config


def _spawn_writer(world: World, name: str, body: Callable[[], None], *, mortal: bool) -> None:
    world.writers += 1

    def run() -> None:
        try:
            body()
        finally:
            world.writers -= 1

    world.scheduler.spawn(name, run, mortal=mortal)


class Sending:
    """One producer object and the sends that are not settled yet."""

    def __init__(self, world: World, log: Log, session: str, producer_id: str | None) -> None:
        """Open a producer with its own mix of settings."""
        rng = world.rng(f"producer {session}")
        config: dict[str, object] = {
            "acks": rng.choice(["all", "1"]),
            "delivery_timeout_ms": world.plan.delivery_timeout_ms,
            "request_timeout_ms": world.plan.request_timeout_ms,
        }
        if producer_id is not None:
            config["producer_id"] = producer_id
        self.world = world
        self.session = session
        self.producer_id = producer_id
        self.producer: Producer = log.producer(background=False, **config)
        self.rng = rng
        self.sent = 0

    def send_batch(self, topic: str, first_index: int, count: int) -> bool:
        """Send some records in one batch; False if this producer can do no more."""
        if self.rng.random() < 0.3:
            return self._send_table(topic, first_index, count)
        waiting: list[tuple[Send, RecordFuture]] = []
        sends: list[Send] = []
        for index in range(first_index, first_index + count):
            send = self._begin(topic, index)
            sends.append(send)
            key = f"k{self.rng.randrange(5)}".encode() if self.rng.random() < 0.7 else None
            try:
                waiting.append((send, self.producer.send(topic, value=send.value, key=key)))
            except SparklogError as error:
                self._settle([send], error)
                break
        for send, future in waiting:
            try:
                place = future.result()
                send.partition, send.offset = place.partition, place.offset
                self._settle([send])
            except SparklogError as error:
                self._settle([send], error)
        return self._usable(sends)

    def _send_table(self, topic: str, first_index: int, count: int) -> bool:
        """The same by send_arrow, all rows to partition 0."""
        sends = [self._begin(topic, index) for index in range(first_index, first_index + count)]
        values = pa.array([send.value for send in sends], pa.binary())
        table = pa.table({"value": values, "partition": pa.array([0] * count, pa.int32())})
        try:
            (appended,) = self.producer.send_arrow(topic, table).result()
            for row, send in enumerate(sends):
                send.partition = appended.partition
                send.offset = -1 if appended.base_offset < 0 else appended.base_offset + row
            self._settle(sends)
        except SparklogError as error:
            self._settle(sends, error)
        return self._usable(sends)

    def _begin(self, topic: str, index: int) -> Send:
        """A send is unknown until somebody says otherwise: also if its sender is killed.

        A record that is sent once more, after the first try failed, is another value.
        """
        owner = self.session if self.producer_id is None else self.producer_id
        self.sent += 1
        value = f"{owner}#{index}~{self.session}~{self.sent}".encode()
        named = self.producer_id is not None
        send = Send(self.session, owner, topic, index, value, self.world.step, named)
        self.world.history.sends.append(send)
        return send

    def _settle(self, sends: list[Send], error: SparklogError | None = None) -> None:
        """Write down what the caller was told."""
        unknown = isinstance(error, OutcomeUnknownError)
        for send in sends:
            send.ended = self.world.step
            send.error = "" if error is None else repr(error)
            send.status = Status.UNKNOWN if unknown else Status.FAIL if error else Status.OK

    def _usable(self, sends: list[Send]) -> bool:
        """After a failure a user closes a fenced or replaced producer, and goes on otherwise."""
        fatal = ("ProducerFencedError", "OutOfOrderSequenceError", "TopicReplacedError")
        return not any(send.error.startswith(fatal) for send in sends)


def auto_producer(world: World, name: str) -> None:
    """A producer without a name: a killed one starts anew, with nothing but new records."""
    _reborn(world, name, lambda session: _produce_auto(world, session))


def _produce_auto(world: World, session: str) -> None:
    sending = Sending(world, world.open_log(session), session, None)
    index = 0
    for _ in range(world.plan.batches):
        count = sending.rng.randint(1, BATCH_RECORDS_MAX)
        usable = sending.send_batch(MAIN, index, count)
        index += count
        if not usable:
            return
        world.pause(sending.rng.random() * 0.05)


def named_producer(world: World, producer_id: str) -> None:
    """A producer that resumes after a kill, and now and then gets a twin that fences it."""
    _reborn(world, producer_id, lambda session: _produce_named(world, producer_id, session))


def _twin(world: World, which: str) -> None:
    """One of two incarnations of the same id that start at the same moment."""
    _produce_named(world, "twin", f"twin.{which}")


def _produce_named(world: World, producer_id: str, session: str) -> None:
    """Send the id's records from where the topic has them, until the plan's number stands."""
    sending = Sending(world, world.open_log(session), session, producer_id)
    if sending.rng.random() < 0.3:
        _spawn_rival(world, producer_id, session, sending.rng)
    total = world.plan.batches * 2
    for _ in range(world.plan.batches * 3):
        index = _resume(world, sending)
        if index is None or index >= total:
            return
        # Several batches in a row, as long as all is well; any doubt is settled by asking again.
        while index < total:
            count = min(sending.rng.randint(1, BATCH_RECORDS_MAX), total - index)
            before = len(world.history.sends)
            usable = sending.send_batch(MAIN, index, count)
            if not usable:
                return
            if any(send.status is not Status.OK for send in _own(world, session, before)):
                break
            index += count
            world.pause(sending.rng.random() * 0.05)


def _own(world: World, session: str, since: int) -> list[Send]:
    return [send for send in world.history.sends[since:] if send.session == session]


def _resume(world: World, sending: Sending) -> int | None:
    """How many records of this id stand; None if the producer can do no more."""
    for _ in range(20):
        try:
            return sending.producer.committed(MAIN)
        except SparklogError as error:
            if error.fatal:
                return None
            world.pause(0.1)
    return None


def _spawn_rival(world: World, producer_id: str, session: str, rng: random.Random) -> None:
    """Another incarnation of the same id starts while this one runs on: a zombie in the making."""
    if session.count("z") >= 2:
        return
    rival, delay = f"{session}z", rng.random() * 0.2

    def body() -> None:
        world.pause(delay)
        _produce_named(world, producer_id, rival)

    _spawn_writer(world, rival, body, mortal=True)


def _reborn(world: World, name: str, live: Callable[[str], None], number: int = 0) -> None:
    """Live; if killed, let a successor live in a new process."""
    session = f"{name}.{number}"
    try:
        live(session)
    except Killed:
        if number + 1 < INCARNATIONS_MAX and not world.quiet:
            _spawn_writer(
                world,
                f"{name}.{number + 1}",
                lambda: _reborn(world, name, live, number + 1),
                mortal=True,
            )
        raise


def admin(world: World) -> None:
    """Grow the topic and change its configuration while everybody works."""
    log, rng = world.open_log("admin"), world.rng("admin")
    for round_number in range(ADMIN_ROUNDS):
        world.pause(rng.random() * 0.3)
        try:
            topic = log.topic(MAIN)
            if rng.random() < 0.5:
                topic.add_partitions(world.plan.partitions + round_number // 2)
                world.history.admin["grown"] += 1
            else:
                topic.alter_config({"retention.ms": 1_000_000 + round_number})
                world.history.admin["altered"] += 1
            if rng.random() < 0.3:
                topic.checkpoint()
        except SparklogError:
            world.history.admin["admin errors"] += 1


def churner(world: World) -> None:
    """Delete a topic and create it again, under the noses of its users."""
    log, rng = world.open_log("churner"), world.rng("churner")
    for _ in range(ADMIN_ROUNDS):
        world.pause(rng.random() * 0.4)
        gone = False
        try:
            log.delete_topic(CHURN)
            gone = True
            world.history.admin["deleted"] += 1
        except SparklogError:
            world.history.admin["admin errors"] += 1
        world.pause(rng.random() * 0.1)
        try:
            log.create_topic(CHURN, 1, topic_config(world))
            world.history.admin["created"] += 1
        except SparklogError as error:
            world.history.admin["admin errors"] += 1
            if gone and isinstance(error, TopicExistsError):
                world.history.refused_own.append(CHURN)  # nobody else creates it


def churn_producer(world: World, name: str) -> None:
    """Produce to the topic that comes and goes; a replaced one is opened anew, as a user would."""
    log, rng = world.open_log(name), world.rng(name)
    for life in range(world.plan.batches):
        sending = Sending(world, log, f"{name}.{life}", None)
        for index in range(world.plan.batches):
            if not sending.send_batch(CHURN, index * BATCH_RECORDS_MAX, rng.randint(1, 3)):
                break
            world.pause(rng.random() * 0.1)


def tail_consumer(world: World, name: str, topic: str, arrow: bool) -> None:
    """Follow a topic from its start, through every fault, and drain it once all is quiet."""
    log, rng = world.open_log(name), world.rng(name)
    life = 0
    while True:
        life += 1
        over = _follow(world, log, f"{name}.{life}", topic, arrow, rng)
        if over:
            return
        world.pause(0.05)


def _follow(world: World, log: Log, name: str, topic: str, arrow: bool, rng: random.Random) -> bool:
    """One consumer object's life; True if the run is over for this actor."""
    quiet_at_start = world.quiet
    try:
        limit = rng.choice([1, 3, 500])
        consumer = log.consumer(topic, auto_offset_reset="earliest", max_poll_records=limit)
    except UnknownTopicError:
        return quiet_at_start
    except StoreError:
        return False
    session = ConsumerSession(name, topic, world.step)
    world.history.consumers.append(session)
    empty = 0
    while empty < QUIET_POLLS:
        quiet = world.quiet
        try:
            count = poll_once(world, consumer, session, arrow)
        except StoreError:
            world.pause(0.02)  # a passing failure: a user polls again
            continue
        except TopicReplacedError:
            consumer.close()
            return False
        empty = empty + 1 if quiet and count == 0 else 0
    session.drained = True
    consumer.close()
    return True


def poll_once(world: World, consumer: Consumer, session: ConsumerSession, arrow: bool) -> int:
    """Poll, and write down what came."""
    if not arrow:
        records = consumer.poll(timeout_ms=100)
        rows = [(r.topic, r.partition, r.offset, r.value) for r in records]
    else:
        rows = []
        for batch in consumer.poll_arrow(timeout_ms=100):
            columns = (batch[name].to_pylist() for name in ("topic", "partition", "offset"))
            rows += zip(*columns, batch["value"].to_pylist(), strict=True)
    for topic, partition, offset, value in rows:
        read = Read(session.name, topic, partition, offset, value or b"", world.step)
        world.history.reads.append(read)
    return len(rows)


def observer(world: World) -> None:
    """Ask for the ends of the partitions now and then."""
    log, rng = world.open_log("observer"), world.rng("observer")
    while not world.quiet:
        world.pause(rng.random() * 0.3)
        began = world.step
        try:
            described = log.topic(MAIN).describe()
        except SparklogError:
            continue
        ends = {part.partition: part.end_offset for part in described.partitions}
        world.history.ends.append(EndOffsets(MAIN, described.id, ends, began, world.step))


def director(world: World) -> None:
    """Wait for the writers, stop all faults, let every late put land, then read it all once."""
    while world.writers:
        world.pause(0.5)
    world.faults.enabled = False
    world.scheduler.calm = True
    world.store.land_pending()
    world.quiet = True
    topics = [MAIN, CHURN] if world.plan.churn else [MAIN]
    for number, topic in enumerate(topics):
        tail_consumer(world, f"late{number}", topic, arrow=bool(world.seed % 2))
