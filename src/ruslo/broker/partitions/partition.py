"""A partition on this broker: its log, who leads it, and who waits for it.

``append`` and ``read`` are the two steps of the hot path between handler and log; both run on the event
loop, per batch, and neither looks inside a batch unless the topic needs it.

The high watermark of a sole replica is the end of the log; with ``flush.messages`` or ``flush.ms`` asking for
syncs before an ack it is the end of what is synced, so that nobody reads what a power cut could take back.
With followers it also waits for them: see ``replication``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ruslo.broker.counters.traffic import TopicTraffic
from ruslo.broker.partitions.ack_wait import AckQueue, AckResult, AckWait, PendingAck
from ruslo.broker.partitions.purgatory import Readers
from ruslo.broker.partitions.replication import LeaderReplication, Replicas, ReplicationSettings
from ruslo.config.limits import LONG_MAX
from ruslo.config.log_config import LogConfig
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.model.topics import INTERNAL_TOPICS
from ruslo.records.batch import HEADER, HEADER_SIZE, LENGTH_OVERHEAD, TRANSACTIONAL, HeaderFields
from ruslo.records.validation import (
    AcceptedBatch,
    BatchRules,
    check_batch,
    finish_batch,
    needs_records,
    needs_work,
)
from ruslo.storage.log import Log
from ruslo.storage.log_reader import LogRead
from ruslo.storage.log_sync import SyncTargets
from ruslo.storage.verification_guard import VerificationGuard

if TYPE_CHECKING:
    from ruslo.broker.partitions.flusher import Flusher


# Thousands of partitions share a handful of configurations.
_rules_of = lru_cache(maxsize=256)(BatchRules.of)


UNKNOWN_SIZE = 1 << 62
"""More than any reader waits for."""


class UndecodedRecords(Exception):
    """A batch that passed ``check_batch``, but whose records have to be decoded before it is appended."""

    def __init__(self, header: HeaderFields, rules: BatchRules) -> None:
        super().__init__("the records of a batch must be decoded")
        self.header = header
        self.rules = rules


class Appended(NamedTuple):
    base_offset: int
    log_append_time_ms: int
    """-1 unless the topic uses LogAppendTime (or the batch was a duplicate)."""
    end_offset: int
    """The batch is committed once the high watermark has reached this."""


class Partition:
    __slots__ = (
        "_after_sync",
        "_commit_queue",
        "_durable_queue",
        "_flush_messages",
        "_flush_ms",
        "_flush_timer",
        "_flusher",
        "_led_since_epoch",
        "_rules",
        "_sync_due",
        "_syncs",
        "_takes_produce",
        "_undurable_bytes",
        "durable_offset",
        "epoch_start",
        "gone",
        "index",
        "leader_epoch",
        "leader_high_watermark",
        "leader_id",
        "log",
        "min_insync_replicas",
        "node_id",
        "readers",
        "replication",
        "topic",
        "topic_id",
        "traffic",
    )

    def __init__(
        self,
        node_id: int,
        topic: str,
        topic_id: Uuid,
        index: int,
        log: Log,
        flusher: Flusher,
        traffic: TopicTraffic,
    ) -> None:
        self.node_id = node_id
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.traffic = traffic
        """Of its topic, on this broker."""
        self.leader_id = -1
        self.leader_epoch = -1
        self._led_since_epoch = -1
        """The first epoch of this uninterrupted leadership: the log was not truncated since."""
        self.replication: LeaderReplication | None = None
        """While this broker leads and others follow."""
        self.leader_high_watermark = 0
        """While this broker follows: what the leader said last."""
        self.epoch_start = 0
        """Where the log ended when this broker began to lead it."""
        self._takes_produce = False
        self.readers: Readers = {}
        self.durable_offset = 0
        """While this broker leads and others follow: the end of its own copy that is as durable as the topic
        asks for (the end of the log, or of what is synced)."""
        self._commit_queue = AckQueue()
        self._durable_queue = AckQueue()
        self._flusher = flusher
        self._flush_timer: asyncio.TimerHandle | None = None
        self._sync_due = False
        """An ack waits for a sync that has not returned yet; later appends queue behind it."""
        self._undurable_bytes = 0
        self._after_sync: Callable[[], None] | None = None
        """Of a follower: what waits until ``flush.messages`` is kept again."""
        self.gone = False
        """Deleted, or its directory lost: nothing may touch its files any more."""
        self.configure(log.config)

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    # -- roles and settings ----------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self.node_id

    def configure(self, config: LogConfig) -> None:
        """Take new settings into use; the log keeps its own copy."""
        self.log.config = config
        self._rules = _rules_of(config)
        self.min_insync_replicas = config.min_insync_replicas
        self._flush_messages = config.flush_messages
        self._flush_ms = config.flush_ms
        self._syncs = config.flush_messages < LONG_MAX or config.flush_ms < LONG_MAX
        if self.replication is not None:
            # Fewer in-sync replicas may be enough from now on.
            self.replication.advance()

    def become_leader(
        self,
        leader_epoch: int,
        replicas: Replicas | None = None,
        settings: ReplicationSettings | None = None,
    ) -> None:
        """Lead in this epoch, or hear what else has changed in it. ``replicas``: when there are others."""
        begins = self.leader_id != self.node_id or self.leader_epoch != leader_epoch
        if begins:
            self._lead_alone()
            if self.leader_id != self.node_id:
                self._led_since_epoch = leader_epoch
            self.leader_id = self.node_id
            self.leader_epoch = leader_epoch
            self._takes_produce = self.topic not in INTERNAL_TOPICS
            self.epoch_start = self.log.end_offset
            self.log.assign_leader_epoch(leader_epoch)
        if replicas is None or len(replicas.replicas) < 2:
            begins = begins or self.replication is not None
            self._lead_alone()
        elif self.replication is not None:
            self.replication.update(replicas)
        else:
            assert settings is not None, "followers need settings"
            self.durable_offset = self.log.high_watermark
            self.replication = LeaderReplication(self, replicas, settings)
            begins = True
        if begins:
            self._own_copy_changed()

    def _lead_alone(self) -> None:
        if self.replication is not None:
            self.replication.dismiss()
            self.replication = None

    def _own_copy_changed(self) -> None:
        """Nothing was appended, but the durable offset has to be determined again."""
        if self._syncs and self.log.recovery_point < self.log.end_offset:
            self._sync_due = True
            self._flusher.request(self)
        else:
            self._set_durable(self.log.end_offset, 0)

    def step_down(self, leader_id: int, leader_epoch: int) -> None:
        """Somebody else leads, or nobody does: whoever waits here must look for the new leader."""
        self._dismiss_waiters()
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch

    def check_epoch(self, current_leader_epoch: int, follower_will_do: bool = False) -> ErrorCode:
        """KIP-320: whether a client that believes in this epoch may be served."""
        if self.leader_id != self.node_id and not (follower_will_do and self.leader_id >= 0):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def require_leader(self, current_leader_epoch: int = -1) -> None:
        error = self.check_epoch(current_leader_epoch)
        if error:
            raise KafkaError(error)

    def require_settled(self) -> None:
        """KIP-207: a new leader does not know the end that clients may have seen before it has caught up."""
        if self.log.high_watermark < self.epoch_start:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)

    # -- appending -------------------------------------------------------------------------------------------

    def append(self, batch: memoryview, now_ms: int, decodes_records: bool = True) -> Appended:
        """Validate and append what a producer sent for this partition.

        Raises KafkaError (its subclass BatchRefused tells which records are to blame) or DiskError; then
        nothing was changed. Without ``decodes_records`` it raises UndecodedRecords for a batch whose records
        have to be decoded: the caller does that and calls ``append_validated``.
        """
        if not self._takes_produce:
            raise self._why_not_produce()
        rules = self._rules
        header = check_batch(batch, rules)
        if header[5] & TRANSACTIONAL:
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "a transactional batch came in a request without transactional id",
            )
        if needs_work(header, rules, now_ms):
            if not decodes_records and needs_records(header, rules, now_ms):
                raise UndecodedRecords(header, rules)
            batch, header, _ = finish_batch(batch, header, rules, now_ms)
        elif header[1] + LENGTH_OVERHEAD != len(batch):
            batch = batch[: header[1] + LENGTH_OVERHEAD]
        log = self.log
        result = log.append_leader(batch, header, self.leader_epoch, now_ms)
        if result.duplicate:
            return Appended(result.base_offset, result.log_append_time_ms, result.last_offset + 1)
        self._appended(len(batch), header[12])
        return Appended(result.base_offset, result.log_append_time_ms, log.end_offset)

    def append_validated(self, accepted: AcceptedBatch, now_ms: int) -> Appended:
        """Append a batch whose records were decoded after UndecodedRecords; raises as ``append``."""
        if not self._takes_produce:
            raise self._why_not_produce()
        batch, header, _ = accepted
        log = self.log
        result = log.append_leader(batch, header, self.leader_epoch, now_ms)
        if result.duplicate:
            return Appended(result.base_offset, result.log_append_time_ms, result.last_offset + 1)
        self._appended(len(batch), header[12])
        return Appended(result.base_offset, result.log_append_time_ms, log.end_offset)

    def undecoded(self, batch: memoryview, now_ms: int) -> tuple[HeaderFields, BatchRules] | None:
        """Header and rules of a batch whose records have to be decoded; None also for one to be refused."""
        rules = self._rules
        if not self._takes_produce or len(batch) < HEADER_SIZE:
            return None
        # Most batches need no decoding, and the checksum of those is computed once, when they are appended.
        if not needs_records(HEADER.unpack_from(batch), rules, now_ms):
            return None
        try:
            return check_batch(batch, rules), rules
        except KafkaError:
            return None

    def check(self, batch: memoryview) -> HeaderFields:
        """The header of a batch that may be appended as far as the batch itself can tell; or KafkaError."""
        if not self._takes_produce:
            raise self._why_not_produce()
        return check_batch(batch, self._rules)

    def append_transactional(
        self,
        batch: memoryview,
        header: HeaderFields,
        now_ms: int,
        *,
        transaction_v2: bool,
        guard: VerificationGuard | None,
        validated: bool = False,
    ) -> Appended:
        """Append a batch that ``check`` has passed and whose transaction is known to be open.

        ``guard``: the guard of the coordinator query; None if no query was needed. ``validated``: its records
        have been decoded and need no more work. Raises as ``append``.
        """
        if not self._takes_produce:
            raise self._why_not_produce()
        if not validated and needs_work(header, self._rules, now_ms):
            batch, header, _ = finish_batch(batch, header, self._rules, now_ms)
        log = self.log
        result = log.append_leader(
            batch[: header[1] + LENGTH_OVERHEAD],
            header,
            self.leader_epoch,
            now_ms,
            transaction_v2=transaction_v2,
            guard=guard,
        )
        if result.duplicate:
            return Appended(result.base_offset, result.log_append_time_ms, result.last_offset + 1)
        self._appended(header[1] + LENGTH_OVERHEAD, header[12])
        return Appended(result.base_offset, result.log_append_time_ms, log.end_offset)

    def append_marker(self, marker: bytearray, now_ms: int, transaction_version: int) -> Appended:
        """End a transaction here: ``marker`` is the control batch. Raises as ``append``."""
        if self.leader_id != self.node_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.require_min_isr()
        log = self.log
        result = log.append_marker(marker, self.leader_epoch, now_ms, transaction_version)
        self._appended(len(marker), 1)
        return Appended(result.base_offset, -1, log.end_offset)

    def append_records(self, batch: bytearray, now_ms: int) -> Appended:
        """Append what a coordinator of this broker wrote: no producer's rules, but leadership and size hold.

        Raises KafkaError or DiskError; then nothing was changed.
        """
        if self.leader_id != self.node_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.require_min_isr()
        log = self.log
        if len(batch) > log.config.max_message_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"{len(batch)} bytes do not fit into {self.topic}, whose max.message.bytes is "
                f"{log.config.max_message_bytes}",
            )
        header: HeaderFields = HEADER.unpack_from(batch)
        result = log.append_leader(batch, header, self.leader_epoch, now_ms, check_sequence=False)
        self._appended(len(batch), header[12])
        return Appended(result.base_offset, result.log_append_time_ms, log.end_offset)

    def _appended(self, size: int, records: int) -> None:
        traffic = self.traffic
        traffic.appends += 1
        traffic.bytes_in += size
        traffic.messages_in += records
        replication = self.replication
        if replication is not None:
            replication.appended(self.log.end_offset, size)
        if self._syncs:
            self._sync_by_policy(self.log.end_offset, size)
        elif replication is None:
            self.advance(self.log.end_offset, size)
        else:
            self._set_durable(self.log.end_offset, size)

    def _why_not_produce(self) -> KafkaError:
        if self.leader_id != self.node_id:
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"{self.topic} is internal: only its coordinator writes to it"
        )

    # -- acknowledging ---------------------------------------------------------------------------------------

    def require_min_isr(self) -> None:
        """Before an append with acks=all: raises KafkaError while too few replicas are in sync."""
        if self.replication is not None:
            self.replication.require_min_isr()

    @property
    def has_min_isr(self) -> bool:
        return self.replication is None or self.replication.has_min_isr

    def is_acked(self, end_offset: int, acks_all: bool = True) -> bool:
        """Whether the watermark that ``acks`` names has reached ``end_offset``."""
        if self.log.high_watermark >= end_offset:
            return True
        return not acks_all and self.replication is not None and self.durable_offset >= end_offset

    def ack_result(self, append: PendingAck) -> AckResult | None:
        """What became of an append; None: it is not decided yet."""
        failed = self.log.failure is not None
        leads = self.leader_id == self.node_id and append.leader_epoch >= self._led_since_epoch
        if not leads and not failed:
            return AckResult.FENCED
        if self.is_acked(append.end_offset, append.acks_all):
            return AckResult.ACKED
        return AckResult.STORAGE_ERROR if failed else None

    def register_ack(self, append: PendingAck, wait: AckWait) -> bool:
        """Keep ``wait`` until the append is decided; False: it is decided already and nothing was kept."""
        if self.ack_result(append) is not None:
            return False
        locally = not append.acks_all and self.replication is not None
        queue = self._durable_queue if locally else self._commit_queue
        queue.add(append.end_offset, wait)
        return True

    def _set_durable(self, offset: int, size: int) -> None:
        """This broker's copy is as durable as the topic asks for up to ``offset``, by ``size`` bytes more."""
        self.durable_offset = offset
        if self.replication is None:
            self.advance(offset, size)
        self._durable_queue.release_up_to(offset)
        if self.replication is not None:
            self.replication.advance()

    def advance(self, high_watermark: int, size: int) -> None:
        """Move the high watermark and wake fetches and acks; ``size`` more bytes became readable."""
        log = self.log
        if not self.readers:
            log.advance_high_watermark(high_watermark)
        else:
            held_back, stable_before = log.high_watermark - log.last_stable_offset, log.last_stable_offset
            if log.advance_high_watermark(high_watermark) and not size:
                # Records that a leader found in its log, or that a follower got before they were committed.
                size = UNKNOWN_SIZE
            stable_size = 0
            if log.last_stable_offset != stable_before:
                # Behind the end of a transaction there may be any amount of records that were not counted.
                stable_size = size if held_back == 0 else UNKNOWN_SIZE
            for reader in tuple(self.readers):
                reader.on_append(size, stable_size)
        self._commit_queue.release_up_to(high_watermark)

    # -- syncing ---------------------------------------------------------------------------------------------

    def _sync_by_policy(self, end: int, size: int) -> None:
        """``flush.messages``: acks wait for the sync. ``flush.ms``: a sync comes in time, acks don't wait."""
        self._undurable_bytes += size
        if end - self.log.recovery_point >= self._flush_messages:
            self._sync_due = True
            self._flusher.request(self)
        elif not self._sync_due:
            self._release(end)
        if self._flush_ms < LONG_MAX and self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(
                self._flush_ms / 1000, self._sync_by_time
            )

    def _sync_by_time(self) -> None:
        self._flush_timer = None
        if self.log.recovery_point < self.log.end_offset:
            self._flusher.request(self)

    def on_synced(self, synced: SyncTargets, now_ms: int) -> None:
        """The flusher has brought these to the disk."""
        if self.gone:
            return
        log = self.log
        log.mark_flushed(synced, now_ms)
        if not self.is_leader:
            # What a follower has synced is not committed: its leader says how far that goes.
            if log.end_offset - log.recovery_point < self._flush_messages:
                go_on, self._after_sync = self._after_sync, None
                if go_on is not None:
                    go_on()
            return
        end_offset = log.recovery_point
        if log.end_offset - end_offset >= self._flush_messages:
            self._flusher.request(self)
            self._release(end_offset)
        else:
            self._sync_due = False
            self._release(log.end_offset)

    def _release(self, durable_offset: int) -> None:
        size, self._undurable_bytes = self._undurable_bytes, 0
        self._set_durable(durable_offset, size)

    # -- reading ---------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, committed_only: bool, at_least_one: bool) -> LogRead:
        """Where the bytes for a consumer at ``offset`` lie; raises KafkaError.

        OFFSET_OUT_OF_RANGE makes consumers give their position up. A follower that does not have the offset
        yet must not cause that (KIP-392): it says OFFSET_NOT_AVAILABLE.
        """
        log = self.log
        if offset > log.end_offset and not self.is_leader:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        bound = log.last_stable_offset if committed_only else log.high_watermark
        return log.read(offset, max_bytes, bound, at_least_one)

    def read_for_follower(self, offset: int, max_bytes: int, at_least_one: bool) -> LogRead:
        """A follower may have all there is."""
        return self.log.read(offset, max_bytes, self.log.end_offset, at_least_one)

    # -- deleting --------------------------------------------------------------------------------------------

    def delete_before(self, offset: int) -> asyncio.Future[None] | None:
        """DeleteRecords, on the leader; -1: up to the high watermark. Raises KafkaError.

        The future is done when the in-sync replicas have followed, so that no later leader shows what is
        deleted, or when this broker leads no more; None: nobody has to follow.
        """
        self.require_leader()
        start_offset = self.log.delete_records_before(offset)
        return None if self.replication is None else self.replication.when_deleted(start_offset)

    # -- following -------------------------------------------------------------------------------------------

    def append_as_follower(self, records: memoryview, now_ms: int) -> None:
        """Append what the leader sent, as it is. Raises CorruptLogError or DiskError."""
        self.log.append_follower(records, self.leader_epoch, now_ms)
        self.traffic.replication_bytes_in += len(records)

    def sync_as_follower(self, go_on: Callable[[], None]) -> bool:
        """Whether ``flush.messages`` asks for a sync: then ``go_on`` is called after it.

        The offset of the next fetch tells the leader what this replica has, so it must not be sent before.
        """
        log = self.log
        if log.end_offset - log.recovery_point < self._flush_messages:
            return False
        self._after_sync = go_on
        self._flusher.request(self)
        return True

    def hear_from_leader(self, high_watermark: int, log_start_offset: int, size: int) -> None:
        """How far the leader is; ``size`` bytes came with it."""
        log = self.log
        self.leader_high_watermark = high_watermark
        if log_start_offset > log.start_offset:
            log.advance_start_offset(min(log_start_offset, log.end_offset))
        if high_watermark > log.high_watermark:
            self.advance(min(high_watermark, log.end_offset), size)

    def drop_laggards(self) -> None:
        if self.replication is not None:
            self.replication.drop_laggards()

    # -- leaving ---------------------------------------------------------------------------------------------

    def retire(self) -> None:
        """The partition is no longer served here: whoever waits for it is answered now."""
        self.gone = True
        self._dismiss_waiters()

    def _dismiss_waiters(self) -> None:
        self.leader_id = -1
        self._takes_produce = False
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        self._sync_due = False
        self._after_sync = None
        self._lead_alone()
        self._durable_queue.release_all()
        self._commit_queue.release_all()
        for reader in tuple(self.readers):
            reader.wake()
