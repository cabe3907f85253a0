"""The APIs that a node serves, with their handlers. ApiVersions lists exactly these.

Every version in ``protocol.apis`` is served; ``unstable.api.versions.enable`` adds InitProducerId v6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from ruslo.broker.dispatch.auditing import audited
from ruslo.broker.dispatch.demands import DEMANDS
from ruslo.broker.dispatch.dispatcher import HotHandler, ServedApi
from ruslo.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    add_raft_voter,
    alter_client_quotas,
    alter_configs,
    alter_replica_log_dirs,
    alter_share_group_offsets,
    api_versions,
    begin_quorum_epoch,
    consumer_group_describe,
    consumer_group_heartbeat,
    controller_changes,
    controller_requests,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_delegation_token,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_share_group_offsets,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    end_quorum_epoch,
    end_txn,
    envelope,
    fetch_snapshot,
    find_coordinator,
    forward,
    get_telemetry_subscriptions,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    push_telemetry,
    quorum_fetch,
    remove_raft_voter,
    sasl_authenticate,
    sasl_handshake,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    share_group_state,
    streams_group_describe,
    streams_group_heartbeat,
    streams_group_topology_description_update,
    sync_group,
    txn_offset_commit,
    update_features,
    update_raft_voter,
    vote,
    write_txn_markers,
)
from ruslo.broker.handlers.services import ApiCatalog, Handler
from ruslo.protocol.apis import API_BY_NAME, Api

HANDLERS: Mapping[str, Callable[..., Any]] = {
    "ListOffsets": list_offsets.handle,
    "Metadata": metadata.handle,
    "OffsetCommit": offset_commit.handle,
    "OffsetFetch": offset_fetch.handle,
    "FindCoordinator": find_coordinator.handle,
    "JoinGroup": join_group.handle,
    "Heartbeat": heartbeat.handle,
    "LeaveGroup": leave_group.handle,
    "SyncGroup": sync_group.handle,
    "DescribeGroups": describe_groups.handle,
    "ListGroups": list_groups.handle,
    "SaslHandshake": sasl_handshake.handle,
    "ApiVersions": api_versions.handle,
    "CreateTopics": forward.handle,
    "DeleteTopics": forward.handle,
    "DeleteRecords": delete_records.handle,
    "InitProducerId": init_producer_id.handle,
    "OffsetForLeaderEpoch": offset_for_leader_epoch.handle,
    "AddPartitionsToTxn": add_partitions_to_txn.handle,
    "AddOffsetsToTxn": add_offsets_to_txn.handle,
    "EndTxn": end_txn.handle,
    "WriteTxnMarkers": write_txn_markers.handle,
    "TxnOffsetCommit": txn_offset_commit.handle,
    "DescribeAcls": describe_acls.handle,
    "CreateAcls": forward.handle,
    "DeleteAcls": forward.handle,
    "DescribeConfigs": describe_configs.handle,
    "AlterConfigs": alter_configs.handle_at_broker,
    "AlterReplicaLogDirs": alter_replica_log_dirs.handle,
    "DescribeLogDirs": describe_log_dirs.handle,
    "SaslAuthenticate": sasl_authenticate.handle,
    "CreatePartitions": forward.handle,
    "CreateDelegationToken": create_delegation_token.forward,
    "RenewDelegationToken": create_delegation_token.forward,
    "ExpireDelegationToken": create_delegation_token.forward,
    "DescribeDelegationToken": describe_delegation_token.handle,
    "DeleteGroups": delete_groups.handle,
    "IncrementalAlterConfigs": incremental_alter_configs.handle_at_broker,
    "OffsetDelete": offset_delete.handle,
    "ElectLeaders": forward.handle,
    "AlterPartitionReassignments": forward.handle,
    "ListPartitionReassignments": forward.handle,
    "DescribeClientQuotas": describe_client_quotas.handle,
    "AlterClientQuotas": forward.handle,
    "DescribeUserScramCredentials": describe_user_scram_credentials.handle,
    "AlterUserScramCredentials": forward.handle,
    "DescribeQuorum": forward.handle,
    "UpdateFeatures": forward.handle,
    "DescribeCluster": describe_cluster.handle,
    "DescribeProducers": describe_producers.handle,
    "UnregisterBroker": forward.handle,
    "DescribeTransactions": describe_transactions.handle,
    "ListTransactions": list_transactions.handle,
    "ConsumerGroupHeartbeat": consumer_group_heartbeat.handle,
    "ConsumerGroupDescribe": consumer_group_describe.handle,
    "GetTelemetrySubscriptions": get_telemetry_subscriptions.handle,
    "PushTelemetry": push_telemetry.handle,
    "ListConfigResources": list_config_resources.handle,
    "DescribeTopicPartitions": describe_topic_partitions.handle,
    "ShareGroupHeartbeat": share_group_heartbeat.handle,
    "ShareGroupDescribe": share_group_describe.handle,
    "ShareFetch": share_fetch.handle,
    "ShareAcknowledge": share_acknowledge.handle,
    "AddRaftVoter": forward.handle,
    "RemoveRaftVoter": forward.handle,
    "InitializeShareGroupState": share_group_state.handle,
    "ReadShareGroupState": share_group_state.handle,
    "WriteShareGroupState": share_group_state.handle,
    "DeleteShareGroupState": share_group_state.handle,
    "ReadShareGroupStateSummary": share_group_state.handle,
    "StreamsGroupHeartbeat": streams_group_heartbeat.handle,
    "StreamsGroupDescribe": streams_group_describe.handle,
    "DescribeShareGroupOffsets": describe_share_group_offsets.handle,
    "AlterShareGroupOffsets": alter_share_group_offsets.handle,
    "DeleteShareGroupOffsets": delete_share_group_offsets.handle,
    "StreamsGroupTopologyDescriptionUpdate": streams_group_topology_description_update.handle,
}

CONTROLLER_HANDLERS: Mapping[str, Callable[..., Any]] = {
    "Fetch": quorum_fetch.handle,
    "SaslHandshake": sasl_handshake.handle,
    "ApiVersions": api_versions.handle,
    "CreateTopics": create_topics.handle,
    "DeleteTopics": delete_topics.handle,
    "DescribeAcls": describe_acls.handle,
    "CreateAcls": create_acls.handle,
    "DeleteAcls": delete_acls.handle,
    "DescribeConfigs": describe_configs.handle,
    "AlterConfigs": alter_configs.handle,
    "SaslAuthenticate": sasl_authenticate.handle,
    "CreatePartitions": create_partitions.handle,
    "CreateDelegationToken": create_delegation_token.handle,
    "RenewDelegationToken": create_delegation_token.renew_or_expire,
    "ExpireDelegationToken": create_delegation_token.renew_or_expire,
    "DescribeDelegationToken": describe_delegation_token.handle,
    "IncrementalAlterConfigs": incremental_alter_configs.handle,
    "Vote": vote.handle,
    "BeginQuorumEpoch": begin_quorum_epoch.handle,
    "EndQuorumEpoch": end_quorum_epoch.handle,
    "DescribeQuorum": describe_quorum.handle,
    "ElectLeaders": controller_changes.handle,
    "AlterPartitionReassignments": controller_changes.handle,
    "ListPartitionReassignments": controller_changes.handle,
    "AlterClientQuotas": alter_client_quotas.handle,
    "DescribeUserScramCredentials": describe_user_scram_credentials.handle,
    "AlterUserScramCredentials": controller_changes.handle,
    "AlterPartition": controller_requests.handle,
    "UpdateFeatures": update_features.handle,
    "Envelope": envelope.handle,
    "FetchSnapshot": fetch_snapshot.handle,
    "DescribeCluster": describe_cluster.handle,
    "BrokerRegistration": controller_requests.handle,
    "BrokerHeartbeat": controller_requests.handle,
    "UnregisterBroker": controller_changes.handle,
    "AllocateProducerIds": controller_requests.handle,
    "ControllerRegistration": controller_requests.handle,
    "AssignReplicasToDirs": controller_requests.handle,
    "AddRaftVoter": add_raft_voter.handle,
    "RemoveRaftVoter": remove_raft_voter.handle,
    "UpdateRaftVoter": update_raft_voter.handle,
}

PIPELINES: Mapping[str, str] = {
    "Produce": "produce",
    "OffsetCommit": "commits",
    "AddPartitionsToTxn": "transactions",
    "WriteTxnMarkers": "transactions",
    "AllocateProducerIds": "housekeeping",
    "AlterPartition": "housekeeping",
    "AssignReplicasToDirs": "housekeeping",
    "BrokerHeartbeat": "housekeeping",
    "BrokerRegistration": "housekeeping",
    "ControllerRegistration": "housekeeping",
}
"""The pipeline of each API whose requests do not wait for each other's responses on a connection.

