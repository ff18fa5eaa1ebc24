"""Creating, changing and deleting topics, as pure rules."""

import json

import pytest

from sparklog.errors import (
    CorruptCommitError,
    InvalidConfigError,
    TopicExistsError,
    TopicReplacedError,
    UnknownTopicError,
)
from sparklog.log.schema import delta_schema_string
from sparklog.log.topic_admin import (
    PARTITIONS_MAX,
    add_partitions_rule,
    alter_rule,
    check_partitions,
    create_rule,
    delete_rule,
)
from sparklog.log.topic_state import (
    TOPIC_DOMAIN,
    PartitionOffsets,
    deleted_action,
    is_alive,
    require_same_topic,
    require_topic,
)
from sparklog.table.actions import (
    Commit,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Txn,
)
from sparklog.table.table_state import TableState
from tests.support.fakes import FOLDER, an_add


def apply(state, actions):
    state.apply(Commit(state.version + 1, (CommitInfo(1, "T", "n"), *actions)))
    return state


@pytest.fixture
def nothing():
    """A place where nothing was ever committed."""
    return TableState(FOLDER)


@pytest.fixture
def topic(nothing):
    """A topic with two partitions and one override."""
    return apply(nothing, create_rule("t", "one", 2, {"retention.ms": "5"}, 9)(nothing))


def test_create_writes_protocol_metadata_and_offsets(nothing):
    actions = create_rule("t", "one", 2, {"retention.ms": "5"}, 9)(nothing)
    columns = ("partition", "base_offset")
    assert actions == [
        Protocol(1, 7, ("domainMetadata",)),
        Metadata("one", "t", delta_schema_string(), columns, {"retention.ms": "5"}, 9),
        deleted_action(False),
        PartitionOffsets((0, 0), (0, 0)).to_action(),
    ]
    assert is_alive(apply(nothing, actions))


def test_schema_of_a_topic_is_deltas(topic):
    fields = {f["name"]: f["type"] for f in json.loads(topic.metadata.schema_string)["fields"]}
    header = fields.pop("headers")
    assert fields == {
        "partition": "integer",
        "base_offset": "long",
        "offset_delta": "integer",
        "timestamp": "timestamp",
        "key": "binary",
        "value": "binary",
    }
    assert header["type"] == "array"
    assert [f["name"] for f in header["elementType"]["fields"]] == ["key", "value"]


def test_create_of_a_topic_that_stands_is_refused(topic):
    with pytest.raises(TopicExistsError, match="'t'"):
        create_rule("t", "two", 1, {}, 9)(topic)


def test_delete_removes_every_file_and_marks_the_topic(topic):
    apply(topic, [an_add("p0/a"), an_add("p1/b", partition=1)])
    apply(topic, [PartitionOffsets((0, 0), (1, 1)).to_action()])
    actions = delete_rule("t", 33)(topic)
    removes = [a for a in actions if isinstance(a, Remove)]
    assert sorted(removes, key=lambda r: r.path) == [
        Remove("p0/a", 33, True),
        Remove("p1/b", 33, True),
    ]
    apply(topic, actions)
    assert not is_alive(topic) and topic.files.paths() == []


@pytest.mark.parametrize(
    "rule",
    [delete_rule("t", 1), alter_rule("t", {"retention.ms": 1}), add_partitions_rule("t", 3)],
    ids=["delete", "alter", "add partitions"],
)
def test_change_of_a_topic_that_does_not_stand_is_refused(nothing, topic, rule):
    with pytest.raises(UnknownTopicError, match="'t'"):
        rule(TableState(FOLDER))
    apply(topic, delete_rule("t", 1)(topic))
    with pytest.raises(UnknownTopicError, match="'t'"):
        rule(topic)


def test_create_after_delete_is_the_next_version_with_a_new_id_and_from_zero(topic):
    apply(topic, [Txn("producer/p", 5, 0), PartitionOffsets((3, 0), (9, 9)).to_action()])
    apply(topic, delete_rule("t", 1)(topic))
    version = topic.version
    apply(topic, create_rule("t", "two", 3, {}, 10)(topic))
    assert topic.version == version + 1
    assert is_alive(topic) and topic.metadata.id == "two"
    assert PartitionOffsets.of(topic) == PartitionOffsets((0, 0, 0), (0, 0, 0))
    assert topic.txns == {} and topic.config.overrides == {}


