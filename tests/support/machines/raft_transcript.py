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

Fields = dict[str, str]


def directory(name: str) -> Uuid:
    return name.encode() * 16


def suffix(directory_id: Uuid) -> str:
    return "" if directory_id == ZERO_UUID else f"-{chr(directory_id[0])}"


def parse_key(text: str) -> ReplicaKey:
    """``1`` or ``1-A``"""
    node_id, _, directory_name = text.partition("-")
    return ReplicaKey(int(node_id), directory(directory_name) if directory_name else ZERO_UUID)


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
        verb, *args = line.split()
        fields: Fields = {key: value for key, _, value in (arg.partition("=") for arg in args)}
        if verb == "at":
            self.now_ms = int(args[0])
            return []
        if verb == "node":
            self.machine = self._node(fields)
            return []
        assert self.machine is not None
        if verb == "replay":
            self.machine.replay(_record(fields), int(fields["offset"]))
            return []
        try:
            outcome = self.machine.handle(self._event(verb, args, fields), Instant(self.now_ms, self.now_ms))
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

    def _node(self, fields: Fields) -> RaftMachine:
        static = fields.get("static")
        endpoint = fields.get("endpoint")
        end = int(fields.get("end", 0))
        epochs = [(int(fields["last_epoch"]), 0)] if "last_epoch" in fields else []
        if "epochs" in fields:  # epoch:start,epoch:start
            pairs = (entry.split(":") for entry in fields["epochs"].split(","))
            epochs = [(int(epoch), int(start)) for epoch, start in pairs]
        snapshot = parse_snapshot(fields["snapshot"]) if "snapshot" in fields else None
        return RaftMachine(
            key=ReplicaKey(int(fields["id"]), directory(fields["directory"])),
            endpoints=(parse_endpoint(endpoint),) if endpoint else (),
            static_voters=_static(static) if static else None,
            bootstrap={-2: parse_endpoint(fields["bootstrap"])} if "bootstrap" in fields else {},
            quorum=_quorum(fields.get("quorum", "0")),
            log=LogView(
                end_offset=end,
                epochs=epochs,
                start_offset=int(fields.get("start", 0)),
                snapshot=snapshot,
            ),
            settings=RaftSettings(
                may_vote="observer" not in fields, auto_join="auto_join" in fields, retry_backoff_ms=20
            ),
            random=Random(1),
        )

    def _event(self, verb: str, args: list[str], fields: Fields) -> RaftEvent:
        assert self.machine is not None
        match verb:
            case "started":
                return Started()
            case "timer":
                return TimerFired()
            case "appended":
                return Appended(int(fields["end"]), int(fields.get("epoch", self.machine.epoch)))
            case "fetched-appended":
                return FetchedBatchesAppended()
            case "flushed":
                return Flushed(int(fields["end"]))
            case "truncated":
                return Truncated(int(fields["end"]))
            case "loaded":
                return SnapshotLoaded(parse_snapshot(fields["id"]), ())
            case "snapshot-written":
                return SnapshotWritten(parse_snapshot(fields["id"]), int(fields["start"]))
            case "gone":
                return PeerGone(int(args[0]))
            case "fails":
                return RequestFailed(int(args[0]), self.out.pop(int(args[0])))
            case "responds":
                request = self.out.pop(int(args[0]))
                return ResponseReceived(
                    int(args[0]), request, _parse_response(request, fields, self.machine.epoch)
                )
            case "receives":
                return RequestReceived(args[0], _parse_request(args[0], fields, self.machine.epoch))
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


def _record(fields: Fields) -> QuorumRecord:
    if "kraft_version" in fields:
        return KRaftVersionRecord(kraft_version=int(fields["kraft_version"]))
    return VoterSet(tuple(parse_voter(text) for text in fields["voters"].split(","))).to_record()