Apache Kafka handles the next request of a connection when the one before has its response, so a response is
never older than the one before it. An API is listed here only if a client cannot tell the difference: its
requests take effect in the order in which they arrive, and their responses show no effect of other requests.

* Produce: offsets are assigned when a request arrives; its response waits for replicas.
* OffsetCommit: the offset records of a group are appended when a request arrives.
* AddPartitionsToTxn, WriteTxnMarkers: one connection carries those of all transactions between two brokers.
  The transactions are independent, and a broker sends one request at a time for each of them.
* Requests of a broker to the controller: a heartbeat must not wait until an ISR change is committed.
"""


_HOT_APIS = ("Produce", "Fetch")


def broker_catalog(*, unstable: bool = False) -> ApiCatalog:
    """``unstable``: with the versions that ``unstable.api.versions.enable`` adds."""
    return _catalog((*_HOT_APIS, *HANDLERS), HANDLERS, unstable=unstable)


def controller_catalog() -> ApiCatalog:
    served = [row.api.name for row in controller_apis().values()]
    return _catalog(served, {name: CONTROLLER_HANDLERS[name] for name in served})


def _catalog(
    announced: Iterable[str], handlers: Mapping[str, Handler], *, unstable: bool = False
) -> ApiCatalog:
    apis = sorted((_api(name, unstable) for name in announced), key=lambda api: api.key)
    guarded = {API_BY_NAME[name].key: _guarded(name, handle) for name, handle in handlers.items()}
    return ApiCatalog(tuple(apis), guarded)


def _api(name: str, unstable: bool) -> Api:
    api = API_BY_NAME[name]
    return replace(api, max_version=api.request.MAX_VERSION) if unstable else api


def _guarded(name: str, handle: Handler) -> Handler:
    """The handler behind the demand of its API; the controller checks what a broker forwards."""
    return handle if handle in _FORWARDERS else DEMANDS[name].guard(handle)


_FORWARDERS = (forward.handle, create_delegation_token.forward)


def broker_apis(produce: HotHandler, fetch: HotHandler, *, unstable: bool = False) -> dict[int, ServedApi]:
    """Return the APIs of client listeners, by key."""
    rows = {
        "Produce": ServedApi(API_BY_NAME["Produce"], hot=produce, pipeline=PIPELINES["Produce"]),
        "Fetch": ServedApi(API_BY_NAME["Fetch"], hot=fetch),
    }
    rows |= {name: _served(name, handle, unstable=unstable) for name, handle in HANDLERS.items()}
    return {row.api.key: row for row in rows.values()}


@cache
def controller_apis() -> dict[int, ServedApi]:
    """Return the APIs of controller listeners, by key: for the quorum, brokers and tools."""
    return {
        API_BY_NAME[name].key: _served(name, handle)
        for name, handle in CONTROLLER_HANDLERS.items()
        if "controller" in API_BY_NAME[name].listeners
    }


def _served(name: str, handle: Callable[..., Any], *, unstable: bool = False) -> ServedApi:
    return ServedApi(
        _api(name, unstable), audited(name, _guarded(name, handle)), pipeline=PIPELINES.get(name, "")
    )


@cache
def unauthenticated_apis() -> dict[int, ServedApi]:
    """Return the APIs of a SASL listener before the client is authenticated, by key."""
    handlers: dict[str, Handler] = {
        "ApiVersions": api_versions.handle,
        "SaslHandshake": sasl_handshake.handle,
        "SaslAuthenticate": sasl_authenticate.handle,
    }
    return {API_BY_NAME[name].key: _served(name, handle) for name, handle in handlers.items()}
