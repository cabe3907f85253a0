"""Requests of every API that clients may send, on a few shared names.

Each function of ``FIELDS`` returns the fields of one request; those that its version does not have are left
out. The requests change as little as possible: they validate only, name members, producers and brokers that
do not exist, or repeat what is stored already. Only the topics of ``DOOMED`` are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from codegen.layout import present_fields
from codegen.notation import MessageSpec, StructSpec
from ruslo.protocol.message import Message, Struct
from tests.support.authorization import (
    cluster_requests,
    config_requests,
    group_requests,
    security_requests,
    share_requests,
    topic_requests,
    txn_requests,
)
from tests.support.authorization.names import ABSENT_GROUP, Fields, Names
from tests.support.protocol.values import all_messages, message_class, struct_class


def request(api: str, names: Names) -> Message:
    spec = all_messages()[f"{api}Request"]
    return _message(spec, FIELDS[api](names), names.version)


def _message(spec: MessageSpec, fields: Fields, version: int) -> Message:
    return message_class(spec.name)(**_values(spec, spec.root, fields, version))


def _values(spec: MessageSpec, struct: StructSpec, fields: Fields, version: int) -> Fields:
    by_attribute = {field.attribute: field for field in present_fields(struct)}
    unknown = fields.keys() - by_attribute.keys()
    assert not unknown, f"{struct.name} has no field {unknown}"
    values: Fields = {}
    for attribute, value in fields.items():
        field = by_attribute[attribute]
        if version not in field.versions:
            continue
        if field.struct is not None and value is not None:
            inner = spec.structs[field.struct]

            def build(each: Fields, inner: StructSpec = inner) -> Struct:
                return struct_class(spec, inner.name)(**_values(spec, inner, each, version))

            value = [build(each) for each in value] if field.is_array else build(value)
        values[attribute] = value
    return values


FIELDS: Mapping[str, Callable[[Names], Fields]] = {
    "AddOffsetsToTxn": txn_requests.add_offsets_to_txn,
    "AddPartitionsToTxn": txn_requests.add_partitions_to_txn,
    "AddRaftVoter": cluster_requests.add_raft_voter,
    "AlterClientQuotas": security_requests.alter_client_quotas,
    "AlterConfigs": config_requests.alter_configs,
    "AlterPartitionReassignments": topic_requests.alter_partition_reassignments,
    "AlterReplicaLogDirs": topic_requests.alter_replica_log_dirs,
    "AlterShareGroupOffsets": share_requests.alter_share_group_offsets,
    "AlterUserScramCredentials": security_requests.alter_scram,
    "ConsumerGroupDescribe": group_requests.consumer_group_describe,
    "ConsumerGroupHeartbeat": group_requests.consumer_group_heartbeat,
    "CreateAcls": security_requests.create_acls,
    "CreateDelegationToken": security_requests.create_delegation_token,
    "CreatePartitions": topic_requests.create_partitions,
    "CreateTopics": topic_requests.create_topics,
    "DeleteAcls": security_requests.delete_acls,
    "DeleteGroups": lambda names: {"groups_names": names.some((ABSENT_GROUP, "billing-absent"))},
    "DeleteRecords": topic_requests.delete_records,
    "DeleteShareGroupOffsets": share_requests.delete_share_group_offsets,
    "DeleteShareGroupState": share_requests.state(),
    "DeleteTopics": topic_requests.delete_topics,
    "DescribeAcls": security_requests.describe_acls,
    "DescribeClientQuotas": security_requests.describe_client_quotas,
    "DescribeCluster": cluster_requests.describe_cluster,
    "DescribeConfigs": config_requests.describe_configs,
    "DescribeDelegationToken": security_requests.describe_delegation_token,
    "DescribeGroups": group_requests.describe_groups,
    "DescribeLogDirs": topic_requests.describe_log_dirs,
    "DescribeProducers": topic_requests.describe_producers,
    "DescribeQuorum": cluster_requests.describe_quorum,
    "DescribeShareGroupOffsets": share_requests.describe_share_group_offsets,
    "DescribeTopicPartitions": topic_requests.describe_topic_partitions,
    "DescribeTransactions": txn_requests.describe_transactions,
    "DescribeUserScramCredentials": security_requests.describe_scram,
    "ElectLeaders": topic_requests.elect_leaders,
    "EndTxn": txn_requests.end_txn,
    "ExpireDelegationToken": security_requests.expire_delegation_token,
    "Fetch": topic_requests.fetch,
    "FindCoordinator": group_requests.find_coordinator,
    "Heartbeat": group_requests.member,
    "IncrementalAlterConfigs": config_requests.incremental_alter_configs,
    "InitProducerId": txn_requests.init_producer_id,
    "InitializeShareGroupState": share_requests.state(state_epoch=1, start_offset=0),
    "JoinGroup": group_requests.join_group,
    "LeaveGroup": group_requests.leave_group,
    "ListConfigResources": lambda _: {},
    "ListGroups": lambda _: {},
    "ListOffsets": topic_requests.list_offsets,
    "ListPartitionReassignments": topic_requests.list_partition_reassignments,
    "ListTransactions": lambda _: {},
    "Metadata": topic_requests.metadata,
    "OffsetCommit": group_requests.offset_commit,
    "OffsetDelete": group_requests.offset_delete,
    "OffsetFetch": group_requests.offset_fetch,
    "OffsetForLeaderEpoch": topic_requests.offset_for_leader_epoch,
    "Produce": topic_requests.produce,
    "ReadShareGroupState": share_requests.state(leader_epoch=0),
    "ReadShareGroupStateSummary": share_requests.state(leader_epoch=0),
    "RemoveRaftVoter": cluster_requests.remove_raft_voter,
    "RenewDelegationToken": security_requests.renew_delegation_token,
    "ShareAcknowledge": share_requests.share_acknowledge,
    "ShareFetch": share_requests.share_fetch,
    "ShareGroupDescribe": share_requests.share_group_describe,
    "ShareGroupHeartbeat": share_requests.share_group_heartbeat,
    "StreamsGroupDescribe": group_requests.streams_group_describe,
    "StreamsGroupHeartbeat": group_requests.streams_group_heartbeat,
    "SyncGroup": group_requests.sync_group,
    "TxnOffsetCommit": txn_requests.txn_offset_commit,
    "UnregisterBroker": lambda _: {"broker_id": 77},
    "UpdateFeatures": cluster_requests.update_features,
    "WriteShareGroupState": share_requests.state(state_epoch=1, leader_epoch=0, start_offset=0),
    "WriteTxnMarkers": txn_requests.write_txn_markers,
}
