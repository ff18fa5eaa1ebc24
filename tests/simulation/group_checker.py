"""Proves the invariants of groups on a finished run, from the raw bytes of the group's log.

    I9   a member reads on from the committed offset, offset by offset, while it owns a partition
    I10  an offset moves by its owner alone, under the `since` of that ownership, within the log
    I11  what was refused stands nowhere; what was ok stands
    I16  the group's log is whole: contiguous, never overwritten
    I17  once faults stop, somebody reads and commits all that is left
    G    a partition has one owner, who gives it up by its own append or is out

What the group's log says is read here without sparklog: JSON lines, domain by domain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.simulation.group_actors import GROUP, RECORDS_EACH, GroupHistory
from tests.simulation.history import Status
from tests.simulation.replay import Change, Problem, Replay, _objects

Owner: TypeAlias = tuple[str, int]
Partition: TypeAlias = tuple[str, int]

MEMBER = "sparklog.member."
OFFSET = "sparklog.offset."


@dataclass
class GroupVersion:
    """The group at one version."""

    operation: str = ""
    owners: dict[Partition, list[Owner]] = field(default_factory=dict)
    targets: dict[Partition, str] = field(default_factory=dict)
    members: frozenset[str] = frozenset()
    offsets: dict[Partition, dict[str, Any]] = field(default_factory=dict)
    changed: list[Partition] = field(default_factory=list)
    generation: int = 0


def check_group(history: GroupHistory, journal: list[Change]) -> list[Problem]:
    """All problems of a run; empty if every invariant holds."""
    log = Replay(GROUP)
    versions = _replay(log, journal)
    return [
        *log.problems,
        *_check_owners(versions),
        *_check_offsets(versions),
        *_check_outcomes(history, versions),
        *_check_reads(history, versions),
        *_check_end(history, versions),
    ]


def _replay(log: Replay, journal: list[Change]) -> list[GroupVersion]:
    prefix = f"groups/{GROUP}/"
    objects, _ = _objects(log, journal, prefix)
    found = {
        int(match[1]): data
        for key, data in objects.items()
        if (match := re.fullmatch(rf"{prefix}_delta_log/(\d{{20}})\.json", key))
    }
    if sorted(found) != list(range(len(found))):
        log.note(f"versions are not contiguous: {sorted(found)}")
    domains: dict[str, Any] = {}
    return [_apply(domains, found[version]) for version in sorted(found)]


def _apply(domains: dict[str, Any], data: bytes) -> GroupVersion:
    version = GroupVersion()
    for line in data.decode().splitlines():
        ((kind, body),) = json.loads(line).items()
        if kind == "commitInfo":
            version.operation = body["operation"]
        elif kind == "domainMetadata" and body["removed"]:
            domains.pop(body["domain"], None)
        elif kind == "domainMetadata":
            domains[body["domain"]] = json.loads(body["configuration"])
            if body["domain"].startswith(OFFSET):
                version.changed.append(_partition(body["domain"]))
    names = []
    for domain, body in domains.items():
        if domain.startswith(MEMBER):
            names.append(domain.removeprefix(MEMBER))
            for partition, since in _owned(body["owned"]):
                version.owners.setdefault(partition, []).append((names[-1], since))
            for partition, _ in _owned(body["target"]):
                version.targets[partition] = names[-1]
        elif domain.startswith(OFFSET):
            version.offsets[_partition(domain)] = body
    version.members = frozenset(names)
    version.generation = domains.get("sparklog.group", {}).get("generation", 0)
    return version


def _partition(domain: str) -> Partition:
    topic_id, _, number = domain.removeprefix(OFFSET).rpartition(".")
    return topic_id, int(number)


def _owned(body: dict[str, dict[str, list[int]]]) -> Iterator[tuple[Partition, int]]:
    for topic_id, by_since in body.items():
        for since, numbers in by_since.items():
            for number in numbers:
                yield (topic_id, number), int(since)


def _check_owners(versions: list[GroupVersion]) -> Iterator[Problem]:
    """G: one owner at a time, and a partition is never taken from who did not give it up."""
    before = GroupVersion()
    for number, now in enumerate(versions):
        for partition, owners in now.owners.items():
            if len(owners) != 1:
                yield _problem("G", partition, None, f"version {number}: owners {owners}")
        for partition, owners in before.owners.items():
            if now.owners.get(partition) == owners:
                continue
            owner = owners[0][0]
            # One that released it on an old view may be the one that is to have it: then it has it
            # again at once, under another since.
            gets = [new for new, _ in now.owners.get(partition, [])]
            asked = before.targets.get(partition) != owner or gets == [owner]
            gave = now.operation == "RELEASE PARTITIONS" and asked
            if owner in now.members and not gave:
                what = f"version {number} ({now.operation}) takes it from {owners[0]}"
                yield _problem("G", partition, None, what)
        if now.owners != before.owners and now.generation <= before.generation:
            yield _problem("G", ("", 0), None, f"version {number}: owners moved in one generation")
        before = now


def _check_offsets(versions: list[GroupVersion]) -> Iterator[Problem]:
    """I10: who committed owned the partition before that version, since when it said."""
    before = GroupVersion()
    for number, now in enumerate(versions):
        for partition in now.changed:
            body = now.offsets[partition]
            since = int(body["metadata"].rpartition("|")[2])
            owners = before.owners.get(partition, [])
            if (body["member"], since) not in owners:
                what = f"version {number}: {body['member']} of {since} committed; owned by {owners}"
                yield _problem("I10", partition, body["offset"], what)
            if body["offset"] > RECORDS_EACH:
                yield _problem("I10", partition, body["offset"], "is past the end of the log")
        before = now


def _check_outcomes(history: GroupHistory, versions: list[GroupVersion]) -> Iterator[Problem]:
    """I11: by their tokens, refused commits stand nowhere and acknowledged ones do."""
    standing = {
        (partition, version.offsets[partition]["metadata"])
        for version in versions
        for partition in version.changed
    }
    for call in history.commits:
        stands = (tuple(call.partition), call.token) in standing
        if call.status is Status.OK and not stands:
            yield _problem("I11", call.partition, call.offset, f"{call.token} was ok, is nowhere")
        if call.status is Status.FAIL and stands:
            what = f"{call.token} failed ({call.error}), but stands"
            yield _problem("I11", call.partition, call.offset, what)


def _check_reads(history: GroupHistory, versions: list[GroupVersion]) -> Iterator[Problem]:
    """I9: under one ownership, from the offset that was committed when it began, one by one."""
    begins: dict[tuple[Partition, Owner], int] = {}
    for version in versions:
        for partition, owners in version.owners.items():
            for owner in owners:
                committed = version.offsets.get(partition)
                begins.setdefault((partition, owner), committed["offset"] if committed else 0)
    position: dict[tuple[Partition, Owner], int] = {}
    for read in history.reads:
        key = (tuple(read.partition), (read.member_id, read.since))
        if key not in begins:
            what = f"{read.member_id} read it as its owner since {read.since}, which it never was"
            yield _problem("I9", read.partition, read.offset, what)
            continue
        expected = position.get(key, begins[key])
        if read.offset != expected:
            what = f"{read.member_id} (since {read.since}) was to read {expected}"
            yield _problem("I9", read.partition, read.offset, what)
        position[key] = read.offset + 1


def _check_end(history: GroupHistory, versions: list[GroupVersion]) -> Iterator[Problem]:
    """I17, and that nothing was lost: all records were read, and all are committed."""
    if not history.drained:
        yield Problem("I17", GROUP, None, None, "the last member never had it all")
        return
    for partition, body in versions[-1].offsets.items():
        if body["offset"] != RECORDS_EACH:
            yield _problem("I17", partition, body["offset"], "is what was committed at the end")
    read = {(tuple(r.partition), r.offset) for r in history.reads}
    for partition in versions[-1].offsets:
        for offset in range(RECORDS_EACH):
            if (partition, offset) not in read:
                yield _problem("I9", partition, offset, "was never read by anybody")


def _problem(invariant: str, partition: tuple[str, int], offset: int | None, what: str) -> Problem:
    return Problem(invariant, GROUP, partition[1], offset, what)
