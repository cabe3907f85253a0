"""Responses to clients without permissions, where Kafka's order of checks and form of the response matter.

``tests/interop/test_same_authorization.py`` compares every API with Apache Kafka.
"""

from __future__ import annotations

from pathlib import Path

from ruslo.broker.handlers import delete_topics, describe_topic_partitions, metadata
from ruslo.broker.handlers.topic_access import may_read
from ruslo.broker.requests.access import NO_ACCESS, OPEN, OpenAccess
from ruslo.broker.requests.error_responses import error_response
from ruslo.client.admin.acls import Acls
from ruslo.client.wire.cluster import Cluster
from ruslo.model.acls import Acl, Operation, PatternType, Permission, ResourceType
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import random_uuid
from ruslo.protocol.messages import alter_partition_reassignments_request as alter_reassignments
from ruslo.protocol.messages import list_partition_reassignments_request as list_reassignments
from ruslo.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ruslo.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from ruslo.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
)
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ruslo.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ruslo.protocol.messages.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ruslo.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from ruslo.protocol.messages.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResponse,
)
from ruslo.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from ruslo.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ruslo.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ruslo.protocol.messages.offset_delete_response import OffsetDeleteResponse
from ruslo.protocol.messages.sync_group_request import SyncGroupRequest
from ruslo.protocol.messages.sync_group_response import SyncGroupResponse
from ruslo.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ruslo.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from tests.support.brokers.handlers import exchange
from tests.support.brokers.live_node import live_node
from tests.support.clients.raw_client import connected
from tests.support.groups.group_requests import find_coordinator
from tests.support.machines.controller_bench import admin_node
from tests.support.txns.txn_requests import find_txn_coordinator

ALL_TOPIC_OPERATIONS = 0b1101_1111_1000
UNKNOWN_ID = bytes(15) + b"\x09"
ANONYMOUS = "User:ANONYMOUS"
AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}


async def test_a_topic_that_does_not_exist_has_authorized_operations() -> None:
    async with admin_node() as node:
        topics = [MetadataRequestTopic(name="absent")]
        for requested, expected in ((True, ALL_TOPIC_OPERATIONS), (False, -(2**31))):
            request = MetadataRequest(
                topics=topics,
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=requested,
            )
            (topic,) = (await exchange(metadata.handle, node, request)).topics
            assert ErrorCode(topic.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert topic.topic_authorized_operations == expected
        query = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="absent")])
        (described,) = (await exchange(describe_topic_partitions.handle, node, query)).topics
        assert ErrorCode(described.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert described.topic_authorized_operations == ALL_TOPIC_OPERATIONS


class OnTopics(OpenAccess):
    """Some operations are allowed on every topic, and nothing else."""

    def __init__(self, *operations: Operation) -> None:
        super().__init__()
        self._operations = operations

    def allows(
        self, operation: Operation, resource_type: ResourceType, name: str, api: str, audited: bool = True
    ) -> bool:
        return resource_type is ResourceType.TOPIC and operation in self._operations


async def test_delete_is_enough_to_delete_a_topic_by_id_but_not_by_name() -> None:
    async with admin_node() as node:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        await node.controller.submit(CreateTopicsRequest(topics=[topic]))
        topic_id = node.image.topics.by_name["t"].id
        by_name, by_id = (
            DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]),
            DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=topic_id)]),
        )
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for request, operations, expected in (
            (by_name, [Operation.DELETE], ("t", denied)),
            (by_id, [], (None, denied)),
            (by_id, [Operation.DESCRIBE], ("t", denied)),
            (by_id, [Operation.DELETE], ("t", ErrorCode.NONE)),
        ):
            access = OnTopics(*operations)
            response = await exchange(delete_topics.handle, node, request, access=access)
            (result,) = response.responses
            assert (result.name, ErrorCode(result.error_code)) == expected


async def test_a_denied_replica_learns_nothing_from_an_id() -> None:
    async with admin_node() as node:
        assert not may_read(NO_ACCESS, UNKNOWN_ID, node.metadata)
        for access in (OPEN, OpenAccess()):
            assert may_read(access, UNKNOWN_ID, node.metadata)


