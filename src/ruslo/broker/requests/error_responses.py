"""The response of each API to an error of the whole request, as Kafka's clients expect it.

Most responses have a field for the error. The others repeat it for each element of the request: the table
holds them, and the coordinators' machines those of their requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ruslo.machines.groups import errors as groups
from ruslo.machines.share_coordinator.responses import ShareRequest, failure_of
from ruslo.machines.txns import errors as txns
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.apis import API_BY_KEY
from ruslo.protocol.message import Message
from ruslo.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from ruslo.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from ruslo.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from ruslo.protocol.messages.alter_client_quotas_response import (
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
)
from ruslo.protocol.messages.alter_configs_request import AlterConfigsRequest
from ruslo.protocol.messages.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse
from ruslo.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from ruslo.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ruslo.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from ruslo.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ruslo.protocol.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from ruslo.protocol.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ruslo.protocol.messages.create_acls_request import CreateAclsRequest
from ruslo.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from ruslo.protocol.messages.create_partitions_request import CreatePartitionsRequest
from ruslo.protocol.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ruslo.protocol.messages.create_topics_request import CreateTopicsRequest
from ruslo.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from ruslo.protocol.messages.delete_acls_request import DeleteAclsRequest
from ruslo.protocol.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsResponse
from ruslo.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ruslo.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from ruslo.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
)
from ruslo.protocol.messages.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ruslo.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ruslo.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ruslo.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from ruslo.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse as IncrementalResourceResponse,
)
from ruslo.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from ruslo.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from ruslo.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ruslo.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from ruslo.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)


def error_response(request: Message, error: KafkaError, version: int) -> Message | None:
    """None if the response has no field for an error."""
    build = _BUILDERS.get(type(request))
    if build is not None:
        return build(request, error, version)
    api = API_BY_KEY[request.API_KEY]
    if api.name in _GROUP_APIS:
        return groups.error_response(request, version, error.code)
    if api.name in _TRANSACTION_APIS:
        return txns.error_response(request, version, error.code)
    if isinstance(request, ShareRequest):
        return failure_of(request, error.code, error.message)
    response: Any = api.response()
    if not hasattr(response, "error_code"):
        return None
    response.error_code = error.code
    if hasattr(response, "error_message"):
        response.error_message = error.message
    assert isinstance(response, Message)
    return response


def _add_partitions_to_txn(request: AddPartitionsToTxnRequest, error: KafkaError, version: int) -> Message:
    """v4 has a field for an error of the whole request."""
    if version >= 4:
        return AddPartitionsToTxnResponse(error_code=error.code)
    return txns.error_response(request, version, error.code)


def _create_topics(request: CreateTopicsRequest, error: KafkaError, version: int) -> Message:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


def _delete_topics(request: DeleteTopicsRequest, error: KafkaError, version: int) -> Message:
    named = [DeletableTopicResult(name=name) for name in request.topic_names]
    given = [DeletableTopicResult(name=each.name, topic_id=each.topic_id) for each in request.topics]
    results = named + given
    for result in results:
        result.error_code, result.error_message = error.code, error.message
    return DeleteTopicsResponse(responses=results)


def _create_partitions(request: CreatePartitionsRequest, error: KafkaError, version: int) -> Message:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


def _alter_configs(request: AlterConfigsRequest, error: KafkaError, version: int) -> Message:
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                error_code=error.code,
                error_message=error.message,
            )
            for each in request.resources
        ]
    )


def _alter_replica_log_dirs(request: AlterReplicaLogDirsRequest, error: KafkaError, version: int) -> Message:
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error.code)
                    for index in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


def _incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, error: KafkaError, version: int
) -> Message:
    return IncrementalAlterConfigsResponse(
        responses=[
            IncrementalResourceResponse(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                error_code=error.code,
                error_message=error.message,
            )
            for each in request.resources
        ]
    )


def _elect_leaders(request: ElectLeadersRequest, error: KafkaError, version: int) -> Message:
    """v0 has no field for an error of the whole request."""
    return ElectLeadersResponse(
        error_code=error.code if version >= 1 else ErrorCode.NONE,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=error.code, error_message=error.message)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or []
        ],
    )


def _alter_reassignments(
    request: AlterPartitionReassignmentsRequest, error: KafkaError, version: int
) -> Message:
    return AlterPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=each.partition_index,
                        error_code=error.code,
                        error_message=error.message,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _list_reassignments(
    request: ListPartitionReassignmentsRequest, error: KafkaError, version: int
) -> Message:
    """The requested partitions are in the response, without replicas."""
    return ListPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        topics=[
            OngoingTopicReassignment(
                name=topic.name,
                partitions=[
                    OngoingPartitionReassignment(partition_index=index) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or []
        ],
    )


def _create_acls(request: CreateAclsRequest, error: KafkaError, version: int) -> Message:
    result = AclCreationResult(error_code=error.code, error_message=error.message)
    return CreateAclsResponse(results=[result] * len(request.creations))


def _delete_acls(request: DeleteAclsRequest, error: KafkaError, version: int) -> Message:
    result = DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
    return DeleteAclsResponse(filter_results=[result] * len(request.filters))


def _alter_client_quotas(request: AlterClientQuotasRequest, error: KafkaError, version: int) -> Message:
    return AlterClientQuotasResponse(
        entries=[
            EntryData(
                error_code=error.code,
                error_message=error.message,
                entity=[
                    EntityData(entity_type=each.entity_type, entity_name=each.entity_name)
                    for each in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


def _alter_users(request: AlterUserScramCredentialsRequest, error: KafkaError, version: int) -> Message:
    users = [*(each.name for each in request.deletions), *(each.name for each in request.upsertions)]
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.message)
            for user in dict.fromkeys(users)
        ]
    )


def _describe_users(request: DescribeUserScramCredentialsRequest, error: KafkaError, version: int) -> Message:
    """As in Kafka, a result for each requested user, without its name."""
    result = DescribeUserScramCredentialsResult(error_code=error.code, error_message=error.message)
    return DescribeUserScramCredentialsResponse(
        error_code=error.code, error_message=error.message, results=[result] * len(request.users or [])
    )


def _write_txn_markers(request: WriteTxnMarkersRequest, error: KafkaError, version: int) -> Message:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=error.code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


# Any: each function takes the request type of its key.
_Builder: TypeAlias = Callable[[Any, KafkaError, int], Message]
_BUILDERS: dict[type[Message], _Builder] = {
    AddPartitionsToTxnRequest: _add_partitions_to_txn,
    AlterClientQuotasRequest: _alter_client_quotas,
    AlterConfigsRequest: _alter_configs,
    AlterPartitionReassignmentsRequest: _alter_reassignments,
    AlterReplicaLogDirsRequest: _alter_replica_log_dirs,
    AlterUserScramCredentialsRequest: _alter_users,
    CreateAclsRequest: _create_acls,
    CreatePartitionsRequest: _create_partitions,
    CreateTopicsRequest: _create_topics,
    DeleteAclsRequest: _delete_acls,
    DeleteTopicsRequest: _delete_topics,
    DescribeUserScramCredentialsRequest: _describe_users,
    ElectLeadersRequest: _elect_leaders,
    IncrementalAlterConfigsRequest: _incremental_alter_configs,
    ListPartitionReassignmentsRequest: _list_reassignments,
    WriteTxnMarkersRequest: _write_txn_markers,
}
_GROUP_APIS = (
    "ConsumerGroupDescribe", "ConsumerGroupHeartbeat", "DeleteGroups", "DescribeGroups",
    "DescribeShareGroupOffsets", "Heartbeat", "JoinGroup", "LeaveGroup", "ListGroups", "OffsetCommit",
    "OffsetDelete", "OffsetFetch", "ShareGroupDescribe", "StreamsGroupDescribe", "SyncGroup",
    "TxnOffsetCommit",
)  # fmt: skip
_TRANSACTION_APIS = (
    "AddOffsetsToTxn", "DescribeTransactions", "EndTxn", "InitProducerId", "ListTransactions"
)  # fmt: skip
