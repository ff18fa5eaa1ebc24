"""Proves the invariants on a finished run: what the callers saw against what really stands.

    I1   an offset holds one record, for ever        I5   what was ok is there
    I2   offsets are dense                           I6   what failed is not
    I3   a (producer, epoch, sequence) stands once   I9   consumers neither skip nor go back
    I4   send order is offset order                  I16  the table log is whole

What really stands is read by `replay`, from raw bytes, not by sparklog; consumers that drained
the topic at the end must have got exactly the same, which shows that sparklog's reader agrees.
Each problem names its invariant, topic, partition and offset. Nothing here raises: all problems
are collected, so that a bad run shows its whole pattern.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator

from tests.simulation.history import History, Read, Send, Status
from tests.simulation.replay import Change, Problem, Replay, StoredRecord, replay_topic, topics_of

OFFSETS_DOMAIN = "sparklog.offsets"
SEQUENCE_BITS = 40

__all__ = ["Problem", "check", "check_topic"]


def check(history: History, journal: list[Change]) -> list[Problem]:
    """All problems of a run; empty if every invariant holds."""
    problems: list[Problem] = []
    topics = {*topics_of(journal), *(s.topic for s in history.sends), *_read_topics(history)}
    for topic in sorted(topics):
        problems += check_topic(history, replay_topic(journal, topic))
    return problems


def check_topic(history: History, replay: Replay) -> list[Problem]:
    """All problems of one topic."""
    problems = list(replay.problems)
    for rule in (
        check_one_record_per_offset,
        check_offsets_dense,
        check_sequences,
        check_send_order,
        check_ok_stands,
        check_failed_is_absent,
        check_failed_create_is_absent,
        check_nonces,
        check_reads_are_true,
        check_consumers,
        check_ends,
    ):
        problems += rule(history, replay)
    return problems


def check_one_record_per_offset(_: History, replay: Replay) -> Iterator[Problem]:
    """I1 on what stands: no two records at one offset."""
    seen: dict[tuple[str, int, int], StoredRecord] = {}
    for record in replay.records:
        place = (record.topic_id, record.partition, record.offset)
        if place in seen:
            yield _problem(
                "I1", record, f"holds both {seen[place].value!r} and {record.value!r}", replay
            )
        seen[place] = record


def check_offsets_dense(_: History, replay: Replay) -> Iterator[Problem]:
    """I2: each record follows the one before it, and the log's own next offset agrees."""
    ends: dict[tuple[str, int], int] = defaultdict(int)
    for record in replay.records:
        expected = ends[record.topic_id, record.partition]
        if record.offset != expected:
            yield _problem("I2", record, f"follows offset {expected - 1}", replay)
        ends[record.topic_id, record.partition] = max(expected, record.offset + 1)
    offsets = _next_offsets(replay)
    for partition, stated in offsets.items():
        counted = ends[replay.final.topic_id, partition]
        if stated != counted:
            what = f"the log says that the next offset is {stated}, counted {counted}"
            yield Problem("I2", replay.topic, partition, stated, what)


def _next_offsets(replay: Replay) -> dict[int, int]:
    """The next offsets that the newest state names; none of a deleted topic."""
    domain = replay.final.domains.get(OFFSETS_DOMAIN)
    if domain is None or _deleted(replay):
        return {}
    return dict(enumerate(_json(domain)["next"]))


def check_sequences(history: History, replay: Replay) -> Iterator[Problem]:
    """I3: a producer's progress counts its records exactly, and no value stands twice."""
    first: dict[bytes, StoredRecord] = {}
    for record in replay.records:
        if record.value in first:
            earlier = first[record.value]
            what = f"{record.value!r} stands already at {earlier.partition}@{earlier.offset}"
            yield _problem("I3", record, what, replay)
        first.setdefault(record.value, record)
    yield from _check_progress(replay)
    yield from _check_named_indexes(history, replay)


