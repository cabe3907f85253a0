"""Acquires records for the driver and keeps them locked while Spark processes them.

It is the query's member of the share group: it sends heartbeats, fetches, and renews locks at a third of
their duration. ``holder_main`` runs it in a process of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from ruslo.client.share.acknowledgements import Acknowledgements, SharePartitionId
from ruslo.client.share.acquired import Acquired
from ruslo.client.share.session import FetchLimits
from ruslo.client.share.share_client import ShareClient
from ruslo.machines.share_partition.states import AcknowledgeType, AcquireMode
from ruslo.machines.share_partition.values import AcknowledgementBatch, AcquiredRange
from ruslo.model.clock import SystemClock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.net.errors import RequestTimedOut
from ruslo.pipeline.client_properties import ClientProperties
from ruslo.pipeline.source.share.offset_ranges import (
    OffsetRanges,
    difference,
    intersection,
    newest,
    union,
)
from ruslo.pipeline.source.share.plan import merged

Ranges: TypeAlias = Mapping[SharePartitionId, OffsetRanges]

_log = logging.getLogger(__name__)
_FETCH_RECORDS: Final = 10_000
_BATCH_RECORDS_MAX: Final = 100_000
"""The records of a micro-batch without maxOffsetsPerTrigger; the brokers' lock limits are usually lower."""
_WAIT_MS: Final = 100
_LAST_WAIT_MS: Final = 1_000
"""How long to wait for records before a query with trigger AvailableNow ends."""
_ASSIGNMENT_TIMEOUT_MS: Final = 5_000
_UNACCEPTED_MAX: Final = 10_000
"""Offsets to remember per partition: more cannot be in flight, so older ones are not delivered again."""
_RENEWALS_PER_LOCK: Final = 3
_STOP_TIMEOUT_S: Final = 10.0


class Held(NamedTuple):
    """A range whose lock this member has, and the leader that knows it."""

    range: AcquiredRange
    node_id: int
    renews: bool = True
    """False after a renewal failed: the lock has expired, or will."""


class AcquiredRecords(NamedTuple):
    records: dict[SharePartitionId, tuple[AcquiredRange, ...]]
    """Locked, and not processed yet."""
    unaccepted: Ranges
    """Processed records that the group may deliver again."""


