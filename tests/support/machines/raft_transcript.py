"""Runs a raft machine from the lines of a transcript and describes its effects as lines."""

from __future__ import annotations

from random import Random

from ruslo.machines.machine import Instant, TimerFired
from ruslo.machines.raft.effects import (
    AppendControlRecords,
    AppendFetchedBatches,
    PersistQuorumState,
    RaftEffect,
    Respond,
    SendRequest,
    TruncateLog,
    WriteSnapshotChunk,
)
from ruslo.machines.raft.events import (
    Appended,
    FetchedBatchesAppended,
    Flushed,
    PeerGone,
    RaftEvent,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    SnapshotLoaded,
    SnapshotWritten,
    Started,
    Stopping,
    Truncated,
    UpgradeRequested,
)
from ruslo.machines.raft.log_view import LogView, QuorumRecord
from ruslo.machines.raft.machine import RaftMachine
from ruslo.machines.raft.quorum_state import NO_NODE, QuorumState
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
    ReplicaKey,
    SnapshotRequest,
    SnapshotResponse,
    UpdateVoterRequest,
    VersionsRequest,
    VersionsResponse,
    VoterChangeResponse,
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


class RaftTranscript:
    def __init__(self) -> None:
        self.machine: RaftMachine | None = None
        self.now_ms = 0
        self.out: dict[int, RaftRequest] = {}
        """The last request sent to each node."""

    def run(self, line: str) -> list[str]:
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
            self.machine.replay(_record(given), int(given["offset"]))
            return []
        try:
            outcome = self.machine.handle(self._event(verb, words, given), Instant(self.now_ms, self.now_ms))
        except (ConfigError, StorageError) as error:
            return [f"  refused: {error}"]
        for effect in outcome.effects:
            if isinstance(effect, SendRequest):
                self.out[effect.node_id] = effect.request
        return [line.rstrip() for effect in outcome.effects for line in _describe(effect)]

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
            case "fetched-appended":
                return FetchedBatchesAppended()
            case "flushed":
                return Flushed(int(given["end"]))
            case "truncated":
                return Truncated(int(given["end"]))
            case "loaded":
                return SnapshotLoaded(parse_snapshot(given["id"]), ())
            case "snapshot-written":
                return SnapshotWritten(parse_snapshot(given["id"]), int(given["start"]))
            case "gone":
                return PeerGone(int(words[0]))
            case "fails":
                return RequestFailed(int(words[0]), self.out.pop(int(words[0])))
            case "responds":
                request = self.out.pop(int(words[0]))
                return ResponseReceived(
                    int(words[0]), request, _parse_response(request, given, self.machine.epoch)
                )
            case "receives":
                return RequestReceived(words[0], _parse_request(words[0], given, self.machine.epoch))
            case "upgrade":
                return UpgradeRequested("upgrade")
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


def _parse_request(kind: str, given: Words, epoch: int) -> RaftRequest:
    epoch = int(given.get("epoch", epoch))
    sender = parse_key(given["from"]) if "from" in given else ReplicaKey(NO_NODE)
    match kind:
        case "vote" | "pre-vote":
            addressed = parse_key(given["to"]) if "to" in given else ReplicaKey(NO_NODE)
            return RaftVoteRequest(
                epoch, sender, addressed, int(given["last"]), int(given["end"]), kind == "pre-vote"
            )
        case "begin":
            endpoint = (parse_endpoint(given["endpoint"]),) if "endpoint" in given else ()
            return BeginEpochRequest(epoch, sender.node_id, ReplicaKey(NO_NODE), endpoint)
        case "end":
            preferred = [parse_key(text) for text in given.get("preferred", "").split(",") if text]
            return EndEpochRequest(epoch, sender.node_id, tuple(preferred))
        case "fetch":
            return RaftFetchRequest(
                epoch,
                sender,
                int(given["offset"]),
                int(given["last"]),
                int(given.get("hw", -1)),
                int(given.get("wait", 500)),
            )
        case "snapshot":
            return SnapshotRequest(epoch, sender, parse_snapshot(given["id"]), int(given["position"]))
        case "add":
            return AddVoterRequest(parse_voter(given["voter"]), 5_000, "unacknowledged" not in given)
        case "remove":
            return RemoveVoterRequest(parse_key(given["voter"]))
        case "update":
            return UpdateVoterRequest(epoch, parse_voter(given["voter"]))
    raise AssertionError(f"no such request: {kind}")


