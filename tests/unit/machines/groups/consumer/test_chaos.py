"""Members join, leave, stall, lose responses and change subscriptions; the coordinator moves; appends fail.

After every step no partition has two readers, and the log reproduces the state in memory. Once the
faults stop, the group becomes stable and every partition has a reader.
"""

from __future__ import annotations

from random import Random

import pytest

from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.ports import AssignorFailure
from ruslo.machines.groups.consumer.replay import replay
from ruslo.machines.groups.events import (
    ComputeTarget,
    RegexResolved,
    ResolvedRegex,
    ResolveRegex,
    TargetComputed,
)
from ruslo.machines.groups.group import Group
from ruslo.machines.groups.settings import GroupSettings
from ruslo.model.errors import ErrorCode
from tests.support.groups.consumer_transcript import Consumer, Transcript
from tests.support.groups.group_bench import GroupBench, Topics

STEPS = 150
SUBSCRIPTIONS: list[tuple[tuple[str, ...], str | None]] = [
    (("orders",), None),
    (("orders", "parcels"), None),
    (("parcels",), None),
    ((), "or.*"),
]


class Chaos:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        assignor = self.random.choice(["uniform", "range", "own"])
        settings = GroupSettings(consumer_assignors=(assignor,), consumer_assignment_interval_ms=1_000)
        self.transcript = Transcript(GroupBench(settings, Topics({"orders": 7, "parcels": 3})))
        self.consumers: list[Consumer] = []
        self.created = 0

    @property
    def bench(self) -> GroupBench:
        return self.transcript.bench

    @property
    def group(self) -> ConsumerGroup | None:
        group = self.bench.shard.state.groups.get("g")
        assert group is None or isinstance(group, ConsumerGroup)
        return group

    def step(self) -> None:
        random = self.random
        action = random.choices(
            [
                "beat",
                "join",
                "leave",
                "leave temporarily",
                "wait",
                "long wait",
                "subscribe",
                "move",
                "fail appends",
            ],
            [40, 8, 3, 3, 20, 1, 3, 2, 3],
        )[0]
        consumer = random.choice(self.consumers) if self.consumers else None
        if action == "join" or consumer is None:
            self.join()
        elif action == "beat":
            self.heartbeat(consumer, lose=random.random() < 0.1)
        elif action == "leave":
            consumer.leave()
            self.consumers.remove(consumer)
        elif action == "leave temporarily" and consumer.instance_id is not None:
            self.leave_temporarily(consumer)
        elif action == "wait":
            self.bench.advance(random.randint(1, 3_000))
        elif action == "long wait":
            self.bench.advance(50_000)
        elif action == "subscribe" and consumer.epoch > 0:
            topics, regex = random.choice(SUBSCRIPTIONS)
            consumer.subscribe(*topics, regex=regex)
            self.drop_if_fenced(consumer)
        elif action == "move":
            self.bench.reload()
        elif action == "fail appends":
            self.bench.append_error = random.choice([ErrorCode.NOT_ENOUGH_REPLICAS, None])
            self.heartbeat(consumer, lose=False)
            self.bench.append_error = None
        self.complete_queries(fail=random.random() < 0.2)

    def join(self) -> None:
        self.created += 1
        topics, regex = self.random.choice(SUBSCRIPTIONS)
        instance_id = f"i{self.created}" if self.random.random() < 0.4 else None
        consumer = Consumer(
            self.transcript, f"m{self.created}", *topics, regex=regex, instance_id=instance_id
        )
        self.consumers.append(consumer)
        consumer.join()

    def leave_temporarily(self, consumer: Consumer) -> None:
        consumer.leave(-2)
        consumer.owned = {}
        self.created += 1
        consumer.member_id = f"m{self.created}"
        consumer.epoch = 0

    def heartbeat(self, consumer: Consumer, *, lose: bool, report_owned: bool = False) -> None:
        if consumer.epoch <= 0:
            consumer.join()
            return
        epoch, owned = consumer.epoch, dict(consumer.owned)
        consumer.report_owned() if report_owned or self.random.random() < 0.7 else consumer.heartbeat()
        if lose:
            # The member revokes what the response named, but the rest of the response was lost.
            consumer.epoch = epoch
            consumer.owned = owned
        self.drop_if_fenced(consumer)

    def drop_if_fenced(self, consumer: Consumer) -> None:
        if self.transcript.lines[-1].endswith(
            ("FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND")
        ):
            consumer.epoch = 0
            consumer.owned = {}

    def complete_queries(self, *, fail: bool) -> None:
        queries = list(self.bench.queries)
        self.bench.queries.clear()
        for query in queries:
            if isinstance(query, ResolveRegex):
                found = ResolvedRegex(("orders",), self.bench.topics.version, self.bench.wall_ms)
                self.bench.run(RegexResolved(query.group_id, dict.fromkeys(query.patterns, found)))
            else:
                assert isinstance(query, ComputeTarget)
                result = self.bench.assignors.assign("uniform", query.spec)  # type: ignore[arg-type]
                outcome = AssignorFailure("own", "random failure") if fail else result
                self.bench.run(TargetComputed(query.group_id, query.group_epoch, outcome))

    def check_readers(self) -> None:
        group = self.group
        if group is None:
            return
        readers: dict[tuple[bytes, int], str] = {}
        for consumer in self.consumers:
            if consumer.member_id not in group.members:
                continue  # The session has expired, whatever the member believes.
            for topic_id, partitions in consumer.owned.items():
                for partition in partitions:
                    other = readers.setdefault((topic_id, partition), consumer.member_id)
                    assert other == consumer.member_id, f"{other} and {consumer.member_id} read {partition}"

    def check_log(self) -> None:
        group = self.group
        if group is None:
            return
        from_log: dict[str, Group] = {}
        for record in self.bench.records():
            replay(from_log, record)
        replayed = from_log["g"]
        assert isinstance(replayed, ConsumerGroup)
        for name in (
            "epoch",
            "target_epoch",
            "metadata_hash",
            "members",
            "target",
            "static_members",
            "resolved",
        ):
            assert getattr(replayed, name) == getattr(group, name), name

    def stop_faults(self) -> None:
        self.bench.append_error = None
        if not self.consumers:
            self.join()
        # Static members that left temporarily return first; otherwise the group would wait for them.
        for _ in range(12):
            for consumer in self.consumers:
                self.heartbeat(consumer, lose=False, report_owned=True)
                self.complete_queries(fail=False)
            self.bench.advance(11_000)
        group = self.group
        assert group is not None
        assert group.state_name == "Stable", self.transcript.text[-3_000:]
        expected = {name for consumer in self.consumers for name in consumer.topics}
        expected |= {"orders" for consumer in self.consumers if consumer.regex}
        for name in expected:
            topic = self.bench.topics.by_name(name)
            assert topic is not None
            for partition in range(topic.partition_count):
                assert group.is_held(topic.id, partition), f"no member owns {name}-{partition}"


@pytest.mark.parametrize("seed", range(25))
def test_random_faults(seed: int) -> None:
    chaos = Chaos(seed)
    for step in range(STEPS):
        chaos.step()
        chaos.check_readers()
        if step % 10 == 0:
            chaos.check_log()
    chaos.stop_faults()
    chaos.check_readers()
    chaos.check_log()
