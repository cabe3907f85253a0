"""Encodes the requests of the raft machine as Kafka's requests and decodes the responses.

Every response may carry the epoch and leader that the other node knows and that leader's endpoint
(NodeEndpoints, KIP-853); the machine uses them whatever its request was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

from ruslo.machines.raft.quorum_state import NO_NODE
from ruslo.machines.raft.rpc import (
    AddVoterRequest,
    BeginEpochRequest,
    EndEpochRequest,
    EpochEnd,
    EpochResponse,
    RaftFetchRequest,
    RaftFetchResponse,
    RaftRequest,
    RaftResponse,
    RaftVoteRequest,
    RaftVoteResponse,
    RemoveVoterRequest,
    SnapshotRequest,
    SnapshotResponse,
    UpdateVoterRequest,
    VersionsRequest,
    VoterChangeResponse,
)
from ruslo.machines.raft.snapshots import SnapshotId
from ruslo.machines.raft.voters import Endpoint
from ruslo.model.errors import ErrorCode, ProtocolError
from ruslo.model.ids import METADATA_TOPIC_ID
from ruslo.model.topics import METADATA_TOPIC
from ruslo.protocol.message import Message
from ruslo.protocol.messages import (
    add_raft_voter_request,
    begin_quorum_epoch_request,
    end_quorum_epoch_request,
    fetch_request,
    fetch_snapshot_request,
    update_raft_voter_request,
    vote_request,
)
from ruslo.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from ruslo.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from ruslo.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from ruslo.protocol.messages.begin_quorum_epoch_response import BeginQuorumEpochResponse
from ruslo.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from ruslo.protocol.messages.end_quorum_epoch_response import EndQuorumEpochResponse
from ruslo.protocol.messages.fetch_request import FetchRequest
from ruslo.protocol.messages.fetch_response import FetchResponse
from ruslo.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from ruslo.protocol.messages.fetch_snapshot_response import FetchSnapshotResponse
from ruslo.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ruslo.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from ruslo.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from ruslo.protocol.messages.update_raft_voter_response import UpdateRaftVoterResponse
from ruslo.protocol.messages.vote_request import VoteRequest
from ruslo.protocol.messages.vote_response import VoteResponse

REPLICA_STATE_MIN_VERSION: Final = 15
"""The first version of Fetch with a ReplicaState struct (KIP-903)."""
FETCH_MIN_VERSION: Final = 13
"""The first version of Fetch with topic ids; the metadata log is not fetched by name."""
PRE_VOTE_MIN_VERSION: Final = 2

LOWEST_VERSION: Final[dict[type[Message], int]] = {FetchRequest: FETCH_MIN_VERSION}
REQUESTS: Final[dict[type[RaftRequest], type[Message]]] = {
    RaftVoteRequest: VoteRequest,
    BeginEpochRequest: BeginQuorumEpochRequest,
    EndEpochRequest: EndQuorumEpochRequest,
    RaftFetchRequest: FetchRequest,
    SnapshotRequest: FetchSnapshotRequest,
    AddVoterRequest: AddRaftVoterRequest,
    RemoveVoterRequest: RemoveRaftVoterRequest,
    UpdateVoterRequest: UpdateRaftVoterRequest,
}


ListenerT = TypeVar("ListenerT")


class WireLimits(Protocol):
    @property
    def cluster_id(self) -> str: ...
    @property
    def fetch_max_bytes(self) -> int: ...
    @property
    def snapshot_max_bytes(self) -> int: ...


def encode(request: RaftRequest, version: int, limits: WireLimits) -> Message:
    cluster_id = limits.cluster_id
    match request:
        case RaftVoteRequest():
            vote = vote_request.PartitionData(
                replica_epoch=request.epoch,
                replica_id=request.candidate.node_id,
                replica_directory_id=request.candidate.directory_id,
                voter_directory_id=request.voter.directory_id,
                last_offset_epoch=request.last_epoch,
                last_offset=request.end_offset,
                pre_vote=request.pre_vote,
            )
            votes = vote_request.TopicData(topic_name=METADATA_TOPIC, partitions=[vote])
            return VoteRequest(cluster_id=cluster_id, voter_id=request.voter.node_id, topics=[votes])
        case BeginEpochRequest():
            begin = begin_quorum_epoch_request.PartitionData(
                voter_directory_id=request.voter.directory_id,
                leader_id=request.leader_id,
                leader_epoch=request.epoch,
            )
            begins = begin_quorum_epoch_request.TopicData(topic_name=METADATA_TOPIC, partitions=[begin])
            return BeginQuorumEpochRequest(
                cluster_id=cluster_id,
                voter_id=request.voter.node_id,
                topics=[begins],
                leader_endpoints=_listeners(begin_quorum_epoch_request.LeaderEndpoint, request.endpoints),
            )
        case EndEpochRequest():
            end = end_quorum_epoch_request.PartitionData(
                leader_id=request.leader_id,
                leader_epoch=request.epoch,
                preferred_successors=[key.node_id for key in request.preferred],
                preferred_candidates=[
                    end_quorum_epoch_request.ReplicaInfo(
                        candidate_id=key.node_id, candidate_directory_id=key.directory_id
                    )
                    for key in request.preferred
                ],
            )
            ends = end_quorum_epoch_request.TopicData(topic_name=METADATA_TOPIC, partitions=[end])
            return EndQuorumEpochRequest(cluster_id=cluster_id, topics=[ends])
        case RaftFetchRequest():
            return _fetch(request, version, limits)
        case SnapshotRequest():
            snapshot = fetch_snapshot_request.PartitionSnapshot(
                current_leader_epoch=request.epoch,
                snapshot_id=fetch_snapshot_request.SnapshotId(
                    end_offset=request.id.offset, epoch=request.id.epoch
                ),
                position=request.position,
                replica_directory_id=request.replica.directory_id,
            )
            return FetchSnapshotRequest(
                cluster_id=cluster_id,
                replica_id=request.replica.node_id,
                max_bytes=limits.snapshot_max_bytes,
                topics=[fetch_snapshot_request.TopicSnapshot(name=METADATA_TOPIC, partitions=[snapshot])],
            )
        case AddVoterRequest():
            return AddRaftVoterRequest(
                cluster_id=cluster_id,
                timeout_ms=request.timeout_ms,
                voter_id=request.voter.node_id,
                voter_directory_id=request.voter.directory_id,
                listeners=_listeners(add_raft_voter_request.Listener, request.voter.endpoints),
                ack_when_committed=request.ack_when_committed or version == 0,
            )
        case RemoveVoterRequest():
            return RemoveRaftVoterRequest(
                cluster_id=cluster_id,
                voter_id=request.voter.node_id,
                voter_directory_id=request.voter.directory_id,
            )
        case UpdateVoterRequest():
            lowest, highest = request.voter.kraft_version_range
            return UpdateRaftVoterRequest(
                cluster_id=cluster_id,
                current_leader_epoch=request.epoch,
                voter_id=request.voter.node_id,
                voter_directory_id=request.voter.directory_id,
                listeners=_listeners(update_raft_voter_request.Listener, request.voter.endpoints),
                kraft_version_feature=update_raft_voter_request.KRaftVersionFeature(
                    min_supported_version=lowest, max_supported_version=highest
                ),
            )
        case VersionsRequest():
            raise AssertionError("a connection negotiates versions by itself")


def _listeners(new: Callable[..., ListenerT], endpoints: Iterable[Endpoint]) -> list[ListenerT]:
    return [new(name=at.listener, host=at.host, port=at.port) for at in endpoints]


def _fetch(request: RaftFetchRequest, version: int, limits: WireLimits) -> FetchRequest:
    partition = fetch_request.FetchPartition(
        current_leader_epoch=request.epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_epoch,
    )
    fetch = FetchRequest(
        cluster_id=limits.cluster_id,
        max_wait_ms=request.max_wait_ms,
        max_bytes=limits.fetch_max_bytes,
        topics=[fetch_request.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )
    if version >= REPLICA_STATE_MIN_VERSION:
        fetch.replica_state = fetch_request.ReplicaState(replica_id=request.replica.node_id)
    else:
        fetch.replica_id = request.replica.node_id
    if version >= 17:
        partition.replica_directory_id = request.replica.directory_id
    if version >= 18:
        partition.high_watermark = request.high_watermark
    return fetch


class _NodeEndpoint(Protocol):
    @property
    def node_id(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


def _endpoint_of(leader_id: int, endpoints: Iterable[_NodeEndpoint]) -> Endpoint | None:
    return next((Endpoint("", at.host, at.port) for at in endpoints if at.node_id == leader_id), None)


def decode(response: Message) -> RaftResponse:
    """Raises ProtocolError if the response lacks the metadata partition or has an unknown error code."""
    try:
        return _decode(response)
    except IndexError as error:
        raise ProtocolError(f"{type(response).__name__} does not contain the metadata partition") from error
    except ValueError as error:
        raise ProtocolError(f"{type(response).__name__}: {error}") from error


def _decode(response: Message) -> RaftResponse:
    match response:
        case VoteResponse():
            if response.error_code:
                return RaftVoteResponse(ErrorCode(response.error_code))
            vote = response.topics[0].partitions[0]
            return RaftVoteResponse(
                ErrorCode(vote.error_code),
                vote.leader_epoch,
                vote.leader_id,
                _endpoint_of(vote.leader_id, response.node_endpoints),
                vote.vote_granted,
            )
        case BeginQuorumEpochResponse() | EndQuorumEpochResponse():
            if response.error_code:
                return EpochResponse(ErrorCode(response.error_code))
            known = response.topics[0].partitions[0]
            return EpochResponse(
                ErrorCode(known.error_code),
                known.leader_epoch,
                known.leader_id,
                _endpoint_of(known.leader_id, response.node_endpoints),
            )
        case FetchResponse():
            return _decode_fetch(response)
        case FetchSnapshotResponse():
            if response.error_code:
                return SnapshotResponse(ErrorCode(response.error_code))
            partition = response.topics[0].partitions[0]
            leader = partition.current_leader
            return SnapshotResponse(
                ErrorCode(partition.error_code),
                leader.leader_epoch,
                leader.leader_id,
                _endpoint_of(leader.leader_id, response.node_endpoints),
                id=SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
                position=partition.position,
                size=partition.size,
                chunk=partition.unaligned_records,
            )
        case UpdateRaftVoterResponse():
            current = response.current_leader
            endpoint = Endpoint("", current.host, current.port) if current.host else None
            return VoterChangeResponse(
                ErrorCode(response.error_code), current.leader_epoch, current.leader_id, endpoint
            )
        case AddRaftVoterResponse() | RemoveRaftVoterResponse():
            return VoterChangeResponse(ErrorCode(response.error_code), message=response.error_message)
    raise AssertionError(f"{type(response).__name__} is not a response of the quorum")


def _decode_fetch(response: FetchResponse) -> RaftFetchResponse:
    if response.error_code:
        return RaftFetchResponse(ErrorCode(response.error_code))
    partition = response.responses[0].partitions[0]
    leader = partition.current_leader
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    return RaftFetchResponse(
        ErrorCode(partition.error_code),
        leader.leader_epoch,
        leader.leader_id,
        _endpoint_of(leader.leader_id, response.node_endpoints) if leader.leader_id != NO_NODE else None,
        high_watermark=partition.high_watermark,
        diverging=EpochEnd(diverging.epoch, diverging.end_offset) if diverging.end_offset >= 0 else None,
        snapshot=SnapshotId(snapshot.end_offset, snapshot.epoch) if snapshot.end_offset >= 0 else None,
        records=partition.records or b"",
    )
