"""Many members: how soon they settle, and what it costs the store."""

from __future__ import annotations

import threading
import time

from sparklog.clients.log import Log
from sparklog.clock import SystemIds
from tests.support.fakes import CountingStore, FakeClock

SETTLE_SECONDS_MAX = 5.0
SETTLE_SIMULATED_SECONDS_MAX = 30.0
CALL_SECONDS = 0.001
"""What a call to the store takes in the simulated clock."""


def test_twenty_members_joining_at_once_settle_in_time(log):
    log.create_topic("orders", partitions=40)
    barrier = threading.Barrier(20)
    took: list[float] = []
    ended = threading.Event()
    failures: list[Exception] = []

    def live():
        consumer = log.consumer("orders", group_id="g")
        barrier.wait()
        try:
            while not ended.is_set():
                consumer.poll(50)
        except Exception as error:
            failures.append(error)
        finally:
            consumer.close()

    threads = [threading.Thread(target=live) for _ in range(20)]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    try:
        while not failures:
            state = log.group("g")._coordinator.refresh()
            if len(state.members) == 20 and state.settled and len(state.owners) == 40:
                took.append(time.monotonic() - began)
                break
            assert time.monotonic() - began < 60
            time.sleep(0.01)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert not failures
    print(f"20 members settled in {took[0]:.2f} s")
    assert took[0] <= SETTLE_SECONDS_MAX
    assert {len(m.owned) for m in state.members.values()} == {2}


class SlowStore(CountingStore):
    """Each call moves the clock on."""

    def __init__(self, clock):
        self.clock = clock
        super().__init__(clock)

    def _note(self, op, key):
        super()._note(op, key)
        if not op.endswith(":done"):
            self.clock.seconds += CALL_SECONDS


def test_hundred_members_on_nine_hundred_partitions_settle_in_time():
    clock = FakeClock()
    store = SlowStore(clock)
    log = Log(store, clock, SystemIds())
    topics = [f"t{n}" for n in range(9)]
    for topic in topics:
        log.create_topic(topic, partitions=100)
    members = [log.consumer(*topics, group_id="g", background=False) for _ in range(100)]
    observer = log.group("g")._coordinator
    store.forget()
    began = clock.seconds
    rounds = 0
    while True:
        rounds += 1
        for member in members:
            member.poll(0)
        state = observer.refresh()
        if len(state.members) == 100 and state.settled:
            break
        assert rounds < 20
    took = clock.seconds - began
    calls = store.counted()
    print(
        f"100 members, 900 partitions: settled in {took:.1f} simulated s, {rounds} rounds of "
        f"polls, {sum(calls.values())} store calls: {dict(calls)}"
    )
    assert {len(m.owned) for m in state.members.values()} == {9}
    assert took <= SETTLE_SIMULATED_SECONDS_MAX
    store.forget()
    clock.seconds += 1
    for member in members:
        member.poll(0)
    quiet = store.counted()
    print(f"a quiet round of polls, all at once: {sum(quiet.values())} calls: {dict(quiet)}")
    assert quiet["put_if_absent"] == 0, "a group in which nothing happens writes no commits"
