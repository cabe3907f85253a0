"""The raft machine, told as stories: ``transcripts/*.txt`` hold what happens and, below each ``----``, what
the machine answered and the state it was then in. RUSLO_REWRITE=1 writes the answers anew; read the diff."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ruslo.machines.raft.effects import RaftOutcome
from ruslo.machines.raft.events import Appended, Asked
from ruslo.machines.raft.machine import RaftMachine
from ruslo.machines.raft.rpc import (
    Answer,
    Ask,
    BeginEpochAsk,
    EndEpochAsk,
    FetchAnswer,
    FetchAsk,
    ReplicaKey,
    VoteAsk,
)
from ruslo.machines.raft.states import LEGAL_NEXT, State
from ruslo.machines.raft.voters import Voter
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import uuid_to_text
from tests.support.machines.raft_transcript import Story, directory

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


def retell(text: str) -> str:
    """The same story with the answers that the machine gives now."""
    story = Story()
    told: list[str] = []
    answers: list[str] = []
    in_answer = False
    for line in text.splitlines():
        if line == "----":
            told += ["----", *answers, story.state(), ""]
            answers, in_answer = [], True
        elif in_answer and line:
            continue
        elif not line:
            in_answer = False
        else:
            told.append(line)
            if not line.startswith("#"):
                answers += story.tell(line)
    return "\n".join(told)


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    text = path.read_text()
    told = retell(text)
    if os.environ.get("RUSLO_REWRITE"):
        path.write_text(told)
    assert told == path.read_text()


def test_there_are_stories() -> None:
    assert len(TRANSCRIPTS) >= 10


def test_every_state_can_be_left_and_reached() -> None:
    assert set(LEGAL_NEXT) == set(State)
    assert set().union(*LEGAL_NEXT.values()) == set(State)


def sole_leader() -> RaftMachine:
    story = Story()
    for line in ("node id=1 directory=A static=1@localhost:9093", "started"):
        story.tell(line)
    assert story.machine is not None
    return story.machine


def test_only_the_leader_of_an_epoch_leads_it() -> None:
    machine = sole_leader()
    assert machine.leads(1)
    assert not machine.leads(0)
    assert not machine.leads(2)


def test_a_sole_voter_sets_no_timers() -> None:
    assert sole_leader().deadline_ms() is None


@pytest.mark.parametrize(
    "ask",
    [
        VoteAsk(5, ReplicaKey(-5), ReplicaKey(-1), last_epoch=9, end_offset=99, pre_vote=False),
        BeginEpochAsk(5, -5, ReplicaKey(-1), ()),
        EndEpochAsk(5, -5, ()),
    ],
    ids=lambda ask: type(ask).__name__,
)
def test_nobody_is_voted_for_or_followed_who_cannot_be(ask: Ask) -> None:
    """The node would not start again: its quorum state could not be read."""
    machine = sole_leader()
    outcome = machine.handle(Asked("token", ask), 0)
    assert answer_of(outcome).error is ErrorCode.INVALID_REQUEST
    assert outcome.persist is None
    assert machine.leads(1)


@pytest.mark.parametrize(("offset", "last_epoch"), [(-5, 1), (0, -1)])
def test_there_are_no_negative_offsets_and_epochs(offset: int, last_epoch: int) -> None:
    """To read from there would fail, and so would the node."""
    machine = sole_leader()
    machine.handle(Appended(1, 1), 0)
    ask = FetchAsk(1, ReplicaKey(2), offset, last_epoch, high_watermark=-1, max_wait_ms=0)
    answer = answer_of(machine.handle(Asked("token", ask), 0))
    assert isinstance(answer, FetchAnswer)
    assert (answer.error, answer.records_from) == (ErrorCode.INVALID_REQUEST, None)
    assert machine.replicas == {}


def answer_of(outcome: RaftOutcome) -> Answer:
    (reply,) = outcome.replies
    assert isinstance(reply.message, Answer)
    return reply.message


def test_the_names_of_voters_are_readable() -> None:
    assert str(Voter(1)) == "1"
    assert str(Voter(1, directory("A"))) == f"1-{uuid_to_text(directory('A'))}"
