"""The membership of a client in a share group: what its heartbeats say, and what the responses mean.

==========  ==========================================================================================
state       meaning
==========  ==========================================================================================
JOINING     the next heartbeat has epoch 0 and the whole subscription
STABLE      heartbeats have the epoch of the last response, and the subscription only if it changed
LEFT        the member left the group, or will with its next heartbeat
==========  ==========================================================================================

The coordinator fences a member that it does not know, or whose epoch is wrong: the member joins again with
the same id. Unlike in a consumer group, a member need not revoke partitions: several members share one.
"""

from __future__ import annotations

import enum
from collections.abc import Collection

from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid, random_uuid, uuid_to_text
from ruslo.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from ruslo.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
_FENCED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
_EARLY_HEARTBEATS = 20
_EARLY_INTERVAL_MS = 250
"""A new member usually gets its partitions within a second, after the group is initialized for its topics."""
_DEFAULT_INTERVAL_MS = 5_000


class MemberState(enum.Enum):
    JOINING = "joining"
    STABLE = "stable"
    LEFT = "left"


class ShareMember:
    def __init__(self, group_id: str, topics: Collection[str], *, rack_id: str | None = None) -> None:
        self.group_id = group_id
        self.member_id = uuid_to_text(random_uuid())
        self.epoch = JOIN_EPOCH
        self.state = MemberState.JOINING
        self.assigned: frozenset[tuple[Uuid, int]] = frozenset()
        """Topic ids and partitions that this member fetches from."""
        self._rack_id = rack_id
        self._topics = sorted(set(topics))
        self._sent_topics: list[str] | None = None
        self._received_topics: list[str] | None = None
        """The subscription that the coordinator has."""
        self._interval_ms = _DEFAULT_INTERVAL_MS
        self._early_left = _EARLY_HEARTBEATS

    @property
    def interval_ms(self) -> int:
        """The time from a response to the next heartbeat."""
        if self.state is MemberState.STABLE and not self.assigned and self._early_left > 0:
            return min(self._interval_ms, _EARLY_INTERVAL_MS)
        return self._interval_ms

    def subscribe(self, topics: Collection[str]) -> None:
        """Change the subscription with the next heartbeat; a member that left joins again."""
        self._topics = sorted(set(topics))
        if self.state is MemberState.LEFT:
            self._join()

    def leave(self) -> None:
        """Leave with the next heartbeat."""
        self.state = MemberState.LEFT
        self.epoch = LEAVE_EPOCH
        self.assigned = frozenset()

    def heartbeat(self) -> ShareGroupHeartbeatRequest:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch
        )
        if self.state is MemberState.JOINING:
            request.rack_id = self._rack_id
        if self.state is not MemberState.LEFT and self._topics != self._received_topics:
            request.subscribed_topic_names = self._sent_topics = list(self._topics)
        return request

    def on_response(self, response: ShareGroupHeartbeatResponse) -> None:
        """A response without an error."""
        if self.state is MemberState.LEFT or response.member_epoch < 0:
            return
        self.state = MemberState.STABLE
        self._received_topics = self._sent_topics
        self.epoch = response.member_epoch
        if response.heartbeat_interval_ms > 0:
            self._interval_ms = response.heartbeat_interval_ms
        if not self.assigned:
            self._early_left -= 1
        if response.assignment is not None:
            self.assigned = frozenset(
                (topic.topic_id, partition)
                for topic in response.assignment.topic_partitions
                for partition in topic.partitions
            )

    def on_error(self, code: ErrorCode) -> bool:
        """Returns whether the member recovers by itself: it joins again at once."""
        if self.state is MemberState.LEFT:
            return True
        if code in _FENCED:
            self._join()
            return True
        return code.retriable

    def _join(self) -> None:
        self.state = MemberState.JOINING
        self.epoch = JOIN_EPOCH
        self.assigned = frozenset()
        self._sent_topics = self._received_topics = None
        self._early_left = _EARLY_HEARTBEATS
