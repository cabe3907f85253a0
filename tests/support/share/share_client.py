"""A member of a share group that speaks the protocol itself: sessions, fetches, acknowledgements."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple

from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid, uuid_to_text
from ruslo.protocol.messages import share_acknowledge_request as acknowledge_request
from ruslo.protocol.messages import share_fetch_request as fetch_request
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ruslo.protocol.messages.initialize_share_group_state_response import InitializeShareGroupStateResponse
from ruslo.protocol.messages.share_acknowledge_response import ShareAcknowledgeResponse
from ruslo.protocol.messages.share_fetch_response import PartitionData, ShareFetchResponse
from tests.support.brokers.live_node import records_in
from tests.support.clients.raw_client import RawClient, connected
from tests.support.share.state_requests import initialize_request

ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0

MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"

SMALL = {
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
"""Properties of a node for tests with share groups."""

_NOT_YET = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)

Batches = Sequence[tuple[int, int, Sequence[int]]]
"""First offset, last offset, acknowledge types."""


class Acquired(NamedTuple):
    first: int
    last: int
    delivery_count: int


class ShareMember:
    """Keeps the epoch of its session; ``error`` is the error of the last response as a whole."""

    def __init__(self, client: RawClient, topic: Uuid, group: str = "g", member: str = MEMBER) -> None:
        self.client = client
        self.topic = topic
        self.group = group
        self.member = member
        self.epoch = 0
        self.error = ErrorCode.NONE

    def new_fetch(
        self,
        partitions: Sequence[int] = (),
        *,
        acks: Mapping[int, Batches] | None = None,
        forgotten: Sequence[int] = (),
        max_wait_ms: int = 5_000,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        max_records: int = 500,
        batch_size: int = 500,
        mode: int = 0,
        is_renew_ack: bool = False,
        epoch: int | None = None,
        topic: Uuid | None = None,
    ) -> fetch_request.ShareFetchRequest:
        listed = dict.fromkeys(partitions, ()) | dict(acks or {})
        topic_id = topic or self.topic
        return fetch_request.ShareFetchRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.epoch if epoch is None else epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            max_records=max_records,
            batch_size=batch_size,
            share_acquire_mode=mode,
            is_renew_ack=is_renew_ack,
            topics=[
                fetch_request.FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        fetch_request.FetchPartition(
                            partition_index=index,
                            acknowledgement_batches=[
                                fetch_request.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=list(types)
                                )
                                for first, last, types in batches
                            ],
                        )
                        for index, batches in listed.items()
                    ],
                )
            ]
            if listed
            else [],
            forgotten_topics_data=[
                fetch_request.ForgottenTopic(topic_id=topic_id, partitions=list(forgotten))
            ]
            if forgotten
            else [],
        )

    async def fetch(self, partitions: Sequence[int] = (), *, version: int = 2, **settings: Any) -> Fetched:
        request = self.new_fetch(partitions, **settings)
        return self.read(await self.client.call(request, ShareFetchResponse, version), request)

    def read(self, response: ShareFetchResponse, request: fetch_request.ShareFetchRequest) -> Fetched:
        self.error = ErrorCode(response.error_code)
        if self.error is ErrorCode.NONE:
            self.epoch = request.share_session_epoch + 1
        return Fetched(response)

    async def acknowledge(
        self,
        acks: Mapping[int, Batches],
        *,
        epoch: int | None = None,
        is_renew_ack: bool = False,
        topic: Uuid | None = None,
        version: int = 2,
    ) -> dict[int, ErrorCode]:
        """The error of each partition."""
        request = acknowledge_request.ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.epoch if epoch is None else epoch,
            is_renew_ack=is_renew_ack,
            topics=[
                acknowledge_request.AcknowledgeTopic(
                    topic_id=topic or self.topic,
                    partitions=[
                        acknowledge_request.AcknowledgePartition(
                            partition_index=index,
                            acknowledgement_batches=[
                                acknowledge_request.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=list(types)
                                )
                                for first, last, types in batches
                            ],
                        )
                        for index, batches in acks.items()
                    ],
                )
            ],
        )
        response = await self.client.call(request, ShareAcknowledgeResponse, version)
        self.error = ErrorCode(response.error_code)
        if self.error is ErrorCode.NONE:
            self.epoch = request.share_session_epoch + 1
        return {
            each.partition_index: ErrorCode(each.error_code)
            for found in response.responses
            for each in found.partitions
        }

    async def close(self, acks: Mapping[int, Batches] | None = None) -> dict[int, ErrorCode]:
        return await self.acknowledge(acks or {}, epoch=-1)


class Fetched:
    """The partitions of a response by index."""

    def __init__(self, response: ShareFetchResponse) -> None:
        self.response = response
        self.partitions: dict[int, PartitionData] = {
            each.partition_index: each for topic in response.responses for each in topic.partitions
        }

    def acquired(self, partition: int = 0) -> list[Acquired]:
        result = self.partitions.get(partition)
        return [
            Acquired(each.first_offset, each.last_offset, each.delivery_count)
            for each in (result.acquired_records if result is not None else ())
        ]

    def values(self, partition: int = 0) -> list[bytes | None]:
        """The values of the acquired records."""
        ranges = self.acquired(partition)
        result = self.partitions.get(partition)
        return [
            record.value
            for record in records_in(result.records if result is not None else None)
            if any(first <= record.offset <= last for first, last, _ in ranges)
        ]

    def error(self, partition: int = 0) -> ErrorCode:
        return ErrorCode(self.partitions[partition].error_code)

    def acknowledge_error(self, partition: int = 0) -> ErrorCode:
        return ErrorCode(self.partitions[partition].acknowledge_error_code)


async def initialize(
    client: RawClient, topic: Uuid, *, partitions: int = 1, start_offset: int = 0, group: str = "g"
) -> None:
    """Initialize the state as the group coordinator does; the first request creates the state's topic."""
    keys = [f"{group}:{uuid_to_text(topic)}:{index}" for index in range(partitions)]
    find = FindCoordinatorRequest(key_type=2, coordinator_keys=keys)
    missing = set(range(partitions))
    while missing:
        await client.call(find, FindCoordinatorResponse, 6)
        request = initialize_request(1, start_offset, topic=topic, group=group)
        request.topics[0].partitions = [
            initialize_request(1, start_offset, topic=topic, partition=index).topics[0].partitions[0]
            for index in sorted(missing)
        ]
        response = await client.call(request, InitializeShareGroupStateResponse)
        results = [each for found in response.results for each in found.partitions]
        assert {each.error_code for each in results} <= {ErrorCode.NONE, *_NOT_YET}
        missing -= {each.partition for each in results if each.error_code == ErrorCode.NONE}
        if missing:
            await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def member_on(
    bootstrap: str, topic: Uuid, group: str = "g", member: str = MEMBER
) -> AsyncIterator[ShareMember]:
    async with connected(bootstrap) as client:
        yield ShareMember(client, topic, group, member)
