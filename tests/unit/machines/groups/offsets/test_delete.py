"""OffsetDelete: only offsets of topics without subscribers are deleted."""

from __future__ import annotations

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.offset_commit_key import OffsetCommitKey
from ruslo.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ruslo.protocol.messages.offset_delete_response import OffsetDeleteResponse
from tests.support.groups.classic_client import ClassicClient, stable_group
from tests.support.groups.group_bench import GroupBench
from tests.support.groups.offset_calls import commit, commit_in_transaction, fetch


def delete(bench: GroupBench, topics: dict[str, list[int]], group: str = "g") -> OffsetDeleteResponse:
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in partitions]
            )
            for name, partitions in topics.items()
        ],
    )
    return bench.call(request, OffsetDeleteResponse)


def codes(response: OffsetDeleteResponse) -> dict[str, list[int]]:
    return {topic.name: [each.error_code for each in topic.partitions] for topic in response.topics}


def test_offsets_are_deleted_with_tombstones() -> None:
    bench = GroupBench()
    commit(bench, 1)
    commit(bench, 2, partition=1)
    response = delete(bench, {"orders": [0, 3, 0, 4]})
    assert response.error_code == ErrorCode.NONE
    assert codes(response) == {"orders": [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]}
    assert [(record.key, record.value) for record in bench.records(2)] == [
        (OffsetCommitKey(group="g", topic="orders", partition=0), None)
    ]
    assert fetch(bench) == -1
    assert fetch(bench, partition=1) == 2


def test_pending_offset_is_dropped_permanently() -> None:
    bench = GroupBench()
    commit_in_transaction(bench, 7, 5)
    delete(bench, {"orders": [0]})
    assert fetch(bench, stable=True) == -1
    bench.end_transaction(7, commit=True)
    assert fetch(bench, stable=True) == -1


def test_unknown_groups_and_topics() -> None:
    bench = GroupBench()
    assert delete(bench, {"orders": [0]}).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete(bench, {"orders": [0]}, "").error_code == ErrorCode.INVALID_GROUP_ID
    commit(bench, 1)
    response = delete(bench, {"absent": [0], "orders": [0]})
    assert codes(response) == {"absent": [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION], "orders": [0]}


def test_subscribed_topics_are_kept() -> None:
    bench = GroupBench()
    commit(bench, 2, topic="parcels")
    a = ClassicClient(bench, "a", topics=["orders"])
    stable_group(bench, a)
    a.commit(1)
    response = delete(bench, {"orders": [0], "parcels": [0]})
    assert codes(response) == {"orders": [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC], "parcels": [0]}
    assert fetch(bench) == 1
    assert fetch(bench, topic="parcels") == -1


def test_invalid_subscription_may_include_any_topic() -> None:
    bench = GroupBench()
    commit(bench, 2, topic="parcels")
    a = ClassicClient(bench, "a", protocols={"range": b"?"})
    stable_group(bench, a)
    assert codes(delete(bench, {"parcels": [0]})) == {"parcels": [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]}


def test_active_group_of_another_type_is_opaque() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a", protocol_type="connect", protocols={"v1": b"whatever"})
    stable_group(bench, a)
    assert delete(bench, {"orders": [0]}).error_code == ErrorCode.NON_EMPTY_GROUP
    a.leave()
    assert delete(bench, {"orders": [0]}).error_code == ErrorCode.NONE
