"""Members of a group on a real log: sharing, moving, committing, being fenced."""

from __future__ import annotations

import logging
import re
import threading
import time

import pytest

import sparklog
from sparklog import errors
from sparklog.clients.rebalance_listener import RebalanceListener

SETTLE_POLLS = 20


@pytest.fixture
def orders(log):
    """A topic of four partitions with a hundred records, value `<n>`, key the same."""
    log.create_topic("orders", partitions=4)
    send(log, "orders", range(100))
    return log


@pytest.fixture
def member(log):
    """Opens members of group g that read from the start; closes them all in the end."""
    opened = []

    def open_member(*topics, **config):
        settings = {"group_id": "g", "auto_offset_reset": "earliest", "enable_auto_commit": False}
        consumer = log.consumer(*(topics or ("orders",)), **(settings | config))
        opened.append(consumer)
        return consumer

    yield open_member
    for consumer in opened:
        consumer.close()


def send(log, topic, numbers):
    with log.producer() as producer:
        for number in numbers:
            producer.send(topic, value=b"%d" % number, key=b"%d" % number)


def settle(*consumers):
    """Poll until everybody has what they are to have; returns the records that came by."""
    records = []
    for _ in range(SETTLE_POLLS):
        before = [c.assignment() for c in consumers]
        for consumer in consumers:
            records += consumer.poll(0)
        if before == [c.assignment() for c in consumers] and all(before):
            return records
    raise AssertionError(f"not settled: {before}")


def places(records):
    return [(r.topic, r.partition, r.offset) for r in records]


class Told(RebalanceListener):
    """Writes down what it is told."""

    def __init__(self):
        self.calls = []

    def on_partitions_revoked(self, partitions):
        self.calls.append(("revoked", tuple(partitions)))

    def on_partitions_assigned(self, partitions):
        self.calls.append(("assigned", tuple(partitions)))

    def on_partitions_lost(self, partitions):
        self.calls.append(("lost", tuple(partitions)))


def test_members_share_all_partitions_and_read_each_record_once(orders, member):
    one, two, three = member(), member(), member()
    records = settle(one, two, three)
    assigned = one.assignment() + two.assignment() + three.assignment()
    assert sorted(assigned) == [("orders", p) for p in range(4)]
    # Nothing was committed before the rebalances, so what moved was read again by its new owner.
    assert len(set(places(records))) == 100
    send(orders, "orders", range(100))
    fresh = [r for c in (one, two, three) for r in c.poll(1000)]
    assert len(fresh) == len(set(places(fresh))) == 100


def test_new_owner_goes_on_where_the_old_one_committed(orders, member):
    one = member()
    assert len(one.poll(1000)) == 100
    one.commit()
    two = member()
    assert settle(one, two) == []
    assert len(two.assignment()) == 2
    assert all(
        two.position(*place) == two.committed(place)[place].offset for place in two.assignment()
    )


def test_partitions_that_stay_keep_flowing_while_others_move(orders, member):
    """A member that does not poll holds its partitions back, and nobody else."""
    one = member()
    one.poll(0)
    one.commit()
    two = member()
    two.poll(0)  # joins; waits for what `one` has not released yet
    assert two.assignment() == [] and len(one.assignment()) == 4
    settle(one, two)
    staying = set(two.assignment())
    three = member()
    three.poll(0)
    during = 0
    for _ in range(5):
        send(orders, "orders", range(40))
        records = two.poll(1000)
        during += sum((r.topic, r.partition) in staying for r in records)
        two.commit()
        staying &= set(two.assignment())
    assert staying and during > 0
    assert len(three.assignment()) <= 1, "what `one` holds has not moved: it never polled"


def test_listener_is_told_of_exactly_what_moves(orders, member):
    told = Told()
    one = member()
    one.subscribe(["orders"], listener=told)
    one.poll(0)
    two = member()
    settle(one, two)
    moved = tuple(two.assignment())
    two.close()
    one.poll(0)
    everything = tuple(("orders", p) for p in range(4))
    assert told.calls == [("assigned", everything), ("revoked", moved), ("assigned", moved)]


def test_revoked_partitions_can_still_be_committed_in_the_listener(orders, member):
    class Committing(RebalanceListener):
        def on_partitions_revoked(self, partitions):
            one.commit({place: one.position(*place) for place in partitions})

    one = member()
    one.subscribe(["orders"], listener=Committing())
    assert len(one.poll(1000)) == 100
    two = member()
    assert settle(one, two) == [] and len(two.assignment()) == 2


