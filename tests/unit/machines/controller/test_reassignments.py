"""AlterPartitionReassignments: which targets are rejected. The transcripts cover how replicas move."""

from __future__ import annotations

import pytest

from ruslo.machines.controller import state
from ruslo.machines.controller.events import BrokerGone
from ruslo.machines.controller.partition_changes import Reassignment, change_partition
from ruslo.machines.controller.topic_image import RECOVERED, RECOVERING
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ruslo.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from ruslo.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ruslo.protocol.messages.create_partitions_response import CreatePartitionsResponse
from ruslo.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from ruslo.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord
from tests.support.machines.controller_bench import FEATURES, MachineBench
from tests.unit.machines.controller.requests import alter_topic, assign_topic


def bench_with(*partitions: list[int], brokers: int = 4, features: dict[str, int] = FEATURES) -> MachineBench:
    """Topic t has one partition for each of the given replica lists."""
    bench = MachineBench.started(brokers, features=features)
    assign_topic(bench, *partitions)
    return bench


def reassign_request(
    targets: dict[int, list[int] | None], topic: str = "t"
) -> AlterPartitionReassignmentsRequest:
    partitions = [
        ReassignablePartition(partition_index=index, replicas=replicas) for index, replicas in targets.items()
    ]
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=partitions)])


def test_partitions_added_during_a_reassignment_get_the_same_replication_factor() -> None:
    bench = bench_with([1, 2])
    bench.submit(reassign_request({0: [3, 4]}))
    partitions = bench.image.topics.by_name["t"].partitions
    assert set(partitions[0].replicas) == {1, 2, 3, 4}
    by_hand = CreatePartitionsTopic(
        name="t", count=2, assignments=[CreatePartitionsAssignment(broker_ids=[1, 2])]
    )
    for more in (by_hand, CreatePartitionsTopic(name="t", count=3, assignments=None)):
        response = bench.respond(CreatePartitionsRequest(topics=[more]), CreatePartitionsResponse)
        assert response.results[0].error_code == 0, response.results[0].error_message
    assert [len(each.replicas) for each in partitions] == [4, 2, 2]


