"""Transcripts of the raft machine: ``transcripts/*.txt`` hold the events and, below each ``----``, the
effects and the resulting state. RUSLO_REWRITE=1 rewrites the results; review the diff."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ruslo.machines.machine import Instant
from ruslo.machines.raft.effects import PersistQuorumState, RaftOutcome, Respond
from ruslo.machines.raft.events import Appended, RequestReceived
from ruslo.machines.raft.machine import RaftMachine
from ruslo.machines.raft.rpc import (
    BeginEpochRequest,
    EndEpochRequest,
    RaftFetchRequest,
    RaftFetchResponse,
    RaftRequest,
    RaftResponse,
    RaftVoteRequest,
    ReplicaKey,
)
from ruslo.machines.raft.states import LEGAL_NEXT, State
from ruslo.machines.raft.voters import Voter
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import uuid_to_text
from tests.support.machines.raft_transcript import RaftTranscript, directory

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
START = Instant(0, 0)


def replay(text: str) -> str:
    """Replay the commands of a transcript and show the machine's current effects and states."""
    transcript = RaftTranscript()
    lines: list[str] = []
    effects: list[str] = []
    in_result = False
    for line in text.splitlines():
        if line == "----":
            lines += ["----", *effects, transcript.state(), ""]
            effects, in_result = [], True
        elif in_result and line:
            continue
        elif not line:
            in_result = False
        else:
            lines.append(line)
            if not line.startswith("#"):
                effects += transcript.run(line)
    return "\n".join(lines)


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    replayed = replay(path.read_text())
    if os.environ.get("RUSLO_REWRITE"):
        path.write_text(replayed)
    assert replayed == path.read_text()


def test_transcripts_are_found() -> None:
    assert len(TRANSCRIPTS) >= 10


def test_every_state_has_an_entry_and_an_exit() -> None:
    assert set(LEGAL_NEXT) == set(State)
    assert set().union(*LEGAL_NEXT.values()) == set(State)


def sole_leader() -> RaftMachine:
    transcript = RaftTranscript()
    for line in ("node id=1 directory=A static=1@localhost:9093", "started"):
        transcript.run(line)
    assert transcript.machine is not None
    return transcript.machine


def test_only_the_leader_of_an_epoch_leads_it() -> None:
    machine = sole_leader()
    assert machine.leads(1)
    assert not machine.leads(0)
    assert not machine.leads(2)


def test_a_sole_voter_sets_no_timers() -> None:
    assert sole_leader().deadline_ms() is None


@pytest.mark.parametrize(
    "raft_request",
    [
        RaftVoteRequest(5, ReplicaKey(-5), ReplicaKey(-1), last_epoch=9, end_offset=99, pre_vote=False),
        BeginEpochRequest(5, -5, ReplicaKey(-1), ()),
        EndEpochRequest(5, -5, ()),
    ],
    ids=lambda request: type(request).__name__,
)
def test_negative_node_ids_get_no_vote_and_no_follower(raft_request: RaftRequest) -> None:
    """A negative id in the quorum state would keep the node from restarting."""
    machine = sole_leader()
    outcome = machine.handle(RequestReceived("token", raft_request), START)
    assert response_of(outcome).error is ErrorCode.INVALID_REQUEST
    assert not any(isinstance(effect, PersistQuorumState) for effect in outcome.effects)
    assert machine.leads(1)


@pytest.mark.parametrize(("offset", "last_epoch"), [(-5, 1), (0, -1)])
def test_negative_offsets_and_epochs_are_rejected(offset: int, last_epoch: int) -> None:
    """Reading from such an offset would crash the node."""
    machine = sole_leader()
    machine.handle(Appended(1, 1), START)
    request = RaftFetchRequest(1, ReplicaKey(2), offset, last_epoch, high_watermark=-1, max_wait_ms=0)
    response = response_of(machine.handle(RequestReceived("token", request), START))
    assert isinstance(response, RaftFetchResponse)
    assert (response.error, response.records_from) == (ErrorCode.INVALID_REQUEST, None)
    assert machine.replicas == {}


def response_of(outcome: RaftOutcome) -> RaftResponse:
    (response,) = [effect.response for effect in outcome.effects if isinstance(effect, Respond)]
    return response


def test_voters_print_readably() -> None:
    assert str(Voter(1)) == "1"
    assert str(Voter(1, directory("A"))) == f"1-{uuid_to_text(directory('A'))}"
