"""A raft machine that is told a story, line by line, and answers in lines."""

from __future__ import annotations

from random import Random
from typing import cast

from ruslo.machines.raft.effects import RaftOutcome
from ruslo.machines.raft.events import (
    Answered,
    Appended,
    Asked,
    Flushed,
    PeerGone,
    RaftEvent,
    SnapshotLoaded,
    SnapshotTaken,
    Started,
    Stopping,
    Taken,
    TimerFired,
    Truncated,
    Unanswered,
    UpgradeAsked,
)
from ruslo.machines.raft.log_view import LogView, QuorumRecord
from ruslo.machines.raft.machine import RaftMachine
from ruslo.machines.raft.quorum_state import NO_NODE, QuorumState
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
    ReplicaKey,
    SnapshotAnswer,
    SnapshotAsk,
    UpdateVoterAsk,
    VersionsAnswer,
    VersionsAsk,
    VoteAnswer,
    VoteAsk,
    VoterChangeAnswer,
)
from ruslo.machines.raft.settings import RaftSettings
from ruslo.machines.raft.snapshots import SnapshotId
from ruslo.machines.raft.voters import Endpoint, Voter, VoterSet
from ruslo.model.errors import ConfigError, ErrorCode, StorageError
from ruslo.model.ids import ZERO_UUID, Uuid
from ruslo.protocol.messages.kraft_version_record import KRaftVersionRecord
from ruslo.protocol.messages.leader_change_message import LeaderChangeMessage
from ruslo.protocol.messages.voters_record import VotersRecord

Words = dict[str, str]


def directory(letter: str) -> Uuid:
    return letter.encode() * 16


def letter(directory_id: Uuid) -> str:
    return "" if directory_id == ZERO_UUID else f"-{chr(directory_id[0])}"


def parse_key(text: str) -> ReplicaKey:
    """``1`` or ``1-A``"""
    node_id, _, directory_letter = text.partition("-")
    return ReplicaKey(int(node_id), directory(directory_letter) if directory_letter else ZERO_UUID)


def parse_voter(text: str) -> Voter:
    """``1-A`` or ``1-A@LISTENER:host:port``"""
    key, _, address = text.partition("@")
    return Voter(*parse_key(key), (parse_endpoint(address),) if address else ())


def parse_endpoint(text: str) -> Endpoint:
    listener, host, port = text.split(":")
    return Endpoint(listener, host, int(port))


def parse_snapshot(text: str) -> SnapshotId:
    """``offset-epoch``"""
    offset, _, epoch = text.partition("-")
    return SnapshotId(int(offset), int(epoch))


class Story:
    def __init__(self) -> None:
        self.machine: RaftMachine | None = None
        self.now_ms = 0
        self.out: dict[int, Ask] = {}
        """The last ask to each node."""

    def tell(self, line: str) -> list[str]:
        verb, *words = line.split()
        given: Words = {key: value for key, _, value in (word.partition("=") for word in words)}
        if verb == "at":
            self.now_ms = int(words[0])
            return []
        if verb == "node":
            self.machine = self._node(given)
            return []
        assert self.machine is not None
        if verb == "replay":
            self.machine.replay(int(given["offset"]), _record(given))
            return []
        try:
            outcome = self.machine.handle(self._event(verb, words, given), self.now_ms)
        except (ConfigError, StorageError) as error:
            return [f"  refused: {error}"]
        for send in outcome.sends:
            self.out[send.node] = cast(Ask, send.request)
        return _describe(outcome)

    def state(self) -> str:
        assert self.machine is not None
        machine = self.machine
        return (
            f"{machine.state.value} epoch={machine.epoch} leader={machine.leader_id} "
            f"end={machine.log.end_offset} hw={machine.high_watermark}"
        )

    def _node(self, given: Words) -> RaftMachine:
        static = given.get("static")
        endpoint = given.get("endpoint")
        end = int(given.get("end", 0))
        epochs = [(int(given["last_epoch"]), 0)] if "last_epoch" in given else []
        if "epochs" in given:  # epoch:start,epoch:start
            pairs = (entry.split(":") for entry in given["epochs"].split(","))
            epochs = [(int(epoch), int(start)) for epoch, start in pairs]
        snapshot = parse_snapshot(given["snapshot"]) if "snapshot" in given else None
        return RaftMachine(
            node_id=int(given["id"]),
            directory_id=directory(given["directory"]),
            endpoints=(parse_endpoint(endpoint),) if endpoint else (),
            static_voters=_static(static) if static else None,
            bootstrap={-2: parse_endpoint(given["bootstrap"])} if "bootstrap" in given else {},
            quorum=_quorum(given.get("quorum", "0")),
            log=LogView(
                end_offset=end,
                epochs=epochs,
                start_offset=int(given.get("start", 0)),
                snapshot=snapshot,
            ),
            settings=RaftSettings(
                may_vote="observer" not in given, auto_join="auto_join" in given, retry_backoff_ms=20
            ),
            random=Random(1),
        )

    def _event(self, verb: str, words: list[str], given: Words) -> RaftEvent:
        assert self.machine is not None
        match verb:
            case "started":
                return Started()
            case "timer":
                return TimerFired()
            case "appended":
                return Appended(int(given["end"]), int(given.get("epoch", self.machine.epoch)))
            case "taken":
                return Taken()
            case "flushed":
                return Flushed(int(given["end"]))
            case "truncated":
                return Truncated(int(given["end"]))
            case "loaded":
                return SnapshotLoaded(parse_snapshot(given["id"]), ())
            case "snapshot-taken":
                return SnapshotTaken(parse_snapshot(given["id"]), int(given["start"]))
            case "gone":
                return PeerGone(int(words[0]))
            case "silent":
                return Unanswered(int(words[0]), self.out.pop(int(words[0])))
            case "answers":
                ask = self.out.pop(int(words[0]))
                return Answered(int(words[0]), ask, _answer(ask, given, self.machine.epoch))
            case "asked":
                return Asked(words[0], _ask(words[0], given, self.machine.epoch))
            case "upgrade":
                return UpgradeAsked("upgrade")
            case "stopping":
                return Stopping()
        raise AssertionError(f"no such verb: {verb}")


