"""What each API demands of the client, as in Apache Kafka 4.3. ``docs/protocol.md`` shows it.

An operation on the cluster is checked before the handler is called. The handler checks operations on the
resources that the request names, because its response tells the result for each of them. A request that a
broker forwards is checked by the controller, which knows the newest ACLs. An API without a row here does not
pass the tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ruslo.broker.handlers.services import Handler
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType


class Demand(NamedTuple):
    cluster: Operation | None = None
    """The operation on the cluster that the whole request needs."""
    resources: str = ""
    """What the handler checks, for the documentation."""

    def guard(self, handle: Handler) -> Handler:
        """The handler, which is called only if the client may perform the operation on the cluster."""
        operation = self.cluster
        if operation is None:
            return handle

        def guarded(services: Any, request: Any, context: RequestContext) -> Any:
            context.require(operation, ResourceType.CLUSTER)
            return handle(services, request, context)

        return guarded

    def __str__(self) -> str:
        whole = "" if self.cluster is None else f"{self.cluster.name} on the cluster"
        return "; ".join(filter(None, (whole, self.resources))) or "nothing"


_ALTER = Demand(Operation.ALTER)
_CLUSTER_ACTION = Demand(Operation.CLUSTER_ACTION)
_DESCRIBE = Demand(Operation.DESCRIBE)
_NOTHING = Demand()
_READ_GROUP = Demand(resources="READ on the group")

DEMANDS: Mapping[str, Demand] = {
    "AddOffsetsToTxn": Demand(resources="WRITE on the transactional id; READ on the group"),
    "AddPartitionsToTxn": Demand(
        resources="WRITE on the transactional id and the topics; from v4 on CLUSTER_ACTION on the cluster"
    ),
    "AddRaftVoter": _ALTER,
    "AllocateProducerIds": _CLUSTER_ACTION,
    "AlterClientQuotas": Demand(Operation.ALTER_CONFIGS),
    "AlterConfigs": Demand(resources="ALTER_CONFIGS on the topic, the group, or the cluster for brokers"),
    "AlterPartition": _CLUSTER_ACTION,
    "AlterPartitionReassignments": _ALTER,
    "AlterReplicaLogDirs": _ALTER,
    "AlterShareGroupOffsets": Demand(resources="READ on the group and the topics"),
    "AlterUserScramCredentials": _ALTER,
    "ApiVersions": _NOTHING,
    "AssignReplicasToDirs": _CLUSTER_ACTION,
    "BeginQuorumEpoch": _CLUSTER_ACTION,
    "BrokerHeartbeat": _CLUSTER_ACTION,
    "BrokerRegistration": _CLUSTER_ACTION,
    "ConsumerGroupDescribe": Demand(resources="DESCRIBE on the groups and on the topics of their members"),
    "ConsumerGroupHeartbeat": Demand(resources="READ on the group; DESCRIBE on the topics"),
    "ControllerRegistration": _CLUSTER_ACTION,
    "CreateAcls": _ALTER,
    "CreateDelegationToken": Demand(resources="CREATE_TOKENS on the user, for the token of another user"),
    "CreatePartitions": Demand(resources="ALTER on the topic"),
    "CreateTopics": Demand(resources="CREATE on the cluster or on the topic; DESCRIBE_CONFIGS for configs"),
    "DeleteAcls": _ALTER,
    "DeleteGroups": Demand(resources="DELETE on the group"),
    "DeleteRecords": Demand(resources="DELETE on the topic"),
    "DeleteShareGroupOffsets": Demand(resources="DELETE on the group; READ on the topics"),
    "DeleteShareGroupState": _CLUSTER_ACTION,
    "DeleteTopics": Demand(resources="DELETE on the topic; DESCRIBE, or the name is hidden"),
    "DescribeAcls": _DESCRIBE,
    "DescribeClientQuotas": Demand(Operation.DESCRIBE_CONFIGS),
    "DescribeCluster": Demand(resources="DESCRIBE on the cluster for authorized operations"),
    "DescribeConfigs": Demand(resources="DESCRIBE_CONFIGS on the topic, the group, or the cluster"),
    "DescribeDelegationToken": Demand(resources="DESCRIBE on the token, or DESCRIBE_TOKENS on its owner"),
    "DescribeGroups": Demand(resources="DESCRIBE on the group"),
    "DescribeLogDirs": Demand(resources="DESCRIBE on the cluster, else an empty response"),
    "DescribeProducers": Demand(resources="READ on the topic"),
    "DescribeQuorum": _DESCRIBE,
    "DescribeShareGroupOffsets": Demand(resources="DESCRIBE on the groups and the topics"),
    "DescribeTopicPartitions": Demand(resources="DESCRIBE on the topic"),
    "DescribeTransactions": Demand(resources="DESCRIBE on the transactional id and on the topics"),
    "DescribeUserScramCredentials": _DESCRIBE,
    "ElectLeaders": _ALTER,
    "EndQuorumEpoch": _CLUSTER_ACTION,
    "EndTxn": Demand(resources="WRITE on the transactional id"),
    "Envelope": _CLUSTER_ACTION,
    "ExpireDelegationToken": Demand(resources="the requester owns the token, or may renew it"),
    "Fetch": Demand(resources="READ on the topic; CLUSTER_ACTION on the cluster for replicas"),
    "FetchSnapshot": _CLUSTER_ACTION,
    "FindCoordinator": Demand(resources="DESCRIBE on the group or the transactional id"),
    "GetTelemetrySubscriptions": _NOTHING,
    "Heartbeat": _READ_GROUP,
    "IncrementalAlterConfigs": Demand(
        resources="ALTER_CONFIGS on the topic, the group, or the cluster for brokers and loggers"
    ),
    "InitializeShareGroupState": _CLUSTER_ACTION,
    "InitProducerId": Demand(
        resources="WRITE on the transactional id, TWO_PHASE_COMMIT for two-phase commit; without one, "
        "IDEMPOTENT_WRITE on the cluster or WRITE on any topic"
    ),
    "JoinGroup": _READ_GROUP,
    "LeaveGroup": _READ_GROUP,
    "ListConfigResources": Demand(Operation.DESCRIBE_CONFIGS),
    "ListGroups": Demand(resources="DESCRIBE on the cluster, else only groups with DESCRIBE"),
    "ListOffsets": Demand(resources="DESCRIBE on the topic"),
    "ListPartitionReassignments": _DESCRIBE,
    "ListTransactions": Demand(resources="DESCRIBE on the transactional ids that are listed"),
    "Metadata": Demand(resources="DESCRIBE on the topic, else it is hidden; CREATE to create it"),
    "OffsetCommit": Demand(resources="READ on the group and the topics"),
    "OffsetDelete": Demand(resources="DELETE on the group; READ on the topics"),
    "OffsetFetch": Demand(resources="DESCRIBE on the group and the topics"),
    "OffsetForLeaderEpoch": Demand(resources="DESCRIBE on the topic, or CLUSTER_ACTION on the cluster"),
    "Produce": Demand(resources="WRITE on the topic and the transactional id"),
    "PushTelemetry": _NOTHING,
    "ReadShareGroupState": _CLUSTER_ACTION,
    "ReadShareGroupStateSummary": _CLUSTER_ACTION,
    "RemoveRaftVoter": _ALTER,
    "RenewDelegationToken": Demand(resources="the requester owns the token, or may renew it"),
    "SaslAuthenticate": _NOTHING,
    "SaslHandshake": _NOTHING,
    "ShareAcknowledge": Demand(resources="READ on the group and the topics"),
    "ShareFetch": Demand(resources="READ on the group and the topics"),
    "ShareGroupDescribe": Demand(resources="DESCRIBE on the groups and on the topics of their members"),
    "ShareGroupHeartbeat": Demand(resources="READ on the group; DESCRIBE on the topics"),
    "StreamsGroupDescribe": Demand(resources="DESCRIBE on the groups and on the topics of their topologies"),
    "StreamsGroupHeartbeat": Demand(
        resources="READ on the group; DESCRIBE on the topics of the topology; CREATE on the cluster or on "
        "internal topics that do not exist"
    ),
    "StreamsGroupTopologyDescriptionUpdate": _READ_GROUP,
    "SyncGroup": _READ_GROUP,
    "TxnOffsetCommit": Demand(resources="WRITE on the transactional id; READ on the group and the topics"),
    "UnregisterBroker": _ALTER,
    "UpdateFeatures": _ALTER,
    "UpdateRaftVoter": _CLUSTER_ACTION,
    "Vote": _CLUSTER_ACTION,
    "WriteShareGroupState": _CLUSTER_ACTION,
    "WriteTxnMarkers": Demand(resources="CLUSTER_ACTION or ALTER on the cluster"),
}
