"""The raft machine, told as stories: ``transcripts/*.txt`` hold what happens and, below each ``----``, what
the machine answered and the state it was then in. RUSLO_REWRITE=1 writes the answers anew; read the diff."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ruslo.machines.raft.events import Appended, Flushed, Persisted, RaftEvent, Started, Stopping
from ruslo.machines.raft.log_view import LogView, QuorumRecord
from ruslo.machines.raft.machine import RaftMachine, RaftOutcome
from ruslo.machines.raft.quorum_state import NO_NODE, QuorumState
from ruslo.machines.raft.states import LEGAL_NEXT, State
from ruslo.machines.raft.voters import Endpoint, Voter, VoterSet
from ruslo.model.errors import ConfigError
from ruslo.model.ids import ZERO_UUID, Uuid, uuid_to_text
from ruslo.protocol.messages.kraft_version_record import KRaftVersionRecord
from ruslo.protocol.messages.leader_change_message import LeaderChangeMessage
from ruslo.protocol.messages.voters_record import VotersRecord

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


def directory(letter: str) -> Uuid:
    return letter.encode() * 16


def letter(directory_id: Uuid) -> str:
    return "" if directory_id == ZERO_UUID else f"-{chr(directory_id[0])}"


def parse_voter(text: str) -> Voter:
    """``1-A`` or ``1-A@LISTENER:host:port``"""
    key, _, address = text.partition("@")
    node_id, _, directory_letter = key.partition("-")
    endpoints = (parse_endpoint(address),) if address else ()
    return Voter(int(node_id), directory(directory_letter), endpoints)


def parse_endpoint(text: str) -> Endpoint:
    listener, host, port = text.split(":")
    return Endpoint(listener, host, int(port))


class Story:
    def __init__(self) -> None:
        self.machine: RaftMachine | None = None
        self.to_persist: QuorumState | None = None

    def tell(self, line: str) -> list[str]:
        verb, *words = line.split()
        given = dict(word.split("=", 1) for word in words)
        if verb == "node":
            self.machine = self._node(given)
            return []
        assert self.machine is not None
        if verb == "replay":
            self.machine.replay(int(given["offset"]), self._record(given))
            return []
        try:
            outcome = self.machine.handle(self._event(verb, given), now_ms=0)
        except ConfigError as error:
            return [f"  refused: {error}"]
        if outcome.persist is not None:
            self.to_persist = outcome.persist
        return self._describe(outcome)

    def state(self) -> str:
        assert self.machine is not None
        machine = self.machine
        return (
            f"{machine.state.value} epoch={machine.epoch} leader={machine.leader_id} "
            f"end={machine.log.end_offset} hw={machine.high_watermark}"
        )

    def _node(self, given: dict[str, str]) -> RaftMachine:
        static = given.get("static")
        endpoint = given.get("endpoint")
        return RaftMachine(
            node_id=int(given["id"]),
            directory_id=directory(given["directory"]),
            endpoints=(parse_endpoint(endpoint),) if endpoint else (),
            static_voters=self._static(static) if static else None,
            quorum=self._quorum(given.get("quorum", "0")),
            log=LogView(end_offset=int(given.get("end", 0)), last_epoch=int(given.get("last_epoch", 0))),
        )

    @staticmethod
    def _static(text: str) -> VoterSet:
        """``1@host:port,2@host:port``"""
        addresses: dict[int, tuple[str, int]] = {}
        for entry in text.split(","):
            node_id, _, address = entry.partition("@")
            host, _, port = address.partition(":")
            addresses[int(node_id)] = (host, int(port))
        return VoterSet.static(addresses, "CONTROLLER")

    @staticmethod
    def _quorum(text: str) -> QuorumState:
        epoch, *rest = text.split(",")
        fields = dict(part.split("=") for part in rest)
        voted_id, _, voted_directory = fields.get("voted", str(NO_NODE)).partition("-")
        if "voted" not in fields:
            voted_id, voted_directory = str(NO_NODE), ""
        return QuorumState(
            epoch=int(epoch),
            leader_id=int(fields.get("leader", NO_NODE)),
            voted_id=int(voted_id),
            voted_directory_id=directory(voted_directory) if voted_directory else ZERO_UUID,
        )

    @staticmethod
    def _record(given: dict[str, str]) -> QuorumRecord:
        if "kraft_version" in given:
            return KRaftVersionRecord(kraft_version=int(given["kraft_version"]))
        return VoterSet(tuple(parse_voter(text) for text in given["voters"].split(","))).to_record()

    def _event(self, verb: str, given: dict[str, str]) -> RaftEvent:
        assert self.machine is not None
        match verb:
            case "started":
                return Started()
            case "persisted":
                assert self.to_persist is not None
                return Persisted(self.to_persist)
            case "appended":
                return Appended(int(given["end"]), self.machine.epoch)
            case "flushed":
                return Flushed(int(given["end"]))
            case "stopping":
                return Stopping()
        raise AssertionError(f"no such verb: {verb}")

    @staticmethod
    def _describe(outcome: RaftOutcome) -> list[str]:
        lines = []
        if outcome.persist is not None:
            state = outcome.persist
            voted = f"{state.voted_id}{letter(state.voted_directory_id)}"
            lines.append(f"  persist epoch={state.epoch} leader={state.leader_id} voted={voted}")
        if outcome.append is not None:
            for record in outcome.append.records:
                match record:
                    case LeaderChangeMessage():
                        voters = ",".join(str(voter.voter_id) for voter in record.voters)
                        lines.append(f"  append LeaderChange leader={record.leader_id} voters={voters}")
                    case KRaftVersionRecord():
                        lines.append(f"  append KRaftVersion {record.kraft_version}")
                    case VotersRecord():
                        for voter in VoterSet.from_record(record).voters:
                            at = " ".join(":".join(map(str, endpoint)) for endpoint in voter.endpoints)
                            lines.append(f"  append Voters {voter.node_id}{letter(voter.directory_id)} {at}")
        return [line.rstrip() for line in lines]


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
    assert len(TRANSCRIPTS) >= 5


def test_every_state_can_be_left_and_reached() -> None:
    assert set(LEGAL_NEXT) == set(State)
    assert set().union(*LEGAL_NEXT.values()) == set(State)


def test_a_late_report_of_an_older_state_changes_nothing() -> None:
    story = Story()
    story.tell("node id=1 directory=A static=1@localhost:9093")
    story.tell("started")
    assert story.machine is not None
    before = story.state()
    assert story.machine.handle(Persisted(QuorumState(epoch=0)), 0) == RaftOutcome()
    assert story.state() == before


def test_only_the_leader_of_an_epoch_leads_it() -> None:
    story = Story()
    for line in ("node id=1 directory=A static=1@localhost:9093", "started", "persisted"):
        story.tell(line)
    assert story.machine is not None
    assert story.machine.leads(1)
    assert not story.machine.leads(0)
    assert not story.machine.leads(2)
    story.tell("stopping")
    assert not story.machine.leads(1)


def test_a_sole_voter_sets_no_timers() -> None:
    story = Story()
    for line in ("node id=1 directory=A static=1@localhost:9093", "started", "persisted", "persisted"):
        story.tell(line)
    assert story.machine is not None
    assert story.machine.deadline_ms() is None


def test_the_names_of_voters_are_readable() -> None:
    assert str(Voter(1)) == "1"
    assert str(Voter(1, directory("A"))) == f"1-{uuid_to_text(directory('A'))}"
