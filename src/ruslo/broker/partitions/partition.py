"""A partition on this broker: its identity, its log, and its role.

``append`` and ``read`` are the two steps of the hot path between handler and log. Both run on the event loop,
per batch, and neither looks inside a batch unless the topic requires it.

=====================  ====================================================================================
``leader.py``          the role while this broker leads: durable offset, high watermark, acks, followers, ISR
``follower.py``        the role while another broker leads
``flush_policy.py``    when the local copy counts as durable
``high_watermark.py``  advances the high watermark and wakes consumer fetches
=====================  ====================================================================================
"""

from __future__ import annotations

import asyncio
from dataclasses import InitVar, dataclass, field
from functools import lru_cache

from ruslo.broker.counters.traffic import TopicTraffic
from ruslo.broker.partitions.ack_wait import AckResult, AckWait, Appended
from ruslo.broker.partitions.flush_policy import FlushPolicy
from ruslo.broker.partitions.flusher import Flusher
from ruslo.broker.partitions.follower import PartitionFollower
from ruslo.broker.partitions.high_watermark import HighWatermark
from ruslo.broker.partitions.leader import PartitionLeader, ReplicationSettings
from ruslo.broker.partitions.purgatory import DelayedFetches
from ruslo.config.log_config import LogConfig
from ruslo.machines.replica.leader import Replicas
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.model.topics import INTERNAL_TOPICS
from ruslo.records.batch import (
    HEADER,
    HEADER_SIZE,
    LENGTH,
    LENGTH_OVERHEAD,
    RECORD_COUNT,
    TRANSACTIONAL,
    HeaderFields,
)
from ruslo.records.validation import (
    AcceptedBatch,
    BatchRules,
    check_batch,
    finish_batch,
    needs_records,
    needs_work,
)
from ruslo.storage.log import AppendResult, Log
from ruslo.storage.log_reader import LogRead
from ruslo.storage.verification_guard import VerificationGuard

NO_LEADER = -1

# Thousands of partitions share a few configurations.
_rules_of = lru_cache(maxsize=256)(BatchRules.of)


class UndecodedRecords(Exception):
    """The batch passed ``check_batch``, but its records have to be decoded before it is appended."""

    def __init__(self, header: HeaderFields, rules: BatchRules) -> None:
        super().__init__("the records of a batch must be decoded")
        self.header = header
        self.rules = rules


