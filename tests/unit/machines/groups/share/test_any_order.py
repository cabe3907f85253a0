"""Share groups under any sequence of joins, failures, deletions and moves of the coordinator."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ruslo.machines.groups.settings import GroupSettings
from ruslo.machines.groups.share.group import ShareGroup
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest
from tests.support.groups.group_bench import GroupBench, Topics
from tests.support.groups.share_transcript import ShareConsumer, ShareTranscript
from tests.support.machines.logged_state import logged_state

NAMES = ["orders", "parcels", "later"]
SESSION_MS = 45_000


class ShareGroupRules(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        bench = GroupBench(GroupSettings(share_max_size=4), Topics({"orders": 3, "parcels": 1}))
        self.transcript = ShareTranscript(bench)
        self.bench = bench
        self.members = [ShareConsumer(self.transcript, name, "orders") for name in "abcde"]
        self.epochs: list[int] = []

    @property
    def group(self) -> ShareGroup | None:
        group = self.bench.shard.state.groups.get("g")
        assert group is None or isinstance(group, ShareGroup)
        return group

    # -- what happens ----------------------------------------------------------------------------------------

    @rule(
        member=st.integers(0, 4), topics=st.lists(st.sampled_from(NAMES), min_size=1, unique=True, max_size=3)
    )
    def join(self, member: int, topics: list[str]) -> None:
        self.members[member].topics = topics
        self.members[member].join()

    @rule(member=st.integers(0, 4))
    def heartbeat(self, member: int) -> None:
        self.members[member].heartbeat()

    @rule(member=st.integers(0, 4))
    def leave(self, member: int) -> None:
        self.members[member].leave()

    @rule(code=st.sampled_from([ErrorCode.NONE, ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE]))
    def answer(self, code: ErrorCode) -> None:
        self.transcript.answer(code)

    @rule(duration_ms=st.sampled_from([500, 1_000, 31_000, SESSION_MS]))
    def wait(self, duration_ms: int) -> None:
        self.transcript.wait(duration_ms)

    @rule()
    def grow(self) -> None:
        orders = self.bench.topics.by_name("orders")
        count = 1 if orders is None else orders.partition_count + 1
        self.transcript.change_topics(
            "topics grow",
            Topics({"orders": min(count, 6), "parcels": 1, "later": 2}, self.bench.topics.version + 1),
        )

    @rule(name=st.sampled_from(NAMES))
    def delete_topic(self, name: str) -> None:
        self.transcript.change_topics("a topic is deleted", self.bench.topics.without(name), [name])

    @rule()
    def delete_group(self) -> None:
        self.bench.send(DeleteGroupsRequest(groups_names=["g"]))
        self.epochs.clear()

    @rule(code=st.sampled_from([ErrorCode.NOT_ENOUGH_REPLICAS, None]))
    def fail(self, code: ErrorCode | None) -> None:
        if code is None:
            self.bench.commit_error = ErrorCode.REQUEST_TIMED_OUT
        else:
            self.bench.append_error = code

    @rule()
    def move(self) -> None:
        served = logged_state(self.bench.shard)
        self.bench.queries.clear()
        self.transcript._shown_queries = 0
        self.transcript.reload()
        assert logged_state(self.bench.shard) == served

    # -- what always holds -----------------------------------------------------------------------------------

    @invariant()
    def epochs_do_not_decrease(self) -> None:
        group = self.group
        epoch = 0 if group is None else group.epoch
        if self.epochs and epoch:
            assert epoch >= self.epochs[-1]
        self.epochs.append(epoch)

    @precondition(lambda self: self.group is not None)
    @invariant()
    def members_own_only_initialized_partitions_of_their_topics(self) -> None:
        group = self.group
        assert group is not None
        assert len(group.members) <= 4
        assert group.target_epoch <= group.epoch
        for member in group.members.values():
            assert member.epoch <= group.target_epoch
        for member_id, target in group.target.items():
            assert member_id in group.members
            for partitions in target.values():
                assert partitions

    def teardown(self) -> None:
        """After everything has recovered, every partition of a subscribed topic has a member."""
        self.bench.append_error = self.bench.commit_error = None
        self.transcript.wait(2 * SESSION_MS)
        for member in self.members[:3]:
            member.join()
        for _ in range(4):
            self.transcript.answer()
            self.transcript.wait(1_000)
            for member in self.members[:3]:
                member.heartbeat()
        group, view = self.group, self.bench.topics
        assert group is not None
        wanted = Counter(
            (topic.id, index)
            for name in {name for member in self.members[:3] for name in member.topics}
            if (topic := view.by_name(name)) is not None
            for index in range(topic.partition_count)
        )
        owned = Counter(
            (topic_id, index)
            for member in group.members.values()
            for topic_id, partitions in member.assigned.items()
            for index in partitions
        )
        assert set(owned) == set(wanted)
        assert group.states.initializing.keys().isdisjoint(topic_id for topic_id, _ in wanted)


ShareGroupRules.TestCase.settings = settings(max_examples=12, stateful_step_count=20, deadline=None)
test_share_groups_recover_from_any_sequence = ShareGroupRules.TestCase