def _parse_response(request: RaftRequest, given: Words, epoch: int) -> RaftResponse:
    error = ErrorCode[given.get("error", "NONE")]
    epoch = int(given.get("epoch", epoch))
    leader = int(given.get("leader", NO_NODE))
    endpoint = parse_endpoint(given["endpoint"]) if "endpoint" in given else None
    match request:
        case RaftVoteRequest():
            return RaftVoteResponse(error, epoch, leader, endpoint, "granted" in given)
        case BeginEpochRequest() | EndEpochRequest():
            return EpochResponse(error, epoch, leader, endpoint)
        case RaftFetchRequest():
            diverging = tuple(map(int, given["diverging"].split(":"))) if "diverging" in given else None
            return RaftFetchResponse(
                error,
                epoch,
                leader,
                endpoint,
                high_watermark=int(given.get("hw", -1)),
                diverging=EpochEnd(*diverging) if diverging else None,
                snapshot=parse_snapshot(given["snapshot"]) if "snapshot" in given else None,
                records=given.get("records", "").encode(),
            )
        case SnapshotRequest():
            return SnapshotResponse(
                error,
                epoch,
                leader,
                endpoint,
                id=request.id,
                position=request.position,
                size=int(given.get("size", 0)),
                chunk=given.get("chunk", "").encode(),
            )
        case VersionsRequest():
            low, _, high = given.get("supports", "0-1").partition("-")
            return VersionsResponse(error, kraft_versions=(int(low), int(high)))
    return VoterChangeResponse(error, epoch, leader, endpoint)


def _describe(effect: RaftEffect) -> list[str]:
    match effect:
        case PersistQuorumState(state):
            voted = f"{state.voted_id}{letter(state.voted_directory_id)}"
            return [f"  persist epoch={state.epoch} leader={state.leader_id} voted={voted}"]
        case TruncateLog(offset):
            return [f"  truncate to {offset}"]
        case AppendFetchedBatches(batches):
            return [f"  append fetched {bytes(batches).decode()}"]
        case WriteSnapshotChunk():
            last = ", the last" if effect.is_last else ""
            return [f"  chunk of {effect.id.offset}-{effect.id.epoch} at {effect.position}{last}"]
        case AppendControlRecords(records):
            return [line for record in records for line in _describe_record(record)]
        case Respond(token, response):
            return [f"  respond to {token}: {_describe_response(response)}"]
        case SendRequest(node_id, request):
            return [f"  send to {node_id}: {_describe_request(request)}"]


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


def _describe_response(response: RaftResponse) -> str:
    parts = [response.error.name, f"epoch={response.epoch}", f"leader={response.leader_id}"]
    match response:
        case RaftVoteResponse():
            parts.append("granted" if response.granted else "refused")
        case RaftFetchResponse(error=ErrorCode.NONE):
            parts.append(f"hw={response.high_watermark}")
            if response.diverging is not None:
                parts.append(f"diverging={response.diverging.epoch}:{response.diverging.end_offset}")
            if response.snapshot is not None:
                parts.append(f"snapshot={response.snapshot.offset}-{response.snapshot.epoch}")
            if response.records_from is not None:
                parts.append(f"records from {response.records_from}")
        case VoterChangeResponse(message=str(message)):
            parts.append(f"({message})")
    return " ".join(parts)


def _describe_request(request: RaftRequest) -> str:
    match request:
        case RaftVoteRequest():
            kind = "pre-vote" if request.pre_vote else "vote"
            return f"{kind} epoch={request.epoch} last={request.last_epoch} end={request.end_offset}"
        case BeginEpochRequest():
            return f"begin epoch={request.epoch}"
        case EndEpochRequest():
            preferred = ",".join(f"{key.node_id}{letter(key.directory_id)}" for key in request.preferred)
            return f"end epoch={request.epoch} preferred={preferred}"
        case RaftFetchRequest():
            return (
                f"fetch epoch={request.epoch} offset={request.offset} last={request.last_epoch} "
                f"hw={request.high_watermark} wait={request.max_wait_ms}"
            )
        case SnapshotRequest():
            return f"snapshot {request.id.offset}-{request.id.epoch} at {request.position}"
        case VersionsRequest():
            return "versions"
        case AddVoterRequest():
            return f"add voter {request.voter.node_id}{letter(request.voter.directory_id)}"
        case RemoveVoterRequest():
            return f"remove voter {request.voter.node_id}{letter(request.voter.directory_id)}"
        case UpdateVoterRequest():
            return f"update voter {request.voter.node_id}{letter(request.voter.directory_id)}"
