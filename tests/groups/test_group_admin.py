"""What an admin sees of groups, and does to them."""

from __future__ import annotations

import time

import pytest

from sparklog import errors


@pytest.fixture
def orders(log):
    """Two partitions with ten records each, and group g that has committed 4 and 7 of them."""
    log.create_topic("orders", partitions=2)
    with log.producer() as producer:
        for number in range(10):
            for partition in range(2):
                producer.send(
                    "orders", b"%d" % number, partition=partition, timestamp_ms=now() + number
                )
    with log.consumer(**MEMBER) as member:
        member.subscribe(["orders"])
        member.poll(0)
        member.commit({("orders", 0): 4, ("orders", 1): (7, "seven")})
    return log


MEMBER = {"group_id": "g", "auto_offset_reset": "earliest", "enable_auto_commit": False}
BASE = 1_900_000_000_000


def now():
    return BASE


@pytest.fixture(autouse=True)
def wide_times(monkeypatch):
    """Topics take any time: the tests choose theirs."""
    monkeypatch.setattr("sparklog.clients.producer._check_time", lambda *_: None)


def changed(changes):
    return [(c.topic, c.partition, c.before, c.after) for c in changes]


def test_groups_lists_those_that_stand(orders):
    orders.group("h").reset_offsets("orders", to="latest")
    assert orders.groups() == ["g", "h"]
    orders.group("g").delete()
    assert orders.groups() == ["h"]


def test_describe_of_an_empty_group_shows_offsets_and_lag(orders):
    found = orders.group("g").describe()
    assert (found.state, found.members, found.lag) == ("Empty", (), 6 + 3)
    assert [(p.partition, p.offset, p.log_end, p.lag, p.metadata) for p in found.partitions] == [
        (0, 4, 10, 6, ""),
        (1, 7, 10, 3, "seven"),
    ]
    assert orders.group("g").lag() == {("orders", 0): 6, ("orders", 1): 3}


def test_describe_shows_members_and_what_moves(orders):
    one = orders.consumer("orders", client_id="app 1", **MEMBER)
    one.poll(0)
    found = orders.group("g").describe()
    assert found.state == "Stable" and found.members[0].client_id == "app 1"
    assert found.members[0].assignment == (("orders", 0), ("orders", 1))
    assert {p.member_id for p in found.partitions} == {one.member_id}
    two = orders.consumer("orders", **MEMBER)
    two.poll(0)
    moving = orders.group("g").describe()
    assert moving.state == "Rebalancing"
    assert sorted(len(m.target) for m in moving.members) == [1, 1]
    assert sorted(len(m.assignment) for m in moving.members) == [0, 2]
    one.close()
    two.close()


def test_lag_follows_producers_and_commits(orders):
    with orders.producer() as producer:
        producer.send("orders", b"x", partition=0).result()
    assert orders.group("g").lag()["orders", 0] == 7


def test_unknown_group_is_a_typed_error(orders):
    group = orders.group("nope")
    for call in (group.describe, group.lag, group.history, group.delete, group.offsets):
        with pytest.raises(errors.UnknownGroupError, match="'nope'"):
            call()
    with pytest.raises(errors.UnknownGroupError):
        group.copy_offsets_to("h")
    with pytest.raises(errors.UnknownGroupError):
        group.reset_offsets(to="earliest")
    assert orders.groups() == ["g"]


@pytest.mark.parametrize(
    ("target", "after"),
    [
        ({"to": "earliest"}, [0, 0]),
        ({"to": "latest"}, [10, 10]),
        ({"to": 2}, [2, 2]),
        ({"to_timestamp_ms": BASE + 5}, [5, 5]),
        ({"to_timestamp_ms": BASE + 100}, [10, 10]),
        ({"shift_by": 2}, [6, 9]),
        ({"shift_by": -5}, [0, 2]),
        ({"shift_by": 5}, [9, 10]),
        ({"by_duration_ms": 0}, [0, 0]),
    ],
)
def test_reset_moves_offsets_to_where_it_says(orders, target, after):
    plan = orders.group("g").reset_offsets(**target, dry_run=True)
    assert [(c.before, c.after) for c in plan] == list(zip([4, 7], after, strict=True))
    assert orders.group("g").offsets() == {("orders", 0): 4, ("orders", 1): 7}, "a dry run"
    assert orders.group("g").reset_offsets(**target) == plan
    assert list(orders.group("g").offsets().values()) == after


def test_reset_of_one_partition_leaves_the_others(orders):
    changes = orders.group("g").reset_offsets("orders", [1], to="earliest")
    assert changed(changes) == [("orders", 1, 7, 0)]
    assert orders.group("g").offsets() == {("orders", 0): 4, ("orders", 1): 0}


def test_reset_begins_a_group_that_does_not_exist(orders):
    changes = orders.group("new").reset_offsets("orders", to=3)
    assert changed(changes) == [("orders", 0, None, 3), ("orders", 1, None, 3)]
    with orders.consumer("orders", **MEMBER | {"group_id": "new"}) as member:
        member.poll(0)
        assert member.position("orders", 0) >= 3