def _static(text: str) -> VoterSet:
    """``1@host:port,2@host:port``"""
    addresses: dict[int, tuple[str, int]] = {}
    for entry in text.split(","):
        node_id, _, address = entry.partition("@")
        host, _, port = address.partition(":")
        addresses[int(node_id)] = (host, int(port))
    return VoterSet.static(addresses, "CONTROLLER")


def _quorum(text: str) -> QuorumState:
    epoch, *rest = text.split(",")
    fields = dict(part.split("=") for part in rest)
    voted = parse_key(fields["voted"]) if "voted" in fields else ReplicaKey(NO_NODE)
    return QuorumState(
        epoch=int(epoch),
        leader_id=int(fields.get("leader", NO_NODE)),
        voted_id=voted.node_id,
        voted_directory_id=voted.directory_id,
    )


def _record(given: Words) -> QuorumRecord:
    if "kraft_version" in given:
        return KRaftVersionRecord(kraft_version=int(given["kraft_version"]))
    return VoterSet(tuple(parse_voter(text) for text in given["voters"].split(","))).to_record()


def _ask(kind: str, given: Words, epoch: int) -> Ask:
    epoch = int(given.get("epoch", epoch))
    sender = parse_key(given["from"]) if "from" in given else ReplicaKey(NO_NODE)
    match kind:
        case "vote" | "pre-vote":
            addressed = parse_key(given["to"]) if "to" in given else ReplicaKey(NO_NODE)
            return VoteAsk(
                epoch, sender, addressed, int(given["last"]), int(given["end"]), kind == "pre-vote"
            )
        case "begin":
            endpoint = (parse_endpoint(given["endpoint"]),) if "endpoint" in given else ()
            return BeginEpochAsk(epoch, sender.node_id, ReplicaKey(NO_NODE), endpoint)
        case "end":
            preferred = [parse_key(text) for text in given.get("preferred", "").split(",") if text]
            return EndEpochAsk(epoch, sender.node_id, tuple(preferred))
        case "fetch":
            return FetchAsk(
                epoch,
                sender,
                int(given["offset"]),
                int(given["last"]),
                int(given.get("hw", -1)),
                int(given.get("wait", 500)),
            )
        case "snapshot":
            return SnapshotAsk(epoch, sender, parse_snapshot(given["id"]), int(given["position"]))
        case "add":
            return AddVoterAsk(parse_voter(given["voter"]), 5_000, "unacknowledged" not in given)
        case "remove":
            return RemoveVoterAsk(parse_key(given["voter"]))
        case "update":
            return UpdateVoterAsk(epoch, parse_voter(given["voter"]))
    raise AssertionError(f"nobody asks for {kind}")


