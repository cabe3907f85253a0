"""CreateTopics, DeleteTopics and CreatePartitions: every error, and what is accepted."""

from __future__ import annotations

import pytest

from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.controller.records import VersionedRecord
from ruslo.machines.controller.state import MAX_RECORDS_PER_REQUEST
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import UNASSIGNED_DIR
from ruslo.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ruslo.protocol.messages.create_partitions_response import CreatePartitionsResponse
from ruslo.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from ruslo.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from ruslo.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ruslo.protocol.messages.delete_topics_response import DeleteTopicsResponse
from tests.support.machines.controller_bench import MachineBench, numbered_uuid
from tests.unit.machines.controller.requests import assigned, topic


def create(
    bench: MachineBench, *topics: CreatableTopic, validate_only: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    return bench.respond(request, CreateTopicsResponse).topics


REJECTED = [
    (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "empty"),
    (topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "a/b"),
    (topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION, ".."),
    (topic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION, "249"),
    (topic("here.there"), ErrorCode.INVALID_TOPIC_EXCEPTION, "here_there"),
    (topic("here_there"), ErrorCode.TOPIC_ALREADY_EXISTS, "exists"),
    (topic("__cluster_metadata"), ErrorCode.TOPIC_AUTHORIZATION_FAILED, "cluster"),
    (topic(partitions=0), ErrorCode.INVALID_PARTITIONS, "0"),
    (topic(partitions=-2), ErrorCode.INVALID_PARTITIONS, "-2"),
    (topic(replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR, "0"),
    (topic(replicas=-2), ErrorCode.INVALID_REPLICATION_FACTOR, "-2"),
    (topic(replicas=3), ErrorCode.INVALID_REPLICATION_FACTOR, "2 broker"),
    (topic(partitions=MAX_RECORDS_PER_REQUEST + 1), ErrorCode.POLICY_VIOLATION, "Split"),
    (topic(partitions=2**31 - 1), ErrorCode.POLICY_VIOLATION, "Split"),
    (topic(partitions=1, replicas=-1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST, "must be -1"),
    (topic(partitions=-1, replicas=1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST, "must be -1"),
    (assigned({1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "without gaps"),
    (assigned({0: [1], 2: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "without gaps"),
    (assigned({0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no broker"),
    (assigned({0: [7]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 7"),
    (assigned({0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "twice"),
    (assigned({0: [1], 1: [1, 2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "2 replica"),
    (topic(configs={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG, "retention.ms"),
    (topic(configs={"retention.sm": "1"}), ErrorCode.INVALID_CONFIG, "retention.ms"),
    (topic(configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG, "no value"),
]


@pytest.mark.parametrize(("requested", "code", "hint"), REJECTED, ids=lambda each: str(each)[:24])
def test_invalid_topics_are_rejected(requested: CreatableTopic, code: ErrorCode, hint: str) -> None:
    bench = MachineBench.started(2)
    create(bench, topic("here_there"))
    before = len(bench.log)
    rejected, created = create(bench, requested, topic("other"))
    assert ErrorCode(rejected.error_code) is code
    assert hint in (rejected.error_message or "")
    assert (rejected.num_partitions, rejected.replication_factor) == (-1, -1)
    # Clients treat a message, even an empty one, as an error.
    assert (created.error_code, created.error_message) == (0, None)
    assert len(bench.log) == before + 2, "the other topic of the request is still created"


def test_partition_assigned_twice_is_rejected() -> None:
    bench = MachineBench.started(2)
    twice = assigned({0: [1]})
    twice.assignments.append(CreatableReplicaAssignment(partition_index=0, broker_ids=[2]))
    (result,) = create(bench, twice)
    assert ErrorCode(result.error_code) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_duplicate_topics_get_one_result() -> None:
    bench = MachineBench.started()
    results = create(bench, topic("a"), topic("b"), topic("a"))
    assert [(each.name, ErrorCode(each.error_code).name) for each in results] == [
        ("a", "INVALID_REQUEST"),
        ("b", "NONE"),
    ]
    assert list(bench.image.topics.by_name) == ["b"]


def test_names_that_collide_within_the_request() -> None:
    bench = MachineBench.started()
    first, second = create(bench, topic("a.b"), topic("a_b"))
    assert first.error_code == 0
    assert ErrorCode(second.error_code) is ErrorCode.INVALID_TOPIC_EXCEPTION
    bench.submit(DeleteTopicsRequest(topic_names=["a.b"]))
    assert create(bench, topic("a_b"))[0].error_code == 0


def test_defaults_come_from_the_broker_configs() -> None:
    bench = MachineBench.started(2, {"num.partitions": "5", "default.replication.factor": "2"})
    (result,) = create(bench, topic(partitions=-1, replicas=-1))
    assert (result.num_partitions, result.replication_factor) == (5, 2)
    assert len(bench.image.topics.by_name["t"].partitions) == 5


def test_validate_only_changes_nothing() -> None:
    bench = MachineBench.started()
    before = len(bench.log)
    created, rejected = create(bench, topic("new", 3), topic("new.", replicas=9), validate_only=True)
    assert (created.error_code, created.num_partitions) == (0, 3)
    assert ErrorCode(rejected.error_code) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert len(bench.log) == before


def test_manual_assignment_is_kept_in_order() -> None:
    bench = MachineBench.started(3)
    (result,) = create(bench, assigned({1: [3, 1], 0: [2, 3]}))
    assert (result.num_partitions, result.replication_factor) == (2, 2)
    partitions = bench.image.topics.by_name["t"].partitions
    assert [each.replicas for each in partitions] == [(2, 3), (3, 1)]
    assert [each.leader for each in partitions] == [2, 3]


def test_fenced_brokers_are_replicas_but_not_in_sync() -> None:
    bench = MachineBench.started(2)
    bench.heartbeat(1, want_fence=True)
    assert create(bench, assigned({0: [1, 2]}))[0].error_code == 0
    partition = bench.image.topics.by_name["t"].partitions[0]
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2), (2,), 2)
    (all_fenced,) = create(bench, topic("u", partitions=-1, replicas=-1, assignments={0: [1]}))
    assert ErrorCode(all_fenced.error_code) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    bench.heartbeat(2, want_fence=True)
    (rejected,) = create(bench, topic("u"))
    assert ErrorCode(rejected.error_code) is ErrorCode.INVALID_REPLICATION_FACTOR


def test_directory_is_the_only_one_or_unassigned() -> None:
    bench = MachineBench.started()
    bench.join(2, dirs=2)
    create(bench, assigned({0: [1, 2]}))
    assert bench.image.topics.by_name["t"].partitions[0].directories == (numbered_uuid(100), UNASSIGNED_DIR)


def test_record_versions_follow_metadata_version() -> None:
    def versions(metadata_version: int) -> list[tuple[str, int]]:
        features = {"metadata.version": metadata_version}
        bench = MachineBench.started(features=features)
        create(bench, topic())
        bench.heartbeat(1, want_shut_down=True)
        return [(type(record).__name__, version) for record, version in bench.log]

    assert ("RegisterBrokerRecord", 1) in versions(7)
    assert ("RegisterBrokerRecord", 3) in versions(20)
    for metadata_version, expected in ((7, 0), (17, 1), (23, 2), (30, 2)):
        written = versions(metadata_version)
        assert ("PartitionRecord", expected) in written
        assert ("PartitionChangeRecord", expected) in written
        assert ("BeginTransactionRecord", 0) not in versions(12)


def delete(bench: MachineBench, *states: DeleteTopicState) -> list[ErrorCode]:
    response = bench.respond(DeleteTopicsRequest(topics=list(states)), DeleteTopicsResponse)
    return [ErrorCode(each.error_code) for each in response.responses]


def test_delete_by_name_and_id() -> None:
    bench = MachineBench.started()
    create(bench, topic("a", configs={"retention.ms": "1"}), topic("b"), topic("c"))
    b_id = bench.image.topics.by_name["b"].id
    assert delete(
        bench,
        DeleteTopicState(name="a"),
        DeleteTopicState(topic_id=b_id),
        DeleteTopicState(name="nowhere"),
        DeleteTopicState(topic_id=numbered_uuid(99)),
        DeleteTopicState(name="c", topic_id=b_id),
        DeleteTopicState(),
    ) == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert list(bench.image.topics.by_name) == ["c"]
    assert dict(bench.image.configs.of_topic("a")) == {}
    assert bench.image.topics.partition_count == 1


def test_topic_named_twice_is_not_deleted() -> None:
    bench = MachineBench.started()
    create(bench, topic("a"), topic("b"), topic("c"))
    by_id = DeleteTopicState(topic_id=bench.image.topics.by_name["b"].id)
    requested = [DeleteTopicState(name="a"), by_id, DeleteTopicState(name="c"), DeleteTopicState(name="a")]
    rejected = ErrorCode.INVALID_REQUEST
    assert delete(bench, *requested) == [rejected, ErrorCode.NONE, ErrorCode.NONE, rejected]
    assert list(bench.image.topics.by_name) == ["a"]
    a_by_id = DeleteTopicState(topic_id=bench.image.topics.by_name["a"].id)
    assert delete(bench, DeleteTopicState(name="a"), a_by_id) == [rejected, rejected]
    assert list(bench.image.topics.by_name) == ["a"]


def add(bench: MachineBench, *topics: CreatePartitionsTopic, validate_only: bool = False) -> list[ErrorCode]:
    request = CreatePartitionsRequest(topics=list(topics), validate_only=validate_only)
    return [ErrorCode(each.error_code) for each in bench.respond(request, CreatePartitionsResponse).results]


def expansion(name: str, count: int, *assignments: list[int]) -> CreatePartitionsTopic:
    broker_lists = (
        [CreatePartitionsAssignment(broker_ids=each) for each in assignments] if assignments else None
    )
    return CreatePartitionsTopic(name=name, count=count, assignments=broker_lists)


@pytest.mark.parametrize(
    ("requested", "code"),
    [
        (expansion("nowhere", 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (expansion("t", 2), ErrorCode.INVALID_PARTITIONS),
        (expansion("t", 1), ErrorCode.INVALID_PARTITIONS),
        (expansion("t", -1), ErrorCode.INVALID_PARTITIONS),
        (expansion("t", 2**31 - 1), ErrorCode.POLICY_VIOLATION),
        (expansion("t", 4, [1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (expansion("t", 3, [9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (expansion("t", 3, [1, 2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (expansion("t", 3, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_invalid_partition_counts_are_rejected(requested: CreatePartitionsTopic, code: ErrorCode) -> None:
    bench = MachineBench.started(2)
    create(bench, topic(partitions=2))
    before = len(bench.log)
    assert add(bench, requested) == [code]
    assert len(bench.log) == before


def test_add_partitions() -> None:
    bench = MachineBench.started(2)
    create(bench, topic(partitions=2), topic("u"))
    assert add(bench, expansion("t", 4, [2], [1]), expansion("u", 2), expansion("u", 3)) == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
    ]
    assert [each.replicas for each in bench.image.topics.by_name["t"].partitions[2:]] == [(2,), (1,)]
    before = len(bench.log)
    assert add(bench, expansion("u", 9), validate_only=True) == [ErrorCode.NONE]
    assert len(bench.log) == before


def test_partitions_share_equal_replica_lists() -> None:
    bench = MachineBench.started()
    create(bench, topic(partitions=4000))
    partitions = bench.image.topics.by_name["t"].partitions
    assert len(partitions) == bench.image.topics.partition_count == 4000
    assert len({id(each.replicas) for each in partitions} | {id(each.isr) for each in partitions}) == 1


def test_record_order() -> None:
    """KRaft readers expect the topic before its configs, and its configs before its partitions."""
    bench = MachineBench.started()
    records: list[VersionedRecord]
    records, _ = bench.submit(
        CreateTopicsRequest(topics=[topic("a", 2, configs={"min.insync.replicas": "1"}), topic("b")])
    )
    assert [type(record).__name__ for record, _ in records] == [
        "TopicRecord",
        "ConfigRecord",
        "ClearElrRecord",
        "PartitionRecord",
        "PartitionRecord",
        "TopicRecord",
        "PartitionRecord",
    ]
    image = MetadataImage()
    for record, _ in records:
        image.replay(record)
    assert list(image.topics.by_name) == ["a", "b"]