def _check_progress(replay: Replay) -> Iterator[Problem]:
    """Each commit moves its producer's sequence by as many records as it adds."""
    standing: dict[str, tuple[int, int]] = {}
    topic_id = ""
    added = defaultdict(int)
    for record in replay.records:
        added[record.version] += 1
    for version, actions in sorted(replay.commits.items()):
        for action in actions:
            if "metaData" in action and action["metaData"]["id"] != topic_id:
                topic_id = action["metaData"]["id"]
                standing.clear()
        for txn in (action["txn"] for action in actions if "txn" in action):
            if not txn["appId"].startswith("producer/"):
                continue
            epoch, sequence = txn["version"] >> SEQUENCE_BITS, txn["version"] % (1 << SEQUENCE_BITS)
            before_epoch, before = standing.get(txn["appId"], (-1, 0))
            if epoch < before_epoch or sequence != before + added[version]:
                what = (
                    f"version {version}: {txn['appId']} went from epoch {before_epoch} sequence "
                    f"{before} to epoch {epoch} sequence {sequence} with {added[version]} records"
                )
                yield Problem("I3", replay.topic, None, None, what)
            standing[txn["appId"]] = (epoch, sequence)


def _check_named_indexes(history: History, replay: Replay) -> Iterator[Problem]:
    """A named producer that resumes where it was has every index once, whoever sent it."""
    sends = {send.value: send for send in history.sends if send.named}
    standing: dict[tuple[str, str], list[StoredRecord]] = defaultdict(list)
    for record in replay.records:
        if record.value in sends:
            standing[sends[record.value].producer, record.topic_id].append(record)
    for (producer, _), records in standing.items():
        records.sort(key=lambda record: sends[record.value].index)
        for expected, record in enumerate(records):
            index = sends[record.value].index
            if index != expected:
                what = f"{producer} has its record {index} here where {expected} was due"
                yield _problem("I3", record, what, replay)
                break


def check_send_order(history: History, replay: Replay) -> Iterator[Problem]:
    """I4: in one partition the records of one producer stand in the order of their sends."""
    sends = {send.value: send for send in history.sends}
    last: dict[tuple[str, str, int], tuple[int, int]] = {}
    records = sorted(replay.records, key=lambda r: (r.topic_id, r.partition, r.offset))
    for record in records:
        send = sends.get(record.value)
        if send is None:
            continue
        who = (send.producer, record.topic_id, record.partition)
        index, offset = last.get(who, (-1, -1))
        if send.index <= index:
            what = f"record {send.index} of {send.producer} stands after its record {index}"
            yield _problem("I4", record, f"{what}@{offset}", replay)
        last[who] = (send.index, record.offset)


def check_ok_stands(history: History, replay: Replay) -> Iterator[Problem]:
    """I5, and I1 for the caller: what was acknowledged stands, and where it was said to stand."""
    standing = _by_value(replay)
    for send in _sends(history, replay, Status.OK):
        found = standing.get(send.value)
        if not found:
            what = f"{send.value!r} of {send.session} was ok, but stands nowhere"
            yield Problem("I5", replay.topic, send.partition, send.offset, what)
        elif send.offset >= 0 and (send.partition, send.offset) not in [
            (record.partition, record.offset) for record in found
        ]:
            what = f"{send.value!r} was ok there, but stands at {_places(found)}"
            yield Problem("I1", replay.topic, send.partition, send.offset, what)


def check_failed_is_absent(history: History, replay: Replay) -> Iterator[Problem]:
    """I6: what was reported as failed stands nowhere and was read by nobody."""
    standing = _by_value(replay)
    read = {read.value: read for read in history.reads if read.topic == replay.topic}
    for send in _sends(history, replay, Status.FAIL):
        found = standing.get(send.value)
        if found:
            what = f"{send.value!r} of {send.session} failed ({send.error}), but stands"
            yield _problem("I6", found[0], what, replay)
        elif send.value in read:
            seen = read[send.value]
            what = f"{send.value!r} of {send.session} failed, but {seen.session} read it"
            yield Problem("I6", replay.topic, seen.partition, seen.offset, what)


def check_failed_create_is_absent(history: History, replay: Replay) -> Iterator[Problem]:
    """I6 for topics: nobody is told that a topic stands already which his own call created."""
    if replay.topic in history.refused_own:
        what = "its only creator was refused after it had been deleted, because it stands"
        yield Problem("I6", replay.topic, None, None, what)