def test_failing_listener_does_not_keep_the_partition_from_moving(orders, member):
    class Failing(RebalanceListener):
        def on_partitions_revoked(self, partitions):
            raise RuntimeError("mine")

    one = member()
    one.subscribe(["orders"], listener=Failing())
    one.poll(0)
    two = member()
    two.poll(0)
    with pytest.raises(RuntimeError, match="mine"):
        one.poll(0)
    two.poll(0)
    assert len(two.assignment()) == 2
    one.subscribe(["orders"])


def test_close_hands_over_at_once(orders, member):
    one, two = member(), member()
    settle(one, two)
    one.close()
    two.poll(0)
    assert len(two.assignment()) == 4


def test_zombies_commit_is_refused_and_its_next_poll_joins_again(orders, member):
    zombie, heir = member(), member()
    settle(zombie, heir)
    mine = zombie.assignment()
    told = Told()
    zombie._listener = told
    heir._session.coordinator.expel([zombie.member_id])  # as any member does after its silence
    heir.poll(0)
    with pytest.raises(errors.UnknownMemberError, match="expelled"):
        zombie.commit(dict.fromkeys(mine, 1))
    assert orders.group("g").offsets() == {}
    zombie.poll(0)
    assert told.calls[0] == ("lost", tuple(mine))
    settle(zombie, heir)
    assert len(zombie.assignment()) == 2


def test_zombie_that_owns_the_partition_again_cannot_commit_what_it_read_before(orders, member):
    zombie = member()
    zombie.poll(1000)
    stale = zombie.group_offsets()
    zombie._session.coordinator.expel([zombie.member_id])
    zombie.poll(0)
    assert len(zombie.assignment()) == 4
    with pytest.raises(errors.UnknownMemberError):
        zombie._session.coordinator.commit_offsets(stale.member_id, stale.offsets)
    with pytest.raises(errors.StaleOwnerError, match="since generation"):
        zombie._session.coordinator.commit_offsets(zombie.member_id, stale.offsets)


def test_silent_member_is_expelled_and_its_partitions_move(orders, member):
    timing = {"session_timeout_ms": 600, "heartbeat_interval_ms": 100}
    silent, heir = member(**timing), member(**timing)
    settle(silent, heir)
    silent._session._keeper.stop()
    began = time.monotonic()
    while len(heir.assignment()) < 4:
        heir.poll(100)
        assert time.monotonic() - began < 10
    assert silent.member_id not in orders.group("g")._coordinator.refresh().members


def test_beating_members_are_never_expelled(orders, member):
    timing = {"session_timeout_ms": 500, "heartbeat_interval_ms": 100}
    one, two = member(**timing), member(**timing)
    settle(one, two)
    generation = orders.group("g").describe().generation
    time.sleep(1.5)  # neither polls; their keepers speak for them
    assert orders.group("g").describe().generation == generation


def test_member_that_does_not_poll_leaves_and_says_so(orders, member, caplog):
    busy = member(max_poll_interval_ms=300, heartbeat_interval_ms=100, session_timeout_ms=5000)
    with caplog.at_level(logging.WARNING):
        busy.poll(0)
        deadline = time.monotonic() + 10
        while orders.group("g").describe().members:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert "max.poll.interval.ms" in caplog.text
    told = Told()
    busy._listener = told
    busy.poll(0)
    assert [call for call, _ in told.calls] == ["lost", "assigned"]


def test_static_member_comes_back_to_its_partitions_without_a_rebalance(orders, member):
    one = member(group_instance_id="i1")
    two = member(group_instance_id="i2")
    settle(one, two)
    before = one.assignment()
    since = dict(two._session.held)
    one.close()
    two.poll(0)
    assert len(two.assignment()) == 2, "its place is kept"
    again = member(group_instance_id="i1")
    again.poll(0)
    two.poll(0)
    assert again.assignment() == before and dict(two._session.held) == since
    beating = {info.key.rpartition("/")[2] for info in orders.store.list_from("groups/g/members/")}
    assert beating <= {again.member_id, two.member_id}, "nothing is left of the one before"