@dataclass(slots=True, eq=False)
class Partition:
    node_id: int
    topic: str
    topic_id: Uuid
    index: int
    log: Log
    flusher: InitVar[Flusher]
    traffic: TopicTraffic
    """The counters of the topic on this broker."""
    leader_id: int = NO_LEADER
    leader_epoch: int = -1
    leader: PartitionLeader | None = None
    """Set while this broker leads."""
    follower: PartitionFollower = field(init=False)
    """In use while another broker leads."""
    gone: bool = False
    """The partition was deleted or its log directory failed: its files must not be touched."""
    delayed_fetches: DelayedFetches = field(init=False)
    """Consumer fetches that wait for more records."""
    _high_watermark: HighWatermark = field(init=False)
    _flush: FlushPolicy = field(init=False)
    _rules: BatchRules = field(init=False)
    _is_internal: bool = field(init=False)

    def __post_init__(self, flusher: Flusher) -> None:
        self._high_watermark = HighWatermark(self.log)
        self.delayed_fetches = self._high_watermark.delayed_fetches
        self._flush = FlushPolicy(self.log, flusher, self._on_synced)
        self.follower = PartitionFollower(self.log, self._flush, self._high_watermark, self.traffic)
        self._rules = _rules_of(self.log.config)
        self._is_internal = self.topic in INTERNAL_TOPICS

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    # -- roles and settings ----------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self.leader is not None

    @property
    def has_followers(self) -> bool:
        """Whether this broker leads and other brokers have replicas."""
        return self.leader is not None and self.leader.replication is not None

    @property
    def isr(self) -> tuple[int, ...]:
        """The committed ISR while this broker leads, else empty."""
        return () if self.leader is None else self.leader.isr

    def configure(self, config: LogConfig) -> None:
        """Apply new topic settings; the log keeps its own copy."""
        self.log.configure(config)
        self._rules = _rules_of(config)
        self._flush.configure(config)
        if self.leader is not None:
            # A lower min.insync.replicas may commit records.
            self.leader.advance_high_watermark()

    def become_leader(
        self,
        leader_epoch: int,
        replicas: Replicas | None = None,
        settings: ReplicationSettings | None = None,
    ) -> None:
        """Lead in this epoch, or apply other changes of the metadata within it."""
        if replicas is not None and len(replicas.replicas) < 2:
            replicas = None
        is_new_epoch = self.leader is None or self.leader_epoch != leader_epoch
        if self.leader is None:
            self.leader = PartitionLeader(
                self.node_id, self.log, self._flush, self._high_watermark, leader_epoch
            )
        self.leader_id, self.leader_epoch = self.node_id, leader_epoch
        self.leader.apply(leader_epoch, replicas, settings, is_new_epoch=is_new_epoch)

    def become_follower(self, leader_id: int, leader_epoch: int) -> None:
        """Another broker leads, or -1: none. Clients that wait here have to find the new leader."""
        self._stop_role()
        self.leader_id, self.leader_epoch = leader_id, leader_epoch

    def retire(self) -> None:
        """This broker no longer serves the partition: complete every request that waits for it."""
        self.gone = self._flush.closed = True
        self._stop_role()

    def _stop_role(self) -> None:
        self.leader_id = NO_LEADER
        leader, self.leader = self.leader, None
        self.follower.stop()
        if leader is not None:
            leader.stop()
        self._high_watermark.wake_fetches()

    def shrink_isr(self) -> None:
        if self.leader is not None:
            self.leader.shrink_isr()

    def check_epoch(self, current_leader_epoch: int, allow_follower: bool = False) -> ErrorCode:
        """KIP-320: whether a client with this leader epoch may be served."""
        if self.leader is None and not (allow_follower and self.leader_id >= 0):
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

    def require_end_offset(self) -> None:
        """KIP-207: a new leader does not know the end offset for clients until its high watermark has reached
        the start of its epoch. Raises KafkaError until then.
        """
        if self.leader is not None and self.log.high_watermark < self.leader.epoch_start_offset:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)

    # -- appending -------------------------------------------------------------------------------------------

    def append(
        self, batch: memoryview, now_ms: int, acks_all: bool = False, decodes_records: bool = True
    ) -> Appended:
        """Validate and append a producer's batch.

        Raises KafkaError (its subclass BatchRefused names the invalid records) or DiskError; then nothing was
        changed. Without ``decodes_records`` it raises UndecodedRecords for a batch whose records have to be
        decoded: the caller does that and calls ``append_validated``.
        """
        leader = self.leader
        if leader is None or self._is_internal:
            leader = self._require_produce()
        if acks_all and leader.replication is not None:
            leader.require_min_isr()
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
        result = self.log.append_leader(batch, header, self.leader_epoch, now_ms)
        return self._appended(leader, result, len(batch), header[12])

    def append_validated(self, accepted: AcceptedBatch, now_ms: int, acks_all: bool = False) -> Appended:
        """Append a batch whose records were decoded after UndecodedRecords; raises as ``append``."""
        leader = self._require_produce()
        if acks_all:
            leader.require_min_isr()
        result = self.log.append_leader(accepted.batch, accepted.header, self.leader_epoch, now_ms)
        return self._appended(leader, result, len(accepted.batch), accepted.header[RECORD_COUNT])

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
        """Append a batch that ``check`` accepted and whose transaction is known to be open.

        ``guard``: the guard of the verification; None if none was needed. ``validated``: its records have
        been decoded. Raises as ``append``.
        """
        leader = self._require_produce()
        if not validated and needs_work(header, self._rules, now_ms):
            batch, header, _ = finish_batch(batch, header, self._rules, now_ms)
        size = header[LENGTH] + LENGTH_OVERHEAD
        result = self.log.append_leader(
            batch[:size],
            header,
            self.leader_epoch,
            now_ms,
            transaction_v2=transaction_v2,
            guard=guard,
        )
        return self._appended(leader, result, size, header[RECORD_COUNT])

    def append_marker(self, marker: bytearray, now_ms: int, transaction_version: int) -> Appended:
        """End a transaction in this partition: ``marker`` is the control batch. Raises as ``append``."""
        leader = self._require_leading()
        leader.require_min_isr()
        result = self.log.append_marker(marker, self.leader_epoch, now_ms, transaction_version)
        return self._appended(leader, result, len(marker), 1)

    def append_records(self, batch: bytearray, now_ms: int) -> Appended:
        """Append a coordinator's batch, with acks=all and without the checks of producers' batches.

        Raises KafkaError or DiskError; then nothing was changed.
        """
        leader = self._require_leading()
        leader.require_min_isr()
        max_bytes = self.log.config.max_message_bytes
        if len(batch) > max_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"{len(batch)} bytes do not fit into {self.topic}, whose max.message.bytes is {max_bytes}",
            )
        header: HeaderFields = HEADER.unpack_from(batch)
        result = self.log.append_leader(batch, header, self.leader_epoch, now_ms, check_sequence=False)
        return self._appended(leader, result, len(batch), header[RECORD_COUNT])

    def empty_append(self) -> Appended:
        """An append of nothing: it is committed once everything in the log is."""
        end_offset = self.log.end_offset
        return Appended(
            self, end_offset, -1, end_offset, self.leader_epoch, self.log.high_watermark >= end_offset
        )

    def _appended(self, leader: PartitionLeader, result: AppendResult, size: int, records: int) -> Appended:
        end_offset = result.last_offset + 1
        if not result.duplicate:
            traffic = self.traffic
            traffic.appends += 1
            traffic.bytes_in += size
            traffic.messages_in += records
            leader.on_append(size)
        return Appended(
            self,
            result.base_offset,
            result.log_append_time_ms,
            end_offset,
            self.leader_epoch,
            self.log.high_watermark >= end_offset,
        )

    # -- checks before an append -----------------------------------------------------------------------------

    def require_min_isr(self) -> None:
        """Raises KafkaError while the ISR is smaller than ``min.insync.replicas``."""
        if self.leader is not None:
            self.leader.require_min_isr()

    def check(self, batch: memoryview) -> HeaderFields:
        """The header of a batch that passes the checks of header and checksum; raises KafkaError."""
        self._require_produce()
        return check_batch(batch, self._rules)

    def undecoded(self, batch: memoryview, now_ms: int) -> tuple[HeaderFields, BatchRules] | None:
        """Header and rules of a batch whose records have to be decoded; None also for an invalid batch."""
        rules = self._rules
        if self.leader is None or self._is_internal or len(batch) < HEADER_SIZE:
            return None
        # Most batches need no decoding; their checksum is computed only once, when they are appended.
        if not needs_records(HEADER.unpack_from(batch), rules, now_ms):
            return None
        try:
            return check_batch(batch, rules), rules
        except KafkaError:
            return None

    def _require_produce(self) -> PartitionLeader:
        leader = self._require_leading()
        if self._is_internal:
            message = f"{self.topic} is internal: only its coordinator writes to it"
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
        return leader

    def _require_leading(self) -> PartitionLeader:
        if self.leader is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.leader

    # -- acknowledging ---------------------------------------------------------------------------------------

    @property
    def has_min_isr(self) -> bool:
        return self.leader is None or self.leader.has_min_isr

    def is_acked(self, end_offset: int, acks_all: bool = True) -> bool:
        """Whether the watermark that ``acks`` names has reached ``end_offset``."""
        if self.log.high_watermark >= end_offset:
            return True
        leader = self.leader
        return (
            not acks_all
            and leader is not None
            and leader.replication is not None
            and leader.durable_offset >= end_offset
        )

    def ack_result(self, append: Appended, acks_all: bool = True) -> AckResult | None:
        """The result of an append; None while it is undecided."""
        failed = self.log.failure is not None
        leader = self.leader
        if not failed and (leader is None or append.leader_epoch < leader.first_epoch):
            return AckResult.NOT_LEADER
        if self.is_acked(append.end_offset, acks_all):
            return AckResult.ACKED
        return AckResult.STORAGE_ERROR if failed else None

    def register_ack(self, append: Appended, acks_all: bool, wait: AckWait) -> bool:
        """Keep ``wait`` until the append is decided; False: it is decided already and nothing was kept."""
        if self.ack_result(append, acks_all) is not None:
            return False
        leader = self._require_leading()
        locally = not acks_all and leader.replication is not None
        (leader.durable_queue if locally else leader.commit_queue).add(append.end_offset, wait)
        return True

    def _on_synced(self) -> None:
        if self.leader is not None:
            self.leader.on_synced()
        else:
            self.follower.on_synced()

    def log_moved(self, flusher: Flusher) -> None:
        """The log is in another log directory now; ``flusher`` is the one of that directory."""
        self._flush.use_flusher(flusher)

    def request_sync(self) -> None:
        """Sync the log in the background."""
        self._flush.request_sync()

    # -- reading ---------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, committed_only: bool, at_least_one: bool) -> LogRead:
        """The position of the bytes for a consumer at ``offset``; raises KafkaError.

        OFFSET_OUT_OF_RANGE makes a consumer reset its position. A follower that does not have the offset yet
        must not cause that (KIP-392): it raises OFFSET_NOT_AVAILABLE.
        """
        log = self.log
        if offset > log.end_offset and self.leader is None:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        bound = log.last_stable_offset if committed_only else log.high_watermark
        return log.read(offset, max_bytes, bound, at_least_one)

    # -- deleting --------------------------------------------------------------------------------------------

    def delete_records_before(self, offset: int) -> asyncio.Future[None] | None:
        """DeleteRecords on the leader; -1: up to the high watermark. Raises KafkaError.

        The future is done when the in-sync replicas have deleted the records too, so no later leader shows
        them, or when this broker no longer leads. None for a sole replica.
        """
        leader = self._require_leading()
        return leader.when_deleted(self.log.delete_records_before(offset))
