"""The machine of one partition of ``__share_group_state``: the share-partitions whose key hashes to it.

Snapshots make the records before them redundant. The topic is not compacted; instead the shard deletes what
is before the oldest snapshot that is needed. So that an idle share-partition does not keep the log long, its
state is written again when other records have followed it.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum, auto

from ruslo.machines.machine import (
    COORDINATOR_APPEND_ERRORS,
    MAX_ITEMS_PER_EVENT,
    AppendCommitted,
    AppendFailed,
    Instant,
    Loaded,
    Outcome,
    Requested,
    TimerFired,
)
from ruslo.machines.share_coordinator import requests
from ruslo.machines.share_coordinator.events import (
    PruneLog,
    Response,
    ShareEvent,
    ShareOutcome,
    TopicsDeleted,
)
from ruslo.machines.share_coordinator.records import (
    UNINITIALIZED_START_OFFSET,
    UNKNOWN_EPOCH,
    ShareRecord,
    ShareSnapshot,
    ShareUpdate,
)
from ruslo.machines.share_coordinator.responses import ShareRequest
from ruslo.machines.share_coordinator.state import (
    CoordinatorState,
    PartitionExists,
    ShareCoordinatorSettings,
    ShareState,
)
from ruslo.machines.timers import Timers
from ruslo.model.errors import ErrorCode, KafkaError


class _Timer(Enum):
    PRUNE = auto()
    COLD = auto()
    DELETE = auto()


class ShareCoordinatorShard:
    def __init__(self, settings: ShareCoordinatorSettings, partition_exists: PartitionExists) -> None:
        self.state = CoordinatorState(settings, partition_exists)
        self._timers: Timers[_Timer] = Timers()

    def change_settings(self, settings: ShareCoordinatorSettings) -> None:
        """Use these settings from the next event on; timers that are set keep their deadlines."""
        self.state.settings = settings

    def handle(self, event: ShareEvent, now: Instant) -> ShareOutcome:
        state = self.state
        if isinstance(event, Requested):
            if not state.active:
                error = KafkaError(
                    ErrorCode.NOT_COORDINATOR, "this node does not lead the partition of the state"
                )
                return _respond(event.token, error)
            if not isinstance(event.request, ShareRequest):
                unsupported = f"{type(event.request).__name__} is not served by share coordinators"
                return _respond(event.token, KafkaError(ErrorCode.UNSUPPORTED_VERSION, unsupported))
            return requests.handle(state, event.request, event.token, now.wall_ms)
        if isinstance(event, AppendCommitted):
            return Outcome()
        if isinstance(event, AppendFailed):
            return _append_failed(event, now)
        if isinstance(event, TopicsDeleted):
            state.to_delete.extend(key for key in state.shares if key.topic_id in event.topic_ids)
            return self._delete_later(now)
        if isinstance(event, TimerFired):
            return self._fire(now)
        if isinstance(event, Loaded):
            return self._load(now)
        state.active = False
        state.shares.clear()
        state.to_delete.clear()
        state.cold.clear()
        self._timers.clear()
        return Outcome()

    def replay(self, record: ShareRecord, offset: int) -> None:
        state = self.state
        key, value = record
        state.next_offset = offset + 1
        state.hot_records += 1
        share = state.shares.get(key)
        if value is None:
            state.shares.pop(key, None)
        elif isinstance(value, ShareSnapshot):
            if share is None:
                state.shares[key] = ShareState(value, offset)
            else:
                share.replay_snapshot(value, offset)
        elif share is not None:
            share.replay_update(value)
        # An update without a snapshot belongs to a state that was deleted: its records are being pruned.

    def deadline_ms(self) -> int | None:
        return self._timers.deadline_ms()

    # -- events ----------------------------------------------------------------------------------------------

    def _load(self, now: Instant) -> ShareOutcome:
        state = self.state
        state.active = True
        self._timers.set(_Timer.PRUNE, now.monotonic_ms + state.settings.prune_interval_ms)
        self._timers.set(_Timer.COLD, now.monotonic_ms + state.settings.cold_interval_ms)
        # Topics may have been deleted while no node led this partition.
        state.to_delete.extend(key for key in state.shares if not state.partition_exists(key.topic_id, None))
        return self._delete_later(now)

    def _delete_later(self, now: Instant) -> ShareOutcome:
        if self.state.to_delete and self.state.active:
            self._timers.set(_Timer.DELETE, now.monotonic_ms)
        return Outcome()

    def _fire(self, now: Instant) -> ShareOutcome:
        match self._timers.pop_due(now.monotonic_ms):
            case _Timer.DELETE:
                return self._delete_states(now)
            case _Timer.COLD:
                return self._write_cold_states(now)
            case _Timer.PRUNE:
                self._timers.set(_Timer.PRUNE, now.monotonic_ms + self.state.settings.prune_interval_ms)
                return self._prune()
            case None:
                return Outcome()

    def _delete_states(self, now: Instant) -> ShareOutcome:
        state = self.state
        outcome: ShareOutcome = Outcome()
        count = min(len(state.to_delete), MAX_ITEMS_PER_EVENT)
        keys = dict.fromkeys(state.to_delete.popleft() for _ in range(count))
        outcome.append([ShareRecord(key, None) for key in keys if key in state.shares])
        self._delete_later(now)
        return outcome

    def _write_cold_states(self, now: Instant) -> ShareOutcome:
        """Write the states again whose snapshot is old, because other records were written since."""
        state = self.state
        outcome: ShareOutcome = Outcome()
        if not state.cold:
            written_before_ms = now.wall_ms - state.settings.cold_interval_ms
            if state.hot_records:
                state.cold.extend(
                    key for key, share in state.shares.items() if share.snapshot.write_ms <= written_before_ms
                )
            state.hot_records = 0
        for _ in range(min(len(state.cold), MAX_ITEMS_PER_EVENT)):
            key = state.cold.popleft()
            share = state.shares.get(key)
            if share is not None:
                current = share.snapshot
                nothing = ShareUpdate(current.snapshot_epoch, UNKNOWN_EPOCH, UNINITIALIZED_START_OFFSET)
                snapshot = requests.snapshot_of(share, nothing, now.wall_ms)
                outcome.append([ShareRecord(key, snapshot)])
                # The records of this round must not start the next one.
                state.hot_records -= 1
        delay_ms = 0 if state.cold else state.settings.cold_interval_ms
        self._timers.set(_Timer.COLD, now.monotonic_ms + delay_ms)
        return outcome

    def _prune(self) -> ShareOutcome:
        state = self.state
        outcome: ShareOutcome = Outcome()
        needed = min((share.offset for share in state.shares.values()), default=state.next_offset)
        if needed > state.pruned_before:
            state.pruned_before = needed
            outcome.effects.append(PruneLog(needed))
        return outcome


def _respond(token: Hashable, error: KafkaError) -> ShareOutcome:
    outcome: ShareOutcome = Outcome()
    return outcome.reply(token, error)


def _append_failed(event: AppendFailed[ShareRecord, Response, PruneLog], now: Instant) -> ShareOutcome:
    code = COORDINATOR_APPEND_ERRORS.get(event.code, ErrorCode.UNKNOWN_SERVER_ERROR)
    if event.code is ErrorCode.NOT_COORDINATOR:
        code = event.code
    error = KafkaError(code, f"the share state could not be written: {event.code.name}")
    failed: ShareOutcome = Outcome()
    for outcome in event.outcomes:
        failed.add(outcome.failure(code, error, now))
    return failed
