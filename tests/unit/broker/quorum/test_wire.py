"""Every ask passes through its codec in every version, and means the same on the other side."""

from __future__ import annotations

import pytest

from ruslo.broker.quorum import wire
from ruslo.broker.quorum.peers import PeerSettings
from ruslo.machines.raft.rpc import (
    AddVoterAsk,
    Ask,
    BeginEpochAsk,
    EndEpochAsk,
    EpochEnd,
    FetchAnswer,
    FetchAsk,
    RemoveVoterAsk,
    ReplicaKey,
    SnapshotAsk,
    UpdateVoterAsk,
    VoteAsk,
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
ME, YOU = ReplicaKey(1, b"1" * 16), ReplicaKey(2, b"2" * 16)
VOTER = Voter(*ME, (Endpoint("CONTROLLER", "a", 9093),))
ASKS: list[Ask] = [
    VoteAsk(4, ME, YOU, 3, 10, pre_vote=False),
    BeginEpochAsk(4, 1, YOU, VOTER.endpoints),
    EndEpochAsk(4, 1, (YOU,)),
    FetchAsk(4, ME, 10, 3, 9, 500),
    SnapshotAsk(4, ME, SnapshotId(10, 3), 100),
    AddVoterAsk(VOTER, 5_000),
    RemoveVoterAsk(YOU),
    UpdateVoterAsk(4, VOTER),
]


@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: type(ask).__name__)
def test_every_version_can_be_written(ask: Ask) -> None:
    request_type = wire.REQUESTS[type(ask)]
    lowest = max(wire.LOWEST_VERSION.get(request_type, 0), API_BY_KEY[request_type.API_KEY].min_version)
    for version in range(lowest, API_BY_KEY[request_type.API_KEY].max_version + 1):
        request = wire.encode(ask, version, LIMITS)
        read = request_type.from_bytes(request.to_bytes(version), version)
        assert getattr(read, "cluster_id", None) == "cluster"


def test_a_fetch_says_what_its_version_can_say() -> None:
    for version in range(wire.FETCH_MIN_VERSION, 19):
        written = wire.encode(FetchAsk(4, ME, 10, 3, 9, 500), version, LIMITS).to_bytes(version)
        read = FetchRequest.from_bytes(written, version)
        assert (read.replica_state.replica_id if version >= 15 else read.replica_id) == 1
        (partition,) = read.topics[0].partitions
        assert read.topics[0].topic_id == METADATA_TOPIC_ID
        assert (partition.fetch_offset, partition.last_fetched_epoch) == (10, 3)
        assert partition.current_leader_epoch == 4
        if version >= 17:
            assert partition.replica_directory_id == ME.directory_id
        if version >= 18:
            assert partition.high_watermark == 9


def test_a_fetch_response_is_read_for_what_it_tells() -> None:
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
    answer = wire.decode(ASKS[3], response)
    assert answer == FetchAnswer(
        ErrorCode.NONE, 4, 2, None, high_watermark=7, diverging=EpochEnd(3, 5), records=b""
    )


def test_a_response_about_nothing_is_refused() -> None:
    with pytest.raises(ProtocolError, match="says nothing about the metadata log"):
        wire.decode(ASKS[3], FetchResponse())
    assert wire.decode(ASKS[3], FetchResponse(error_code=104)).error is ErrorCode.INCONSISTENT_CLUSTER_ID
