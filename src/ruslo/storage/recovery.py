"""Opening a log: tidy up what a crash left, find its end, and after an unclean stop check every batch anew.

After a clean stop only names and sizes are looked at, plus the last few batches: thousands of partitions
must be ready in a moment. After an unclean stop the segments from the recovery point on are walked batch by
batch; the first batch that is cut or damaged ends the log. Independent of the event loop, so that several
logs can be opened in threads.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass

from ruslo.config.log_config import LogConfig
from ruslo.model.errors import CorruptLogError, ProtocolError
from ruslo.model.ids import ZERO_UUID, Uuid
from ruslo.model.topics import TopicPartition
from ruslo.records.batch import (
    BASE_OFFSET,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    MAX_TIMESTAMP,
    NO_PRODUCER_ID,
    PRODUCER_ID,
    last_offset_of,
    size_of,
)
from ruslo.storage.batch_scan import SCAN_BYTES, scan_batches, scan_headers
from ruslo.storage.checkpoints import (
    ABORT_INDEXES,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    RECOVERY_POINTS,
    AbortIndex,
    parse_abort_indexes,
    parse_epochs,
)
from ruslo.storage.damage import Damage, DamagedRange, DamageList
from ruslo.storage.disk import Disk, DiskError
from ruslo.storage.epochs import NO_EPOCH, EpochCache
from ruslo.storage.header_walk import CheckedRanges, walk_headers
from ruslo.storage.index_check import find_fault
from ruslo.storage.leftovers import tidy
from ruslo.storage.log import Log
from ruslo.storage.log_reader import segment_at
from ruslo.storage.lost_data import LossKind, LostData
from ruslo.storage.partition_files import (
    PARTITION_METADATA,
    PARTITION_METADATA_SIZE,
    format_partition_metadata,
    offset_of,
    parse_partition_metadata,
    segment_bases,
    snapshot_offsets,
)
from ruslo.storage.producer_replay import find_uncommitted_ends, load_producers, replay_batch
from ruslo.storage.producer_snapshot import snapshot_path
from ruslo.storage.producer_state import ProducerStates
from ruslo.storage.roll_limits import MAX_RELATIVE_OFFSET
from ruslo.storage.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SUFFIXES,
    TXN_INDEX_SUFFIX,
    Segment,
    segment_stem,
)
from ruslo.storage.sound_batches import Stretch, check_batch_checksum, sound_batches
from ruslo.storage.trash import Trash

logger = logging.getLogger(__name__)

DEFAULT_PRODUCER_EXPIRATION_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class LastStop:
    """What is known about a log from the checkpoints of its directory."""

    clean: bool = True
    recovery_point: int = 0
    start_offset: int = 0
    high_watermark: int = 0
    gaps_below: int = 0
    """Up to here compaction may have left a gap between two segments; beyond it, one is a loss."""
    compacted_below: int = 0
    """Up to here the log was compacted, whatever the settings of its topic say now."""


def create_log(
    disk: Disk,
    path: str,
    partition: TopicPartition,
    topic_id: Uuid,
    config: LogConfig,
    trash: Trash,
    now_ms: int,
) -> Log:
    """Make the directory and first segment of a new partition.

    Nothing is synced here: creating thousands of partitions would take seconds. The first flush of the log
    does it, before anything can be called durable.
    """
    segment = Segment(disk, path, 0, 0, now_ms)
    try:
        _make_directory(disk, path)
        disk.write_file(f"{path}/{PARTITION_METADATA}", format_partition_metadata(topic_id))
        segment.create_file()
        segment.release_files()
        # Empty, but there: Kafka takes a segment without it for damaged, and says so.
        disk.write_file(f"{segment_stem(path, 0)}{INDEX_SUFFIX}", b"")
    except DiskError as error:
        if error.disk_full:
            disk.remove_tree(path)
            error.fatal = False
        raise
    return Log(
        disk=disk,
        path=path,
        partition=partition,
        topic_id=topic_id,
        config=config,
        segments=[segment],
        start_offset=0,
        end_offset=0,
        recovery_point=0,
        high_watermark=0,
        epochs=EpochCache(),
        producers=ProducerStates(),
        snapshot_offset=0,
        trash=trash,
        now_ms=now_ms,
        created=True,
    )


def _make_directory(disk: Disk, path: str) -> None:
    try:
        disk.make_directory(path)
    except DiskError as error:
        # A try that lacked descriptors could not remove what it had made either.
        if error.errno != errno.EEXIST or _has_records(disk, path):
            raise
        disk.remove_tree(path)
        disk.make_directory(path)


def _has_records(disk: Disk, path: str) -> bool:
    logs = (f"{path}/{name}" for name in disk.list_names(path) if name.endswith(LOG_SUFFIX))
    return any((disk.status(log) or (0,))[0] for log in logs)


def open_log(
    disk: Disk,
    path: str,
    partition: TopicPartition,
    config: LogConfig,
    trash: Trash,
    now_ms: int,
    last_stop: LastStop,
    producer_expiration_ms: int = DEFAULT_PRODUCER_EXPIRATION_MS,
    on_recovered: Callable[[], None] | None = None,
) -> Log:
    """Open the log in ``path``; raises StorageError if it cannot be used.

    ``on_recovered`` is called for every segment that was walked through.
    """
    opening = _Opening(disk, path, partition, config, trash, now_ms, last_stop, on_recovered)
    return opening.run(producer_expiration_ms)


class _Opening:
    """One log being opened; the steps share much, and none of it outlives them."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        partition: TopicPartition,
        config: LogConfig,
        trash: Trash,
        now_ms: int,
        last_stop: LastStop,
        on_recovered: Callable[[], None] | None,
    ) -> None:
        self.disk = disk
        self.path = path
        self.partition = partition
        self.config = config
        self.trash = trash
        self.now_ms = now_ms
        self.last_stop = last_stop
        self.on_recovered = on_recovered
        self.names: set[str] = set()
        self.segments: list[Segment] = []
        self.epochs = EpochCache()
        self.recovered: list[Segment] = []
        self.unsynced: list[Segment] = []
        """Other segments whose indexes were made anew."""
        self.started_over = False
        """The only segment is new: whatever is synced into it is safe only once its name is."""
        self.last_epoch = NO_EPOCH
        """Of the last batch that was walked through."""
        self.abort_indexes: dict[int, AbortIndex] = {}
        """What the transaction indexes held at the last roll or clean stop, by base offset."""
        self.damage = DamageList()
        self.producers: ProducerStates | None = None
        """As recovery has seen them, if it went through to the log's end."""

    def run(self, producer_expiration_ms: int) -> Log:
        self.names = tidy(self.disk, self.path, self.disk.list_names(self.path))
        topic_id = self._read_topic_id()
        self._find_segments()
        self._read_epochs()
        self._read_abort_indexes()
        end_offset = self._find_end() if self.segments else 0
        start_offset = max(self.last_stop.start_offset, self.segments[0].base_offset if self.segments else 0)
        if not self.segments or end_offset < start_offset:
            self._start_over(start_offset)
            end_offset = start_offset
        lost_tail = self._find_lost_tail(end_offset)
        self.epochs.truncate_from_end(end_offset)
        self.epochs.truncate_from_start(start_offset)
        if start_offset == end_offset:
            # Nothing is left of the epochs it had, and the file may be older than the last of them: with an
            # old one for its last this log would seem to part from the leader's where that one ended.
            self.epochs.clear()
        high_watermark = min(max(self.last_stop.high_watermark, start_offset), end_offset)
        producers, snapshot_offset = self._load_producers(end_offset)
        find_uncommitted_ends(
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
            if self.last_stop.clean and not self.recovered
            else min(self.last_stop.recovery_point, end_offset),
            high_watermark=high_watermark,
            epochs=self.epochs,
            producers=producers,
            snapshot_offset=snapshot_offset,
            trash=self.trash,
            now_ms=self.now_ms,
            unsynced_segments=[*self.unsynced, *self.recovered],
            damage=self.damage,
            gaps_below=self.last_stop.compacted_below,
            has_abort_checkpoint=ABORT_INDEXES in self.names,
            lost_tail=lost_tail,
        )
        self.damage.keep_between(start_offset, end_offset)
        if self.recovered:
            log.write_producer_snapshot()
        if self.started_over or self.recovered:
            log.names_changed()
        return log

    def _read_topic_id(self) -> Uuid:
        if PARTITION_METADATA not in self.names:
            return ZERO_UUID
        path = f"{self.path}/{PARTITION_METADATA}"
        data = self.disk.read_file(path)
        if len(data.rstrip(b"\0")) < PARTITION_METADATA_SIZE:
            # A power failure does this to a new partition; so does damage to an old one.
            logger.error("%s is cut short: the topic id of this log is unknown", path)
            return ZERO_UUID
        try:
            return parse_partition_metadata(data, path)
        except CorruptLogError as error:
            logger.error("%s", error)
            return ZERO_UUID

    def _find_lost_tail(self, end_offset: int) -> LostData | None:
        """Compare the end of the log with what the checkpoints and the files beside the segments know of it.

        After an unclean stop only the recovery point was certainly on disk, and the high watermark may have
        been reached in the page cache. After a clean stop every file was.
        """
        stop = self.last_stop
        claims = {RECOVERY_POINTS: stop.recovery_point, HIGH_WATERMARKS: stop.high_watermark}
        if stop.clean:
            claims[LEADER_EPOCHS] = self.epochs.latest_start
            claims["the last producer snapshot"] = max(snapshot_offsets(self.names), default=0)
        source = max(claims, key=lambda name: claims[name])
        proven_end = claims[source]
        if end_offset >= proven_end:
            return None
        return LostData(
            self.partition,
            LossKind.TAIL if stop.clean or end_offset < stop.recovery_point else LossKind.UNSYNCED_TAIL,
            f"{self.path} ends at offset {end_offset}, {source} says {proven_end}",
            end_offset,
            proven_end,
        )

    def _read_epochs(self) -> None:
        if LEADER_EPOCHS not in self.names:
            return
        path = f"{self.path}/{LEADER_EPOCHS}"
        try:
            self.epochs = EpochCache(parse_epochs(self.disk.read_file(path), path))
        except CorruptLogError as error:
            logger.warning("%s; the epochs are found again in the batches", error)
            for segment in self.segments:
                for _, header in scan_headers(segment.file, 0, segment.size, SCAN_BYTES):
                    if header[LEADER_EPOCH] > self.epochs.latest:
                        self.epochs.assign(header[LEADER_EPOCH], header[BASE_OFFSET])
                segment.release_files()

    def _read_abort_indexes(self) -> None:
        if ABORT_INDEXES in self.names:
            path = f"{self.path}/{ABORT_INDEXES}"
            try:
                self.abort_indexes = parse_abort_indexes(self.disk.read_file(path), path)
            except CorruptLogError as error:
                logger.warning("%s; the transaction indexes are taken as they are", error)

    def _find_segments(self) -> None:
        names = self.names
        bases = segment_bases(names)
        known = set(bases)
        for name in [name for name in names if name.endswith(SUFFIXES) and offset_of(name) not in known]:
            # An index without its log.
            self.disk.unlink(f"{self.path}/{name}")
            names.discard(name)
        for base in bases:
            stem = f"{base:020d}"
            status = self.disk.status(f"{self.path}/{stem}{LOG_SUFFIX}")
            segment = Segment(self.disk, self.path, base, status.size if status else 0, self.now_ms)
            segment.has_aborts = stem + TXN_INDEX_SUFFIX in names
            segment.checked = CheckedRanges()
            self.segments.append(segment)

    def _find_end(self) -> int:
        """Recover what must be recovered; returns the log's end offset."""
        first_unsafe = len(self.segments)
        if not self.last_stop.clean:
            first_unsafe = segment_at(self.segments, self.last_stop.recovery_point)
        bases: list[int | None] = [segment.base_offset for segment in self.segments[1:]]
        for at, (segment, next_base) in enumerate(zip(self.segments, [*bases, None], strict=True)):
            known = self.abort_indexes.get(segment.base_offset)
            is_trusted = at < first_unsafe
            fault = find_fault(segment, next_base, known) if is_trusted and segment.size else None
            suspicious = fault is not None or (is_trusted and not segment.size)
            if suspicious and self._is_short(segment, next_base):
                continue
            if fault is not None:
                logger.warning("%s: the indexes of this segment are rebuilt", fault)
                self._rebuild_indexes(at, is_known=known == segment.abort_index())
            elif at + 1 == first_unsafe and next_base == self.last_stop.recovery_point:
                self._index_anew(segment)
        if first_unsafe < len(self.segments):
            return self._recover_from(first_unsafe)
        end_offset = self.segments[-1].next_offset()
        if end_offset is None:
            logger.warning(
                "%s does not end in a whole batch in spite of a clean stop; it is recovered", self.path
            )
            end_offset = self._recover_from(len(self.segments) - 1)
        return end_offset

    def _is_short(self, segment: Segment, next_base: int | None) -> bool:
        """Whether a closed segment ends before its indexes, or the next segment, say; that is noted.

        Its indexes stay as they are: they are the evidence, and know where the batches were.
        """
        if next_base is None or (segment.size and not segment.is_shorter_than_index()):
            return False
        end_offset = _walked_end(segment, next_base)
        if end_offset >= next_base:
            return False
        may_have_gap = (
            self.config.compacts
            or next_base <= self.last_stop.compacted_below
            or next_base - segment.base_offset > MAX_RELATIVE_OFFSET + 1
        )
        if may_have_gap and not segment.knows_offsets_past(end_offset):
            return False
        path = segment.path_of(LOG_SUFFIX)
        problem = f"{path} is empty" if not segment.size else f"{path} has lost its end"
        self.damage.add(Damage(end_offset, next_base, segment.base_offset, problem))
        segment.release_files()
        return True

    def _rebuild_indexes(self, at: int, *, is_known: bool) -> None:
        """Make the indexes of a segment below the recovery point again. Its log stays as it is.

        ``is_known``: its transaction index is as it was written and stays too. It may know markers that are
        in a damaged range now, and records of the transactions that they ended are readable elsewhere.
        """
        producers = ProducerStates() if is_known else self._producers_before(at)
        segment, size = self.segments[at], self.segments[at].size
        is_last = at + 1 == len(self.segments)
        limit = (
            segment.base_offset + MAX_RELATIVE_OFFSET + 1 if is_last else self.segments[at + 1].base_offset
        )
        segment.begin_indexes()
        if not is_known:
            segment.drop_aborts()
        damaged: Stretch | None = None
        for found in sound_batches(
            segment.file, size, segment.base_offset, limit, check=check_batch_checksum
        ):
            header = found.header
            if header is None:
                damaged = damaged or found
                continue
            if damaged is not None:
                self._note_damage(segment, damaged, header[BASE_OFFSET])
                damaged = None
            aborted = None
            if header[PRODUCER_ID] != NO_PRODUCER_ID and not is_known:
                with contextlib.suppress(ProtocolError):
                    batch = segment.file.pread(found.size, found.position)
                    aborted = replay_batch(producers, header, batch)
            segment.note_batch(
                found.position,
                last_offset_of(header),
                found.size,
                header[MAX_TIMESTAMP],
                self.config.index_interval_bytes,
            )
            if aborted is not None:
                segment.append_abort(aborted)
        if damaged is not None and not is_last:
            self._note_damage(segment, damaged, limit)
        segment.size = size
        segment.write_indexes()
        segment.seal()
        segment.release_files()
        self.unsynced.append(segment)

    def _note_damage(self, segment: Segment, found: Stretch, end_offset: int) -> None:
        if found.offset < end_offset:
            problem = f"{segment.path_of(LOG_SUFFIX)}, byte {found.position}: {found.problem}"
            self.damage.add(Damage(found.offset, end_offset, segment.base_offset, problem))

    def _recover_from(self, first: int) -> int:
        """Recover the segments from one on; what follows the first damage goes. Returns the end offset.

        A power loss may take the end of a segment that nobody has synced, batches as a whole, and leave the
        segment after it: every batch is sound then, yet records are missing in between.
        """
        at = first
        self.last_epoch = NO_EPOCH
        end_offset = self.segments[first].base_offset
        self.producers = self._producers_before(first)
        while at < len(self.segments):
            sound, end_offset = self._recover(at, self.producers)
            at += 1
            if sound and at < len(self.segments):
                problem = self._break_before(at, end_offset)
                if problem is not None:
                    sound = False
                    logger.warning("%s: %s", self.path, problem)
            if not sound and at < len(self.segments):
                logger.warning(
                    "%s: %d segments after the damage are dropped", self.path, len(self.segments) - at
                )
                while len(self.segments) > at:
                    self.trash.add_files(self.segments.pop().mark_deleted(), self.config.file_delete_delay_ms)
        return end_offset

    def _break_before(self, at: int, end_offset: int) -> str | None:
        """Why a segment does not go on where the one before it ends; None: it does."""
        segment = self.segments[at]
        base = segment.base_offset
        first = next(scan_headers(segment.file, 0, segment.size), None)
        if base < end_offset or (first is not None and NO_EPOCH < first[1][LEADER_EPOCH] < self.last_epoch):
            # The power has taken back its new name, and not what was written in its place.
            return f"the segment at offset {base} is from before the log was cut"
        if base <= max(end_offset, self.last_stop.gaps_below):
            return None
        # More than a segment can hold has not been lost from its end: a follower was sent that gap.
        if base - self.segments[at - 1].base_offset > MAX_RELATIVE_OFFSET + 1:
            return None
        return f"the records from offset {end_offset} to {base - 1} are lost"

    def _producers_before(self, at: int) -> ProducerStates:
        """The producer state with which a segment begins."""
        base = self.segments[at].base_offset
        snapshots = [offset for offset in snapshot_offsets(self.names) if offset <= base]
        return load_producers(self.disk, self.path, self.segments[: at + 1], snapshots, base)[0]

    def _recover(self, at: int, producers: ProducerStates) -> tuple[bool, int]:
        """Check a segment's batches, cut it at the first bad one and make its indexes anew.

        Returns whether it was sound to its end, and its next offset.
        """
        segment = self.segments[at]
        base = segment.base_offset
        size = segment.size
        segment.begin_indexes()
        segment.checked = None
        if segment.has_aborts:
            segment.drop_aborts()
        next_offset = base
        for position, header, batch in scan_batches(segment.file, size):
            last_offset = last_offset_of(header)
            if (
                header[BASE_OFFSET] < next_offset
                or header[LAST_OFFSET_DELTA] < 0
                or last_offset - base > MAX_RELATIVE_OFFSET
            ):
                break
            try:
                aborted = replay_batch(producers, header, batch)
            except ProtocolError:
                break
            self.epochs.note_batch(header[LEADER_EPOCH], header[BASE_OFFSET])
            segment.note_batch(
                position,
                last_offset,
                size_of(header),
                header[MAX_TIMESTAMP],
                self.config.index_interval_bytes,
            )
            next_offset = last_offset + 1
            self.last_epoch = header[LEADER_EPOCH]
            if aborted is not None:
                segment.append_abort(aborted)
        if segment.size < size:
            logger.warning(
                "%s is cut at offset %d, from %d to %d bytes: what follows is no whole and sound batch",
                segment.path_of(LOG_SUFFIX),
                next_offset,
                size,
                segment.size,
            )
            segment.file.truncate(segment.size)
        segment.write_indexes()
        segment.seal()
        segment.release_files()
        self.recovered.append(segment)
        if self.on_recovered is not None:
            self.on_recovered()
        return segment.size == size, next_offset

    def _index_anew(self, segment: Segment) -> None:
        """For a segment that is closed just behind the recovery point.

        Its records and aborted transactions are safe, but its indexes were written when it was closed, and it
        is not known whether anybody has synced them since.
        """
        headers = list(scan_headers(segment.file, 0, segment.size, SCAN_BYTES))
        if sum(size_of(header) for _, header in headers) == segment.size:
            segment.begin_indexes()
            for position, header in headers:
                segment.note_batch(
                    position,
                    last_offset_of(header),
                    size_of(header),
                    header[MAX_TIMESTAMP],
                    self.config.index_interval_bytes,
                )
            segment.write_indexes()
            segment.seal()
            self.unsynced.append(segment)
        segment.release_files()

    def _start_over(self, offset: int) -> None:
        while self.segments:
            self.trash.add_files(self.segments.pop().mark_deleted(), self.config.file_delete_delay_ms)
        segment = Segment(self.disk, self.path, offset, 0, self.now_ms)
        segment.create_file()
        self.segments.append(segment)
        self.started_over = True
        self.damage = DamageList()
        self.recovered.clear()
        self.unsynced.clear()
        self.producers = None

    def _load_producers(self, end_offset: int) -> tuple[ProducerStates, int]:
        snapshots = snapshot_offsets(self.names)
        bases = {segment.base_offset for segment in self.segments}
        newest = max((offset for offset in snapshots if offset <= end_offset), default=-1)
        kept: list[int] = []
        for offset in snapshots:
            if offset <= end_offset and (offset in bases or offset == newest):
                kept.append(offset)
            else:
                self.disk.unlink(snapshot_path(self.path, offset))
        if self.producers is not None:
            return self.producers, newest if newest >= 0 else self.segments[0].base_offset
        if not kept and self.last_stop.clean and not self.recovered:
            # Nobody has saved producers, so there were none to save; as Kafka, do not read the whole log
            # for it.
            return ProducerStates(), self.segments[0].base_offset
        return load_producers(self.disk, self.path, self.segments, kept, end_offset)


def _walked_end(segment: Segment, limit: int) -> int:
    """One past the last offset of a segment whose end may be damaged."""
    end_offset = segment.base_offset
    try:
        for _, header in walk_headers(segment.file, 0, segment.size, end_offset, limit):
            end_offset = last_offset_of(header) + 1
    except DamagedRange as damaged:
        return damaged.first_offset
    return end_offset