class LockHolder:
    """Created within an event loop. Calls must not overlap."""

    def __init__(self, client: ClientProperties, group_id: str, topics: Iterable[str]) -> None:
        self._properties = client
        self._group_id = group_id
        self._held: dict[SharePartitionId, list[Held]] = {}
        self._unaccepted: dict[SharePartitionId, OffsetRanges] = {}
        self._clock = SystemClock()
        self._turn = asyncio.Lock()
        """Records must not be accepted while their renewal waits for the connection: it would fail."""
        self._cluster = client.new_cluster()
        self._client = ShareClient(
            self._cluster, group_id, tuple(topics), request_timeout_ms=client.request_timeout_ms
        )
        self._client.start()
        self._renewal = asyncio.create_task(self._keep_renewing())

    def expect(self, processed: Ranges) -> None:
        """These records are processed: accept them without delivery if the group delivers them again."""
        for partition, ranges in processed.items():
            known = self._unaccepted.get(partition, ())
            self._unaccepted[partition] = newest(union(known, ranges), _UNACCEPTED_MAX)

    async def release(self) -> None:
        """Give back all records that are locked."""
        await self._acknowledge_held(AcknowledgeType.RELEASE)

    async def stop(self, on_unfinished: AcknowledgeType) -> None:
        """Acknowledge the records of the unfinished batch, and leave the group."""
        self._renewal.cancel()
        try:
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                # Closing the sessions releases what is still locked.
                if on_unfinished is not AcknowledgeType.RELEASE:
                    await self._acknowledge_held(on_unfinished)
                await self._client.close({})
        except TimeoutError:
            _log.warning("left share group %s without a response of a broker", self._group_id)
        finally:
            await self._cluster.close()

    # -- acquire

    async def acquire(self, max_records: int | None, *, is_last: bool) -> AcquiredRecords:
        """Lock records that are not processed.

        ``is_last``: the query ends if there are none, so all partitions must have been fetched. Raises
        RequestTimedOut if their leaders do not respond for ``default.api.timeout.ms``.
        """
        limit_ms = self._properties.api_timeout_ms if is_last else _ASSIGNMENT_TIMEOUT_MS
        deadline_ms = self._clock.monotonic_ms() + limit_ms
        left = _BATCH_RECORDS_MAX if max_records is None else max_records
        mode = AcquireMode.BATCH_OPTIMIZED if max_records is None else AcquireMode.RECORD_LIMIT
        wait_ms = _LAST_WAIT_MS if is_last else _WAIT_MS
        fresh: dict[SharePartitionId, list[AcquiredRange]] = {}
        while left > 0:
            found, is_complete = await self._fetch(left, mode, 0 if fresh else wait_ms)
            for acquired in found:
                ranges = self._new_ranges(acquired)
                if ranges:
                    fresh.setdefault(acquired.partition, []).extend(ranges)
                left -= sum(each.last - each.first + 1 for each in ranges)
            await self._accept_again(found)
            if found:
                continue
            is_late = self._clock.monotonic_ms() >= deadline_ms
            if is_late and is_last and not is_complete and not fresh:
                raise RequestTimedOut(
                    f"share group {self._group_id}: within {limit_ms} ms the query got no partition, or no "
                    "response of a leader"
                )
            # A new member gets its partitions after a moment.
            if fresh or is_complete or is_late or (self._client.member.assigned and not is_last):
                break
        records = {partition: merged(ranges) for partition, ranges in sorted(fresh.items())}
        return AcquiredRecords(records, dict(self._unaccepted))

    async def _fetch(self, max_records: int, mode: AcquireMode, wait_ms: int) -> tuple[list[Acquired], bool]:
        """What was acquired, and whether all assigned partitions were fetched."""
        leaders = await self._client.leaders()
        if not leaders:
            await asyncio.sleep(_WAIT_MS / 1000)
            return [], False
        known = sum(len(partitions) for partitions in leaders.values())
        # The limit is for all leaders together, but each may give one record.
        each_records = max(1, min(_FETCH_RECORDS, max_records // len(leaders)))
        limits = FetchLimits(max_wait_ms=wait_ms, max_records=each_records, mode=mode)
        fetched = await asyncio.gather(
            *(self._client.fetch(node, partitions, limits) for node, partitions in leaders.items())
        )
        acquired = [each for found in fetched for each in found.acquired]
        for each in acquired:
            held = self._held.setdefault(each.partition, [])
            held += [Held(found, each.node_id) for found in each.ranges]
        is_complete = known == len(self._client.member.assigned)
        return acquired, is_complete and not any(found.errors for found in fetched)

    def _new_ranges(self, acquired: Acquired) -> list[AcquiredRange]:
        """The acquired records without those that are processed."""
        known = self._unaccepted.get(acquired.partition, ())
        return [
            AcquiredRange(first, last, each.delivery_count)
            for each in acquired.ranges
            for first, last in difference([(each.first, each.last)], known)
        ]

    async def _accept_again(self, found: Iterable[Acquired]) -> None:
        again: dict[SharePartitionId, OffsetRanges] = {}
        for acquired in found:
            known = self._unaccepted.get(acquired.partition, ())
            ranges = intersection([(each.first, each.last) for each in acquired.ranges], known)
            if ranges:
                again[acquired.partition] = union(again.get(acquired.partition, ()), ranges)
        if again:
            await self.finish(again)

    # -- acknowledge

    async def finish(self, processed: Ranges) -> None:
        """Accept the records of a batch that is processed."""
        self.expect(processed)
        async with self._turn:
            accepted = await asyncio.gather(
                *(self._accept(partition, ranges) for partition, ranges in processed.items())
            )
        for partition, ranges in zip(processed, accepted, strict=True):
            left = difference(self._unaccepted.get(partition, ()), ranges)
            if left:
                self._unaccepted[partition] = left
            else:
                self._unaccepted.pop(partition, None)

    async def _accept(self, partition: SharePartitionId, ranges: OffsetRanges) -> OffsetRanges:
        """The offsets of ``ranges`` that are accepted now."""
        wanted: list[Held] = []
        others: list[Held] = []
        for held in self._held.pop(partition, []):
            whole = [(held.range.first, held.range.last)]
            wanted += [_part(held, each) for each in intersection(whole, ranges)]
            others += [_part(held, each) for each in difference(whole, ranges)]
        if others:
            self._held[partition] = others
        accepted = await self._acknowledge(partition, wanted, AcknowledgeType.ACCEPT)
        return union((held.range.first, held.range.last) for held in accepted)

    async def _acknowledge_held(self, kind: AcknowledgeType) -> None:
        async with self._turn:
            held, self._held = self._held, {}
            await asyncio.gather(
                *(self._acknowledge(partition, ranges, kind) for partition, ranges in held.items())
            )

    async def _acknowledge(
        self, partition: SharePartitionId, ranges: list[Held], kind: AcknowledgeType
    ) -> list[Held]:
        """The ranges that the leaders acknowledged."""
        by_node: dict[int, list[Held]] = {}
        for held in ranges:
            by_node.setdefault(held.node_id, []).append(held)
        found = await asyncio.gather(
            *(self._acknowledge_at(node_id, partition, owned, kind) for node_id, owned in by_node.items())
        )
        return [held for accepted in found for held in accepted]

    async def _acknowledge_at(
        self, node_id: int, partition: SharePartitionId, ranges: list[Held], kind: AcknowledgeType
    ) -> list[Held]:
        """A leader acknowledges all ranges of a partition or none: halving finds those that have expired."""
        batches = [AcknowledgementBatch(held.range.first, held.range.last, (kind,)) for held in ranges]
        request: dict[int, Acknowledgements] = {node_id: {partition: batches}}
        error = (await self._client.acknowledge(request))[node_id][partition]
        if error is None:
            return ranges
        if error.code == ErrorCode.INVALID_RECORD_STATE and len(ranges) > 1:
            middle = len(ranges) // 2
            halves = (ranges[:middle], ranges[middle:])
            found = [await self._acknowledge_at(node_id, partition, half, kind) for half in halves]
            return [held for accepted in found for held in accepted]
        self._note_failure(partition, ranges, kind, error)
        return []

    def _note_failure(
        self, partition: SharePartitionId, ranges: list[Held], kind: AcknowledgeType, error: KafkaError
    ) -> None:
        first, last = ranges[0].range.first, ranges[-1].range.last
        offsets = f"offset {first}" if first == last else f"offsets {first} to {last}"
        where = f"{partition.topic_partition} {offsets}"
        if kind is AcknowledgeType.RENEW:
            _log.warning(
                "share group %s: the locks of %s cannot be renewed (%s). Other consumers of the group get "
                "these records, too, unless the batch ends before the locks",
                self._group_id,
                where,
                error,
            )
        else:
            _log.warning(
                "share group %s: %s of %s failed: %s", self._group_id, kind.name.lower(), where, error
            )

    # -- renew

    async def _keep_renewing(self) -> None:
        while True:
            lock_ms = self._client.lock_timeout_ms or 1_000
            await asyncio.sleep(lock_ms / 1000 / _RENEWALS_PER_LOCK)
            for partition in list(self._held):
                async with self._turn:
                    await self._renew(partition)

    async def _renew(self, partition: SharePartitionId) -> None:
        ranges = [held for held in self._held.get(partition, ()) if held.renews]
        renewed = await self._acknowledge(partition, ranges, AcknowledgeType.RENEW)
        failed = set(ranges).difference(renewed)
        # Meanwhile some ranges may have been accepted, and others acquired.
        self._held[partition] = [
            held._replace(renews=held.renews and held not in failed) for held in self._held.get(partition, ())
        ]


def _part(held: Held, offsets: tuple[int, int]) -> Held:
    first, last = offsets
    return held._replace(range=AcquiredRange(first, last, held.range.delivery_count))