def _parse_request(kind: str, fields: Fields, epoch: int) -> RaftRequest:
    epoch = int(fields.get("epoch", epoch))
    sender = parse_key(fields["from"]) if "from" in fields else ReplicaKey(NO_NODE)
    match kind:
        case "vote" | "pre-vote":
            addressed = parse_key(fields["to"]) if "to" in fields else ReplicaKey(NO_NODE)
            return RaftVoteRequest(
                epoch, sender, addressed, int(fields["last"]), int(fields["end"]), kind == "pre-vote"
            )
        case "begin":
            endpoint = (parse_endpoint(fields["endpoint"]),) if "endpoint" in fields else ()
            return BeginEpochRequest(epoch, sender.node_id, ReplicaKey(NO_NODE), endpoint)
        case "end":
            preferred = [parse_key(text) for text in fields.get("preferred", "").split(",") if text]
            return EndEpochRequest(epoch, sender.node_id, tuple(preferred))
        case "fetch":
            return RaftFetchRequest(
                epoch,
                sender,
                int(fields["offset"]),
                int(fields["last"]),
                int(fields.get("hw", -1)),
                int(fields.get("wait", 500)),
            )
        case "snapshot":
            return SnapshotRequest(epoch, sender, parse_snapshot(fields["id"]), int(fields["position"]))
        case "add":
            return AddVoterRequest(parse_voter(fields["voter"]), 5_000, "unacknowledged" not in fields)
        case "remove":
            return RemoveVoterRequest(parse_key(fields["voter"]))
        case "update":
            return UpdateVoterRequest(epoch, parse_voter(fields["voter"]))
    raise AssertionError(f"no such request: {kind}")


def _parse_response(request: RaftRequest, fields: Fields, epoch: int) -> RaftResponse:
    error = ErrorCode[fields.get("error", "NONE")]
    epoch = int(fields.get("epoch", epoch))
    leader = int(fields.get("leader", NO_NODE))
    endpoint = parse_endpoint(fields["endpoint"]) if "endpoint" in fields else None
    match request:
        case RaftVoteRequest():
            return RaftVoteResponse(error, epoch, leader, endpoint, "granted" in fields)
        case BeginEpochRequest() | EndEpochRequest():
            return EpochResponse(error, epoch, leader, endpoint)
        case RaftFetchRequest():
            diverging = tuple(map(int, fields["diverging"].split(":"))) if "diverging" in fields else None
            return RaftFetchResponse(
                error,
                epoch,
                leader,
                endpoint,
                high_watermark=int(fields.get("hw", -1)),
                diverging=EpochEnd(*diverging) if diverging else None,
                snapshot=parse_snapshot(fields["snapshot"]) if "snapshot" in fields else None,
                records=fields.get("records", "").encode(),
            )
        case SnapshotRequest():
            return SnapshotResponse(
                error,
                epoch,
                leader,
                endpoint,
                id=request.id,
                position=request.position,
                size=int(fields.get("size", 0)),
                chunk=fields.get("chunk", "").encode(),
            )
        case VersionsRequest():
            low, _, high = fields.get("supports", "0-1").partition("-")
            return VersionsResponse(error, kraft_versions=(int(low), int(high)))
    return VoterChangeResponse(error, epoch, leader, endpoint)


def _describe(effect: RaftEffect) -> list[str]:
    match effect:
        case PersistQuorumState(state):
            voted = f"{state.voted_id}{suffix(state.voted_directory_id)}"
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
                lines.append(f"  append Voters {voter.node_id}{suffix(voter.directory_id)} {at}")
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
            preferred = ",".join(f"{key.node_id}{suffix(key.directory_id)}" for key in request.preferred)
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
            return f"add voter {request.voter.node_id}{suffix(request.voter.directory_id)}"
        case RemoveVoterRequest():
            return f"remove voter {request.voter.node_id}{suffix(request.voter.directory_id)}"
        case UpdateVoterRequest():
            return f"update voter {request.voter.node_id}{suffix(request.voter.directory_id)}"
