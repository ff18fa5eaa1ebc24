"""A group's state: what replaying its table log gives, as frozen values.

    group domain      generation, strategy, the topics that members want, since when it is empty
    member domains    one each: what it wants, what it owns (and since when), what it shall own
    offset domains    one for each (topic id, partition): the committed offset
    decision domains  one for each decided transaction that is not rolled forward yet
    txn entries       how far each transactional id or query has come in this group

Replay itself is the table's (`TableState.apply`): this module only reads what it left, and turns
a changed state into the actions that make it so (`changes`). One append carries only the domains
that differ, so an offset commit is small however large the group is.

A partition is always (topic id, number): a topic that was deleted and created again has other
partitions. `since` is the generation in which a partition came to its owner; every append that
moves a partition, or lets a member in or out, begins a new generation.

What it does not do: it decides nothing (`handlers`), and touches no store (`Coordinator`).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sparklog.errors import CorruptCommitError
from sparklog.table.actions import Action, DomainMetadata, Metadata, Protocol, Txn
from sparklog.table.table_state import TableState

GROUP_DOMAIN = "sparklog.group"
MEMBER_PREFIX = "sparklog.member."
OFFSET_PREFIX = "sparklog.offset."
DECISION_PREFIX = "sparklog.decision."
SEQUENCE_BITS = 40
CONFIGURATION = {"delta.logRetentionDuration": "interval 1 day"}
"""Of a new group's table log: its commits stay for a day, as the history of its lag."""


class PartitionId(NamedTuple):
    """A partition that no other can be mistaken for."""

    topic_id: str
    partition: int


class WriterId(NamedTuple):
    """How far a writer has come: its epoch, and its sequence or batch in it."""

    epoch: int
    sequence: int


@dataclass(frozen=True)
class TopicSeen:
    """A topic as a member saw it: who it is and how many partitions it has."""

    topic_id: str
    partitions: int


@dataclass(frozen=True)
class Owner:
    """Who owns a partition, and since which generation."""

    member_id: str
    since: int


@dataclass(frozen=True)
class Member:
    """A member: what it wants, what it owns, and what it shall own."""

    member_id: str
    topics: tuple[str, ...]
    strategies: tuple[str, ...] = ("cooperative-sticky",)
    session_timeout_ms: int = 45_000
    instance_id: str | None = None
    client_id: str = ""
    owned: Mapping[PartitionId, int] = field(default_factory=dict)
    """Partitions that it may read and commit, each with the generation since which it owns it."""
    target: frozenset[PartitionId] = frozenset()
    """What it is to own once others have released theirs: what it owns beyond, it must release."""

    @property
    def to_release(self) -> dict[PartitionId, int]:
        """What it owns and must give up, by an append of its own."""
        return {p: since for p, since in self.owned.items() if p not in self.target}


@dataclass(frozen=True)
class CommittedOffset:
    """Where a partition's next owner goes on."""

    offset: int
    metadata: str = ""
    time_ms: int = 0
    topic: str = ""
    """The topic's name, for people: its id is part of the key."""
    log_end: int = -1
    """The end of the partition as its committer last saw it, for the lag's history."""
    member_id: str = ""
    """Who committed; empty for an admin."""


@dataclass(frozen=True)
class Decision:
    """A decided transaction that is not known to be rolled forward in all its topics."""

    writer: str
    epoch: int
    sequence: int
    partitions: frozenset[PartitionId]
    """Whose offsets it moved: nobody else may commit them before it is complete."""
    body: str
    """All that roll-forward needs, as the transactions wrote it."""