def test_second_member_of_an_instance_id_fences_the_first(orders, member):
    first = member(group_instance_id="i")
    first.poll(0)
    second = member(group_instance_id="i")
    second.poll(0)
    with pytest.raises(errors.MemberFencedError, match="'i'"):
        first.commit({("orders", 0): 1})
    with pytest.raises(errors.MemberFencedError, match="close this one"):
        first.poll(0)
    assert len(second.assignment()) == 4


def test_auto_commit_commits_what_earlier_polls_gave(orders, member):
    one = member(enable_auto_commit=True, auto_commit_interval_ms=0, max_poll_records=10)
    one.poll(1000)
    assert orders.group("g").offsets() == {} or sum(orders.group("g").offsets().values()) == 0
    one.poll(1000)
    assert sum(orders.group("g").offsets().values()) == 10
    one.close()
    assert sum(orders.group("g").offsets().values()) == 20


def test_without_auto_commit_close_commits_nothing(orders, member):
    one = member()
    one.poll(1000)
    one.close()
    assert orders.group("g").offsets() == {}


def test_commit_with_metadata_comes_back(orders, member):
    one = member()
    one.poll(1000)
    one.commit({("orders", 0): (3, "half a batch"), ("orders", 1): 2})
    found = one.committed(("orders", 0), ("orders", 1), ("orders", 2))
    assert found == {
        ("orders", 0): (3, "half a batch"),
        ("orders", 1): (2, ""),
        ("orders", 2): None,
    }


def test_seek_to_committed_reads_again_what_was_not_committed(orders, member):
    one = member()
    first = one.poll(1000)
    one.commit({("orders", 0): 5})
    one.seek_to_committed()
    assert one.position("orders", 0) == 5
    again = one.poll(1000)
    assert set(places(again)) == {p for p in places(first) if p[1] != 0 or p[2] >= 5}


def test_async_commits_arrive_in_order_and_tell_the_caller(orders, member):
    one = member(max_poll_records=5)
    answers = []
    for _ in range(20):
        one.poll(100)
        one.commit_async(callback=lambda offsets, error: answers.append((offsets, error)))
    one.commit()
    assert len(answers) == 20 and all(error is None for _, error in answers)
    assert sum(o.offset for o in one.committed().values()) == 100


def test_async_commit_that_is_refused_tells_the_callback(orders, member):
    one = member()
    one.poll(1000)
    one._session.coordinator.expel([one.member_id])
    answers = []
    one.commit_async({("orders", 0): 1}, lambda offsets, error: answers.append(error))
    one._commits.wait()
    one.poll(0)
    assert [type(error) for error in answers] == [errors.UnknownMemberError]


def test_pattern_takes_new_topics_as_they_come(log, member):
    log.create_topic("eu-orders", partitions=2)
    log.create_topic("other")
    one = member("eu-orders", metadata_max_age_ms=0)
    one.subscribe(pattern=r"eu-.*")
    one.poll(0)
    assert one.assignment() == [("eu-orders", 0), ("eu-orders", 1)]
    log.create_topic("eu-returns")
    one.poll(0)
    assert ("eu-returns", 0) in one.assignment() and ("other", 0) not in one.assignment()


def test_added_partitions_reach_the_group(orders, member):
    one, two = member(), member()
    settle(one, two)
    orders.topic("orders").add_partitions(8)
    settle(one, two)
    settle(one, two)
    assert len(one.assignment()) == len(two.assignment()) == 4


def test_deleted_topic_is_lost_and_created_again_is_read_from_its_start(orders, member):
    told = Told()
    one = member(metadata_max_age_ms=0)
    one.subscribe(["orders"], listener=told)
    assert len(one.poll(1000)) == 100
    one.commit()
    orders.delete_topic("orders")
    assert one.poll(0) == [] and one.assignment() == []
    orders.create_topic("orders")
    send(orders, "orders", range(3))
    records = [record for _ in range(3) for record in one.poll(100)]
    assert [r.offset for r in records] == [0, 1, 2], "offsets of the old topic are not its own"
    assert [call for call, _ in told.calls] == ["assigned", "lost", "assigned"]


def test_poll_wakes_up_when_partitions_come(orders, member):
    one, two = member(), member()
    settle(one, two)
    got = threading.Event()

    def leave():
        time.sleep(0.3)
        one.close()
        got.set()

    thread = threading.Thread(target=leave)
    thread.start()
    records = two.poll(20_000)
    thread.join()
    assert records and got.is_set(), "what the other read without a commit comes again"