def test_reset_of_a_group_with_members_is_refused_also_as_a_dry_run(orders):
    with orders.consumer("orders", **MEMBER) as member:
        member.poll(0)
        for dry_run in (True, False):
            with pytest.raises(errors.GroupNotEmptyError, match="1 members"):
                orders.group("g").reset_offsets(to="earliest", dry_run=dry_run)
        with pytest.raises(errors.GroupNotEmptyError):
            orders.group("g").delete()
        with pytest.raises(errors.GroupNotEmptyError):
            orders.group("h").reset_offsets("orders", to=1)
            orders.group("h").copy_offsets_to("g")


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({}, errors.InvalidInputError, "exactly one"),
        ({"to": 1, "shift_by": 1}, errors.InvalidInputError, "exactly one"),
        ({"to": "middle"}, errors.InvalidInputError, "middle"),
        ({"to": True}, errors.InvalidInputError, "whole number"),
        ({"to": -1}, errors.InvalidInputError, "from 0"),
        ({"to": 11}, errors.OffsetOutOfRangeError, "it holds 0 to 10"),
        ({"partitions": [0], "to": 1}, errors.InvalidInputError, "need a topic"),
        ({"topic": "orders", "partitions": [2], "to": 1}, errors.UnknownPartitionError, "2"),
        ({"topic": "nope", "to": 1}, errors.UnknownTopicError, "nope"),
    ],
)
def test_reset_that_cannot_be_is_refused(orders, arguments, error, text):
    with pytest.raises(error, match=text):
        orders.group("g").reset_offsets(**arguments)
    assert orders.group("g").offsets() == {("orders", 0): 4, ("orders", 1): 7}


def test_shift_of_what_was_never_committed_is_refused(orders):
    with pytest.raises(errors.InvalidInputError, match="no committed offset"):
        orders.group("new").reset_offsets("orders", shift_by=1)


def test_copy_gives_another_group_the_same_offsets(orders):
    plan = orders.group("g").copy_offsets_to("h", dry_run=True)
    assert orders.groups() == ["g"]
    assert orders.group("g").copy_offsets_to("h") == plan
    assert changed(plan) == [("orders", 0, None, 4), ("orders", 1, None, 7)]
    assert orders.group("h").offsets() == orders.group("g").offsets()
    assert orders.group("h").describe().partitions[1].metadata == "seven"
    assert orders.group("g").copy_offsets_to("i", topics=["other"]) == []


def test_copy_to_itself_is_refused(orders):
    with pytest.raises(errors.InvalidInputError, match="itself"):
        orders.group("g").copy_offsets_to("g")


def test_deleted_group_begins_anew_without_offsets(orders):
    orders.group("g").delete()
    with pytest.raises(errors.UnknownGroupError):
        orders.group("g").describe()
    with orders.consumer("orders", **MEMBER) as member:
        assert len(member.poll(1000)) == 20


def test_member_of_a_deleted_and_begun_again_group_cannot_commit_into_the_new_one(orders):
    zombie = orders.consumer("orders", **MEMBER)
    zombie.poll(0)
    stale = zombie.group_offsets()
    zombie._session.coordinator.expel([zombie.member_id])
    orders.group("g").delete()
    with orders.consumer("orders", **MEMBER) as heir:
        heir.poll(0)
        with pytest.raises(errors.UnknownMemberError):
            zombie.commit({("orders", 0): 9})
        assert stale.group_id != heir.group_offsets().group_id
        assert orders.group("g").offsets() == {}
        zombie.poll(0)
        heir.poll(0)
        zombie.poll(0)
        assert len(zombie.assignment()) == len(heir.assignment()) == 1
    zombie.close()


def test_history_has_every_commit_with_its_lag(orders):
    with orders.consumer("orders", **MEMBER) as member:
        member.poll(0)
        for offset in (5, 6, 8):
            member.commit({("orders", 0): offset})
        who = member.member_id
    table = orders.group("g").history()
    rows = [r for r in table.to_pylist() if r["partition"] == 0]
    assert [(r["offset"], r["log_end"], r["lag"]) for r in rows] == [
        (4, 10, 6),
        (5, 10, 5),
        (6, 10, 4),
        (8, 10, 2),
    ]
    assert rows[-1]["member"] == who and rows[-1]["topic"] == "orders"
    assert str(table.schema.field("time").type) == "timestamp[ms, tz=UTC]"
    times = table["time"].to_pylist()
    assert times == sorted(times)


def test_groups_log_is_checkpointed_and_opens_from_the_checkpoint(orders):
    with orders.consumer("orders", **MEMBER) as member:
        member.poll(0)
        for number in range(120):
            member.commit({("orders", 0): number % 10})
    listing = list(orders.store.list_from("groups/g/_delta_log/"))
    assert any(info.key.endswith(".checkpoint.parquet") for info in listing)
    assert orders.group("g").offsets() == {("orders", 0): 9, ("orders", 1): 7}


def test_log_of_a_group_that_does_nothing_does_not_grow(orders):
    with orders.consumer("orders", heartbeat_interval_ms=10, **MEMBER) as member:
        member.poll(0)
        before = len(list(orders.store.list_from("groups/g/_delta_log/")))
        for _ in range(5):
            member.poll(50)
            member.commit()  # nothing moved after the first, so there is nothing to write
        assert len(list(orders.store.list_from("groups/g/_delta_log/"))) <= before + 1


def test_retention_of_offsets_is_set_and_counts_from_when_the_group_was_empty(orders):
    group = orders.group("g")
    group.alter_config({"offsets.retention.ms": 1})
    time.sleep(0.01)
    assert group.offsets(), "they go when somebody joins"
    with orders.consumer("orders", **MEMBER) as member:
        assert len(member.poll(1000)) == 20
        assert group.offsets() == {}
        member.commit()
        time.sleep(0.01)
        with orders.consumer("orders", **MEMBER) as second:
            second.poll(0)
            assert len(group.offsets()) == 2, "the group was not empty"


@pytest.mark.parametrize("config", [{"offsets.retention.ms": 0}, {"retention": 1}])
def test_group_configuration_that_is_wrong_is_refused(orders, config):
    with pytest.raises(errors.InvalidConfigError):
        orders.group("g").alter_config(config)
    with pytest.raises(errors.UnknownGroupError):
        orders.group("nope").alter_config({"offsets.retention.ms": 5})
