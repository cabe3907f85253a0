"""Transcripts of consumer groups: requests of members, written records and responses, line by line.

A test acts through a Transcript and compares its text with the expected one:

    > a joins orders            the request
    5 a orders                  a record; x5 is its tombstone
    8 a epoch 2 ← 0 stable orders:0@2,1@2 revoke orders:2@1
    a at 2 has orders:0,1       the response; `a at 2` without an assignment
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ruslo.machines.groups.events import RegexResolved, ResolvedRegex, ResolveRegex
from ruslo.machines.groups.records import GroupRecord
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid
from ruslo.protocol.message import Message
from ruslo.protocol.messages.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from ruslo.protocol.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from ruslo.protocol.messages.consumer_group_current_member_assignment_value import (
    TopicPartitions as CurrentPartitions,
)
from ruslo.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ruslo.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from ruslo.protocol.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from ruslo.protocol.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from ruslo.protocol.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from ruslo.protocol.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from ruslo.protocol.messages.consumer_group_regular_expression_value import (
    ConsumerGroupRegularExpressionValue,
)
from ruslo.protocol.messages.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from ruslo.protocol.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
)
from ruslo.protocol.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from ruslo.protocol.messages.group_metadata_value import GroupMetadataValue
from tests.support.groups.group_bench import GroupBench, Topics

REBALANCE_TIMEOUT_MS = 60_000
STATES = {0: "stable", 1: "unrevoked", 2: "unreleased"}


class Transcript:
    def __init__(self, bench: GroupBench | None = None, group: str = "g") -> None:
        self.bench = bench or GroupBench()
        self.group = group
        self.lines: list[str] = []
        self._shown = len(self.bench.log)

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def step(self, text: str) -> None:
        """Add the line of the next step; ``show`` adds its effects."""
        self.lines.append(f"> {text}")

    def show(self) -> None:
        """Add the records that were written since the last call."""
        self.lines += [self.shown(record) for record in self.bench.records(self._shown)]
        self._shown = len(self.bench.log)

    def wait(self, duration_ms: int) -> None:
        self.step(f"{duration_ms / 1000:g} s pass")
        self.bench.advance(duration_ms)
        self.show()

    def change_topics(self, text: str, topics: Topics, deleted: Iterable[str] = ()) -> None:
        self.step(text)
        self.bench.change_topics(topics, deleted)
        self.show()

    def resolve(self, found: Mapping[str, Iterable[str]]) -> None:
        """Complete the only pending query, which resolves patterns."""
        (query,) = self.bench.queries
        assert isinstance(query, ResolveRegex)
        assert set(query.patterns) == set(found)
        self.bench.queries.clear()
        self.step("patterns are resolved")
        resolved = {
            pattern: ResolvedRegex(tuple(sorted(topics)), self.bench.topics.version, self.bench.wall_ms)
            for pattern, topics in found.items()
        }
        self.bench.run(RegexResolved(query.group_id, resolved))
        self.show()

    def reload(self) -> None:
        self.step("the coordinator moves")
        self.bench.reload()
        self.show()

    def shown(self, record: GroupRecord) -> str:
        key, value = record.key, record.value
        shown = f"{key.API_KEY}{self._key(key)}"
        return f"x{shown}" if value is None else f"{shown}{self._value(value)}"

    def _key(self, key: Message) -> str:
        if isinstance(
            key,
            ConsumerGroupMemberMetadataKey
            | ConsumerGroupTargetAssignmentMemberKey
            | ConsumerGroupCurrentMemberAssignmentKey,
        ):
            return f" {key.member_id}"
        if isinstance(key, ConsumerGroupRegularExpressionKey):
            return f" {key.regular_expression}"
        return ""

    def _value(self, value: object) -> str:
        match value:
            case ConsumerGroupMetadataValue():
                return f" epoch {value.epoch}"
            case ConsumerGroupTargetAssignmentMetadataValue():
                return f" epoch {value.assignment_epoch}"
            case ConsumerGroupMemberMetadataValue():
                fields = [",".join(value.subscribed_topic_names)]
                fields += [f"~{value.subscribed_topic_regex}"] if value.subscribed_topic_regex else []
                fields += [f"as {value.instance_id}"] if value.instance_id is not None else []
                fields += ["classic"] if value.classic_member_metadata is not None else []
                return "".join(f" {field}" for field in fields if field)
            case ConsumerGroupTargetAssignmentMemberValue():
                return self._partitions({each.topic_id: each.partitions for each in value.topic_partitions})
            case ConsumerGroupCurrentMemberAssignmentValue():
                text = f" epoch {value.member_epoch} ← {value.previous_member_epoch} {STATES[value.state]}"
                text += self._current(value.assigned_partitions)
                if value.partitions_pending_revocation:
                    text += " revoke" + self._current(value.partitions_pending_revocation)
                return text
            case ConsumerGroupRegularExpressionValue():
                return f" {','.join(value.topics)}"
            case GroupMetadataValue():
                members = ",".join(member.member_id for member in value.members)
                return f" generation {value.generation} {value.protocol} {members}"
        raise AssertionError(f"transcripts do not support {value!r}")

    def _current(self, topics: Iterable[CurrentPartitions]) -> str:
        text = ""
        for topic in sorted(topics, key=lambda each: self._name(each.topic_id)):
            assert topic.assignment_epochs is not None
            since = zip(topic.partitions, topic.assignment_epochs, strict=True)
            text += f" {self._name(topic.topic_id)}:" + ",".join(f"{index}@{epoch}" for index, epoch in since)
        return text

    def _partitions(self, topics: Mapping[Uuid, Iterable[int]]) -> str:
        return "".join(
            f" {self._name(topic_id)}:{','.join(map(str, partitions))}"
            for topic_id, partitions in sorted(topics.items(), key=lambda each: self._name(each[0]))
        )

    def _name(self, topic_id: Uuid) -> str:
        topic = self.bench.topics.by_id(topic_id)
        return "(deleted)" if topic is None else topic.name


class Consumer:
    """A member of the new protocol, which sends what a real client sends unless a test changes it."""

    def __init__(
        self,
        transcript: Transcript,
        member_id: str,
        *topics: str,
        regex: str | None = None,
        instance_id: str | None = None,
        assignor: str | None = None,
        rack_id: str | None = None,
        client_id: str = "app",
    ) -> None:
        self.transcript = transcript
        self.member_id = member_id
        self.topics = list(topics)
        self.regex = regex
        self.instance_id = instance_id
        self.assignor = assignor
        self.rack_id = rack_id
        self.client_id = client_id
        self.epoch = 0
        self.owned: dict[Uuid, list[int]] = {}

    def join(self, text: str = "joins", version: int | None = None) -> ConsumerGroupHeartbeatResponse:
        self.epoch = 0
        self.owned = {}
        wanted = " ".join([*self.topics, *([f"~{self.regex}"] if self.regex else [])])
        return self.send(
            f"{text} {wanted}".rstrip(),
            version=version,
            rack_id=self.rack_id,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=self.topics if self.topics or self.regex is None else None,
            subscribed_topic_regex=self.regex,
            server_assignor=self.assignor,
            topic_partitions=[],
        )

    def heartbeat(self, text: str = "sends a heartbeat") -> ConsumerGroupHeartbeatResponse:
        return self.send(text)

    def report_owned(self, text: str = "reports its partitions") -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat with the owned partitions, as clients do after every change."""
        return self.send(text, topic_partitions=self.held())

    def subscribe(self, *topics: str, regex: str | None = None) -> ConsumerGroupHeartbeatResponse:
        self.topics = list(topics)
        self.regex = regex
        wanted = " ".join([*self.topics, *([f"~{self.regex}"] if self.regex else [])])
        return self.send(
            f"subscribes to {wanted}",
            subscribed_topic_names=self.topics,
            subscribed_topic_regex="" if regex is None else regex,
        )

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        self.epoch = epoch
        return self.send("leaves" if epoch == -1 else f"leaves with {epoch}")

    def held(self) -> list[TopicPartitions]:
        return [
            TopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in self.owned.items()
        ]

    def send(
        self,
        text: str,
        *,
        version: int | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        subscribed_topic_names: list[str] | None = None,
        subscribed_topic_regex: str | None = None,
        server_assignor: str | None = None,
        topic_partitions: list[TopicPartitions] | None = None,
    ) -> ConsumerGroupHeartbeatResponse:
        transcript = self.transcript
        transcript.step(f"{self.member_id} {text}")
        request = ConsumerGroupHeartbeatRequest(
            group_id=transcript.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rack_id=rack_id,
            rebalance_timeout_ms=rebalance_timeout_ms,
            subscribed_topic_names=subscribed_topic_names,
            subscribed_topic_regex=subscribed_topic_regex,
            server_assignor=server_assignor,
            topic_partitions=topic_partitions,
        )
        response = transcript.bench.call(request, ConsumerGroupHeartbeatResponse, version, self.client_id)
        transcript.show()
        self._receive(response)
        return response

    def _receive(self, response: ConsumerGroupHeartbeatResponse) -> None:
        if response.error_code != ErrorCode.NONE:
            self.transcript.lines.append(f"{self.member_id}: {ErrorCode(response.error_code).name}")
            return
        assert response.member_id is not None
        self.member_id = response.member_id
        self.epoch = response.member_epoch
        text = f"{self.member_id} at {self.epoch}"
        if response.assignment is not None:
            self.owned = {each.topic_id: each.partitions for each in response.assignment.topic_partitions}
            text += f" has{self.transcript._partitions(self.owned) or ' nothing'}"
        self.transcript.lines.append(text)
