"""AlterPartition: which ISR proposals the controller rejects, and with which error."""

from __future__ import annotations

from typing import Any

import pytest

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from ruslo.protocol.messages.alter_partition_response import AlterPartitionResponse
from ruslo.protocol.messages.alter_partition_response import PartitionData as PartitionResult
from tests.support.machines.controller_bench import MachineBench, numbered_uuid
from tests.unit.machines.controller.requests import assign_topic


def bench_with_topic() -> MachineBench:
    """Topic t has one partition on brokers 1, 2 and 3, led by 1. Broker 3 was fenced and has left the ISR."""
    bench = MachineBench.started(4)
    assign_topic(bench, [1, 2, 3])
    bench.heartbeat(3, want_fence=True)
    return bench


def propose(
    bench: MachineBench, isr: list[tuple[int, int]], broker: int = 1, **fields: Any
) -> PartitionResult:
    """``isr`` lists broker ids, each with the difference between the proposed and the registered epoch."""
    brokers, topic = bench.image.cluster.brokers, bench.image.topics.by_name["t"]
    topic_id = fields.pop("topic_id", topic.id)
    values: dict[str, Any] = {"leader_epoch": 0, "partition_epoch": 1, "partition_index": 0} | fields
    members = [
        BrokerState(broker_id=each, broker_epoch=brokers[each].epoch + off if each in brokers else 1)
        for each, off in isr
    ]
    request = AlterPartitionRequest(
        broker_id=broker,
        broker_epoch=brokers[broker].epoch,
        topics=[
            TopicData(topic_id=topic_id, partitions=[PartitionData(new_isr_with_epochs=members, **values)])
        ],
    )
    return bench.respond(request, AlterPartitionResponse).topics[0].partitions[0]


@pytest.mark.parametrize(
    ("isr", "fields", "code"),
    [
        ([1], {"topic_id": numbered_uuid(99)}, ErrorCode.UNKNOWN_TOPIC_ID),
        ([1], {"partition_index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([1], {"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ([1], {"partition_epoch": 2}, ErrorCode.NOT_CONTROLLER),
        ([1], {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ([2], {"broker": 2}, ErrorCode.INVALID_REQUEST),
        ([1], {"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
        ([2], {}, ErrorCode.INVALID_REQUEST),
        ([1, 1], {}, ErrorCode.INVALID_REQUEST),
        ([1, 4], {}, ErrorCode.INVALID_REQUEST),
        ([], {}, ErrorCode.INVALID_REQUEST),
        ([1], {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ([1, 2, 3], {}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_invalid_proposals_are_rejected(isr: list[int], fields: dict[str, Any], code: ErrorCode) -> None:
    bench = bench_with_topic()
    before = len(bench.log)
    response = propose(bench, [(each, 0) for each in isr], **fields)
    assert ErrorCode(response.error_code) is code
    assert len(bench.log) == before


def test_isr_member_with_a_stale_epoch_is_rejected() -> None:
    assert propose(bench_with_topic(), [(1, 0), (2, -1)]).error_code == ErrorCode.INELIGIBLE_REPLICA


def test_isr_without_broker_epochs_is_accepted() -> None:
    bench = bench_with_topic()
    topic, brokers = bench.image.topics.by_name["t"], bench.image.cluster.brokers
    proposal = PartitionData(partition_index=0, leader_epoch=0, partition_epoch=1, new_isr=[1])
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=brokers[1].epoch,
        topics=[TopicData(topic_id=topic.id, partitions=[proposal])],
    )
    bench.submit(request)
    assert topic.partitions[0].isr == (1,)
    request.broker_epoch -= 1
    assert bench.code(request) is ErrorCode.STALE_BROKER_EPOCH


def test_shrink_and_expand() -> None:
    bench = bench_with_topic()
    shrunk = propose(bench, [(1, 0)])
    assert (shrunk.error_code, shrunk.isr, shrunk.partition_epoch, shrunk.leader_epoch) == (0, [1], 2, 0)
    bench.heartbeat(3)
    expanded = propose(bench, [(1, 0), (3, 0)], partition_epoch=2)
    assert (expanded.error_code, expanded.isr, expanded.partition_epoch) == (0, [1, 3], 3)
    same = propose(bench, [(1, 0), (3, 0)], partition_epoch=3)
    assert (same.error_code, same.isr, same.partition_epoch) == (0, [1, 3], 3), (
        "an unchanged ISR writes no record"
    )
