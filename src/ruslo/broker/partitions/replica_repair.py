"""Repairs damaged ranges of a log with the records of another replica.

Records below the high watermark are committed: every in-sync replica has them at the same offsets, and they
never change. So a damaged range is fetched as a consumer fetches, from a follower or a leader. Neither the
leader nor the ISR changes, and nothing is truncated. A new segment is written from the intact batches and the
fetched ones, and replaces the damaged segment as a compacted one does (``segment_swap``): a crash at any time
leaves one of the two.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from ruslo.broker.metadata.broker_links import BrokerLinks
from ruslo.broker.partitions.compaction import Compaction
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.partitions.partition import Partition
from ruslo.machines.controller.image import MetadataImage
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.log_ids import log_ids
from ruslo.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ruslo.protocol.messages.fetch_response import FetchResponse
from ruslo.records.batch import BASE_OFFSET, LAST_OFFSET_DELTA
from ruslo.storage.batch_scan import buffer_headers, check_batches
from ruslo.storage.damage import Damage
from ruslo.storage.disk import DiskError
from ruslo.storage.log import Log
from ruslo.storage.scrub import SegmentScrub
from ruslo.storage.segment_repair import SegmentRepair
from ruslo.storage.segment_swap import SegmentSwap

logger = logging.getLogger(__name__)

FETCH_BYTES = 1 << 20
FETCH_MAX_WAIT_MS = 500


@dataclass(frozen=True, slots=True)
class ReplicaRepair:
    node_id: int
    image: Callable[[], MetadataImage]
    partitions: PartitionManager
    compaction: Compaction
    links: BrokerLinks

    async def repair(self, scrub: SegmentScrub) -> bool:
        """Replace the damaged ranges that a scrub of a segment found; returns whether that succeeded."""
        log = scrub.log
        partition = self._partition_of(log)
        if partition is None or max(each.end_offset for each in scrub.damage) > log.high_watermark:
            return False
        if not self.compaction.reserve(log):
            return False
        ids = log_ids(partition=log.partition)
        try:
            for broker_id in self._other_replicas(partition):
                try:
                    if await self._repair_from(broker_id, partition, scrub):
                        logger.warning(
                            "Repaired the segment at offset %d: fetched %s from broker %d.",
                            scrub.segment.base_offset,
                            "; ".join(
                                f"offsets {d.first_offset} to {d.end_offset - 1}" for d in scrub.damage
                            ),
                            broker_id,
                            extra=ids,
                        )
                        return True
                except KafkaError as error:
                    logger.info("Cannot repair the log from broker %d: %s", broker_id, error, extra=ids)
        except DiskError as error:
            error.fatal = error.fatal and not error.disk_full
            self.partitions.storage_failed(error)
        finally:
            self.compaction.release(log)
        return False

    def has_source(self, log: Log) -> bool:
        """Whether there is another replica to repair a log from."""
        partition = self._partition_of(log)
        return partition is not None and bool(self._other_replicas(partition))

    def _partition_of(self, log: Log) -> Partition | None:
        return self.partitions.by_name.get(log.partition.topic, {}).get(log.partition.partition)

    def _other_replicas(self, partition: Partition) -> list[int]:
        topic = self.image().topics.by_id.get(partition.topic_id)
        if topic is None or partition.index >= len(topic.partitions):
            return []
        return [each for each in topic.partitions[partition.index].isr if each != self.node_id]

    async def _repair_from(self, broker_id: int, partition: Partition, scrub: SegmentScrub) -> bool:
        log = scrub.log
        if scrub.segment is log.active:
            # Only a closed segment can be replaced.
            log.roll(log.end_offset, log.flushed_ms)
        rewrite = SegmentRepair(log, scrub.segment)
        try:
            pieces: list[tuple[int, Damage | None, tuple[int, int]]] = [
                (start, None, (start, stop)) for start, stop in scrub.sound
            ]
            position_of = scrub.position_of
            pieces += [(position_of(damage), damage, (0, 0)) for damage in scrub.damage]
            # Batches that were appended to the active segment since its scrub.
            pieces.append((scrub.size, None, (scrub.size, scrub.segment.size)))
            for _, damage, (start, stop) in sorted(pieces, key=lambda piece: (piece[0], piece[1] is None)):
                if damage is None:
                    await asyncio.to_thread(rewrite.copy, start, stop)
                else:
                    await self._fetch(broker_id, partition, damage, rewrite)
            cleaned = await asyncio.to_thread(rewrite.finish)
        except BaseException:
            rewrite.discard()
            raise
        swap = SegmentSwap(log, cleaned, log.flushed_ms)
        if log.swap is not None or log.truncations != scrub.truncations or not swap.begin():
            rewrite.discard()
            return False
        log.damage.forget_segment(scrub.segment.base_offset)
        await asyncio.to_thread(swap.retire_old_segments)
        if log.failure is None:
            swap.finish()
        self.compaction.on_repaired(log)
        return True

    async def _fetch(
        self, broker_id: int, partition: Partition, damage: Damage, rewrite: SegmentRepair
    ) -> None:
        """Add the other replica's batches of a damaged range."""
        offset = damage.first_offset
        while offset < damage.end_offset:
            records = await self._fetch_once(broker_id, partition, offset)
            batches = list(buffer_headers(records))
            if not batches:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"it sent no whole batch from offset {offset}")
            for position, header in batches:
                if header[BASE_OFFSET] >= damage.end_offset:
                    # Compaction removed the rest of the range.
                    return
                last_offset = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA]
                if last_offset >= damage.end_offset:
                    raise KafkaError(ErrorCode.INVALID_RECORD, "a batch extends beyond the damaged range")
                check_batches(records, [(position, header)], offset)
                rewrite.add(records, position, header)
                offset = last_offset + 1

    async def _fetch_once(self, broker_id: int, partition: Partition, offset: int) -> memoryview:
        request = FetchRequest(
            max_wait_ms=FETCH_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            session_epoch=-1,
            topics=[
                FetchTopic(
                    topic=partition.topic,
                    topic_id=partition.topic_id,
                    partitions=[
                        FetchPartition(
                            partition=partition.index,
                            fetch_offset=offset,
                            partition_max_bytes=FETCH_BYTES,
                        )
                    ],
                )
            ],
        )
        response = await self.links.request(broker_id, request, FetchResponse)
        assert isinstance(response, FetchResponse)
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code))
        (data,) = response.responses[0].partitions
        if data.error_code:
            raise KafkaError(ErrorCode(data.error_code))
        return memoryview(data.records or b"")
