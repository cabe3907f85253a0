"""This node's replica of the metadata log; every change of it is reported as an event of the raft machine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ruslo.broker.quorum.commit_feed import AppendedBatch
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
from ruslo.machines.raft.effects import WriteSnapshotChunk
from ruslo.machines.raft.events import Appended, SnapshotLoaded, Truncated
from ruslo.machines.raft.log_view import LogView, QuorumRecord
from ruslo.machines.raft.rpc import RaftFetchResponse, RaftResponse, SnapshotResponse
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
        chunk_bytes=config.int("controller.quorum.fetch.snapshot.max.bytes"),
    )


class ReplicaLog:
    def __init__(
        self, store: MetadataStore, disk: Disk, clock: Clock, *, fetch_bytes: int, chunk_bytes: int
    ) -> None:
        """``fetch_bytes``, ``chunk_bytes``: limits of a fetch response and of a snapshot chunk."""
        self.store = store
        self.view: LogView = store.log_view()
        """The raft machine's view of the log; control records are replayed into it as they are written."""
        self._clock = clock
        self._download = SnapshotDownload(disk, store.snapshots)
        self._fetch_bytes = fetch_bytes
        self._chunk_bytes = chunk_bytes

    # -- on the leader ---------------------------------------------------------------------------------------

    def append(
        self, epoch: int, records: Sequence[VersionedRecord], values: Sequence[bytes] | None = None
    ) -> AppendedBatch:
        """Append one batch of metadata records. Raises KafkaError if it is too large, DiskError."""
        now_ms = self._clock.now_ms()
        base_offset = self.store.end_offset
        batch = data_batch(records, base_offset=base_offset, epoch=epoch, timestamp_ms=now_ms, values=values)
        if len(batch) > MAX_BATCH_BYTES:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{len(records)} metadata records take {len(batch)} bytes, but a change may take at most "
                f"{MAX_BATCH_BYTES}. Make the change in smaller steps",
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
            self.view.replay(record, offset)
        return AppendedBatch(base_offset, self.store.end_offset, epoch, len(batch), ())

    # -- on a follower ---------------------------------------------------------------------------------------

    def append_fetched(self, records: ReadBuffer, leader_epoch: int) -> None:
        """Append the leader's batches verbatim. Raises KafkaError if they do not fit, DiskError; the first
        batches may be in the log then."""
        self.store.log.append_follower(records, leader_epoch, self._clock.now_ms())

    def appended_since(self, offset: int) -> Iterator[Appended]:
        """An event for each batch that ``append_fetched`` has appended."""
        for header, batch in self.store.batches(offset, self.store.end_offset):
            if header.is_control:
                for at, record in read_control(batch):
                    if isinstance(record, QuorumRecord):
                        self.view.replay(record, at)
            yield Appended(header.last_offset + 1, header.leader_epoch)

    def truncate(self, offset: int) -> Truncated:
        return Truncated(self.store.truncate(offset))

    def add_chunk(self, chunk: WriteSnapshotChunk) -> tuple[SnapshotLoaded, Iterator[Message]] | None:
        """After the last chunk the snapshot replaces the log: returns the event and the metadata records."""
        checkpoint = self._download.add(chunk)
        if checkpoint is None:
            return None
        self.store.restart_at(chunk.id)
        control = tuple(record for record in checkpoint.control if isinstance(record, QuorumRecord))
        return SnapshotLoaded(chunk.id, control), checkpoint.records()

    async def write_snapshot(
        self,
        id: SnapshotId,
        records: list[VersionedRecord],
        *,
        high_watermark: int,
        max_retention_bytes: int,
        max_retention_ms: int,
    ) -> bool:
        """Write a snapshot and move the log start if retention allows it. False: there is a newer
        snapshot."""
        store = self.store
        if store.snapshots.ids() and id <= store.snapshots.ids()[-1]:
            # A snapshot of the leader has replaced the log meanwhile.
            return False
        last_batch = store.batch_before(id.offset)
        if id.offset > high_watermark or last_batch is None or last_batch.leader_epoch != id.epoch:
            raise RusloError(
                f"A snapshot at offset {id.offset}, epoch {id.epoch} does not end with a committed batch; "
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
            # A snapshot of the leader has replaced the log while this one was written.
            store.snapshots.delete_before(newest)
            return False
        store.apply_retention(max_retention_bytes=max_retention_bytes, max_retention_ms=max_retention_ms)
        return True

    def close(self, *, cleanly: bool) -> None:
        self._download.abandon()
        self.store.close(cleanly=cleanly)

    # -- reading ---------------------------------------------------------------------------------------------

    def read(self, from_offset: int, to_offset: int) -> Iterator[AppendedBatch | None]:
        """Whole batches for ``CommitFeed``; None after every record."""
        for header, batch in self.store.batches(from_offset, to_offset):
            records: list[Message] = []
            if not header.is_control:
                for record in read_data(batch):
                    records.append(record)
                    yield None
            end_offset = header.last_offset + 1
            yield AppendedBatch(header.base_offset, end_offset, header.leader_epoch, header.size, records)

    def with_bytes(self, response: RaftResponse) -> RaftResponse:
        """The machine's response, completed with records or a snapshot chunk."""
        try:
            if isinstance(response, RaftFetchResponse) and response.records_from is not None:
                return replace(response, records=self._batches_from(response.records_from))
            if isinstance(response, SnapshotResponse) and response.error is ErrorCode.NONE:
                size, chunk = self.store.snapshots.chunk(response.id, response.position, self._chunk_bytes)
                return replace(response, size=size, chunk=chunk)
        except KafkaError as error:
            return replace(response, error=error.code)
        except DiskError as error:
            if error.fatal:
                raise
            # No file descriptor was left to open the file with; the peer retries.
            logger.error("cannot read the metadata log for a peer: %s", error)
            return replace(response, error=ErrorCode.KAFKA_STORAGE_ERROR)
        return response

    def _batches_from(self, offset: int) -> ReadBuffer:
        read = self.store.log.read(offset, self._fetch_bytes, self.store.end_offset)
        if read.slice is None:
            return b""
        content = read.slice.read()
        end = 0
        for position, header in iter_batches(content):
            end = position + header.size
        return memoryview(content)[:end]
