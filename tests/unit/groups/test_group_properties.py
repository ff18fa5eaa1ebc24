"""Random joins, leaves, crashes, releases and commits: what must hold holds after every step."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.errors import CommitFailedError, SparklogError
from sparklog.groups import handlers
from sparklog.groups.group_state import GroupState, Owner, TopicSeen, changes
from sparklog.groups.handlers import OffsetToCommit
from sparklog.groups.rebalance import Seen
from sparklog.table.actions import Commit, CommitInfo, decode_commit, encode_commit
from sparklog.table.table_state import TableState
from tests.unit.groups.test_handlers import NOW, a_member, settled

TOPICS = ("t", "u")
STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")

steps = st.lists(
    st.tuples(
        st.sampled_from(["join", "static", "leave", "expel", "release", "release", "release",
                         "commit", "stale", "stale", "grow", "replace"]),
        st.integers(0, 5),
        st.integers(0, 30),
    ),
    min_size=25,
    max_size=80,
)  # fmt: skip


class Model:
    """A group driven step by step through the bytes of its log, and what its members believe."""

    def __init__(self, strategy: str, partitions: int):
        self.strategy = strategy
        self.seen = {topic: TopicSeen(f"{topic}0", partitions) for topic in TOPICS}
        self.table = TableState("groups/g/")
        self.state = GroupState("g")
        self.tokens = []
        """Every ownership there ever was: (member, partition, since)."""
        self.committed = {}
        self.apply(handlers.begin(self.state, "G", NOW))

    def apply(self, after, releasing=frozenset(), out=frozenset()):
        """Append the change, replay it, and check what must hold between the two states."""
        before = self.state
        actions = changes(before, after, NOW)
        if not actions:
            return
        version = self.table.version + 1
        body = encode_commit([CommitInfo(1, "T", "n"), *actions])
        self.table.apply(Commit(version, decode_commit(body, version, "x").actions))
        self.state = GroupState.of(self.table, "g")
        assert replace(self.state, version=0) == replace(after, version=0), "replay is the change"
        self.check(before, releasing, out)
        for partition, owner in self.state.owners.items():
            token = (owner.member_id, partition, owner.since)
            if before.owners.get(partition) != owner:
                assert token not in self.tokens, "(member, since) is never the same twice"
                self.tokens.append(token)

    def check(self, before, releasing, out):
        after = self.state
        times = Counter(p for member in after.members.values() for p in member.owned)
        assert all(count == 1 for count in times.values()), "one owner a partition"
        standing = {s.topic_id for s in after.topics.values()}
        for partition, owner in before.owners.items():
            now = after.owners.get(partition)
            moved = now != owner
            gone = partition.topic_id not in standing
            given_up = owner.member_id in out or (owner.member_id, partition) in releasing
            assert not moved or gone or given_up, f"{partition} taken from {owner}"
        if before.owners != after.owners or before.members.keys() != after.members.keys():
            assert after.generation == before.generation + 1
        for owner in after.owners.values():
            assert owner.since <= after.generation
        assert (
            set(after.targets)
            == {
                (seen.topic_id, n)
                for name, seen in after.topics.items()
                for n in range(seen.partitions)
            }
            or not after.members
        )

    def step(self, kind, who, number):
        members = sorted(self.state.members)
        member = members[who % len(members)] if members else None
        if kind in ("join", "static"):
            instance = f"i{who}" if kind == "static" else None
            topics = TOPICS if number % 3 else ("t",)
            new = a_member(
                f"m{self.table.version}",
                topics=topics,
                strategies=(self.strategy,),
                instance_id=instance,
            )
            out = {m for m in members if instance and self.state.members[m].instance_id == instance}
            self.apply(handlers.join(self.state, new, Seen(self.seen), NOW), out=out)
        elif kind == "grow":
            seen = self.seen["u"]
            self.seen["u"] = replace(seen, partitions=seen.partitions + 1)
            self.tell(member)
        elif kind == "replace":
            self.seen["u"] = TopicSeen(f"u{self.table.version}", 1 + number % 4)
            self.tell(member)
        elif member is None:
            return
        elif kind in ("leave", "expel"):
            self.apply(handlers.leave(self.state, [member], NOW), out={member})
        elif kind == "release":
            parting = self.state.members[member].to_release
            few = dict(list(parting.items())[: 1 + number])
            after = handlers.release(self.state, member, few)
            self.apply(after, releasing={(member, p) for p in few})
        else:
            self.commit(kind, member, number)

    def tell(self, member):
        if member is not None:
            topics = self.state.members[member].topics
            self.apply(handlers.update(self.state, member, topics, Seen(self.seen)))

    def commit(self, kind, member, number):
        """By an ownership of now or of any earlier time: only one of now may win (I10, I11)."""
        if not self.tokens:
            return
        now = [t for t in self.tokens if self.state.owners.get(t[1]) == Owner(t[0], t[2])]
        pool = (self._owned_anew() or self.tokens) if kind == "stale" else now
        if not pool:
            return
        who, partition, since = pool[number % len(pool)]
        wanted = {partition: OffsetToCommit(number, since)}
        try:
            after = handlers.commit_offsets(self.state, who, wanted, NOW)
        except CommitFailedError:
            assert (who, partition, since) not in now, "its owner may commit"
            return
        assert (who, partition, since) in now, f"{who} commits {partition} of {since}"
        self.apply(after)
        self.committed[partition] = number

    def _owned_anew(self):
        """Old ownerships of members that own the same partition again."""
        owners = self.state.owners
        return [
            (who, partition, since)
            for who, partition, since in self.tokens
            if partition in owners
            and owners[partition].member_id == who
            and owners[partition].since != since
        ]

    def finish(self):
        """Once all release what they must, everything is where it is to be, and fair."""
        state = settled(self.state)
        for partition, offset in self.committed.items():
            assert state.offsets[partition].offset == offset
        wants = {m.topics for m in state.members.values()}
        if len(wants) == 1 and self.strategy != "range":
            loads = [len(m.owned) for m in state.members.values()]
            assert max(loads) - min(loads) <= 1


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(STRATEGIES), st.integers(1, 7), steps)
def test_any_history_keeps_one_owner_and_only_owners_commit(strategy, partitions, history):
    model = Model(strategy, partitions)
    for kind, who, number in history:
        model.step(kind, who, number)
    model.finish()


@settings(max_examples=60, deadline=None)
@given(steps)
def test_any_request_is_idempotent(history):
    """What is asked a second time, because its outcome was unknown, changes nothing more."""
    model = Model("cooperative-sticky", 3)
    for kind, who, number in history:
        model.step(kind, who, number)
    state = model.state
    new = a_member("new", topics=TOPICS, strategies=("cooperative-sticky",))
    once = handlers.join(state, new, Seen(model.seen), NOW)
    assert handlers.join(once, new, Seen(model.seen), NOW) is once
    parting = {m: member.to_release for m, member in once.members.items()}
    for member_id, partitions in parting.items():
        released = handlers.release(once, member_id, partitions)
        assert handlers.release(released, member_id, partitions) is released
    gone = handlers.leave(once, ["new"], NOW)
    assert handlers.leave(gone, ["new"], NOW) is gone


def test_errors_of_handlers_are_of_the_tree():
    assert issubclass(CommitFailedError, SparklogError)
