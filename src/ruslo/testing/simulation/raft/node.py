"""A node of the quorum: the real machine on a log in memory, under virtual time.

Like the broker's driver it persists, appends, syncs later, responds and sends. Like a real node it may be
killed and lose unsynced data; its disk may be slow, and its clock may be fast or slow."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, cast

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
)
from ruslo.machines.raft.machine import RaftMachine
from ruslo.machines.raft.rpc import (
    RaftFetchResponse,
    RaftRequest,
    RaftResponse,
    ReplicaKey,
    SnapshotResponse,
    VersionsRequest,
    VersionsResponse,
)
from ruslo.machines.raft.settings import RaftSettings
from ruslo.machines.raft.snapshots import SnapshotId
from ruslo.machines.raft.voters import Endpoint, VoterSet
from ruslo.model.errors import ErrorCode
from ruslo.testing.simulation.clock import Timer
from ruslo.testing.simulation.raft.log import SimBatch, SimRaftLog, SimSnapshot

if TYPE_CHECKING:
    from ruslo.testing.simulation.raft.quorum import SimQuorum

REQUEST_TIMEOUT_MS = 2_000
BATCHES_PER_FETCH = (1, 1, 2, 8)
SNAPSHOT_CHUNK_BYTES = 100
SNAPSHOT_BYTES = 250
TRACE_LENGTH = 60


@dataclass(slots=True)
class DiskFaults:
    usual_ms: int = 4
    slow: float = 0.0
    """The fraction of syncs that take up to ``slow_ms``."""
    slow_ms: int = 800


@dataclass(eq=False)
class SimRaftNode:
    quorum: SimQuorum
    key: ReplicaKey
    _: KW_ONLY
    static_voters: VoterSet | None
    settings: RaftSettings
    clock_rate: float = 1.0

    def __post_init__(self) -> None:
        self.endpoint = Endpoint("CONTROLLER", f"node-{self.key.node_id}", 9093)
        self.log = SimRaftLog()
        self.disk = DiskFaults()
        self.machine: RaftMachine | None = None
        """None while the node is down."""
        self.trace: deque[tuple[int, object]] = deque(maxlen=TRACE_LENGTH)
        self._incarnation = 0
        self._timer: Timer | None = None
        self._timer_at_ms = 0
        self._events: deque[RaftEvent] = deque()
        self._completions: deque[RaftEvent] = deque()
        """Completed effects; the machine handles them before any other event."""
        self._running = False
        self._outstanding: dict[int, tuple[int, RaftRequest]] = {}
        self._next_call = 0
        self._callers: dict[Hashable, Callable[[RaftResponse], None]] = {}
        self._synced_at_ms = 0

    @property
    def node_id(self) -> int:
        return self.key.node_id

    @property
    def is_up(self) -> bool:
        return self.machine is not None

    def now_ms(self) -> int:
        """The time of its own clock."""
        return int(self.quorum.clock.monotonic_ms() * self.clock_rate)

    # -- up and down -----------------------------------------------------------------------------------------

    def start(self) -> None:
        assert self.machine is None
        self.log.sync()
        self.machine = RaftMachine(
            key=self.key,
            endpoints=(self.endpoint,) if self.settings.may_vote else (),
            static_voters=self.static_voters,
            bootstrap=self.quorum.bootstrap,
            quorum=self.log.quorum,
            log=self.log.view(),
            settings=self.settings,
            random=Random(self.quorum.clock.random.getrandbits(32)),
        )
        self.handle(Started())

    def kill(self) -> None:
        """End at once; unsynced data may be lost."""
        self.machine = None
        self._incarnation += 1
        self._events.clear()
        self._completions.clear()
        self._outstanding.clear()
        self._callers.clear()
        self._synced_at_ms = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.log.lose_power(self.quorum.clock.random)

    def resign(self) -> None:
        if self.machine is not None:
            self.handle(Stopping())

    def peer_gone(self, node_id: int) -> None:
        """The peer's process ended: requests to it fail, and its address refuses connections."""
        for call, (target, request) in list(self._outstanding.items()):
            if target == node_id:
                del self._outstanding[call]
                self.handle(RequestFailed(node_id, request))
        if self.machine is not None:
            self.handle(PeerGone(node_id))

    # -- requests --------------------------------------------------------------------------------------------

    def append(self, value: int) -> bool:
        machine = self.machine
        if machine is None or not machine.leads(machine.epoch):
            return False
        self._append(SimBatch(self.log.end_offset, self.log.end_offset + 1, machine.epoch, value))
        self._pump()
        return True

    def request(self, request: RaftRequest, on_response: Callable[[RaftResponse], None]) -> None:
        if self.machine is None:
            return
        if isinstance(request, VersionsRequest):
            on_response(VersionsResponse(kraft_versions=(0, 1)))
            return
        token = object()
        self._callers[token] = on_response
        self.handle(RequestReceived(token, request))

    def take_snapshot(self, *, truncate: bool) -> None:
        machine = self.machine
        if machine is None:
            return
        committed = self.log.batches_before(machine.high_watermark)
        if not committed or committed[-1].end_offset > machine.high_watermark:
            return
        id = SnapshotId(committed[-1].end_offset, committed[-1].epoch)
        if self.log.snapshot is not None and id <= self.log.snapshot.id:
            return
        snapshot = SimSnapshot(id, machine.log.quorum_records_before(id.offset))
        self.quorum.snapshots[id] = snapshot
        self.log.take_snapshot(snapshot, id.offset if truncate else self.log.start_offset)
        self.handle(SnapshotWritten(id, self.log.start_offset))

    # -- driving the machine ---------------------------------------------------------------------------------

    def handle(self, event: RaftEvent) -> None:
        self._events.append(event)
        self._pump()

    def _pump(self) -> None:
        if self._running:
            return
        self._running = True
        try:
            while (self._completions or self._events) and self.machine is not None:
                event = self._completions.popleft() if self._completions else self._events.popleft()
                self.trace.append((self.quorum.clock.monotonic_ms(), event))
                now_ms = self.now_ms()
                for effect in self.machine.handle(event, Instant(now_ms, now_ms)).effects:
                    self._carry_out(effect)
                self.quorum.stepped(self)
        finally:
            self._running = False
        self._arm_timer()

    def _carry_out(self, effect: RaftEffect) -> None:
        match effect:
            case PersistQuorumState(state):
                self.log.store_quorum(state, sync=self.quorum.sync_votes)
            case TruncateLog(offset):
                self._completions.append(Truncated(self.log.truncate(offset)))
            case AppendFetchedBatches(batches):
                for batch in cast("list[SimBatch]", batches):
                    self._append(batch)
                self._completions.append(FetchedBatchesAppended())
            case WriteSnapshotChunk(id, is_last=True):
                snapshot = self.quorum.snapshots[id]
                self.log.replace_by(snapshot)
                self._completions.append(SnapshotLoaded(snapshot.id, snapshot.control))
            case AppendControlRecords(records):
                assert self.machine is not None
                base = self.log.end_offset
                self._append(SimBatch(base, base + len(records), self.machine.epoch, control=records))
            case Respond(token, response):
                caller = self._callers.pop(token, None)
                if caller is not None:
                    caller(self._with_data(response))
            case SendRequest(node_id, request):
                self._call(node_id, request)

    def _append(self, batch: SimBatch) -> None:
        assert self.machine is not None
        self.log.append(batch)
        self.quorum.invariants.appended(self, batch)
        for offset, record in enumerate(batch.control, batch.base_offset):
            self.machine.replay(record, offset)
        self._completions.append(Appended(batch.end_offset, batch.epoch))
        random, disk = self.quorum.clock.random, self.disk
        max_ms = disk.slow_ms if random.random() < disk.slow else disk.usual_ms
        now_ms = self.quorum.clock.monotonic_ms()
        self._synced_at_ms = max(self._synced_at_ms, now_ms + random.randint(0, max_ms))
        self.quorum.clock.call_at(self._synced_at_ms, partial(self._synced, self._incarnation))

    def _synced(self, incarnation: int) -> None:
        if incarnation == self._incarnation:
            self.log.sync()
            self.handle(Flushed(self.log.end_offset))

    def _with_data(self, response: RaftResponse) -> RaftResponse:
        if isinstance(response, RaftFetchResponse) and response.records_from is not None:
            count = self.quorum.clock.random.choice(BATCHES_PER_FETCH)
            batches = self.log.batches_from(response.records_from, count)
            return replace(response, records=cast(bytes, batches))
        if isinstance(response, SnapshotResponse) and response.error is ErrorCode.NONE:
            if self.log.snapshot is None or self.log.snapshot.id != response.id:
                return replace(response, error=ErrorCode.SNAPSHOT_NOT_FOUND)
            chunk = bytes(min(SNAPSHOT_CHUNK_BYTES, SNAPSHOT_BYTES - response.position))
            return replace(response, size=SNAPSHOT_BYTES, chunk=chunk)
        return response

    # -- calls -----------------------------------------------------------------------------------------------

    def _call(self, node_id: int, request: RaftRequest) -> None:
        network, clock, incarnation = self.quorum.network, self.quorum.clock, self._incarnation
        target = self.quorum.node_at(node_id)
        call = self._next_call
        self._next_call += 1
        self._outstanding[call] = (node_id, request)

        def respond(response: RaftResponse) -> None:
            receive = partial(self._on_response, incarnation, call, response)
            network.send(target.node_id, self.node_id, receive)

        clock.call_later(REQUEST_TIMEOUT_MS, partial(self._on_response, incarnation, call, None))
        network.send(self.node_id, target.node_id, partial(target.request, request, respond))

    def _on_response(self, incarnation: int, call: int, response: RaftResponse | None) -> None:
        if incarnation != self._incarnation or call not in self._outstanding:
            return
        node_id, request = self._outstanding.pop(call)
        self.handle(
            RequestFailed(node_id, request)
            if response is None
            else ResponseReceived(node_id, request, response)
        )

    # -- time ------------------------------------------------------------------------------------------------

    def _arm_timer(self) -> None:
        deadline_ms = None if self.machine is None else self.machine.deadline_ms()
        if deadline_ms is None:
            return
        at_ms = max(int(deadline_ms / self.clock_rate) + 1, self.quorum.clock.monotonic_ms() + 1)
        if self._timer is not None:
            if self._timer_at_ms == at_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = at_ms
        self._timer = self.quorum.clock.call_at(at_ms, partial(self._timer_fired, self._incarnation))

    def _timer_fired(self, incarnation: int) -> None:
        self._timer = None
        if incarnation == self._incarnation:
            self.handle(TimerFired())
