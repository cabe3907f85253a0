"""Transcripts of share groups, as ``consumer_transcript`` has them of consumer groups.

> a joins orders              the request
10 a orders                   a record; x10 is its tombstone
15 initializing orders:0,1    the states of share-partitions
initialize orders:0,1 at 2    a query to the share coordinator, with its state epoch
a at 2 has orders:0,1         the response; `a at 2` without an assignment
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ruslo.machines.groups.share.events import (
    UNINITIALIZED_START_OFFSET,
    DeleteShareState,
    InitializeShareState,
    ShareStateDeleted,
    ShareStateInitialized,
)
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid
from ruslo.protocol.message import Message
from ruslo.protocol.messages.share_group_current_member_assignment_key import (
    ShareGroupCurrentMemberAssignmentKey,
)
from ruslo.protocol.messages.share_group_current_member_assignment_value import (
    ShareGroupCurrentMemberAssignmentValue,
)
from ruslo.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from ruslo.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from ruslo.protocol.messages.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from ruslo.protocol.messages.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from ruslo.protocol.messages.share_group_metadata_value import ShareGroupMetadataValue
from ruslo.protocol.messages.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
    TopicPartitionsInfo,
)
from ruslo.protocol.messages.share_group_target_assignment_member_key import (
    ShareGroupTargetAssignmentMemberKey,
)
from ruslo.protocol.messages.share_group_target_assignment_member_value import (
    ShareGroupTargetAssignmentMemberValue,
)
from ruslo.protocol.messages.share_group_target_assignment_metadata_value import (
    ShareGroupTargetAssignmentMetadataValue,
)
from tests.support.groups.consumer_transcript import Transcript


class ShareTranscript(Transcript):
    def show(self) -> None:
        super().show()
        self.lines += [self._query(query) for query in self.bench.queries[self._shown_queries :]]
        self._shown_queries = len(self.bench.queries)

    _shown_queries = 0

    def answer(self, code: ErrorCode = ErrorCode.NONE, **failed: list[int]) -> None:
        """Complete all queries to the share coordinator; ``failed``: partitions with ``code``, by topic."""
        everything_fails = code is not ErrorCode.NONE and not failed
        self.step("the share coordinator responds" + (f" {code.name}" if code else ""))
        queries, self.bench.queries = self.bench.queries, []
        self._shown_queries = 0
        for query in queries:
            assert isinstance(query, InitializeShareState | DeleteShareState)
            partitions: Mapping[Uuid, Iterable[int]] = (
                query.start_offsets if isinstance(query, InitializeShareState) else query.partitions
            )
            codes = {
                topic_id: {
                    index: code
                    if everything_fails or index in failed.get(self._name(topic_id), ())
                    else ErrorCode.NONE
                    for index in indexes
                }
                for topic_id, indexes in partitions.items()
            }
            if isinstance(query, InitializeShareState):
                self.bench.run(ShareStateInitialized(query.group_id, codes, query.token))
            else:
                self.bench.run(ShareStateDeleted(query.group_id, codes, query.token))
        self.show()

    def _query(self, query: object) -> str:
        if isinstance(query, InitializeShareState):
            parts = []
            for topic_id, offsets in query.start_offsets.items():
                shown = [
                    str(index) if offset == UNINITIALIZED_START_OFFSET else f"{index}@{offset}"
                    for index, offset in offsets.items()
                ]
                parts.append(f"{self._name(topic_id)}:{','.join(shown)}")
            return f"initialize {' '.join(parts)} at {query.state_epoch}"
        assert isinstance(query, DeleteShareState)
        return "delete" + self._partitions({each: sorted(held) for each, held in query.partitions.items()})

    def _key(self, key: Message) -> str:
        if isinstance(
            key,
            ShareGroupMemberMetadataKey
            | ShareGroupTargetAssignmentMemberKey
            | ShareGroupCurrentMemberAssignmentKey,
        ):
            return f" {key.member_id}"
        return super()._key(key)

    def _value(self, value: object) -> str:
        match value:
            case ShareGroupMetadataValue():
                return f" epoch {value.epoch}"
            case ShareGroupTargetAssignmentMetadataValue():
                return f" epoch {value.assignment_epoch}"
            case ShareGroupMemberMetadataValue():
                return " " + ",".join(value.subscribed_topic_names)
            case ShareGroupTargetAssignmentMemberValue():
                return self._partitions({each.topic_id: each.partitions for each in value.topic_partitions})
            case ShareGroupCurrentMemberAssignmentValue():
                held = {each.topic_id: each.partitions for each in value.assigned_partitions}
                text = f" epoch {value.member_epoch} ← {value.previous_member_epoch}"
                return text + self._partitions(held)
            case ShareGroupStatePartitionMetadataValue():
                text = _states("initializing", value.initializing_topics)
                text += _states("initialized", value.initialized_topics)
                deleting = " ".join(sorted(topic.topic_name for topic in value.deleting_topics))
                return (text + (f" deleting {deleting}" if deleting else "")) or " nothing"
        return super()._value(value)


def _states(state: str, topics: list[TopicPartitionsInfo]) -> str:
    if not topics:
        return ""
    return f" {state}" + "".join(
        f" {topic.topic_name}:{','.join(map(str, topic.partitions))}"
        for topic in sorted(topics, key=lambda each: each.topic_name)
    )


class ShareConsumer:
    """A member of a share group, which sends what a real client sends unless a test changes it."""

    def __init__(
        self,
        transcript: ShareTranscript,
        member_id: str,
        *topics: str,
        rack_id: str | None = None,
        client_id: str = "app",
    ) -> None:
        self.transcript = transcript
        self.member_id = member_id
        self.topics = list(topics)
        self.rack_id = rack_id
        self.client_id = client_id
        self.epoch = 0
        self.owned: dict[Uuid, list[int]] = {}

    def join(self) -> ShareGroupHeartbeatResponse:
        self.epoch = 0
        return self.send(f"joins {' '.join(self.topics)}", self.topics, self.rack_id)

    def subscribe(self, *topics: str) -> ShareGroupHeartbeatResponse:
        self.topics = list(topics)
        return self.send(f"subscribes to {' '.join(topics)}", self.topics)

    def heartbeat(self, text: str = "sends a heartbeat") -> ShareGroupHeartbeatResponse:
        return self.send(text)

    def leave(self) -> ShareGroupHeartbeatResponse:
        self.epoch = -1
        return self.send("leaves")

    def send(
        self, text: str, topics: list[str] | None = None, rack_id: str | None = None
    ) -> ShareGroupHeartbeatResponse:
        transcript = self.transcript
        transcript.step(f"{self.member_id} {text}")
        request = ShareGroupHeartbeatRequest(
            group_id=transcript.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rack_id=rack_id,
            subscribed_topic_names=topics,
        )
        response = transcript.bench.call(request, ShareGroupHeartbeatResponse, client=self.client_id)
        transcript.show()
        self._receive(response)
        return response

    def _receive(self, response: ShareGroupHeartbeatResponse) -> None:
        if response.error_code != ErrorCode.NONE:
            self.transcript.lines.append(f"{self.member_id}: {ErrorCode(response.error_code).name}")
            return
        self.epoch = response.member_epoch
        text = f"{self.member_id} at {self.epoch}"
        if response.assignment is not None:
            self.owned = {each.topic_id: each.partitions for each in response.assignment.topic_partitions}
            text += f" has{self.transcript._partitions(self.owned) or ' nothing'}"
        self.transcript.lines.append(text)


def with_group(*topics: str, group: str = "g", transcript: ShareTranscript | None = None) -> ShareTranscript:
    """A share group that its only member has left; the states of these topics are initialized."""
    transcript = transcript or ShareTranscript()
    transcript.group = group
    a = ShareConsumer(transcript, "a", *topics)
    a.join()
    transcript.answer()
    a.leave()
    transcript.lines.clear()
    return transcript
