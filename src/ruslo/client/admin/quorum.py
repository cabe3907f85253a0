"""The KRaft quorum: describe it, add and remove voters (KIP-595, KIP-853)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ruslo.client.settings.bootstrap_servers import Address
from ruslo.client.wire.cluster import Cluster
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid
from ruslo.model.topics import METADATA_TOPIC
from ruslo.net.channel import check_code
from ruslo.protocol.message import Message
from ruslo.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from ruslo.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from ruslo.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from ruslo.protocol.messages.describe_quorum_response import DescribeQuorumResponse, ReplicaState
from ruslo.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ruslo.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse

_TIMEOUT_MS = 30_000


class QuorumReplica(NamedTuple):
    replica_id: int
    directory_id: Uuid
    log_end_offset: int
    last_fetch_timestamp_ms: int
    last_caught_up_timestamp_ms: int


class VoterEndpoint(NamedTuple):
    listener_name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Quorum:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: dict[int, tuple[VoterEndpoint, ...]]
    """The listeners of each voter; empty when the cluster predates KIP-853."""


class QuorumAdmin:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(self) -> Quorum:
        request = DescribeQuorumRequest(
            topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])]
        )

        async def attempt() -> Quorum:
            response = await self._cluster.controller(request, DescribeQuorumResponse)
            check_code(response.error_code, response.error_message)
            partition = response.topics[0].partitions[0]
            check_code(partition.error_code, partition.error_message)
            return Quorum(
                partition.leader_id,
                partition.leader_epoch,
                partition.high_watermark,
                tuple(_replica(state) for state in partition.current_voters),
                tuple(_replica(state) for state in partition.observers),
                {
                    node.node_id: tuple(
                        VoterEndpoint(each.name, each.host, each.port) for each in node.listeners
                    )
                    for node in response.nodes
                },
            )

        return await self._cluster.retrying(attempt)

    async def add_voter(
        self, voter_id: int, directory_id: Uuid, listener_name: str, address: Address
    ) -> None:
        """Add a controller that is running and has caught up with the metadata log."""
        request = AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=_TIMEOUT_MS,
            voter_id=voter_id,
            voter_directory_id=directory_id,
            listeners=[Listener(name=listener_name, host=address.host, port=address.port)],
        )
        await self._change(request, AddRaftVoterResponse)

    async def remove_voter(self, voter_id: int, directory_id: Uuid) -> None:
        request = RemoveRaftVoterRequest(cluster_id=None, voter_id=voter_id, voter_directory_id=directory_id)
        await self._change(request, RemoveRaftVoterResponse)

    async def _change(
        self, request: Message, response_type: type[AddRaftVoterResponse | RemoveRaftVoterResponse]
    ) -> None:
        async def attempt() -> None:
            response = await self._cluster.controller(request, response_type)
            check_code(response.error_code, response.error_message)

        # A change that timed out may still be committed; a retry would only find it done already and fail.
        await self._cluster.retrying(attempt, final=(ErrorCode.REQUEST_TIMED_OUT,))


def _replica(state: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.replica_directory_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )
