"""This node's copy of the metadata log, as the raft driver needs it: every change of it, told as events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ruslo.broker.quorum.commit_feed import LONG_BATCH, AppendedBatch
from ruslo.broker.quorum.metadata_batches import (
    MAX_BATCH_BYTES,
    VersionedRecord,
    control_batch,
    data_batch,
    read_control,
    read_data,
)
from ruslo.broker.quorum.metadata_store import MetadataStore
from ruslo.broker.quorum.snapshot_download import SnapshotDownload
from ruslo.config.broker import BrokerConfig
from ruslo.machines.raft.effects import SnapshotPiece
from ruslo.machines.raft.events import Appended, SnapshotLoaded, Truncated
from ruslo.machines.raft.log_view import LogView, QuorumRecord
from ruslo.machines.raft.rpc import Answer, FetchAnswer, SnapshotAnswer
from ruslo.machines.raft.snapshots import SnapshotId
from ruslo.model.buffers import ReadBuffer
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError, RusloError
from ruslo.protocol.message import Message
from ruslo.records.reader import iter_batches
from ruslo.storage.disk import Disk, DiskError

logger = logging.getLogger(__name__)


def open_replica(config: BrokerConfig, disk: Disk, clock: Clock) -> ReplicaLog:
    """Raises StorageError if the log cannot be used."""
    store = MetadataStore(
        disk,
        clock,
        segment_bytes=config.int("metadata.log.segment.bytes"),
        segment_ms=config.int("metadata.log.segment.ms"),
        snapshot_bytes=config.int("metadata.log.max.record.bytes.between.snapshots"),
    )
    return ReplicaLog(
        store,
        disk,
        clock,
        fetch_bytes=config.int("controller.quorum.fetch.max.bytes"),
        piece_bytes=config.int("controller.quorum.fetch.snapshot.max.bytes"),
    )


class ReplicaLog:
    def __init__(
        self, store: MetadataStore, disk: Disk, clock: Clock, *, fetch_bytes: int, piece_bytes: int
    ) -> None:
        """``fetch_bytes``, ``piece_bytes``: at most so much of the log, or of a snapshot, in an answer."""
        self.store = store
        self.view: LogView = store.log_view()
        """The machine's; control records are replayed into it as they are written."""
        self._clock = clock
        self._download = SnapshotDownload(disk, store.snapshots)
        self._fetch_bytes = fetch_bytes
        self._piece_bytes = piece_bytes

    # -- on the leader ---------------------------------------------------------------------------------------

    def append(
        self, epoch: int, records: Sequence[VersionedRecord], values: Sequence[bytes] | None = None
    ) -> AppendedBatch:
        """One batch of metadata records. Raises KafkaError if it is too large, DiskError."""
        now_ms = self._clock.now_ms()
        base_offset = self.store.end_offset
        batch = data_batch(records, base_offset=base_offset, epoch=epoch, timestamp_ms=now_ms, values=values)
        if len(batch) > MAX_BATCH_BYTES:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{len(records)} metadata records take {len(batch)} bytes, at most {MAX_BATCH_BYTES} go into "
                "one change; make it in smaller steps",
            )
        self.store.append(batch, now_ms)
        messages: list[Message] = [record for record, _ in records]
        return AppendedBatch(base_offset, self.store.end_offset, epoch, len(batch), messages)

    def append_control(self, epoch: int, records: Sequence[QuorumRecord]) -> AppendedBatch:
        now_ms = self._clock.now_ms()
        base_offset = self.store.end_offset
        batch = control_batch(records, base_offset=base_offset, epoch=epoch, timestamp_ms=now_ms)
        self.store.append(batch, now_ms)
        for offset, record in enumerate(records, base_offset):
            self.view.replay(offset, record)
        return AppendedBatch(base_offset, self.store.end_offset, epoch, len(batch), ())

    # -- on a follower ---------------------------------------------------------------------------------------

    def take(self, records: ReadBuffer, leader_epoch: int) -> None:
        """What the leader sent, appended as it is. Raises KafkaError if it does not fit, DiskError; then the
        first batches of it may be in the log."""
        self.store.log.append_follower(records, leader_epoch, self._clock.now_ms())

    def taken_since(self, offset: int) -> Iterator[Appended]:
        """For each batch that ``take`` has put there."""
        for header, batch in self.store.batches(offset, self.store.end_offset):
            if header.is_control:
                for at, record in read_control(batch):
                    if isinstance(record, QuorumRecord):
                        self.view.replay(at, record)
            yield Appended(header.last_offset + 1, header.leader_epoch)

    def truncate(self, offset: int) -> Truncated:
        return Truncated(self.store.truncate(offset))

    def add_piece(self, piece: SnapshotPiece) -> tuple[SnapshotLoaded, Iterator[Message]] | None:
        """After the last piece: the snapshot is the log now; what it tells the quorum, and its records."""
        checkpoint = self._download.add(piece)
        if checkpoint is None:
            return None
        self.store.begin_at(piece.id)
        control = tuple(record for record in checkpoint.control if isinstance(record, QuorumRecord))
        return SnapshotLoaded(piece.id, control), checkpoint.records()

    async def write_snapshot(
        self,
        id: SnapshotId,
        records: list[VersionedRecord],
        *,
        high_watermark: int,
        max_retention_bytes: int,
        max_retention_ms: int,
    ) -> bool:
        """A snapshot of this node's own; the log is cut where that allows it. False: there is a newer one."""
        store = self.store
        if store.snapshots.ids() and id <= store.snapshots.ids()[-1]:
            # Of the leader's, which took the place of the log meanwhile.
            return False
        last_batch = store.batch_before(id.offset)
        if id.offset > high_watermark or last_batch is None or last_batch.leader_epoch != id.epoch:
            raise RusloError(
                f"a snapshot at offset {id.offset}, epoch {id.epoch} does not end with a committed batch; "
                f"the high watermark is {high_watermark}"
            )
        await asyncio.to_thread(
            store.snapshots.write,
            id,
            control=self.view.quorum_records_before(id.offset),
            records=records,
            last_timestamp_ms=last_batch.max_timestamp,
            now_ms=self._clock.now_ms(),
        )
        newest = store.snapshots.ids()[-1]
        if id < newest:
            # The leader's came while this one was written: the log begins behind it now.
            store.snapshots.delete_before(newest)
            return False
        store.cut(max_retention_bytes=max_retention_bytes, max_retention_ms=max_retention_ms)
        return True

    def close(self, *, in_order: bool) -> None:
        self._download.abandon()
        self.store.close(in_order=in_order)

    # -- reading ---------------------------------------------------------------------------------------------

    def read(self, from_offset: int, to_offset: int) -> Iterator[AppendedBatch | None]:
        """For ``CommitFeed``."""
        for header, batch in self.store.batches(from_offset, to_offset):
            records: list[Message] = []
            if not header.is_control:
                for record in read_data(batch):
                    records.append(record)
                    if len(records) % LONG_BATCH == 0:
                        yield None
            end_offset = header.last_offset + 1
            yield AppendedBatch(header.base_offset, end_offset, header.leader_epoch, header.size, records)

    def filled(self, answer: Answer) -> Answer:
        """The machine's answer with the bytes that go with it."""
        try:
            if isinstance(answer, FetchAnswer) and answer.records_from is not None:
                return replace(answer, records=self._batches_from(answer.records_from))
            if isinstance(answer, SnapshotAnswer) and answer.error is ErrorCode.NONE:
                size, piece = self.store.snapshots.piece(answer.id, answer.position, self._piece_bytes)
                return replace(answer, size=size, piece=piece)
        except KafkaError as error:
            return replace(answer, error=error.code)
        except DiskError as error:
            if error.fatal:
                raise
            # There was no descriptor left to open the file with; whoever asked comes again.
            logger.error("a piece of the metadata log cannot be handed out: %s", error)
            return replace(answer, error=ErrorCode.KAFKA_STORAGE_ERROR)
        return answer

    def _batches_from(self, offset: int) -> ReadBuffer:
        read = self.store.log.read(offset, self._fetch_bytes, self.store.end_offset)
        if read.slice is None:
            return b""
        content = read.slice.read()
        end = 0
        for position, header in iter_batches(content):
            end = position + header.size
        return memoryview(content)[:end]
