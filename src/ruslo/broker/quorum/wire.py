"""The machine's asks as Kafka's requests, and the responses as answers.

Two things every response may carry are news for the machine whatever was asked: the epoch and leader that the
other node knows, and where that leader is (NodeEndpoints, KIP-853).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from ruslo.machines.raft.quorum_state import NO_NODE
from ruslo.machines.raft.rpc import (
    AddVoterAsk,
    Answer,
    Ask,
    BeginEpochAsk,
    EndEpochAsk,
    EpochAnswer,
    EpochEnd,
    FetchAnswer,
    FetchAsk,
    RemoveVoterAsk,
    SnapshotAnswer,
    SnapshotAsk,
    UpdateVoterAsk,
    VersionsAsk,
    VoteAnswer,
    VoteAsk,
    VoterChangeAnswer,
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

REPLICA_STATE_FROM: Final = 15
"""The first version of Fetch with the replica in a struct of its own (KIP-903)."""
FETCH_MIN_VERSION: Final = 13
"""The first with topic ids; the metadata log is not fetched by name."""
PRE_VOTE_FROM: Final = 2

LOWEST_VERSION: Final[dict[type[Message], int]] = {FetchRequest: FETCH_MIN_VERSION}
RESPONSES: Final[dict[type[Ask], type[Message]]] = {
    VoteAsk: VoteResponse,
    BeginEpochAsk: BeginQuorumEpochResponse,
    EndEpochAsk: EndQuorumEpochResponse,
    FetchAsk: FetchResponse,
    SnapshotAsk: FetchSnapshotResponse,
    AddVoterAsk: AddRaftVoterResponse,
    RemoveVoterAsk: RemoveRaftVoterResponse,
    UpdateVoterAsk: UpdateRaftVoterResponse,
}
REQUESTS: Final[dict[type[Ask], type[Message]]] = {
    VoteAsk: VoteRequest,
    BeginEpochAsk: BeginQuorumEpochRequest,
    EndEpochAsk: EndQuorumEpochRequest,
    FetchAsk: FetchRequest,
    SnapshotAsk: FetchSnapshotRequest,
    AddVoterAsk: AddRaftVoterRequest,
    RemoveVoterAsk: RemoveRaftVoterRequest,
    UpdateVoterAsk: UpdateRaftVoterRequest,
}


class WireLimits(Protocol):
    @property
    def cluster_id(self) -> str: ...
    @property
    def fetch_max_bytes(self) -> int: ...
    @property
    def snapshot_max_bytes(self) -> int: ...


def encode(ask: Ask, version: int, limits: WireLimits) -> Message:
    cluster_id = limits.cluster_id
    match ask:
        case VoteAsk():
            return VoteRequest(
                cluster_id=cluster_id,
                voter_id=ask.voter.node_id,
                topics=[
                    vote_request.TopicData(
                        topic_name=METADATA_TOPIC,
                        partitions=[
                            vote_request.PartitionData(
                                replica_epoch=ask.epoch,
                                replica_id=ask.candidate.node_id,
                                replica_directory_id=ask.candidate.directory_id,
                                voter_directory_id=ask.voter.directory_id,
                                last_offset_epoch=ask.last_epoch,
                                last_offset=ask.end_offset,
                                pre_vote=ask.pre_vote,
                            )
                        ],
                    )
                ],
            )
        case BeginEpochAsk():
            return BeginQuorumEpochRequest(
                cluster_id=cluster_id,
                voter_id=ask.voter.node_id,
                topics=[
                    begin_quorum_epoch_request.TopicData(
                        topic_name=METADATA_TOPIC,
                        partitions=[
                            begin_quorum_epoch_request.PartitionData(
                                voter_directory_id=ask.voter.directory_id,
                                leader_id=ask.leader_id,
                                leader_epoch=ask.epoch,
                            )
                        ],
                    )
                ],
                leader_endpoints=[
                    begin_quorum_epoch_request.LeaderEndpoint(name=at.listener, host=at.host, port=at.port)
                    for at in ask.endpoints
                ],
            )
        case EndEpochAsk():
            return EndQuorumEpochRequest(
                cluster_id=cluster_id,
                topics=[
                    end_quorum_epoch_request.TopicData(
                        topic_name=METADATA_TOPIC,
                        partitions=[
                            end_quorum_epoch_request.PartitionData(
                                leader_id=ask.leader_id,
                                leader_epoch=ask.epoch,
                                preferred_successors=[key.node_id for key in ask.preferred],
                                preferred_candidates=[
                                    end_quorum_epoch_request.ReplicaInfo(
                                        candidate_id=key.node_id, candidate_directory_id=key.directory_id
                                    )
                                    for key in ask.preferred
                                ],
                            )
                        ],
                    )
                ],
            )
        case FetchAsk():
            return _fetch(ask, version, limits)
        case SnapshotAsk():
            return FetchSnapshotRequest(
                cluster_id=cluster_id,
                replica_id=ask.replica.node_id,
                max_bytes=limits.snapshot_max_bytes,
                topics=[
                    fetch_snapshot_request.TopicSnapshot(
                        name=METADATA_TOPIC,
                        partitions=[
                            fetch_snapshot_request.PartitionSnapshot(
                                current_leader_epoch=ask.epoch,
                                snapshot_id=fetch_snapshot_request.SnapshotId(
                                    end_offset=ask.id.offset, epoch=ask.id.epoch
                                ),
                                position=ask.position,
                                replica_directory_id=ask.replica.directory_id,
                            )
                        ],
                    )
                ],
            )
        case AddVoterAsk():
            return AddRaftVoterRequest(
                cluster_id=cluster_id,
                timeout_ms=ask.timeout_ms,
                voter_id=ask.voter.node_id,
                voter_directory_id=ask.voter.directory_id,
                listeners=[
                    add_raft_voter_request.Listener(name=at.listener, host=at.host, port=at.port)
                    for at in ask.voter.endpoints
                ],
                ack_when_committed=ask.ack_when_committed or version == 0,
            )
        case RemoveVoterAsk():
            return RemoveRaftVoterRequest(
                cluster_id=cluster_id, voter_id=ask.voter.node_id, voter_directory_id=ask.voter.directory_id
            )
        case UpdateVoterAsk():
            lowest, highest = ask.voter.kraft_version_range
            return UpdateRaftVoterRequest(
                cluster_id=cluster_id,
                current_leader_epoch=ask.epoch,
                voter_id=ask.voter.node_id,
                voter_directory_id=ask.voter.directory_id,
                listeners=[
                    update_raft_voter_request.Listener(name=at.listener, host=at.host, port=at.port)
                    for at in ask.voter.endpoints
                ],
                kraft_version_feature=update_raft_voter_request.KRaftVersionFeature(
                    min_supported_version=lowest, max_supported_version=highest
                ),
            )
        case VersionsAsk():
            raise AssertionError("a connection asks for versions by itself")


def _fetch(ask: FetchAsk, version: int, limits: WireLimits) -> FetchRequest:
    request = FetchRequest(
        cluster_id=limits.cluster_id,
        max_wait_ms=ask.max_wait_ms,
        max_bytes=limits.fetch_max_bytes,
        topics=[
            fetch_request.FetchTopic(
                topic_id=METADATA_TOPIC_ID,
                partitions=[
                    fetch_request.FetchPartition(
                        current_leader_epoch=ask.epoch,
                        fetch_offset=ask.offset,
                        last_fetched_epoch=ask.last_epoch,
                    )
                ],
            )
        ],
    )
    partition = request.topics[0].partitions[0]
    if version >= REPLICA_STATE_FROM:
        request.replica_state = fetch_request.ReplicaState(replica_id=ask.replica.node_id)
    else:
        request.replica_id = ask.replica.node_id
    if version >= 17:
        partition.replica_directory_id = ask.replica.directory_id
    if version >= 18:
        partition.high_watermark = ask.high_watermark
    return request


class _NodeEndpoint(Protocol):
    @property
    def node_id(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


def _endpoint_of(leader_id: int, endpoints: Iterable[_NodeEndpoint]) -> Endpoint | None:
    return next((Endpoint("", at.host, at.port) for at in endpoints if at.node_id == leader_id), None)


def decode(ask: Ask, response: Message) -> Answer:
    """Raises ProtocolError when the response is not about the metadata log, or has an error nobody knows."""
    try:
        return _decode(ask, response)
    except IndexError as error:
        raise ProtocolError(f"{type(response).__name__} says nothing about the metadata log") from error
    except ValueError as error:
        raise ProtocolError(f"{type(response).__name__}: {error}") from error


def _decode(ask: Ask, response: Message) -> Answer:
    match response:
        case VoteResponse():
            if response.error_code:
                return VoteAnswer(ErrorCode(response.error_code))
            vote = response.topics[0].partitions[0]
            return VoteAnswer(
                ErrorCode(vote.error_code),
                vote.leader_epoch,
                vote.leader_id,
                _endpoint_of(vote.leader_id, response.node_endpoints),
                vote.vote_granted,
            )
        case BeginQuorumEpochResponse() | EndQuorumEpochResponse():
            if response.error_code:
                return EpochAnswer(ErrorCode(response.error_code))
            known = response.topics[0].partitions[0]
            return EpochAnswer(
                ErrorCode(known.error_code),
                known.leader_epoch,
                known.leader_id,
                _endpoint_of(known.leader_id, response.node_endpoints),
            )
        case FetchResponse():
            return _decode_fetch(response)
        case FetchSnapshotResponse():
            if response.error_code:
                return SnapshotAnswer(ErrorCode(response.error_code))
            part = response.topics[0].partitions[0]
            leader = part.current_leader
            return SnapshotAnswer(
                ErrorCode(part.error_code),
                leader.leader_epoch,
                leader.leader_id,
                _endpoint_of(leader.leader_id, response.node_endpoints),
                id=SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch),
                position=part.position,
                size=part.size,
                piece=part.unaligned_records,
            )
        case UpdateRaftVoterResponse():
            current = response.current_leader
            endpoint = Endpoint("", current.host, current.port) if current.host else None
            return VoterChangeAnswer(
                ErrorCode(response.error_code), current.leader_epoch, current.leader_id, endpoint
            )
        case AddRaftVoterResponse() | RemoveRaftVoterResponse():
            return VoterChangeAnswer(ErrorCode(response.error_code), message=response.error_message)
    raise AssertionError(f"{type(response).__name__} answers no ask of the quorum")


def _decode_fetch(response: FetchResponse) -> FetchAnswer:
    if response.error_code:
        return FetchAnswer(ErrorCode(response.error_code))
    part = response.responses[0].partitions[0]
    leader = part.current_leader
    diverging, snapshot = part.diverging_epoch, part.snapshot_id
    return FetchAnswer(
        ErrorCode(part.error_code),
        leader.leader_epoch,
        leader.leader_id,
        _endpoint_of(leader.leader_id, response.node_endpoints) if leader.leader_id != NO_NODE else None,
        high_watermark=part.high_watermark,
        diverging=EpochEnd(diverging.epoch, diverging.end_offset) if diverging.end_offset >= 0 else None,
        snapshot=SnapshotId(snapshot.end_offset, snapshot.epoch) if snapshot.end_offset >= 0 else None,
        records=part.records or b"",
    )
