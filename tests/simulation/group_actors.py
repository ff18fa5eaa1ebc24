"""Who acts in a run about groups: members that crash, stall and come back, and one that ends it.

Members are ordinary users of the public consumer, on threads of the scheduler, without threads of
their own. Each commit carries a token in its metadata that says under which `since` the committer
believed to own the partition, so that the checker can compare it with what the log says.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

from sparklog.clients.group_consumer import GroupConsumer
from sparklog.clients.offsets import GroupOffsets
from sparklog.errors import OutcomeUnknownError, SparklogError
from sparklog.groups.group_state import PartitionId
from tests.simulation.history import Status
from tests.simulation.scheduler import Killed
from tests.simulation.world import MAIN, World

GROUP = "g"
RECORDS_EACH = 40
ROUNDS = 40
INCARNATIONS_MAX = 3
SESSION_MS = 1500
HEARTBEAT_MS = 200
DRAIN_POLLS_MAX = 400


@dataclass
class GroupRead:
    """One record that a member got, and the ownership under which it got it."""

    member_id: str
    partition: PartitionId
    since: int
    offset: int
    step: int


@dataclass
class CommitCall:
    """One offset that a member tried to commit."""

    token: str
    member_id: str
    partition: PartitionId
    since: int
    offset: int
    status: Status = Status.UNKNOWN
    error: str = ""


@dataclass
class GroupHistory:
    """What the members saw, in the order of steps."""

    reads: list[GroupRead] = field(default_factory=list)
    commits: list[CommitCall] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    drained: bool = False


def make_topic(world: World) -> None:
    """A topic with some records, before any actor runs and any fault fires."""
    log = world.open_log("setup")
    log.create_topic(MAIN, world.plan.partitions + 1)
    with log.producer(background=False) as producer:
        for number in range(RECORDS_EACH):
            for partition in range(world.plan.partitions + 1):
                producer.send(MAIN, b"%d" % number, partition=partition)


def start_members(world: World, history: GroupHistory) -> None:
    """Spawn the members of the plan and the director."""
    rng = world.rng("members")
    for number in range(rng.randint(2, 4)):
        _spawn(world, history, f"member{number}", 0)
    world.scheduler.spawn("director", lambda: _director(world, history))


def _spawn(world: World, history: GroupHistory, name: str, life: int) -> None:
    world.writers += 1

    def run() -> None:
        try:
            _live(world, history, f"{name}.{life}")
        except Killed:
            history.counts["killed"] += 1
            if life + 1 < INCARNATIONS_MAX and not world.quiet:
                _spawn(world, history, name, life + 1)
            raise
        finally:
            world.writers -= 1

    world.scheduler.spawn(f"{name}.{life}", run, mortal=True)


def _open(world: World, name: str, rng: random.Random) -> GroupConsumer:
    log = world.open_log(name)
    while True:
        try:
            consumer = log.consumer(
                MAIN,
                background=False,
                group_id=GROUP,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
                max_poll_interval_ms=10_000,
                max_poll_records=rng.choice([1, 1, 2]),
                partition_assignment_strategy="roundrobin" if world.seed % 3 else "sticky",
            )
            assert isinstance(consumer, GroupConsumer)
            return consumer
        except SparklogError:
            world.pause(0.05)


def _live(world: World, history: GroupHistory, name: str) -> None:
    """A member's life: poll, sometimes commit, sometimes late, sometimes sleep too long."""
    rng = world.rng(name)
    consumer = _open(world, name, rng)
    stale: GroupOffsets | None = None
    for number in range(ROUNDS):
        _poll(world, history, consumer, timeout_ms=rng.choice([0, 50, 200]))
        token = f"{name}#{number}"
        draw = rng.random()
        anew = _owned_anew(consumer, stale)
        if anew is not None:
            _commit(history, consumer, anew, token)
            stale = None
        elif draw < 0.35:
            _commit(history, consumer, _offsets(consumer), token)
        elif draw < 0.5:
            stale = stale or _offsets(consumer)
        elif draw < 0.55 and stale is not None:
            # Late: other polls, and perhaps rebalances, came between reading and committing.
            _commit(history, consumer, stale, token)
            stale = None
        elif draw < 0.74:
            world.pause((1 + rng.random() * 2) * SESSION_MS / 1000)  # silent: others expel it
            history.counts["long pauses"] += 1
        elif draw < 0.79:
            _close(history, consumer)
            consumer = _open(world, f"{name}~{number}", rng)
        else:
            world.pause(rng.random() * 0.2)
    _close(history, consumer)


def _poll(
    world: World, history: GroupHistory, consumer: GroupConsumer, timeout_ms: float
) -> int | None:
    """Poll and write down what came; None if the poll failed."""
    try:
        records = consumer.poll(timeout_ms)
    except SparklogError as error:
        history.counts[f"poll: {type(error).__name__}"] += 1
        world.pause(0.02)
        return None
    for record in records:
        partition = consumer._ids[record.topic, record.partition]
        since = consumer._session.held[partition]
        read = GroupRead(consumer.member_id, partition, since, record.offset, world.step)
        history.reads.append(read)
    return len(records)


def _offsets(consumer: GroupConsumer) -> GroupOffsets | None:
    try:
        return consumer.group_offsets()
    except SparklogError:
        return None


def _owned_anew(consumer: GroupConsumer, stale: GroupOffsets | None) -> GroupOffsets | None:
    """What of these offsets belongs to partitions that the same member has lost and has again."""
    held = consumer._session.held
    if stale is None or stale.member_id != consumer.member_id:
        return None
    anew = {p: o for p, o in stale.offsets.items() if held.get(p, o.since) != o.since}
    return replace(stale, offsets=anew) if anew else None


def _commit(
    history: GroupHistory, consumer: GroupConsumer, found: GroupOffsets | None, token: str
) -> None:
    """Commit these, all or none, each marked with who believed what."""
    if found is None or not found.offsets:
        return
    calls = []
    wanted = {}
    for partition, offset in found.offsets.items():
        mark = f"{token}|{offset.since}"
        wanted[partition] = replace(offset, metadata=mark)
        calls.append(CommitCall(mark, found.member_id, partition, offset.since, offset.offset))
    history.commits += calls
    status, problem = Status.OK, ""
    try:
        consumer._session.coordinator.commit_offsets(found.member_id, wanted, 2.0)
    except OutcomeUnknownError as error:
        status, problem = Status.UNKNOWN, repr(error)
    except SparklogError as error:
        status, problem = Status.FAIL, repr(error)
    history.counts[f"commit {status.value}"] += 1
    for call in calls:
        call.status, call.error = status, problem


def _close(history: GroupHistory, consumer: GroupConsumer) -> None:
    try:
        consumer.close()
    except SparklogError:
        history.counts["close failed"] += 1


def _director(world: World, history: GroupHistory) -> None:
    """Wait for the members, stop all faults, then read what is left as the only one (I17)."""
    while world.writers:
        world.pause(0.5)
    world.faults.enabled = False
    world.scheduler.calm = True
    world.store.land_pending()
    world.quiet = True
    consumer = _open(world, "last", world.rng("last"))
    for number in range(DRAIN_POLLS_MAX):
        count = _poll(world, history, consumer, timeout_ms=100)
        if consumer._session.held and count == 0:
            _commit(history, consumer, _offsets(consumer), f"last#{number}")
            lag = sum(consumer.lag(*place) for place in consumer.assignment())
            if len(consumer.assignment()) == world.plan.partitions + 1 and lag == 0:
                history.drained = True
                break
    consumer.close()
