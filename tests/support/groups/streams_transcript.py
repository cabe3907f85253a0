"""Transcripts of streams groups: requests of members, written records and responses, line by line.

A test acts through a StreamsTranscript and compares its text with the expected one:

    > a joins                       the request
    19 a                            a record; x19 is its tombstone
    17 epoch 2 validated 0
    22 a epoch 2 ← 0 stable active 0:0@2,1@2 revoke active 0:2@1
    a at 2 has active 0:0,1         the response; `a at 2` without tasks, then its statuses
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ruslo.machines.groups.records import GroupRecord
from ruslo.machines.groups.settings import GroupSettings
from ruslo.machines.groups.streams.internal_topics import missing_internal_topics
from ruslo.machines.groups.streams.member import MemberState
from ruslo.machines.groups.streams.settings import GroupSetting, StreamsSettings
from ruslo.machines.groups.streams.status import StatusCode
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.offset_commit_value import OffsetCommitValue
from ruslo.protocol.messages.streams_group_current_member_assignment_value import (
    StreamsGroupCurrentMemberAssignmentValue,
)
from ruslo.protocol.messages.streams_group_heartbeat_request import (
    CopartitionGroup,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from ruslo.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from ruslo.protocol.messages.streams_group_member_metadata_value import StreamsGroupMemberMetadataValue
from ruslo.protocol.messages.streams_group_metadata_value import StreamsGroupMetadataValue
from ruslo.protocol.messages.streams_group_target_assignment_member_value import (
    StreamsGroupTargetAssignmentMemberValue,
)
from ruslo.protocol.messages.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from ruslo.protocol.messages.streams_group_topology_value import StreamsGroupTopologyValue
from tests.support.groups.consumer_transcript import REBALANCE_TIMEOUT_MS, Transcript
from tests.support.groups.group_bench import GroupBench, Topics

SOURCES = {"orders": 4, "parcels": 2}
READY = {**SOURCES, "r": 4, "c": 4}
"""The topics of ``counting_topology`` when all exist."""
NO_DELAY = StreamsSettings(initial_rebalance_delay_ms=GroupSetting(0), assignment_interval_ms=GroupSetting(0))


def subtopology(
    subtopology_id: str,
    *sources: str,
    reads: Sequence[TopicInfo] = (),
    writes: Sequence[str] = (),
    changelogs: Sequence[TopicInfo] = (),
    copartitioned: Sequence[CopartitionGroup] = (),
) -> Subtopology:
    return Subtopology(
        subtopology_id=subtopology_id,
        source_topics=list(sources),
        repartition_source_topics=list(reads),
        repartition_sink_topics=list(writes),
        state_changelog_topics=list(changelogs),
        copartition_groups=list(copartitioned),
    )


def counting_topology(epoch: int = 0, prefix: str = "") -> Topology:
    """``orders`` → repartition topic ``r`` → counts with the changelog ``c``."""
    repartition, changelog = TopicInfo(name=f"{prefix}r"), TopicInfo(name=f"{prefix}c")
    return Topology(
        epoch=epoch,
        subtopologies=[
            subtopology("0", "orders", writes=[repartition.name]),
            subtopology("1", reads=[repartition], changelogs=[changelog]),
        ],
    )


def stateless_topology(*sources: str, epoch: int = 0) -> Topology:
    return Topology(epoch=epoch, subtopologies=[subtopology("0", *(sources or ("orders",)))])


def streams_bench(streams: StreamsSettings = NO_DELAY, topics: dict[str, int] | None = None) -> GroupBench:
    return GroupBench(GroupSettings(streams=streams), Topics(SOURCES if topics is None else topics))


class StreamsTranscript(Transcript):
    def __init__(
        self,
        streams: StreamsSettings = NO_DELAY,
        topics: dict[str, int] | None = None,
        group: str = "g",
        bench: GroupBench | None = None,
    ) -> None:
        super().__init__(bench or streams_bench(streams, topics), group)

    def create_missing_topics(self) -> None:
        """Create the internal topics that the group waits for, as a broker does."""
        missing = missing_internal_topics(self.bench.shard.state, self.group)
        existing = {
            name: info.partition_count
            for name in self.bench.topics.all_names()
            if (info := self.bench.topics.by_name(name)) is not None
        }
        created = {topic.name: topic.partition_count for topic in missing}
        self.change_topics(f"topics are created: {_counts(created)}", Topics({**existing, **created}))

    def shown(self, record: GroupRecord) -> str:
        member_id = getattr(record.key, "member_id", None)
        name = "" if member_id is None else f" {member_id}"
        kind = record.key.API_KEY
        return f"x{kind}{name}" if record.value is None else f"{kind}{name}{self._value(record.value)}"

    def _value(self, value: object) -> str:
        match value:
            case StreamsGroupMetadataValue():
                return f" epoch {value.epoch} validated {value.validated_topology_epoch}"
            case StreamsGroupTopologyValue():
                return f" topology {value.epoch}"
            case StreamsGroupTargetAssignmentMetadataValue():
                return f" epoch {value.assignment_epoch}"
            case StreamsGroupMemberMetadataValue():
                return "" if value.instance_id is None else f" as {value.instance_id}"
            case StreamsGroupTargetAssignmentMemberValue():
                return _roles(value.active_tasks, value.standby_tasks, value.warmup_tasks) or " nothing"
            case StreamsGroupCurrentMemberAssignmentValue():
                state = MemberState(value.state).name.lower()
                text = f" epoch {value.member_epoch} ← {value.previous_member_epoch} {state}"
                text += _roles(value.active_tasks, value.standby_tasks, value.warmup_tasks)
                pending = _roles(
                    value.active_tasks_pending_revocation,
                    value.standby_tasks_pending_revocation,
                    value.warmup_tasks_pending_revocation,
                )
                return f"{text} revoke{pending}" if pending else text
            case OffsetCommitValue():
                return f" offset {value.offset}"
        return super()._value(value)


class StreamThread:
    """A member, which sends what a real client sends unless a test changes it."""

    def __init__(
        self,
        transcript: StreamsTranscript,
        member_id: str,
        topology: Topology | None = None,
        *,
        process_id: str | None = None,
        instance_id: str | None = None,
        version: int = 0,
    ) -> None:
        self.transcript = transcript
        self.member_id = member_id
        self.topology = topology or counting_topology()
        self.process_id = process_id or f"process-{member_id}"
        self.instance_id = instance_id
        self.version = version
        self.epoch = 0
        self.endpoint_epoch = 0
        self.active: list[TaskIds] = []
        self.standby: list[TaskIds] = []
        self.warmup: list[TaskIds] = []

    def join(self, text: str = "joins", **fields: object) -> StreamsGroupHeartbeatResponse:
        self.epoch = 0
        self.active, self.standby, self.warmup = [], [], []
        return self.send(
            text,
            **{
                "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
                "topology": self.topology,
                "process_id": self.process_id,
                "active_tasks": [],
                "standby_tasks": [],
                "warmup_tasks": [],
                "client_tags": [],
                **fields,
            },
        )

    def heartbeat(self, text: str = "sends a heartbeat", **fields: object) -> StreamsGroupHeartbeatResponse:
        return self.send(text, **fields)

    def report_tasks(self, text: str = "reports its tasks") -> StreamsGroupHeartbeatResponse:
        """Send a heartbeat with the owned tasks, as clients do after every change."""
        return self.send(text, active_tasks=self.active, standby_tasks=self.standby, warmup_tasks=self.warmup)

    def report_offsets(self, offsets: Iterable[TaskOffset], ends: Iterable[TaskOffset]) -> None:
        self.send("reports offsets", task_offsets=list(offsets), task_end_offsets=list(ends))

    def leave(self, epoch: int = -1, **fields: object) -> StreamsGroupHeartbeatResponse:
        self.epoch = epoch
        return self.send("leaves" if epoch == -1 else f"leaves with {epoch}", **fields)

    def send(self, text: str, **fields: object) -> StreamsGroupHeartbeatResponse:
        transcript = self.transcript
        transcript.step(f"{self.member_id} {text}")
        request = StreamsGroupHeartbeatRequest(
            group_id=transcript.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            endpoint_information_epoch=self.endpoint_epoch,
            **fields,  # type: ignore[arg-type]
        )
        response = transcript.bench.call(request, StreamsGroupHeartbeatResponse, self.version)
        transcript.show()
        self._receive(response)
        return response

    def _receive(self, response: StreamsGroupHeartbeatResponse) -> None:
        lines = self.transcript.lines
        if response.error_code != ErrorCode.NONE:
            lines.append(f"{self.member_id}: {ErrorCode(response.error_code).name}")
            return
        self.epoch = response.member_epoch
        text = f"{self.member_id} at {self.epoch}"
        if response.active_tasks is not None:
            self.active = _own(response.active_tasks)
            self.standby = _own(response.standby_tasks or ())
            self.warmup = _own(response.warmup_tasks or ())
            text += " has" + (_roles(self.active, self.standby, self.warmup) or " nothing")
        lines.append(text)
        lines.extend(f"  {StatusCode(each.status_code).name}" for each in response.status or ())

    @property
    def tasks(self) -> set[tuple[str, int]]:
        """Its active tasks."""
        return {(each.subtopology_id, index) for each in self.active for index in each.partitions}


def _own(tasks: Iterable[object]) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=each.subtopology_id, partitions=list(each.partitions))  # type: ignore[attr-defined]
        for each in tasks
    ]


def _roles(active: Iterable[object], standby: Iterable[object], warmup: Iterable[object]) -> str:
    named = (("active", active), ("standby", standby), ("warmup", warmup))
    return "".join(f" {role}{text}" for role, tasks in named if (text := _tasks(tasks)))


def _tasks(tasks: Iterable[object]) -> str:
    text = ""
    for each in tasks:
        partitions: list[int] = each.partitions  # type: ignore[attr-defined]
        epochs = getattr(each, "assignment_epochs", None)
        shown = [str(index) for index in partitions]
        if epochs is not None:
            shown = [f"{index}@{epoch}" for index, epoch in zip(partitions, epochs, strict=True)]
        text += f" {each.subtopology_id}:{','.join(shown)}"  # type: ignore[attr-defined]
    return text


def _counts(counts: dict[str, int]) -> str:
    return " ".join(f"{name}({count})" for name, count in counts.items())