@dataclass(frozen=True)
class GroupState:
    """Everything that a group's log says at one version."""

    name: str
    version: int = -1
    group_id: str = ""
    """Another id is another group of the same name; empty while there is none."""
    generation: int = 0
    strategy: str = ""
    empty_since_ms: int | None = None
    offsets_retention_ms: int = 604_800_000
    topics: Mapping[str, TopicSeen] = field(default_factory=dict)
    """The topics that members want, as last seen by any of them."""
    members: Mapping[str, Member] = field(default_factory=dict)
    offsets: Mapping[PartitionId, CommittedOffset] = field(default_factory=dict)
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    """Incomplete decisions, by domain."""
    writers: Mapping[str, WriterId] = field(default_factory=dict)
    """`last` of every transactional id and query, by its `txn.appId`."""

    @property
    def exists(self) -> bool:
        """Whether a group stands here: begun, and not deleted since."""
        return bool(self.group_id)

    @functools.cached_property
    def owners(self) -> Mapping[PartitionId, Owner]:
        """Who owns each partition that has an owner."""
        return {
            partition: Owner(member.member_id, since)
            for member in self.members.values()
            for partition, since in member.owned.items()
        }

    @functools.cached_property
    def targets(self) -> Mapping[PartitionId, str]:
        """Which member is to own each partition."""
        return {
            partition: member.member_id
            for member in self.members.values()
            for partition in member.target
        }

    @functools.cached_property
    def topic_names(self) -> Mapping[str, str]:
        """The name of each topic id that members want."""
        return {seen.topic_id: name for name, seen in self.topics.items()}

    @property
    def settled(self) -> bool:
        """Whether every partition is where it is to be."""
        owners = self.owners
        return len(owners) == len(self.targets) and all(
            p in owners and owners[p].member_id == m for p, m in self.targets.items()
        )

    def holders(self, partition: PartitionId) -> list[Decision]:
        """The incomplete decisions that hold this partition's offset."""
        return [d for d in self.decisions.values() if partition in d.partitions]

    def with_members(self, members: Mapping[str, Member]) -> GroupState:
        """The same group with other members."""
        return replace(self, members=members)

    @classmethod
    def of(cls, state: TableState, name: str) -> GroupState:
        """What this table state says of the group; one that does not exist says nothing."""
        text = state.domains.get(GROUP_DOMAIN)
        if text is None or state.metadata is None:
            return cls(name, state.version)
        try:
            body = json.loads(text)
            if body.get("deleted"):
                return cls(name, state.version, generation=body["generation"])
            members: dict[str, Member] = {}
            offsets: dict[PartitionId, CommittedOffset] = {}
            decisions: dict[str, Decision] = {}
            for domain, value in state.domains.items():
                if domain.startswith(OFFSET_PREFIX):
                    offsets[_partition_of(domain)] = _read_offset(value)
                elif domain.startswith(MEMBER_PREFIX):
                    member = _read_member(domain, value)
                    members[member.member_id] = member
                elif domain.startswith(DECISION_PREFIX):
                    decisions[domain] = _read_decision(value)
            return cls(
                name=name,
                version=state.version,
                group_id=state.metadata.id,
                generation=body["generation"],
                strategy=body["strategy"],
                empty_since_ms=body["emptySince"],
                offsets_retention_ms=body["offsetsRetentionMs"],
                topics={t: TopicSeen(seen[0], seen[1]) for t, seen in body["topics"].items()},
                members=members,
                offsets=offsets,
                decisions=decisions,
                writers={app: _writer_id(txn.version) for app, txn in state.txns.items()},
            )
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise CorruptCommitError(
                f"table log {state.folder} at version {state.version}: the group's state is "
                f"malformed: {error!r}"
            ) from error


def changes(before: GroupState, after: GroupState, now_ms: int = 0) -> list[Action]:
    """The actions that turn one state into the other; empty if they are the same.

    An append of the caller's own may carry more actions beside these. `now_ms` stamps writers.
    """
    actions: list[Action] = []
    if after.exists and after.group_id != before.group_id:
        schema = json.dumps({"type": "struct", "fields": []})
        metadata = Metadata(after.group_id, after.name, schema, (), CONFIGURATION, now_ms)
        actions += [Protocol(), metadata]
    old_domains, new_domains = _domains(before), _domains(after)
    for domain, value in new_domains.items():
        if domain not in old_domains or old_domains[domain] != value:
            actions.append(DomainMetadata(domain, _text(value)))
    for domain in old_domains:
        if domain not in new_domains:
            actions.append(DomainMetadata(domain, "", removed=True))
    for app_id, last in after.writers.items():
        if before.writers.get(app_id) != last:
            actions.append(Txn(app_id, last.epoch << SEQUENCE_BITS | last.sequence, now_ms))
    return actions