def test_these_errors_are_in_the_response_and_in_its_elements() -> None:
    denied = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")
    alter = alter_reassignments.AlterPartitionReassignmentsRequest(
        topics=[
            alter_reassignments.ReassignableTopic(
                name="t", partitions=[alter_reassignments.ReassignablePartition(partition_index=3)]
            )
        ]
    )
    altered = error_response(alter, denied, 0)
    assert isinstance(altered, AlterPartitionReassignmentsResponse)
    (partition,) = altered.responses[0].partitions
    assert altered.error_code == partition.error_code == denied.code
    assert (altered.responses[0].name, partition.partition_index) == ("t", 3)

    query = list_reassignments.ListPartitionReassignmentsRequest(
        topics=[list_reassignments.ListPartitionReassignmentsTopics(name="t", partition_indexes=[3])]
    )
    listed = error_response(query, denied, 0)
    assert isinstance(listed, ListPartitionReassignmentsResponse)
    assert listed.error_code == denied.code
    assert [each.partition_index for each in listed.topics[0].partitions] == [3]

    users = DescribeUserScramCredentialsRequest(users=[UserName(name="alice"), UserName(name="bob")])
    described = error_response(users, denied, 0)
    assert isinstance(described, DescribeUserScramCredentialsResponse)
    assert described.error_code == denied.code
    assert [(each.user, each.error_code) for each in described.results] == [("", denied.code)] * 2


async def test_a_denied_topic(tmp_path: Path) -> None:
    async with live_node(tmp_path, AUTHORIZED) as node, connected(node.bootstrap) as client:
        await node.create("t", partitions=1)
        await node.create("denied", partitions=1)
        await find_coordinator(client, "g")
        await find_txn_coordinator(client, "x")
        cluster = Cluster(node.bootstrap)
        deny = [
            Acl(kind, name, PatternType.LITERAL, ANONYMOUS, "*", Operation.READ, Permission.DENY)
            for kind, name in ((ResourceType.TOPIC, "denied"), (ResourceType.GROUP, "denied"))
        ]
        deny += [rule._replace(operation=Operation.WRITE) for rule in deny[:1]]
        await Acls(cluster).create(deny)
        await cluster.close()

        # SyncGroup without a protocol is invalid before permissions count.
        sync = SyncGroupRequest(group_id="denied", generation_id=1, member_id="m")
        for version, expected in (
            (5, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
            (4, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ):
            synced = await client.call(sync, SyncGroupResponse, version)
            assert ErrorCode(synced.error_code) is expected

        # The error of a group is the whole response to OffsetDelete.
        deletion = OffsetDeleteRequest(
            group_id="absent",
            topics=[
                OffsetDeleteRequestTopic(
                    name="denied", partitions=[OffsetDeleteRequestPartition(partition_index=0)]
                )
            ],
        )
        deleted = await client.call(deletion, OffsetDeleteResponse)
        assert (deleted.error_code, deleted.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])

        # A partition that does not exist has its own error beside those that are denied.
        added = await client.call(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="x",
                v3_and_below_producer_id=77,
                v3_and_below_producer_epoch=0,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name="t", partitions=[0, 5]),
                    AddPartitionsToTxnTopic(name="denied", partitions=[0]),
                    AddPartitionsToTxnTopic(name="absent", partitions=[0]),
                ],
            ),
            AddPartitionsToTxnResponse,
            3,
        )
        assert {
            (topic.name, each.partition_index): ErrorCode(each.partition_error_code)
            for topic in added.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        } == {
            ("t", 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
            ("t", 5): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("denied", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ("absent", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }

        # The same for offsets in a transaction, whose producer is unknown.
        indexes = {"t": (0, 5), "denied": (0,), "absent": (0,)}
        ids = {"t": node.topic_id("t"), "denied": node.topic_id("denied"), "absent": random_uuid()}
        names = {topic_id: name for name, topic_id in ids.items()}
        for version, unknown in (
            (5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (6, ErrorCode.UNKNOWN_TOPIC_ID),
        ):
            committed = await client.call(
                TxnOffsetCommitRequest(
                    transactional_id="x",
                    group_id="g",
                    producer_id=77,
                    producer_epoch=0,
                    topics=[
                        TxnOffsetCommitRequestTopic(
                            name=name,
                            topic_id=ids[name],
                            partitions=[
                                TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=1)
                                for index in partitions
                            ],
                        )
                        for name, partitions in indexes.items()
                    ],
                ),
                TxnOffsetCommitResponse,
                version,
            )
            assert {
                (topic.name or names[topic.topic_id], each.partition_index): ErrorCode(each.error_code)
                for topic in committed.topics
                for each in topic.partitions
            } == {
                ("t", 0): ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                ("t", 5): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ("denied", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                ("absent", 0): unknown,
            }
