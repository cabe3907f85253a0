"""The quorum state file as JSON. The examples were written by Apache Kafka 4.3."""

from __future__ import annotations

import pytest

from ruslo.machines.raft.quorum_state import QuorumState
from ruslo.model.errors import ProtocolError
from ruslo.model.ids import uuid_from_text

V0 = (
    b'{"clusterId":"","leaderId":3,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1},{"voterId":3}],"data_version":0}'
)
V1 = (
    b'{"leaderId":-1,"leaderEpoch":5,"votedId":2,"votedDirectoryId":"d_6y1KR8ShOfQHdZd7fXGQ",'
    b'"data_version":1}'
)


def test_version_0_has_the_voters() -> None:
    state = QuorumState.from_json(V0)
    assert state == QuorumState(epoch=1, leader_id=3)
    assert state.to_json(0, (3, 1)) == V0


def test_version_1_has_the_directory_id_of_the_vote() -> None:
    state = QuorumState.from_json(V1)
    assert state == QuorumState(
        epoch=5, voted_id=2, voted_directory_id=uuid_from_text("d_6y1KR8ShOfQHdZd7fXGQ")
    )
    assert state.to_json(1, (1, 2, 3)) == V1


@pytest.mark.parametrize(
    ("damaged", "problem"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (V0[:-1], "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"{}", "data_version = None"),
        (V0.replace(b'version":0', b'version":2'), "data_version 2; supported are 0 and 1"),
        (V0.replace(b'"leaderEpoch":1', b'"leaderEpoch":-1'), "leaderEpoch = -1"),
        (V0.replace(b'"leaderEpoch":1', b'"leaderEpoch":true'), "leaderEpoch = True"),
        (V0.replace(b'"leaderEpoch":1', b'"leaderEpoch":2147483648'), "leaderEpoch = 2147483648"),
        (V0.replace(b'"leaderId":3', b'"leaderId":"3"'), "leaderId = '3'"),
        (V1.replace(b"d_6y1KR8ShOfQHdZd7fXGQ", b"short"), "bad votedDirectoryId"),
    ],
)
def test_invalid_states_are_rejected(damaged: bytes, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        QuorumState.from_json(damaged)