def read_offset_domain(domain: str, value: str) -> tuple[PartitionId, CommittedOffset] | None:
    """The offset that a domain carries; None for a domain of another kind."""
    if not domain.startswith(OFFSET_PREFIX):
        return None
    return _partition_of(domain), _read_offset(value)


def _domains(state: GroupState) -> dict[str, Any]:
    """The state's parts by the domains that carry them."""
    domains: dict[str, Any] = {}
    if state.exists or state.generation:
        domains[GROUP_DOMAIN] = {
            "generation": state.generation,
            "strategy": state.strategy,
            "emptySince": state.empty_since_ms,
            "offsetsRetentionMs": state.offsets_retention_ms,
            "topics": {t: [s.topic_id, s.partitions] for t, s in sorted(state.topics.items())},
            "deleted": not state.exists,
        }
    for member_id, member in state.members.items():
        domains[MEMBER_PREFIX + member_id] = member
    for partition, committed in state.offsets.items():
        domains[_offset_domain(partition)] = committed
    domains.update(state.decisions)
    return domains


def _text(value: Any) -> str:
    if isinstance(value, Member):
        body: dict[str, Any] = {
            "topics": value.topics,
            "strategies": value.strategies,
            "sessionTimeoutMs": value.session_timeout_ms,
            "instanceId": value.instance_id,
            "clientId": value.client_id,
            "owned": _by_topic(value.owned),
            "target": _by_topic(dict.fromkeys(value.target, 0)),
        }
    elif isinstance(value, CommittedOffset):
        body = {
            "offset": value.offset,
            "metadata": value.metadata,
            "time": value.time_ms,
            "topic": value.topic,
            "logEnd": value.log_end,
            "member": value.member_id,
        }
    elif isinstance(value, Decision):
        body = {
            "writer": value.writer,
            "epoch": value.epoch,
            "sequence": value.sequence,
            "partitions": _by_topic(dict.fromkeys(value.partitions, 0)),
            "body": value.body,
        }
    else:
        body = value
    return json.dumps(body, separators=(",", ":"))


def _by_topic(partitions: Mapping[PartitionId, int]) -> dict[str, dict[str, list[int]]]:
    """Partitions by topic id and since: many share both."""
    found: dict[str, dict[str, list[int]]] = {}
    for partition, since in sorted(partitions.items()):
        found.setdefault(partition.topic_id, {}).setdefault(str(since), []).append(
            partition.partition
        )
    return found


def _from_topics(body: Mapping[str, Mapping[str, list[int]]]) -> dict[PartitionId, int]:
    return {
        PartitionId(topic_id, number): int(since)
        for topic_id, sinces in body.items()
        for since, numbers in sinces.items()
        for number in numbers
    }


def _offset_domain(partition: PartitionId) -> str:
    return f"{OFFSET_PREFIX}{partition.topic_id}.{partition.partition}"


@functools.lru_cache(maxsize=65_536)
def _partition_of(domain: str) -> PartitionId:
    topic_id, _, number = domain.removeprefix(OFFSET_PREFIX).rpartition(".")
    return PartitionId(topic_id, int(number))


@functools.lru_cache(maxsize=65_536)
def _read_offset(text: str) -> CommittedOffset:
    body = json.loads(text)
    return CommittedOffset(
        body["offset"],
        body["metadata"],
        body["time"],
        body["topic"],
        body["logEnd"],
        body["member"],
    )


@functools.lru_cache(maxsize=4096)
def _read_member(domain: str, text: str) -> Member:
    body = json.loads(text)
    return Member(
        member_id=domain.removeprefix(MEMBER_PREFIX),
        topics=tuple(body["topics"]),
        strategies=tuple(body["strategies"]),
        session_timeout_ms=body["sessionTimeoutMs"],
        instance_id=body["instanceId"],
        client_id=body["clientId"],
        owned=_from_topics(body["owned"]),
        target=frozenset(_from_topics(body["target"])),
    )


@functools.lru_cache(maxsize=4096)
def _read_decision(text: str) -> Decision:
    body = json.loads(text)
    partitions = frozenset(_from_topics(body["partitions"]))
    return Decision(body["writer"], body["epoch"], body["sequence"], partitions, body["body"])


def _writer_id(version: int) -> WriterId:
    return WriterId(version >> SEQUENCE_BITS, version & ((1 << SEQUENCE_BITS) - 1))
