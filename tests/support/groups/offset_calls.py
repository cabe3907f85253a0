"""Short forms of the offset APIs for tests with a GroupBench: one topic, one partition."""

from __future__ import annotations

from ruslo.model.errors import ErrorCode
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
from ruslo.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ruslo.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from tests.support.groups.group_bench import Coordinator


def commit(
    bench: Coordinator,
    offset: int,
    *,
    group: str = "g",
    topic: str = "orders",
    partition: int = 0,
    member: str = "",
    instance: str | None = None,
    generation: int = -1,
    metadata: str | None = "",
    retention_ms: int = -1,
    version: int = 9,
) -> ErrorCode:
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=instance,
        retention_time_ms=retention_ms,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=bench.topic_id(topic) if version >= 10 else bytes(16),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offset, committed_metadata=metadata
                    )
                ],
            )
        ],
    )
    response = bench.call(request, OffsetCommitResponse, version)
    return ErrorCode(response.topics[0].partitions[0].error_code)


def commit_in_transaction(
    bench: Coordinator,
    producer_id: int,
    offset: int,
    *,
    group: str = "g",
    topic: str = "orders",
    partition: int = 0,
    member: str = "",
    instance: str | None = None,
    generation: int = -1,
    version: int = 5,
) -> ErrorCode:
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id=group,
        producer_id=producer_id,
        producer_epoch=3,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=instance,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                topic_id=bench.topic_id(topic) if version >= 6 and topic != "absent" else bytes(16),
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offset, committed_metadata="in tx"
                    )
                ],
            )
        ],
    )
    response = bench.call(request, TxnOffsetCommitResponse, version)
    return ErrorCode(response.topics[0].partitions[0].error_code)


def fetch(
    bench: Coordinator,
    *,
    group: str = "g",
    topic: str = "orders",
    partition: int = 0,
    stable: bool = False,
) -> int | ErrorCode:
    """The committed offset, or the error."""
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=group,
                topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])],
            )
        ],
        require_stable=stable,
    )
    fetched = bench.call(request, OffsetFetchResponse, 9).groups[0].topics[0].partitions[0]
    code = ErrorCode(fetched.error_code)
    return fetched.committed_offset if code is ErrorCode.NONE else code


def fetch_all(bench: Coordinator, *, group: str = "g", stable: bool = False) -> dict[tuple[str, int], int]:
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=None)], require_stable=stable
    )
    topics = bench.call(request, OffsetFetchResponse, 9).groups[0].topics
    return {
        (topic.name, each.partition_index): each.error_code or each.committed_offset
        for topic in topics
        for each in topic.partitions
    }
