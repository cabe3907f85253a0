"""Feeds events to the raft machine and carries out its effects until it asks for nothing more."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import cast

from ruslo.broker.quorum.commit_feed import AppendedBatch, CommitFeed
from ruslo.broker.quorum.group_commit import GroupCommit
from ruslo.broker.quorum.peers import Peers
from ruslo.broker.quorum.replica_log import ReplicaLog
from ruslo.broker.scheduling.deadline_timer import DeadlineTimer
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
    RaftEvent,
    RequestFailed,
    ResponseReceived,
)
from ruslo.machines.raft.machine import RaftMachine
from ruslo.machines.raft.rpc import RaftRequest, RaftResponse
from ruslo.model.buffers import ReadBuffer
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError, RusloError
from ruslo.storage.disk import DiskError

_REFETCH_BACKOFF_S = 0.5
"""Wait before fetching again what could not be appended."""

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class MachineLoop:
    machine: RaftMachine
    _replica: ReplicaLog
    _feed: CommitFeed
    _commits: GroupCommit
    _peers: Peers
    _clock: Clock
    _: KW_ONLY
    syncs_fetched: bool
    """Whether fetched batches are synced, because this node may acknowledge them."""
    on_append: Callable[[], None]
    """Called after this leader has appended."""
    on_idle: Callable[[], None]
    """Called when no event is left."""
    on_failure: Callable[[BaseException], None]

    def __post_init__(self) -> None:
        self._events: deque[RaftEvent] = deque()
        self._completions: deque[RaftEvent] = deque()
        """Completed effects; the machine hears of them before any other event."""
        self._handling = False
        self._abandoned = False
        self._timer = DeadlineTimer(self._clock, self.machine.deadline_ms, lambda: self.handle(TimerFired()))
        self._refetch: asyncio.Handle | None = None

    def handle(self, event: RaftEvent) -> None:
        self._events.append(event)
        if self._handling or self._abandoned:
            return
        self._handling = True
        try:
            while self._completions or self._events:
                next_event = (self._completions or self._events).popleft()
                now = Instant(self._clock.monotonic_ms(), self._clock.now_ms())
                try:
                    for effect in self.machine.handle(next_event, now).effects:
                        self._carry_out(effect)
                except RusloError as error:
                    self.on_failure(error)
        finally:
            self._handling = False
        self._timer.arm()
        self.on_idle()

    def append(self, write: Callable[[], AppendedBatch]) -> None:
        """Append a batch as the leader. Raises KafkaError if the disk refuses it."""
        try:
            batch = write()
        except DiskError as error:
            if error.fatal:
                self.on_failure(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self._feed.appended(batch)
        self.on_append()
        self._commits.request()
        self._completions.append(Appended(batch.end_offset, batch.epoch))
        if not self._handling:
            self.handle(self._completions.pop())

    def stop(self, *, abandon: bool = False) -> None:
        """Set no more timers; with ``abandon``, handle no more events either."""
        self._abandoned = self._abandoned or abandon
        self._timer.stop()
        if self._refetch is not None:
            self._refetch.cancel()

    def _carry_out(self, effect: RaftEffect) -> None:
        replica, machine = self._replica, self.machine
        match effect:
            case PersistQuorumState(state):
                replica.store.store_quorum(state, machine.log.kraft_version, machine.voters)
            case TruncateLog(offset):
                truncated = replica.truncate(offset)
                logger.info(
                    "truncated the metadata log to offset %d, where it diverges from the log of leader %d",
                    truncated.end_offset,
                    machine.leader_id,
                )
                self._feed.truncated(truncated.end_offset)
                self._completions.append(truncated)
            case AppendFetchedBatches(batches):
                self._append_fetched(batches)
                if self.syncs_fetched:
                    self._commits.request()
            case WriteSnapshotChunk():
                self._write_snapshot_chunk(effect)
            case AppendControlRecords(records):
                self.append(lambda: replica.append_control(machine.epoch, records))
            case Respond(token, response):
                future = cast("asyncio.Future[RaftResponse]", token)
                if not future.done():
                    future.set_result(replica.with_bytes(response))
            case SendRequest(node_id, request):
                self._send(node_id, request)

    def _append_fetched(self, batches: ReadBuffer) -> None:
        replica, base_offset = self._replica, self._replica.store.end_offset
        try:
            replica.append_fetched(batches, self.machine.epoch)
        except (KafkaError, DiskError) as error:
            if isinstance(error, DiskError) and error.fatal:
                raise
            # The batches are damaged, or the disk is full: fetch them again after a pause.
            logger.error(
                "batches fetched from leader %d cannot be appended: %s", self.machine.leader_id, error
            )
            retry = partial(self.handle, FetchedBatchesAppended())
            self._refetch = asyncio.get_running_loop().call_later(_REFETCH_BACKOFF_S, retry)
            self._completions.extend(replica.appended_since(base_offset))
        else:
            self._completions.extend((*replica.appended_since(base_offset), FetchedBatchesAppended()))

    def _write_snapshot_chunk(self, chunk: WriteSnapshotChunk) -> None:
        loaded = self._replica.add_chunk(chunk)
        if loaded is not None:
            event, records = loaded
            logger.info("loaded the leader's snapshot at offset %d, epoch %d", *event.id)
            self._feed.load_snapshot(event.id, records)
            self._completions.append(event)

    def _send(self, node_id: int, request: RaftRequest) -> None:
        endpoint = self.machine.address_of(node_id)
        if endpoint is None:
            self._events.append(RequestFailed(node_id, request))
        else:
            self._peers.send(node_id, endpoint, request, partial(self._on_response, node_id, request))

    def _on_response(self, node_id: int, request: RaftRequest, response: RaftResponse | None) -> None:
        self.handle(
            RequestFailed(node_id, request)
            if response is None
            else ResponseReceived(node_id, request, response)
        )
