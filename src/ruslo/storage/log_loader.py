"""Opens a log: finishes interrupted file operations, recovers segments and loads the producer state.

A log does not depend on the event loop while it is opened, so several can be opened in threads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from ruslo.config.log_config import LogConfig
from ruslo.model.errors import CorruptLogError
from ruslo.model.ids import ZERO_UUID, Uuid
from ruslo.model.topics import TopicPartition
from ruslo.records.batch import BASE_OFFSET, LEADER_EPOCH
from ruslo.storage.batch_scan import SCAN_BYTES, scan_headers
from ruslo.storage.checkpoints import (
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    RECOVERY_POINTS,
    TXN_INDEX_CHECKSUMS,
    CheckpointedState,
    TxnIndexChecksum,
    parse_epochs,
    parse_txn_index_checksums,
)
from ruslo.storage.disk import Disk
from ruslo.storage.header_walk import CheckedRanges
from ruslo.storage.leader_epochs import LeaderEpochCache
from ruslo.storage.leftovers import clean_up_leftovers
from ruslo.storage.log import Log
from ruslo.storage.lost_data import LossKind, LostData
from ruslo.storage.partition_files import (
    PARTITION_METADATA,
    PARTITION_METADATA_SIZE,
    offset_of,
    parse_partition_metadata,
    segment_bases,
    snapshot_offsets,
)
from ruslo.storage.producer_replay import load_producers, restore_completed_transactions
from ruslo.storage.producer_snapshot import snapshot_path
from ruslo.storage.producer_state import ProducerStates
from ruslo.storage.segment import LOG_SUFFIX, SUFFIXES, TXN_INDEX_SUFFIX, Segment
from ruslo.storage.segment_recovery import SegmentRecovery
from ruslo.storage.trash import Trash

logger = logging.getLogger(__name__)

DEFAULT_PRODUCER_EXPIRATION_MS = 86_400_000


def open_log(
    disk: Disk,
    path: str,
    partition: TopicPartition,
    config: LogConfig,
    trash: Trash,
    now_ms: int,
    checkpointed: CheckpointedState,
    producer_expiration_ms: int = DEFAULT_PRODUCER_EXPIRATION_MS,
    on_recovered: Callable[[], None] | None = None,
) -> Log:
    """Open the log in ``path``; raises StorageError if it cannot be used.

    ``on_recovered`` is called for every segment that recovery has read.
    """
    loader = LogLoader(disk, path, partition, config, trash, now_ms, checkpointed, on_recovered)
    return loader.run(producer_expiration_ms)


@dataclass(slots=True)
class LogLoader:
    disk: Disk
    path: str
    partition: TopicPartition
    config: LogConfig
    trash: Trash
    now_ms: int
    checkpointed: CheckpointedState
    on_recovered: Callable[[], None] | None
    names: set[str] = field(default_factory=set)
    """File names in the directory of the partition."""
    segments: list[Segment] = field(default_factory=list)
    epochs: LeaderEpochCache = field(default_factory=LeaderEpochCache)

    def run(self, producer_expiration_ms: int) -> Log:
        self.names = clean_up_leftovers(self.disk, self.path, self.disk.list_names(self.path))
        topic_id = self._read_topic_id()
        self._find_segments()
        self._read_epochs()
        recovery = self._recovery(self._read_txn_index_checksums())
        end_offset = recovery.run() if self.segments else 0
        first_base = self.segments[0].base_offset if self.segments else 0
        start_offset = max(self.checkpointed.start_offset, first_base)
        starts_over = not self.segments or end_offset < start_offset
        if starts_over:
            self._start_over(start_offset)
            end_offset = start_offset
            recovery = self._recovery({})
        lost_tail = self._find_lost_tail(end_offset)
        self.epochs.truncate_from_end(end_offset)
        self.epochs.truncate_from_start(start_offset)
        if start_offset == end_offset:
            # The checkpoint may be older than the log was. An empty log that reports an old epoch as its
            # latest would seem to diverge from the leader's log where that epoch ended.
            self.epochs.clear()
        high_watermark = min(max(self.checkpointed.high_watermark, start_offset), end_offset)
        producers, snapshot_offset = self._load_producers(recovery, end_offset)
        restore_completed_transactions(
            producers,
            self.disk,
            self.path,
            self.segments,
            snapshot_offsets(self.names),
            high_watermark,
            end_offset,
        )
        producers.expire(self.now_ms, producer_expiration_ms)
        for segment in self.segments:
            segment.release_files()
        log = Log(
            disk=self.disk,
            path=self.path,
            partition=self.partition,
            topic_id=topic_id,
            config=self.config,
            segments=self.segments,
            start_offset=start_offset,
            end_offset=end_offset,
            recovery_point=end_offset
            if self.checkpointed.clean and not recovery.recovered
            else min(self.checkpointed.recovery_point, end_offset),
            high_watermark=high_watermark,
            epochs=self.epochs,
            producers=producers,
            snapshot_offset=snapshot_offset,
            trash=self.trash,
            flushed_ms=self.now_ms,
            unsynced_segments=[*recovery.reindexed, *recovery.recovered],
            damage=recovery.damage,
            gaps_below=self.checkpointed.compacted_below,
            has_txn_index_checkpoint=TXN_INDEX_CHECKSUMS in self.names,
            lost_tail=lost_tail,
        )
        recovery.damage.keep_between(start_offset, end_offset)
        if recovery.recovered:
            log.write_producer_snapshot()
        if starts_over or recovery.recovered:
            log.names_changed()
        return log

    def _recovery(self, txn_index_checksums: dict[int, TxnIndexChecksum]) -> SegmentRecovery:
        return SegmentRecovery(
            self.disk,
            self.path,
            self.names,
            self.segments,
            self.config,
            self.checkpointed,
            self.trash,
            self.epochs,
            txn_index_checksums,
            self.on_recovered,
        )

    def _read_topic_id(self) -> Uuid:
        if PARTITION_METADATA not in self.names:
            return ZERO_UUID
        path = f"{self.path}/{PARTITION_METADATA}"
        data = self.disk.read_file(path)
        if len(data.rstrip(b"\0")) < PARTITION_METADATA_SIZE:
            # A power failure truncates the file of a new partition; damage may truncate an old one.
            logger.error("%s is truncated: the topic id of this log is unknown", path)
            return ZERO_UUID
        try:
            return parse_partition_metadata(data, path)
        except CorruptLogError as error:
            logger.error("%s", error)
            return ZERO_UUID

    def _find_segments(self) -> None:
        names = self.names
        bases = segment_bases(names)
        known = set(bases)
        for name in [name for name in names if name.endswith(SUFFIXES) and offset_of(name) not in known]:
            # An index without its .log file.
            self.disk.unlink(f"{self.path}/{name}")
            names.discard(name)
        for base in bases:
            stem = f"{base:020d}"
            status = self.disk.status(f"{self.path}/{stem}{LOG_SUFFIX}")
            segment = Segment(self.disk, self.path, base, status.size if status else 0, self.now_ms)
            segment.txn_index.exists = stem + TXN_INDEX_SUFFIX in names
            segment.checked = CheckedRanges()
            self.segments.append(segment)

    def _read_epochs(self) -> None:
        if LEADER_EPOCHS not in self.names:
            return
        path = f"{self.path}/{LEADER_EPOCHS}"
        try:
            self.epochs = LeaderEpochCache(parse_epochs(self.disk.read_file(path), path))
        except CorruptLogError as error:
            logger.warning("Rebuilding the leader epoch checkpoint from the batches: %s", error)
            for segment in self.segments:
                for _, header in scan_headers(segment.file, 0, segment.size, SCAN_BYTES):
                    if header[LEADER_EPOCH] > self.epochs.latest:
                        self.epochs.assign(header[LEADER_EPOCH], header[BASE_OFFSET])
                segment.release_files()

    def _read_txn_index_checksums(self) -> dict[int, TxnIndexChecksum]:
        if TXN_INDEX_CHECKSUMS not in self.names:
            return {}
        path = f"{self.path}/{TXN_INDEX_CHECKSUMS}"
        try:
            return parse_txn_index_checksums(self.disk.read_file(path), path)
        except CorruptLogError as error:
            logger.warning("Skipping the checksums of the transaction indexes: %s", error)
            return {}

    def _start_over(self, offset: int) -> None:
        """Replace all segments by an empty one."""
        while self.segments:
            self.trash.add_files(self.segments.pop().mark_deleted(), self.config.file_delete_delay_ms)
        segment = Segment(self.disk, self.path, offset, 0, self.now_ms)
        segment.create_file()
        self.segments.append(segment)

    def _find_lost_tail(self, end_offset: int) -> LostData | None:
        """Compare the log end offset with what the checkpoints and other files prove.

        After an unclean shutdown only the records below the recovery point were certainly on disk; the high
        watermark may have been reached in the page cache. After a clean shutdown every file was on disk.
        """
        checkpointed = self.checkpointed
        claims = {
            RECOVERY_POINTS: checkpointed.recovery_point,
            HIGH_WATERMARKS: checkpointed.high_watermark,
        }
        if checkpointed.clean:
            claims[LEADER_EPOCHS] = self.epochs.latest_start
            claims["the last producer snapshot"] = max(snapshot_offsets(self.names), default=0)
        source = max(claims, key=lambda name: claims[name])
        proven_end = claims[source]
        if end_offset >= proven_end:
            return None
        was_synced = checkpointed.clean or end_offset < checkpointed.recovery_point
        return LostData(
            self.partition,
            LossKind.TAIL if was_synced else LossKind.UNSYNCED_TAIL,
            f"{self.path} ends at offset {end_offset}, {source} says {proven_end}",
            end_offset,
            proven_end,
        )

    def _load_producers(self, recovery: SegmentRecovery, end_offset: int) -> tuple[ProducerStates, int]:
        """The producer state at the end of the log, and the offset of the newest snapshot."""
        snapshots = snapshot_offsets(self.names)
        bases = {segment.base_offset for segment in self.segments}
        newest = max((offset for offset in snapshots if offset <= end_offset), default=-1)
        kept: list[int] = []
        for offset in snapshots:
            if offset <= end_offset and (offset in bases or offset == newest):
                kept.append(offset)
            else:
                self.disk.unlink(snapshot_path(self.path, offset))
        if recovery.producers is not None:
            return recovery.producers, newest if newest >= 0 else self.segments[0].base_offset
        if not kept and self.checkpointed.clean and not recovery.recovered:
            # A clean shutdown without a snapshot had no producers. As Kafka, do not read the whole log.
            return ProducerStates(), self.segments[0].base_offset
        return load_producers(self.disk, self.path, self.segments, kept, end_offset)
