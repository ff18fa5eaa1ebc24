"""Every action's exact JSON, and commits that cannot be understood."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import CorruptCommitError
from sparklog.table.actions import (
    Add,
    Commit,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Txn,
    checkpoint_name,
    commit_name,
    decode_commit,
    encode_commit,
    version_of,
)

WHERE = "topics/t/_delta_log/00000000000000000007.json"

EXACT = [
    (
        Protocol(),
        {
            "protocol": {
                "minReaderVersion": 1,
                "minWriterVersion": 7,
                "writerFeatures": ["domainMetadata"],
            }
        },
    ),
    (
        Metadata("the-id", "orders", '{"type":"struct"}', ("partition", "b"), {"k": "v"}, 12),
        {
            "metaData": {
                "id": "the-id",
                "name": "orders",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": '{"type":"struct"}',
                "partitionColumns": ["partition", "b"],
                "configuration": {"k": "v"},
                "createdTime": 12,
            }
        },
    ),
    (
        Add("p0/x.parquet", {"partition": "0", "base_offset": "9"}, 100, 5, True, '{"n":1}'),
        {
            "add": {
                "path": "p0/x.parquet",
                "partitionValues": {"partition": "0", "base_offset": "9"},
                "size": 100,
                "modificationTime": 5,
                "dataChange": True,
                "stats": '{"n":1}',
            }
        },
    ),
    (
        Add("p", {}, 1, 5, False, "{}", {"sparklog.footer": "9"}),
        {
            "add": {
                "path": "p",
                "partitionValues": {},
                "size": 1,
                "modificationTime": 5,
                "dataChange": False,
                "stats": "{}",
                "tags": {"sparklog.footer": "9"},
            }
        },
    ),
    (
        Remove("p0/x.parquet", 6, False),
        {"remove": {"path": "p0/x.parquet", "deletionTimestamp": 6, "dataChange": False}},
    ),
    (
        Txn("producer/a", 1 << 41, 8),
        {"txn": {"appId": "producer/a", "version": 2199023255552, "lastUpdated": 8}},
    ),
    (
        DomainMetadata("sparklog.offsets", "{}"),
        {"domainMetadata": {"domain": "sparklog.offsets", "configuration": "{}", "removed": False}},
    ),
    (
        CommitInfo(3, "WRITE", "nonce", True, {"sparklog.acks": "1"}),
        {
            "commitInfo": {
                "timestamp": 3,
                "operation": "WRITE",
                "operationParameters": {},
                "isBlindAppend": True,
                "engineInfo": "sparklog",
                "txnId": "nonce",
                "tags": {"sparklog.acks": "1"},
            }
        },
    ),
    (
        CommitInfo(3, "WRITE", "nonce"),
        {
            "commitInfo": {
                "timestamp": 3,
                "operation": "WRITE",
                "operationParameters": {},
                "isBlindAppend": False,
                "engineInfo": "sparklog",
                "txnId": "nonce",
            }
        },
    ),
]

_text = st.text(max_size=20)
_long = st.integers(0, 2**63 - 1)
_map = st.dictionaries(_text, _text, max_size=3)
ACTIONS = st.one_of(
    st.builds(Protocol, st.integers(1, 3), st.integers(1, 7), st.lists(_text).map(tuple)),
    st.builds(Metadata, _text, _text, _text, st.lists(_text).map(tuple), _map, _long),
    st.builds(Add, _text, _map, _long, _long, st.booleans(), _text.filter(bool), _map),
    st.builds(Remove, _text, _long, st.booleans()),
    st.builds(Txn, _text, _long, _long),
    st.builds(DomainMetadata, _text, _text, st.booleans()),
    st.builds(CommitInfo, _long, _text, _text, st.booleans(), _map),
)


@pytest.mark.parametrize(("action", "expected"), EXACT, ids=[type(a).__name__ for a, _ in EXACT])
def test_action_written_has_deltas_exact_json_and_reads_back(action, expected):
    data = encode_commit([action])
    assert json.loads(data) == expected
    assert decode_commit(data, 7, WHERE) == Commit(7, (action,))


def test_commit_written_is_one_compact_line_an_action_with_a_last_newline():
    data = encode_commit([Txn("a", 1, 2), Remove("p", 3, True)])
    assert data == (
        b'{"txn":{"appId":"a","version":1,"lastUpdated":2}}\n'
        b'{"remove":{"path":"p","deletionTimestamp":3,"dataChange":true}}\n'
    )


@given(st.lists(ACTIONS, min_size=1, max_size=5))
def test_any_commit_reads_back_as_it_was_written(actions):
    assert decode_commit(encode_commit(actions), 3, WHERE).actions == tuple(actions)


@given(st.lists(ACTIONS, min_size=1, max_size=4), st.data())
def test_any_commit_cut_off_anywhere_is_corrupt(actions, data):
    whole = encode_commit(actions)
    cut = data.draw(st.integers(0, len(whole) - 1))
    if whole[:cut].endswith(b"\n"):
        cut -= 1  # cut between two lines: what is left is a whole commit of fewer actions
    with pytest.raises(CorruptCommitError, match="00000000000000000007.json"):
        decode_commit(whole[:cut], 7, WHERE)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b'{"txn":{"appId":"a","version":1}}',
        b'{"txn":{"appId":"a","version":1}}\n\n',
        b'{"txn":{"appId":"a",\n',
        b"not json\n",
        b"\xff\xfe\n",
        b"null\n",
        b"[]\n",
        b"{}\n",
        b'"add"\n',
        b'{"add":null}\n',
        b'{"add":"p"}\n',
        b'{"add":{"path":"p"}}\n',
        b'{"remove":{}}\n',
        b'{"txn":{"appId":"a"}}\n',
        b'{"domainMetadata":{"domain":"d","configuration":"c"}}\n',
        b'{"metaData":{"id":"i","schemaString":"{}","partitionColumns":[],"configuration":null}}\n',
        b'{"protocol":{"minReaderVersion":1}}\n',
        b'{"commitInfo":null}\n',
        b'{"commitInfo":{},"txn":{"appId":"a","version":1}}\n',
        b'{"cdc":{"path":"p"}}\n',
        b'{"sidecar":{"path":"p"}}\n',
        b'{"Add":{"path":"p"}}\n',
    ],
)
def test_commit_that_is_torn_empty_malformed_or_unknown_names_file_and_version(data):
    with pytest.raises(CorruptCommitError, match="version 7") as caught:
        decode_commit(data, 7, WHERE)
    assert WHERE in str(caught.value)


def test_malformed_line_is_named_by_its_number():
    good = encode_commit([Txn("a", 1, 2)])
    with pytest.raises(CorruptCommitError, match="line 3"):
        decode_commit(good + good + b"{}\n" + good, 7, WHERE)


@pytest.mark.parametrize(
    "line",
    [
        '{"txn":{"appId":"a","version":"1"}}',
        '{"add":{"path":["p"],"partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}',
        '{"add":{"path":"p","partitionValues":{},"size":"1","modificationTime":1,"dataChange":true}}',
        '{"domainMetadata":{"domain":"d","configuration":5,"removed":false}}',
        '{"commitInfo":{"txnId":"n","tags":5}}',
        '{"protocol":{"minReaderVersion":"1","minWriterVersion":7}}',
        '{"metaData":{"id":"i","schemaString":"","partitionColumns":[],"configuration":{"a":1}}}',
        '{"metaData":{"id":"i","schemaString":"","partitionColumns":"ab","configuration":{}}}',
        '{"txn":{"appId":"a","version":true}}',
        '{"txn":{"appId":"a","version":9223372036854775808}}',
        '{"txn":{"appId":"a","version":1,"lastUpdated":1.5}}',
        '{"txn":{"appId":"\\ud800","version":1}}',
        '{"txn":{"appId":"\\uDC00","version":1}}',
        '{"remove":{"path":"p","dataChange":"yes"}}',
        '{"commitInfo":{"txnId":7}}',
        '{"add":{"path":"p","partitionValues":{"partition":0},"size":1,"modificationTime":1,'
        '"dataChange":true}}',
    ],
)
def test_action_with_a_field_of_the_wrong_type_is_corrupt(line):
    with pytest.raises(CorruptCommitError, match="version 7"):
        decode_commit(line.encode() + b"\n", 7, WHERE)


def test_commit_of_hostile_depth_is_corrupt():
    with pytest.raises(CorruptCommitError, match="version 7"):
        decode_commit(b"[" * 100_000 + b"\n", 7, WHERE)


def test_unknown_fields_of_a_known_action_are_dropped():
    line = b'{"remove":{"path":"p","dataChange":true,"tags":{"x":"y"},"size":3}}\n'
    assert decode_commit(line, 0, WHERE).actions == (Remove("p", 0, True),)


def test_optional_fields_left_out_by_other_writers_have_defaults():
    lines = (
        b'{"add":{"path":"p","partitionValues":{},"size":1,"modificationTime":2,"dataChange":true}}\n'
        b'{"txn":{"appId":"a","version":1}}\n'
        b'{"metaData":{"id":"i","schemaString":"{}","partitionColumns":[],"configuration":{}}}\n'
        b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n'
        b'{"commitInfo":{}}\n'
    )
    assert decode_commit(lines, 0, WHERE).actions == (
        Add("p", {}, 1, 2, True, "{}"),
        Txn("a", 1, 0),
        Metadata("i", "", "{}", (), {}, 0),
        Protocol(1, 2, ()),
        CommitInfo(0, "", ""),
    )


def test_nonce_is_that_of_the_commit_info_wherever_it_stands():
    info = CommitInfo(1, "WRITE", "mine")
    assert Commit(0, (info, Txn("a", 1, 1))).nonce == "mine"
    assert Commit(0, (Txn("a", 1, 1), info)).nonce == "mine"
    assert Commit(0, (Txn("a", 1, 1),)).nonce == ""


@given(st.integers(0, 10**20 - 1))
def test_file_names_carry_their_version(version):
    assert version_of(commit_name(version)) == version_of(checkpoint_name(version)) == version
    assert len(commit_name(version)) == 25


@given(st.integers(0, 10**20 - 2))
def test_commit_names_sort_like_versions_and_after_their_own_checkpoint(version):
    assert checkpoint_name(version) < commit_name(version) < checkpoint_name(version + 1)


@pytest.mark.parametrize(
    "name",
    [
        "_last_checkpoint",
        "00000000000000000007.crc",
        "7.json",
        "000000000000000000007.json",
        "0000000000000000000x.json",
        "00000000000000000007.json.tmp",
        "00000000000000000007.checkpoint.0000000001.0000000002.parquet",
        "",
    ],
)
def test_any_other_file_has_no_version(name):
    assert version_of(name) is None
