"""A member of a group that consumes partitions, with either protocol.

It advances its positions, commits them, and fetches the committed offset of every new partition. So a
committed offset that moves back or is lost is a fault of the broker.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ruslo.model.errors import ErrorCode
from ruslo.model.topics import TopicPartition
from ruslo.protocol.message import Message
from ruslo.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ruslo.protocol.messages.offset_commit_response import OffsetCommitResponse
from ruslo.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ruslo.protocol.messages.offset_fetch_response import OffsetFetchResponse
from ruslo.testing.simulation.connection import Connection, LineFaults, NetworkFaults
from ruslo.testing.simulation.groups.coordinator import OnReply, SimCoordinator

if TYPE_CHECKING:
    from ruslo.testing.simulation.groups.invariants import GroupInvariants

REQUEST_TIMEOUT_MS = 10_000
COMMIT_INTERVAL_MS = 20_000
BACKOFF_MS = 500
COMMIT_VERSION = 9
FETCH_VERSION = 9

RETRIABLE_ERRORS = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
EXPECTED_ERRORS = RETRIABLE_ERRORS | {
    ErrorCode.NONE,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
}
"""The errors that a correct client may get from a correct coordinator."""

ResponseT = TypeVar("ResponseT", bound=Message)


def expected(code: int) -> ErrorCode:
    known = ErrorCode(code)
    assert known in EXPECTED_ERRORS, f"a correct client never gets {known.name}"
    return known


class SimMember(ABC):
    def __init__(
        self,
        name: str,
        group_id: str,
        coordinator: SimCoordinator,
        faults: LineFaults,
        invariants: GroupInvariants,
        topics: Iterable[str],
        instance_id: str | None,
    ) -> None:
        self.name = name
        self.group_id = group_id
        self.instance_id = instance_id
        self.topics = list(topics)
        self.alive = True
        self.member_id = ""
        self.owned: set[TopicPartition] = set()
        self._positions: dict[TopicPartition, int] = {}
        """The positions of owned partitions whose committed offset is known."""
        self._coordinator = coordinator
        self._clock = coordinator.clock
        self._random = self._clock.random
        self._connection: Connection[Message | None] = Connection(
            self._clock, NetworkFaults(faults), strict=True
        )
        self._invariants = invariants
        self._paused_until_ms = 0
        self._later(self._random.randint(0, COMMIT_INTERVAL_MS), self._commit_periodically)

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The member epoch or generation; 0 or less: it is not a member."""

    @abstractmethod
    def leave(self) -> None:
        """Leave the group as the protocol requires, and stop."""

    @abstractmethod
    def subscribe(self, topics: Iterable[str]) -> None: ...

    def kill(self) -> None:
        self.alive = False
        self.owned.clear()

    def pause(self, duration_ms: int) -> None:
        """Do nothing for a while, like a process that is paused."""
        self._paused_until_ms = max(self._paused_until_ms, self._clock.monotonic_ms() + duration_ms)

    # -- partitions ------------------------------------------------------------------------------------------

    def own(self, tps: set[TopicPartition]) -> None:
        """Own exactly these partitions from now on."""
        for tp in self.owned - tps:
            self._positions.pop(tp, None)
        new = tps - self.owned
        self.owned = set(tps)
        self._fetch_offsets(new)

    def commit(self) -> None:
        offsets = {tp: offset for tp, offset in self._positions.items() if tp in self.owned}
        if not offsets or self.epoch <= 0:
            return
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=tp.topic,
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=tp.partition, committed_offset=offset)
                    ],
                )
                for tp, offset in sorted(offsets.items())
            ],
        )
        self._call(request, COMMIT_VERSION, OffsetCommitResponse, partial(self._committed, offsets))

    def _committed(self, offsets: dict[TopicPartition, int], response: OffsetCommitResponse | None) -> None:
        if response is None:
            return
        for topic in response.topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                if expected(partition.error_code) is ErrorCode.NONE:
                    self._invariants.acked(self.group_id, tp, offsets[tp])

    def _fetch_offsets(self, tps: set[TopicPartition]) -> None:
        tps = {tp for tp in tps if tp in self.owned and tp not in self._positions}
        if not tps:
            return
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=self.group_id,
                    member_id=self.member_id,
                    member_epoch=self.epoch,
                    topics=[
                        OffsetFetchRequestTopics(name=tp.topic, partition_indexes=[tp.partition])
                        for tp in sorted(tps)
                    ],
                )
            ],
            require_stable=True,
        )
        at_least = {tp: self._invariants.acked_so_far(self.group_id, tp) for tp in tps}
        # A new assignment replaces ``owned``; the response is ignored then.
        on_fetched = partial(self._fetched, tps, at_least, self.owned)
        self._call(request, FETCH_VERSION, OffsetFetchResponse, on_fetched)

    def _fetched(
        self,
        tps: set[TopicPartition],
        at_least: dict[TopicPartition, int],
        owned: set[TopicPartition],
        response: OffsetFetchResponse | None,
    ) -> None:
        group = None if response is None else response.groups[0]
        if self.owned is not owned or group is None or expected(group.error_code) is not ErrorCode.NONE:
            self._later(BACKOFF_MS, lambda: self._fetch_offsets(tps))
            return
        for topic in group.topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                if partition.error_code == ErrorCode.NONE:
                    offset = partition.committed_offset
                    self._invariants.fetched(self.group_id, tp, offset, at_least[tp])
                    self._positions[tp] = max(offset, 0)

    def _commit_periodically(self) -> None:
        for tp in self._positions:
            self._positions[tp] += self._random.randint(0, 50)
        self.commit()
        self._later(COMMIT_INTERVAL_MS, self._commit_periodically)

    # -- calls -----------------------------------------------------------------------------------------------

    def _call(
        self,
        request: Message,
        version: int,
        response: type[ResponseT],
        on_reply: Callable[[ResponseT | None], None],
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        """Send a request; ``on_reply`` gets the first response, or None after the timeout."""

        def receive(message: Message | None) -> None:
            assert message is None or isinstance(message, response), message
            self._after_pause(lambda: on_reply(message))

        def submit(on_reply: OnReply) -> None:
            self._coordinator.submit(request, version, self.name, on_reply)

        self._connection.call(submit, receive, timeout_ms)

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._clock.call_later(delay_ms, lambda: self._after_pause(action))

    def _after_pause(self, action: Callable[[], None]) -> None:
        if not self.alive:
            return
        if self._clock.monotonic_ms() < self._paused_until_ms:
            self._clock.call_at(self._paused_until_ms, lambda: self._after_pause(action))
        else:
            action()