def check_nonces(_: History, replay: Replay) -> Iterator[Problem]:
    """I3 for all appends: one that stands is not made again, as if it had been lost."""
    first: dict[str, int] = {}
    for version, actions in sorted(replay.commits.items()):
        for nonce in (a["commitInfo"]["txnId"] for a in actions if "commitInfo" in a):
            if nonce in first:
                what = f"versions {first[nonce]} and {version} are the same append ({nonce})"
                yield Problem("I3", replay.topic, None, None, what)
            first.setdefault(nonce, version)


def check_reads_are_true(history: History, replay: Replay) -> Iterator[Problem]:
    """I1 for readers: everything that anybody read stands there, in one and the same topic id."""
    standing = _by_value(replay)
    ids: dict[str, str] = {}
    for read in history.reads:
        if read.topic != replay.topic:
            continue
        found = [
            record
            for record in standing.get(read.value, [])
            if (record.partition, record.offset) == (read.partition, read.offset)
        ]
        if not found:
            what = f"{read.session} read {read.value!r}, which does not stand there"
            yield _read_problem("I1", read, what)
            continue
        topic_id = ids.setdefault(read.session, found[0].topic_id)
        if topic_id != found[0].topic_id:
            what = f"{read.session} read records of topic ids {topic_id} and {found[0].topic_id}"
            yield _read_problem("I1", read, what)


def check_consumers(history: History, replay: Replay) -> Iterator[Problem]:
    """I9: from the start on, offset by offset; who drained the topic has all of it."""
    position: dict[tuple[str, int], int] = defaultdict(int)
    for read in history.reads:
        if read.topic != replay.topic:
            continue
        expected = position[read.session, read.partition]
        if read.offset != expected:
            verb = "skipped to" if read.offset > expected else "went back to"
            what = f"{read.session} {verb} {read.offset}, its position was {expected}"
            yield _read_problem("I9", read, what)
        position[read.session, read.partition] = read.offset + 1
    ends = _next_offsets(replay)
    for consumer in history.consumers:
        if consumer.topic != replay.topic or not consumer.drained:
            continue
        for partition, end in ends.items():
            if position[consumer.name, partition] != end:
                what = (
                    f"{consumer.name} drained the topic, but stopped at "
                    f"{position[consumer.name, partition]}, the end is {end}"
                )
                yield Problem("I9", replay.topic, partition, end, what)


def check_ends(history: History, replay: Replay) -> Iterator[Problem]:
    """I5 as it happens: who asks after an acknowledgement sees an end behind that record."""
    homes = {record.value: record.topic_id for record in replay.records}
    acked = [
        (send.ended, send, homes[send.value])
        for send in _sends(history, replay, Status.OK)
        if send.offset >= 0 and send.ended is not None and send.value in homes
    ]
    for seen in history.ends:
        if seen.topic != replay.topic:
            continue
        for ended, send, topic_id in acked:
            end = seen.offsets.get(send.partition, 0)
            if ended < seen.began and topic_id == seen.topic_id and end <= send.offset:
                what = f"acknowledged at step {ended}, but at step {seen.began} the end was {end}"
                yield Problem("I5", replay.topic, send.partition, send.offset, what)


def _sends(history: History, replay: Replay, status: Status) -> Iterator[Send]:
    for send in history.sends:
        if send.topic == replay.topic and send.status is status:
            yield send


def _read_topics(history: History) -> set[str]:
    return {read.topic for read in history.reads} | {c.topic for c in history.consumers}


def _by_value(replay: Replay) -> dict[bytes, list[StoredRecord]]:
    found: dict[bytes, list[StoredRecord]] = defaultdict(list)
    for record in replay.records:
        found[record.value].append(record)
    return found


def _places(records: list[StoredRecord]) -> str:
    return ", ".join(f"{record.partition}@{record.offset}" for record in records)


def _problem(invariant: str, record: StoredRecord, what: str, replay: Replay) -> Problem:
    return Problem(invariant, replay.topic, record.partition, record.offset, what)


def _read_problem(invariant: str, read: Read, what: str) -> Problem:
    return Problem(invariant, read.topic, read.partition, read.offset, what)


def _deleted(replay: Replay) -> bool:
    return bool(_json(replay.final.domains.get("sparklog.topic", "{}")).get("deleted", False))


def _json(text: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = json.loads(text)
    return found