def _answer(ask: Ask, given: Words, epoch: int) -> Answer:
    error = ErrorCode[given.get("error", "NONE")]
    epoch = int(given.get("epoch", epoch))
    leader = int(given.get("leader", NO_NODE))
    endpoint = parse_endpoint(given["endpoint"]) if "endpoint" in given else None
    match ask:
        case VoteAsk():
            return VoteAnswer(error, epoch, leader, endpoint, "granted" in given)
        case BeginEpochAsk() | EndEpochAsk():
            return EpochAnswer(error, epoch, leader, endpoint)
        case FetchAsk():
            diverging = tuple(map(int, given["diverging"].split(":"))) if "diverging" in given else None
            return FetchAnswer(
                error,
                epoch,
                leader,
                endpoint,
                high_watermark=int(given.get("hw", -1)),
                diverging=EpochEnd(*diverging) if diverging else None,
                snapshot=parse_snapshot(given["snapshot"]) if "snapshot" in given else None,
                records=given.get("records", "").encode(),
            )
        case SnapshotAsk():
            return SnapshotAnswer(
                error,
                epoch,
                leader,
                endpoint,
                id=ask.id,
                position=ask.position,
                size=int(given.get("size", 0)),
                piece=given.get("piece", "").encode(),
            )
        case VersionsAsk():
            low, _, high = given.get("supports", "0-1").partition("-")
            return VersionsAnswer(error, kraft_versions=(int(low), int(high)))
    return VoterChangeAnswer(error, epoch, leader, endpoint)


def _describe(outcome: RaftOutcome) -> list[str]:
    lines = []
    if outcome.persist is not None:
        state = outcome.persist
        voted = f"{state.voted_id}{letter(state.voted_directory_id)}"
        lines.append(f"  persist epoch={state.epoch} leader={state.leader_id} voted={voted}")
    if outcome.truncate_to is not None:
        lines.append(f"  truncate to {outcome.truncate_to}")
    if outcome.take is not None:
        lines.append(f"  take {bytes(outcome.take).decode()}")
    if outcome.snapshot_piece is not None:
        piece = outcome.snapshot_piece
        last = ", the last" if piece.is_last else ""
        lines.append(f"  piece of {piece.id.offset}-{piece.id.epoch} at {piece.position}{last}")
    if outcome.append is not None:
        lines += [line for record in outcome.append.records for line in _describe_record(record)]
    for reply in outcome.replies:
        lines.append(f"  reply to {reply.token}: {_describe_answer(cast(Answer, reply.message))}")
    for send in outcome.sends:
        lines.append(f"  ask {send.node}: {_describe_ask(cast(Ask, send.request))}")
    return [line.rstrip() for line in lines]


def _describe_record(record: QuorumRecord) -> list[str]:
    match record:
        case LeaderChangeMessage():
            voters = ",".join(str(voter.voter_id) for voter in record.voters)
            return [f"  append LeaderChange leader={record.leader_id} voters={voters}"]
        case KRaftVersionRecord():
            return [f"  append KRaftVersion {record.kraft_version}"]
        case VotersRecord():
            lines = []
            for voter in VoterSet.from_record(record).voters:
                at = " ".join(":".join(map(str, endpoint)) for endpoint in voter.endpoints)
                lines.append(f"  append Voters {voter.node_id}{letter(voter.directory_id)} {at}")
            return lines


def _describe_answer(answer: Answer) -> str:
    parts = [answer.error.name, f"epoch={answer.epoch}", f"leader={answer.leader_id}"]
    match answer:
        case VoteAnswer():
            parts.append("granted" if answer.granted else "refused")
        case FetchAnswer(error=ErrorCode.NONE):
            parts.append(f"hw={answer.high_watermark}")
            if answer.diverging is not None:
                parts.append(f"diverging={answer.diverging.epoch}:{answer.diverging.end_offset}")
            if answer.snapshot is not None:
                parts.append(f"snapshot={answer.snapshot.offset}-{answer.snapshot.epoch}")
            if answer.records_from is not None:
                parts.append(f"records from {answer.records_from}")
        case VoterChangeAnswer(message=str(message)):
            parts.append(f"({message})")
    return " ".join(parts)


def _describe_ask(ask: Ask) -> str:
    match ask:
        case VoteAsk():
            kind = "pre-vote" if ask.pre_vote else "vote"
            return f"{kind} epoch={ask.epoch} last={ask.last_epoch} end={ask.end_offset}"
        case BeginEpochAsk():
            return f"begin epoch={ask.epoch}"
        case EndEpochAsk():
            preferred = ",".join(f"{key.node_id}{letter(key.directory_id)}" for key in ask.preferred)
            return f"end epoch={ask.epoch} preferred={preferred}"
        case FetchAsk():
            return (
                f"fetch epoch={ask.epoch} offset={ask.offset} last={ask.last_epoch} "
                f"hw={ask.high_watermark} wait={ask.max_wait_ms}"
            )
        case SnapshotAsk():
            return f"snapshot {ask.id.offset}-{ask.id.epoch} at {ask.position}"
        case VersionsAsk():
            return "versions"
        case AddVoterAsk():
            return f"add voter {ask.voter.node_id}{letter(ask.voter.directory_id)}"
        case RemoveVoterAsk():
            return f"remove voter {ask.voter.node_id}{letter(ask.voter.directory_id)}"
        case UpdateVoterAsk():
            return f"update voter {ask.voter.node_id}{letter(ask.voter.directory_id)}"
