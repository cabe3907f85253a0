"""Every raft request can be encoded in every version, and responses are decoded."""

from __future__ import annotations

import pytest

from ruslo.broker.quorum import rpc_codec
from ruslo.broker.quorum.peers import PeerSettings
from ruslo.machines.raft.rpc import (
    AddVoterRequest,
    BeginEpochRequest,
    EndEpochRequest,
    EpochEnd,
    RaftFetchRequest,
    RaftFetchResponse,
    RaftRequest,
    RaftVoteRequest,
    RemoveVoterRequest,
    ReplicaKey,
    SnapshotRequest,
    UpdateVoterRequest,
)
from ruslo.machines.raft.snapshots import SnapshotId
from ruslo.machines.raft.voters import Endpoint, Voter
from ruslo.model.errors import ErrorCode, ProtocolError
from ruslo.model.ids import METADATA_TOPIC_ID
from ruslo.protocol.apis import API_BY_KEY
from ruslo.protocol.messages.fetch_request import FetchRequest
from ruslo.protocol.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)

LIMITS = PeerSettings("cluster", "raft-client-1", 1_000, fetch_max_bytes=1_000, snapshot_max_bytes=1_000)
CANDIDATE, VOTER_KEY = ReplicaKey(1, b"1" * 16), ReplicaKey(2, b"2" * 16)
VOTER = Voter(*CANDIDATE, (Endpoint("CONTROLLER", "a", 9093),))
REQUESTS: list[RaftRequest] = [
    RaftVoteRequest(4, CANDIDATE, VOTER_KEY, 3, 10, pre_vote=False),
    BeginEpochRequest(4, 1, VOTER_KEY, VOTER.endpoints),
    EndEpochRequest(4, 1, (VOTER_KEY,)),
    RaftFetchRequest(4, CANDIDATE, 10, 3, 9, 500),
    SnapshotRequest(4, CANDIDATE, SnapshotId(10, 3), 100),
    AddVoterRequest(VOTER, 5_000),
    RemoveVoterRequest(VOTER_KEY),
    UpdateVoterRequest(4, VOTER),
]


@pytest.mark.parametrize("raft_request", REQUESTS, ids=lambda request: type(request).__name__)
def test_every_version_can_be_encoded(raft_request: RaftRequest) -> None:
    request_type = rpc_codec.REQUESTS[type(raft_request)]
    lowest = max(rpc_codec.LOWEST_VERSION.get(request_type, 0), API_BY_KEY[request_type.API_KEY].min_version)
    for version in range(lowest, API_BY_KEY[request_type.API_KEY].max_version + 1):
        request = rpc_codec.encode(raft_request, version, LIMITS)
        read = request_type.from_bytes(request.to_bytes(version), version)
        assert getattr(read, "cluster_id", None) == "cluster"


def test_a_fetch_carries_the_fields_of_its_version() -> None:
    for version in range(rpc_codec.FETCH_MIN_VERSION, 19):
        written = rpc_codec.encode(RaftFetchRequest(4, CANDIDATE, 10, 3, 9, 500), version, LIMITS).to_bytes(
            version
        )
        read = FetchRequest.from_bytes(written, version)
        assert (read.replica_state.replica_id if version >= 15 else read.replica_id) == 1
        (partition,) = read.topics[0].partitions
        assert read.topics[0].topic_id == METADATA_TOPIC_ID
        assert (partition.fetch_offset, partition.last_fetched_epoch) == (10, 3)
        assert partition.current_leader_epoch == 4
        if version >= 17:
            assert partition.replica_directory_id == CANDIDATE.directory_id
        if version >= 18:
            assert partition.high_watermark == 9


def test_a_fetch_response_is_decoded() -> None:
    response = FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic_id=METADATA_TOPIC_ID,
                partitions=[
                    PartitionData(
                        high_watermark=7,
                        current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=4),
                        diverging_epoch=EpochEndOffset(epoch=3, end_offset=5),
                        records=b"",
                    )
                ],
            )
        ]
    )
    assert rpc_codec.decode(response) == RaftFetchResponse(
        ErrorCode.NONE, 4, 2, None, high_watermark=7, diverging=EpochEnd(3, 5), records=b""
    )


def test_a_response_without_the_metadata_partition_is_rejected() -> None:
    with pytest.raises(ProtocolError, match="does not contain the metadata partition"):
        rpc_codec.decode(FetchResponse())
    assert rpc_codec.decode(FetchResponse(error_code=104)).error is ErrorCode.INCONSISTENT_CLUSTER_ID
