"""The state of a log: segments, offsets, producer state and leader epochs, and how they change."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING

from ruslo.config.limits import LONG_MAX
from ruslo.config.log_config import LogConfig
from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.model.ids import Uuid
from ruslo.model.topics import TopicPartition
from ruslo.storage.damage import DamageList
from ruslo.storage.disk import Disk
from ruslo.storage.leader_epochs import LeaderEpochCache
from ruslo.storage.log_sync import Unsynced
from ruslo.storage.lost_data import LostData
from ruslo.storage.producer_state import ProducerStates
from ruslo.storage.roll_limits import RollLimits
from ruslo.storage.segment import Segment
from ruslo.storage.trash import Trash

if TYPE_CHECKING:
    from ruslo.storage.segment_swap import SegmentSwap


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class LogState:
    disk: Disk
    path: str
    partition: TopicPartition
    topic_id: Uuid
    config: LogConfig
    """Only ``configure`` changes it."""
    segments: list[Segment]
    active: Segment = field(init=False)
    start_offset: int = 0
    end_offset: int = 0
    syncs_before_roll: bool = False
    """Whether a roll flushes first, so only the active segment can be unsynced."""
    recovery_point: int = 0
    high_watermark: int = 0
    last_stable_offset: int = field(init=False)
    epochs: LeaderEpochCache = field(default_factory=LeaderEpochCache)
    producers: ProducerStates = field(default_factory=ProducerStates)
    snapshot_offset: int = 0
    """Offset of the latest producer state snapshot."""
    trash: Trash
    swap: SegmentSwap | None = None
    """Set while the files of a compacted segment do not have their final names yet."""
    flushed_ms: int
    failure: StorageError | None = None
    """Why requests fail with KAFKA_STORAGE_ERROR; set when the log directory goes offline."""
    damage: DamageList = field(default_factory=DamageList)
    """Damaged ranges, which are not served."""
    gaps_below: int = 0
    """Compaction may have left a gap between two segments below this offset."""
    has_txn_index_checkpoint: bool = False
    lost_tail: LostData | None = None
    """Records that were missing at the end when the log was opened, until the replica has handled it."""
    truncated_to: int = LONG_MAX
    """The lowest offset of a truncation since ``LogCopy`` has last read it."""
    limits: RollLimits = field(default_factory=RollLimits)
    created: InitVar[bool] = False
    unsynced_segments: InitVar[Iterable[Segment]] = ()
    _unsynced: Unsynced = field(init=False)
    _index_interval_bytes: int = field(init=False)
    _write: Callable[[ReadBuffer], None] = field(init=False)
    _recent_bases: array[int] = field(init=False)
    _recent_positions: array[int] = field(init=False)

    def __post_init__(self, created: bool, unsynced_segments: Iterable[Segment]) -> None:
        self.active = self.segments[-1]
        self._index_interval_bytes = self.config.index_interval_bytes
        self._unsynced = Unsynced(created=created, segments=unsynced_segments)
        self._write = _not_open
        self.forget_recent_batches()
        self.update_last_stable_offset()

    def __repr__(self) -> str:
        return f"<Log {self.path} [{self.start_offset}, {self.end_offset})>"

    def configure(self, config: LogConfig) -> None:
        if self.config.compacts and not config.compacts:
            self.gaps_below = self.end_offset
        self.config = config
        self._index_interval_bytes = config.index_interval_bytes
        self.limits.invalidate()

    @property
    def directory(self) -> str:
        """The log directory (one of ``log.dirs``) of this log."""
        return self.disk.directory

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def unflushed(self) -> int:
        """How many offsets a power failure could lose; compared with ``flush.messages``."""
        return self.end_offset - self.recovery_point

    def may_have_gap(self, offset: int) -> bool:
        """Whether records before ``offset`` may be missing because compaction removed them."""
        return self.config.compacts or offset <= self.gaps_below

    def check_online(self) -> None:
        if self.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.failure))

    def advance_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark; returns whether it changed. Only truncation lowers it."""
        if offset > self.end_offset:
            offset = self.end_offset
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        if self.producers.has_transactions:
            self.update_last_stable_offset()
        else:
            self.last_stable_offset = offset
        return True

    def update_last_stable_offset(self) -> None:
        unstable = self.producers.first_unstable_offset(self.high_watermark)
        stable = self.high_watermark if unstable is None else min(unstable, self.high_watermark)
        self.last_stable_offset = max(stable, self.start_offset)

    def assign_leader_epoch(self, epoch: int) -> None:
        """Assign a leader epoch at the log end offset, before the leader has appended anything (KIP-279)."""
        if epoch > self.epochs.latest:
            self.epochs.assign(epoch, self.end_offset)

    def advance_start_offset(self, offset: int) -> None:
        """Raise the log start offset: records below it are not readable; retention deletes their segments."""
        if offset > self.start_offset:
            self.start_offset = offset
            self.high_watermark = max(self.high_watermark, offset)
            self.epochs.truncate_from_start(offset)
            self.update_last_stable_offset()
            if self.damage:
                self.damage.keep_between(offset, self.end_offset)

    def segments_changed(self, end_offset: int) -> None:
        """Update the state after a truncation to ``end_offset``."""
        self.active = self.segments[-1]
        self.end_offset = end_offset
        self.truncated_to = min(self.truncated_to, end_offset)
        self.start_offset = min(self.start_offset, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self._unsynced.truncated(self.segments[:-1])
        self.limits.invalidate()
        self.forget_recent_batches()
        if self.damage:
            self.damage.keep_between(self.start_offset, end_offset)

    def segments_dropped(self) -> None:
        """Update the state after retention deleted the oldest segments."""
        self._unsynced.keep_segments(self.segments)
        self.advance_start_offset(self.segments[0].base_offset)

    def segments_replaced(self) -> None:
        """Update the state after a compacted segment, which is synced, replaced others."""
        self._unsynced.keep_segments(self.segments)

    def index_replaced(self, segment: Segment) -> None:
        """The index files of a sealed segment were rebuilt: the next flush syncs them."""
        self._unsynced.add_segment(segment)

    def names_changed(self) -> None:
        """Files of the log were renamed: the next flush syncs the directory."""
        self._unsynced.names_changed()

    @property
    def truncations(self) -> int:
        """How often the log was truncated since it was opened."""
        return self._unsynced.generation

    def forget_recent_batches(self) -> None:
        self._recent_bases = array("q")
        self._recent_positions = array("q")

    def fail(self, error: StorageError) -> None:
        """The log directory is offline: close without writing, and fail all later requests."""
        self.failure = error
        self.release()

    def release(self) -> None:
        """Release all descriptors and the indexes in memory."""
        self.limits.invalidate()
        self._write = _not_open
        self.forget_recent_batches()
        for segment in self.segments:
            segment.seal()
            segment.release_files()

    def release_idle_files(self) -> None:
        """Close the descriptors that appends do not need; readers that have one keep it."""
        for segment in self.segments:
            if segment is not self.active:
                segment.release_files()
        if self.active.offset_index is None:
            self.active.release_files()

    def move_to(self, path: str) -> None:
        """The directory of the partition was renamed."""
        self.path = path
        for segment in self.segments:
            segment.move_to(path)

    def continue_in(self, other: LogState) -> None:
        """Continue in the files of a log that has the same records; ``other`` must not be used any more.

        The object stays the same: appends, waiting requests and offsets are not affected.
        """
        # A truncation may have left a gap at the end, where compaction had removed the batches.
        assert other.end_offset <= self.end_offset, f"{other} is not a copy of {self}"
        self.release()
        self.disk, self.path, self.trash = other.disk, other.path, other.trash
        self.segments, self.active = other.segments, other.active
        self.recovery_point, self.flushed_ms = other.recovery_point, other.flushed_ms
        self.snapshot_offset = other.snapshot_offset
        self.has_txn_index_checkpoint = other.has_txn_index_checkpoint
        self.damage = other.damage
        self.epochs.dirty = other.epochs.dirty
        # A sync that is running covers the former files.
        other._unsynced.generation = self._unsynced.generation + 1
        self._unsynced = other._unsynced


def _not_open(data: ReadBuffer) -> None:
    raise AssertionError("an append must go through make_room before it writes")
