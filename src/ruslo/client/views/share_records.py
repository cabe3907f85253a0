"""Acknowledges named records of a share group, without a consumer of the group.

Only a session that has acquired a record may acknowledge it, and a fetch cannot name offsets: it acquires the
first records that are available. So this acquires one record after the other up to the last named one,
acknowledges the named ones, and closes the session, which releases the others.

- A record that a consumer holds cannot be acquired before its lock expires.
- Every record that is acquired on the way counts one more delivery. Released at the delivery limit of the
  group, it is archived.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.configs import Resource
from ruslo.client.share.acknowledgements import SharePartitionId, acknowledgement_batches
from ruslo.client.share.broker_session import BrokerSession
from ruslo.client.share.session import FetchLimits
from ruslo.machines.share_partition.states import AcknowledgeType, AcquireMode
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import random_uuid, uuid_to_text
from ruslo.model.topics import TopicPartition

_DELIVERY_LIMIT = "share.delivery.count.limit"
_WAIT_MS = 500
_REQUEST_TIMEOUT_MS = 30_000
_ONE_RECORD: Final = FetchLimits(max_wait_ms=_WAIT_MS, max_records=1, mode=AcquireMode.RECORD_LIMIT)


@dataclass(slots=True)
class Outcome:
    """What became of the named records of one partition."""

    partition: TopicPartition
    acknowledged: dict[int, int] = field(default_factory=dict)
    """The delivery count by offset."""
    failed: dict[int, KafkaError] = field(default_factory=dict)
    unavailable: list[int] = field(default_factory=list)
    """Offsets that a consumer holds, or that are not delivered any more."""
    others: dict[int, int] = field(default_factory=dict)
    """Other records that were acquired on the way and released, with their delivery count."""
    archived: list[int] = field(default_factory=list)
    """Released records, named or not, that had reached the delivery limit."""


async def acknowledge_records(
    admin: Admin, group_id: str, named: Mapping[TopicPartition, Collection[int]], kind: AcknowledgeType
) -> list[Outcome]:
    """Raises OFFSET_OUT_OF_RANGE before anything is acquired if the log does not have an offset."""
    await _check_offsets(admin, named)
    limit = await _delivery_limit(admin, group_id)
    return [
        await _acknowledge(admin, group_id, partition, sorted(set(offsets)), kind, limit)
        for partition, offsets in sorted(named.items())
    ]


async def _acknowledge(
    admin: Admin,
    group_id: str,
    partition: TopicPartition,
    offsets: list[int],
    kind: AcknowledgeType,
    limit: int | None,
) -> Outcome:
    outcome = Outcome(partition)
    start = (await admin.share_group_offsets.fetch(group_id))[partition].start_offset
    pending = {offset for offset in offsets if start is None or offset >= start}
    share_partition = SharePartitionId(
        partition.topic, await admin.cluster.topic_id(partition.topic), partition.partition
    )
    (node_id,) = await admin.cluster.leaders([partition])
    session = BrokerSession(
        admin.cluster, node_id, group_id, uuid_to_text(random_uuid()), _REQUEST_TIMEOUT_MS
    )
    try:
        while pending:
            fetched = await session.fetch([share_partition], _ONE_RECORD)
            for error in fetched.errors.values():
                raise error
            acquired = {
                offset: each.delivery_count
                for found in fetched.acquired
                for each in found.ranges
                for offset in range(each.first, each.last + 1)
            }
            mine = {offset: count for offset, count in acquired.items() if offset in pending}
            if mine:
                batches = acknowledgement_batches(dict.fromkeys(mine, kind))
                results = await session.acknowledge({share_partition: batches})
                _note(outcome, mine, results[share_partition])
            pending -= mine.keys()
            outcome.others |= {offset: count for offset, count in acquired.items() if offset not in mine}
            if not acquired or max(acquired) >= offsets[-1]:
                # Records are acquired in the order of their offsets: the rest is not available.
                break
    finally:
        await session.close({})
    done = outcome.acknowledged.keys() | outcome.failed.keys()
    outcome.unavailable = [offset for offset in offsets if offset not in done]
    released = outcome.others | (outcome.acknowledged if kind is AcknowledgeType.RELEASE else {})
    if limit is not None:
        outcome.archived = sorted(offset for offset, count in released.items() if count >= limit)
    return outcome


def _note(outcome: Outcome, acquired: Mapping[int, int], error: KafkaError | None) -> None:
    if error is None:
        outcome.acknowledged |= acquired
    else:
        outcome.failed |= dict.fromkeys(acquired, error)


async def _check_offsets(admin: Admin, named: Mapping[TopicPartition, Collection[int]]) -> None:
    for partition, (first, end) in (await admin.offsets.ranges(named)).items():
        outside = [offset for offset in sorted(named[partition]) if not first <= offset < end]
        if outside:
            span = f"has offsets {first} to {end - 1}" if end > first else "has no records"
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{partition} has no offset {outside[0]}: it {span}"
            )


async def _delivery_limit(admin: Admin, group_id: str) -> int | None:
    try:
        entries = await admin.configs.describe(Resource.group(group_id), [_DELIVERY_LIMIT])
    except KafkaError:
        return None  # the caller may not describe the configs of the group
    values = [entry.value for entry in entries if entry.name == _DELIVERY_LIMIT]
    return int(values[0]) if values and values[0] is not None else None