def test_same_topic_is_told_from_a_deleted_and_from_a_new_one(topic):
    require_same_topic(topic, "t", "one")
    apply(topic, delete_rule("t", 1)(topic))
    with pytest.raises(TopicReplacedError, match="one.*was deleted"):
        require_same_topic(topic, "t", "one")
    with pytest.raises(UnknownTopicError):
        require_topic(topic, "t")
    apply(topic, create_rule("t", "two", 3, {}, 10)(topic))
    with pytest.raises(TopicReplacedError, match="created again.*one"):
        require_same_topic(topic, "t", "one")
    require_same_topic(topic, "t", "two")


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_topic_with_a_malformed_domain_is_corrupt(topic, text):
    apply(topic, [DomainMetadata(TOPIC_DOMAIN, text)])
    with pytest.raises(CorruptCommitError, match=TOPIC_DOMAIN):
        is_alive(topic)


def test_alter_sets_and_takes_away_and_keeps_the_rest(topic):
    apply(topic, alter_rule("t", {"segment.bytes": 1000})(topic))
    assert topic.metadata.configuration == {"retention.ms": "5", "segment.bytes": "1000"}
    (changed,) = alter_rule("t", {"retention.ms": None, "segment.bytes": "2000"})(topic)
    assert changed.configuration == {"segment.bytes": "2000"}
    assert (changed.id, changed.created_time, changed.name) == ("one", 9, "t")


@pytest.mark.parametrize("changes", [{}, {"retention.ms": 5}, {"segment.bytes": None}])
def test_alter_that_changes_nothing_appends_nothing(topic, changes):
    assert alter_rule("t", changes)(topic) is None


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"retention.msx": 1}, "retention.ms"),
        ({"retention.ms": "soon"}, "retention.ms"),
        ({"retention.ms": -2}, "retention.ms"),
        ({"remote.storage.enable": True}, "remote.storage.uri"),
    ],
)
def test_alter_to_something_that_is_not_allowed_is_refused(topic, changes, word):
    with pytest.raises(InvalidConfigError, match=word):
        alter_rule("t", changes)(topic)


def test_alter_leaves_keys_of_a_newer_sparklog_alone(nothing):
    topic = apply(nothing, create_rule("t", "one", 1, {"from.the.future": "x"}, 9)(nothing))
    (changed,) = alter_rule("t", {"retention.ms": 7})(topic)
    assert changed.configuration == {"from.the.future": "x", "retention.ms": "7"}


def test_alter_keeps_writers_because_the_id_stays(topic):
    apply(topic, [Txn("producer/p", 5, 0)])
    apply(topic, alter_rule("t", {"segment.bytes": 1000})(topic))
    assert set(topic.txns) == {"producer/p"}


def test_partitions_added_begin_at_zero_and_the_old_ones_stay(topic):
    apply(topic, [PartitionOffsets((3, 0), (9, 4)).to_action()])
    apply(topic, add_partitions_rule("t", 4)(topic))
    assert PartitionOffsets.of(topic) == PartitionOffsets((3, 0, 0, 0), (9, 4, 0, 0))


def test_partitions_as_many_as_there_are_append_nothing(topic):
    assert add_partitions_rule("t", 2)(topic) is None


def test_partitions_never_become_fewer(topic):
    with pytest.raises(InvalidConfigError, match="cannot shrink to 1"):
        add_partitions_rule("t", 1)(topic)


@pytest.mark.parametrize("number", [0, -1, PARTITIONS_MAX + 1, True, 1.0, "3", None])
def test_impossible_number_of_partitions_is_refused(number):
    with pytest.raises(InvalidConfigError, match="partitions"):
        check_partitions(number)
    with pytest.raises(InvalidConfigError, match="partitions"):
        add_partitions_rule("t", number)


@pytest.mark.parametrize("number", [1, PARTITIONS_MAX])
def test_possible_number_of_partitions_is_taken(number):
    assert check_partitions(number) == number
