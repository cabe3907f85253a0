"""Members join, leave, stall and lose responses; topics change; the coordinator moves; appends fail.

After every step no task is active at two members, and epochs only grow. The log reproduces the state in
memory. Once the faults stop, the group becomes stable and every task is active.
"""

from __future__ import annotations

from random import Random

import pytest

from ruslo.machines.groups.epoch_group import STATIC_LEAVE_EPOCH
from ruslo.machines.groups.settings import GroupSettings
from ruslo.machines.groups.streams.group import StreamsGroup
from ruslo.machines.groups.streams.settings import GroupSetting, StreamsSettings
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.streams_group_heartbeat_request import TaskOffset
from tests.support.groups.group_bench import GroupBench, Topics
from tests.support.groups.streams_transcript import READY, StreamsTranscript, StreamThread

STEPS = 150
FENCED = ("FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND", "INVALID_REQUEST")


class Chaos:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        streams = StreamsSettings(
            assignors=(self.random.choice(["sticky", "highly_available"]),),
            initial_rebalance_delay_ms=GroupSetting(self.random.choice([0, 3_000])),
            num_standby_replicas=GroupSetting(self.random.choice([0, 1, 2])),
        )
        bench = GroupBench(GroupSettings(streams=streams), Topics(READY))
        self.transcript = StreamsTranscript(bench=bench)
        self.threads: list[StreamThread] = []
        self.created = 0
        self.epochs: tuple[int, int] = (0, 0)

    @property
    def group(self) -> StreamsGroup | None:
        group = self.transcript.bench.shard.state.groups.get("g")
        assert group is None or isinstance(group, StreamsGroup)
        return group

    def step(self) -> None:
        random, bench = self.random, self.transcript.bench
        actions = [
            "beat",
            "join",
            "leave",
            "leave temporarily",
            "wait",
            "long wait",
            "topics",
            "move",
            "fail",
        ]
        action = random.choices(actions, [40, 8, 3, 3, 20, 1, 2, 2, 3])[0]
        thread = random.choice(self.threads) if self.threads else None
        if action == "join" or thread is None:
            self.join()
        elif action == "beat":
            self.heartbeat(thread, lose=random.random() < 0.1)
        elif action == "leave":
            thread.leave()
            self.threads.remove(thread)
        elif action == "leave temporarily" and thread.instance_id is not None:
            self.leave_temporarily(thread)
        elif action == "wait":
            bench.advance(random.randint(1, 3_000))
        elif action == "long wait":
            bench.advance(50_000)
        elif action == "topics":
            gone = random.choice([(), ("c",), ("orders",)])
            self.change_topics({name: count for name, count in READY.items() if name not in gone})
        elif action == "move":
            bench.reload()
        elif action == "fail":
            bench.append_error = random.choice([ErrorCode.NOT_ENOUGH_REPLICAS, None])
            self.heartbeat(thread, lose=False)
            bench.append_error = None

    def change_topics(self, topics: dict[str, int]) -> None:
        self.transcript.bench.change_topics(Topics(topics))

    def join(self) -> None:
        self.created += 1
        thread = StreamThread(
            self.transcript,
            f"m{self.created}",
            process_id=f"p{self.random.randint(1, 4)}",
            instance_id=f"i{self.created}" if self.random.random() < 0.4 else None,
            version=self.random.choice([0, 1]),
        )
        self.threads.append(thread)
        thread.join()

    def leave_temporarily(self, thread: StreamThread) -> None:
        thread.leave(STATIC_LEAVE_EPOCH)
        self.created += 1
        thread.member_id = f"m{self.created}"
        self.abandon(thread)

    def heartbeat(self, thread: StreamThread, *, lose: bool, report: bool = False) -> None:
        if thread.epoch <= 0:
            thread.join()
            return
        before = thread.epoch, thread.active, thread.standby, thread.warmup
        if report or self.random.random() < 0.7:
            thread.report_tasks()
        elif thread.version == 1 and self.random.random() < 0.5:
            offset = self.random.randint(0, 20_000)
            reported = TaskOffset(subtopology_id="1", partition=self.random.randint(0, 3), offset=offset)
            thread.report_offsets([reported], [reported])
        else:
            thread.heartbeat()
        if lose:
            thread.epoch, thread.active, thread.standby, thread.warmup = before
        if self.transcript.lines[-1].endswith(FENCED):
            self.abandon(thread)

    def abandon(self, thread: StreamThread) -> None:
        thread.epoch = 0
        thread.active, thread.standby, thread.warmup = [], [], []

    def check_tasks(self) -> None:
        group = self.group
        if group is None:
            return
        active: dict[tuple[str, int], str] = {}
        for thread in self.threads:
            if thread.member_id not in group.members:
                continue  # The session has expired, whatever the member believes.
            for task in thread.tasks:
                other = active.setdefault(task, thread.member_id)
                assert other == thread.member_id, f"{other} and {thread.member_id} have {task}"
        epochs = group.epoch, group.target_epoch
        assert epochs[0] >= epochs[1]
        assert epochs >= self.epochs
        self.epochs = epochs

    def check_log(self) -> None:
        bench = self.transcript.bench
        replayed = GroupBench(bench.settings, bench.topics)
        replayed.reload(bench.log)
        theirs, ours = replayed.shard.state.groups.get("g"), self.group
        if ours is None:
            assert theirs is None
            return
        for name in (
            "epoch",
            "target_epoch",
            "metadata_hash",
            "validated_topology_epoch",
            "assignment_configs",
            "topology",
            "members",
            "target",
            "static_members",
            "_active",
            "_standby",
            "_warmup",
        ):
            assert getattr(theirs, name) == getattr(ours, name), name

    def stop_faults(self) -> None:
        self.transcript.bench.append_error = None
        self.change_topics(READY)
        if not self.threads:
            self.join()
        for _ in range(14):
            for thread in self.threads:
                self.heartbeat(thread, lose=False, report=True)
            self.transcript.bench.advance(11_000)
        group = self.group
        assert group is not None
        assert group.state_name == "Stable", self.transcript.text[-3_000:]
        active = sorted(task for thread in self.threads for task in thread.tasks)
        assert active == [(subtopology, index) for subtopology in "01" for index in range(4)]


@pytest.mark.parametrize("seed", range(25))
def test_random_faults(seed: int) -> None:
    chaos = Chaos(seed)
    for step in range(STEPS):
        chaos.step()
        chaos.check_tasks()
        if step % 10 == 0:
            chaos.check_log()
    chaos.stop_faults()
    chaos.check_tasks()
    chaos.check_log()
