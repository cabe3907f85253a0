"""A follower's connection to one leader, and whether the process of that leader has ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ruslo.broker.partitions.partition import Partition
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.net.channel import Channel, ChannelSettings
from ruslo.net.errors import BrokerUnreachable, ConnectionLost
from ruslo.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ruslo.protocol.messages.list_offsets_response import ListOffsetsResponse

LATEST = -1
EARLIEST_LOCAL = -4

_LOST_LEADER_MS = 10_000
"""After this time the controller has elected another leader, or knows that this one is alive."""


class Address(NamedTuple):
    host: str
    port: int


@dataclass(slots=True, eq=False)
class LeaderConnection:
    _leader_id: int
    _address: Callable[[int], Address | None]
    _settings: ChannelSettings
    _clock: Clock
    _connection: Channel | None = None
    _lost_since_ms: int | None = None
    """When the leader's process closed the connection, or its host first refused one; None once the leader
    was reached again."""

    @property
    def is_open(self) -> bool:
        return self._connection is not None and not self._connection.closed

    def leader_is_lost(self) -> bool:
        """Whether the leader's process has just closed the connection and was not reached since.

        A silent leader does not count as lost.
        """
        if self._lost_since_ms is None:
            # A client that lost the same leader asks at once. On a busy machine its request is read before
            # the event loop reports the end of this connection, so the socket is checked here.
            return self._connection is not None and self._connection.peer_closed()
        return self._clock.monotonic_ms() - self._lost_since_ms < _LOST_LEADER_MS

    async def open(self) -> Channel:
        """The open connection, or a new one."""
        if self._connection is not None and not self._connection.closed:
            return self._connection
        address = self._address(self._leader_id)
        if address is None:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"broker {self._leader_id} has no address for other brokers"
            )
        if self._connection is not None and self._connection.lost:
            self._note_loss()
        try:
            self._connection = await Channel.open(*address, self._settings)
        except KafkaError as error:
            self._connection = None
            if isinstance(error, BrokerUnreachable) and error.refused:
                self._note_loss()
            elif not isinstance(error, ConnectionLost):
                # The leader or its host is silent. A connection that is accepted and then closed proves
                # nothing: the listener of a dying process may be closed after its connections.
                self._lost_since_ms = None
            raise
        self._lost_since_ms = None
        return self._connection

    def _note_loss(self) -> None:
        if self._lost_since_ms is None:
            self._lost_since_ms = self._clock.monotonic_ms()

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()


async def fetch_leader_offset(
    connection: Channel, node_id: int, partition: Partition, leader_epoch: int, timestamp: int
) -> int:
    """The leader's offset for ``LATEST`` or ``EARLIEST_LOCAL``; raises KafkaError."""
    listed = ListOffsetsPartition(
        partition_index=partition.index, current_leader_epoch=leader_epoch, timestamp=timestamp
    )
    topic = ListOffsetsTopic(name=partition.topic, partitions=[listed])
    request = ListOffsetsRequest(replica_id=node_id, topics=[topic])
    response = await connection.request(request, ListOffsetsResponse)
    (result,) = response.topics[0].partitions
    if result.error_code:
        raise KafkaError(ErrorCode(result.error_code))
    return result.offset