def test_subscription_to_several_topics_is_shared_by_what_each_wants(orders, member):
    orders.create_topic("only", partitions=2)
    both, one = member("orders", "only"), member("orders")
    settle(both, one)
    assert [p for p in both.assignment() if p[0] == "only"] == [("only", 0), ("only", 1)]
    assert len(one.assignment()) == 3


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_every_strategy_shares_all(orders, member, strategy):
    members = [member(partition_assignment_strategy=strategy) for _ in range(3)]
    settle(*members)
    assert sorted(p for m in members for p in m.assignment()) == [("orders", n) for n in range(4)]
    assert orders.group("g").describe().strategy == strategy


def test_assigned_by_hand_it_starts_at_the_committed_offset_and_may_commit_alone(orders, member):
    one = member()
    one.poll(1000)
    one.commit({("orders", 2): 4})
    with pytest.raises(errors.GroupNotEmptyError):
        alone = orders.consumer(group_id="g")
        alone.assign([("orders", 2)])
        alone.commit({("orders", 2): 5})
    one.close()
    alone.commit({("orders", 2): 5})
    assert alone.position("orders", 2) == 4 and orders.group("g").offsets()["orders", 2] == 5
    alone.close()


def test_unsubscribed_consumer_is_out_of_the_group(orders, member):
    one = member()
    one.poll(0)
    one.unsubscribe()
    assert orders.group("g").describe().members == () and one.assignment() == []
    assert one.poll(0) == []


def test_member_that_subscribes_again_lives_on(orders, member):
    timing = {"session_timeout_ms": 500, "heartbeat_interval_ms": 100}
    one, two = member(**timing), member(**timing)
    settle(one, two)
    one.unsubscribe()
    one.subscribe(["orders"])
    settle(one, two)
    assert len(one.assignment()) == 2
    time.sleep(1.2)
    assert one.member_id in {m.member_id for m in orders.group("g").describe().members}


def test_group_of_a_name_that_breaks_the_rule_is_refused(orders):
    for name in ("../x", "a/b", "_x", "x" * 250):
        with pytest.raises(errors.SparklogError):
            orders.consumer("orders", group_id=name)


def test_commit_past_the_end_is_refused(orders, member):
    one = member()
    one.poll(0)
    with pytest.raises(errors.OffsetOutOfRangeError, match="past its end"):
        one.commit({("orders", 0): 10_000})


def test_commit_of_a_partition_that_is_not_assigned_is_refused(orders, member):
    one, two = member(), member()
    settle(one, two)
    with pytest.raises(errors.StaleOwnerError, match="not assigned"):
        one.commit({two.assignment()[0]: 1})


def test_pattern_that_matches_nothing_is_refused(orders, member):
    with pytest.raises(errors.UnknownTopicError, match=re.escape("'nothing.*'")):
        member().subscribe(pattern="nothing.*")


def test_pattern_that_is_no_expression_is_refused(orders, member):
    with pytest.raises(errors.InvalidConfigError, match="regular expression"):
        member().subscribe(pattern="(")


def test_topic_that_does_not_exist_is_refused(orders, member):
    with pytest.raises(errors.UnknownTopicError, match="'nope'"):
        member("nope")


def test_no_committed_offset_and_no_reset_policy_is_an_error(orders, member):
    with pytest.raises(errors.OffsetOutOfRangeError, match="no committed offset"):
        member(auto_offset_reset="none").poll(0)


def test_consumer_without_a_group_says_that_commit_needs_one(orders):
    with orders.consumer("orders") as plain:
        for call in (plain.commit, plain.commit_async, plain.committed, plain.seek_to_committed):
            with pytest.raises(errors.UnsupportedError, match="group_id"):
                call()


def test_closed_member_refuses_work(orders, member):
    one = member()
    one.poll(0)
    one.close()
    for call in (one.poll, one.commit, one.commit_async, one.committed):
        with pytest.raises(errors.ClientClosedError):
            call()


def test_two_logs_of_one_store_see_one_group(tmp_path):
    log = sparklog.connect(tmp_path / "log")
    log.create_topic("t")
    with log.consumer("t", group_id="g") as one:
        one.poll(0)
        assert sparklog.connect(tmp_path / "log").groups() == ["g"]