def test_duplicate_partition_moves_to_the_first_target() -> None:
    """Both targets would start from the same state, and together they would lose a replica."""
    bench = bench_with([1, 2, 3])
    twice = reassign_request({0: [1, 2, 4]})
    twice.topics += reassign_request({0: [2, 1, 3]}).topics
    response = bench.respond(twice, AlterPartitionReassignmentsResponse)
    codes = [each.error_code for topic in response.responses for each in topic.partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    (partition,) = bench.image.topics.by_name["t"].partitions
    assert (partition.replicas, partition.adding, partition.removing) == ((1, 2, 4, 3), (4,), (3,))


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (reassign_request({0: [1, 2]}, topic="none"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (reassign_request({7: [1, 2]}), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (reassign_request({0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (reassign_request({0: [2, 2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (reassign_request({0: [1, 9]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (reassign_request({0: [1, -1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (reassign_request({0: None}), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_invalid_targets_are_rejected(request_: AlterPartitionReassignmentsRequest, code: ErrorCode) -> None:
    bench = bench_with([1, 2])
    records, response = bench.submit(request_)
    assert isinstance(response, AlterPartitionReassignmentsResponse)
    (result,) = response.responses[0].partitions
    assert ErrorCode(result.error_code) is code
    assert result.error_message
    assert records == []


def test_one_invalid_partition_does_not_affect_the_others() -> None:
    bench = bench_with([1, 2], [1, 2], [1, 2])
    response = bench.respond(
        reassign_request({0: [3, 4], 1: [9], 2: [2, 1]}), AlterPartitionReassignmentsResponse
    )
    assert [each.error_code for each in response.responses[0].partitions] == [0, 39, 0]
    partitions = bench.image.topics.by_name["t"].partitions
    assert [each.adding for each in partitions] == [(3, 4), (), ()]
    assert [each.replicas for each in partitions] == [(3, 4, 1, 2), (1, 2), (2, 1)]


def test_only_requested_partitions_that_move_are_listed() -> None:
    bench = bench_with([1, 2], [1, 2], [1, 2])
    bench.submit(reassign_request({0: [3, 4], 2: [2, 3]}))

    def listed(topics: list[ListPartitionReassignmentsTopics] | None) -> list[tuple[str, list[int]]]:
        response = bench.respond(
            ListPartitionReassignmentsRequest(topics=topics), ListPartitionReassignmentsResponse
        )
        return [
            (each.name, [partition.partition_index for partition in each.partitions])
            for each in response.topics
        ]

    assert listed(None) == [("t", [0, 2])]
    requested = ListPartitionReassignmentsTopics(name="t", partition_indexes=[1, 2, 9])
    unknown = ListPartitionReassignmentsTopics(name="none", partition_indexes=[0])
    assert listed([requested, unknown]) == [("t", [2])]
    assert listed([]) == []


def test_target_may_be_fenced_but_must_be_registered() -> None:
    bench = bench_with([1, 2])
    bench.heartbeat(3, want_fence=True)
    response = bench.respond(reassign_request({0: [3, 2]}), AlterPartitionReassignmentsResponse)
    assert response.responses[0].partitions[0].error_code == 0
    assert bench.image.topics.by_name["t"].partitions[0].adding == (3,)


def test_replication_factor_of_a_moving_partition_is_that_of_its_target() -> None:
    bench = bench_with([1])
    bench.submit(reassign_request({0: [2, 3]}))
    for replicas, code in (([3], 38), ([2, 4], 0)):
        request = reassign_request({0: replicas})
        request.allow_replication_factor_change = False
        response = bench.respond(request, AlterPartitionReassignmentsResponse)
        assert response.responses[0].partitions[0].error_code == code


def test_too_many_records_for_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = bench_with(*([1] for _ in range(3)), brokers=2)
    monkeypatch.setattr(state, "MAX_RECORDS_PER_REQUEST", 2)
    assert bench.code(reassign_request({0: [2], 1: [2], 2: [2]})) is ErrorCode.POLICY_VIOLATION
    assert bench.code(reassign_request({0: [2], 1: [2]})) is ErrorCode.NONE


def test_old_metadata_version_writes_no_directories() -> None:
    old = {"metadata.version": 16}
    bench = bench_with([1, 2], features=old)
    records, _ = bench.submit(reassign_request({0: [1, 3]}))
    ((record, version),) = records
    assert isinstance(record, PartitionChangeRecord)
    assert (version, record.directories, record.adding_replicas) == (0, None, [3])


def test_removed_replicas_are_not_eligible_to_lead() -> None:
    """Below min.insync.replicas a replica that leaves the ISR stays eligible, but not a removed one."""
    bench = MachineBench.started(3, {"min.insync.replicas": "2"})
    assign_topic(bench, [1, 2, 3])
    bench.heartbeat(3, want_fence=True)
    bench.heartbeat(2, want_fence=True)
    image = bench.image.topics.by_name["t"]
    assert (image.partitions[0].isr, image.partitions[0].elr) == ((1,), (2,))
    bench.submit(reassign_request({0: [1, 3]}))
    assert image.partitions[0].replicas == (1, 3, 2), "broker 3 is not in sync yet"
    bench.heartbeat(3)
    change = change_partition(bench.machine.state, image, 0, target_isr=(1, 3))
    assert change is not None
    record = change[0]
    assert isinstance(record, PartitionChangeRecord)
    assert (record.replicas, record.eligible_leader_replicas, record.isr) == ([1, 3], [], [1, 3])
    removed = change_partition(
        bench.machine.state, image, 0, target_isr=(1,), reassignment=Reassignment((1, 3))
    )
    assert removed is not None
    assert isinstance(removed[0], PartitionChangeRecord)
    assert removed[0].eligible_leader_replicas == []


def unclean_bench(*partitions: list[int]) -> MachineBench:
    bench = bench_with(*partitions)
    alter_topic(bench, "unclean.leader.election.enable", "true")
    return bench


def disconnect(bench: MachineBench, *broker_ids: int) -> None:
    for broker_id in broker_ids:
        bench.handle(BrokerGone(broker_id, bench.image.cluster.brokers[broker_id].epoch))


def test_unclean_election_prefers_a_replica_from_before_the_reassignment() -> None:
    """A replica that is being added may not have any records yet."""
    bench = unclean_bench([1, 2])
    (partition,) = bench.image.topics.by_name["t"].partitions
    disconnect(bench, 2)
    bench.join(2, incarnation="b")
    bench.submit(reassign_request({0: [3, 2]}))
    (partition,) = bench.image.topics.by_name["t"].partitions
    assert (partition.leader, partition.isr, partition.replicas) == (1, (1,), (3, 2, 1))
    disconnect(bench, 1)
    (partition,) = bench.image.topics.by_name["t"].partitions
    assert (partition.leader, partition.recovery_state) == (2, RECOVERING)


def test_reassignment_does_not_trigger_an_unclean_election() -> None:
    """The broker that has the records may return, and the new replica has none."""
    bench = unclean_bench([1])
    epoch = bench.image.cluster.brokers[1].epoch
    disconnect(bench, 1)
    bench.submit(reassign_request({0: [2]}))
    (partition,) = bench.image.topics.by_name["t"].partitions
    assert (partition.leader, partition.replicas) == (-1, (2, 1))
    bench.join(1, incarnation="b", previous=epoch)
    (partition,) = bench.image.topics.by_name["t"].partitions
    assert (partition.leader, partition.recovery_state) == (1, RECOVERED)
