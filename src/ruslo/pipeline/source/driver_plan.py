"""Plans the tasks of a query on the driver, for batch and streaming queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ruslo.model.errors import ConfigError, ErrorCode, KafkaError
from ruslo.model.ids import ZERO_UUID, Uuid
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.source.data_loss import report_loss
from ruslo.pipeline.source.driver_client import DriverClient
from ruslo.pipeline.source.offsets import SourceOffsets
from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.planning import OffsetRange, plan_tasks
from ruslo.pipeline.source.scan_task import ScanTask
from ruslo.pipeline.source.subscription import Subscription

_UNMEASURED_OFFSETS_MAX: Final = 1000
"""Up to this many offsets become one task: measuring their size would take longer than it saves."""


def plan_scan(
    client: DriverClient,
    options: SourceOptions,
    topic_ids: Mapping[str, Uuid],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    min_timestamp: int | None = None,
) -> list[ScanTask]:
    """The tasks that read each partition from its start to its end, from ``min_timestamp`` on."""
    read = [partition for partition, end in ends.items() if end > starts[partition]]
    total = sum(ends[p] - starts[p] for p in read)
    sizes = client.bytes_per_offset(read) if total > _UNMEASURED_OFFSETS_MAX else dict.fromkeys(read, 1.0)
    ranges = [OffsetRange(p, topic_ids.get(p.topic, ZERO_UUID), starts[p], ends[p], sizes[p]) for p in read]
    if options.scan == "direct":
        from ruslo.pipeline.source.log_dirs import partition_directories

        directories = partition_directories(client, read, topic_ids)
        first = client.earliest(read)
        ranges = [
            replace(_above_log_start(r, first[r.partition], options), log_dir=directories[r.partition])
            for r in ranges
        ]
    tasks = plan_tasks(
        ranges,
        options.bytes_per_task,
        min_tasks=options.min_partitions,
        max_records_per_task=options.max_records_per_partition,
    )
    return [ScanTask(task, min_timestamp) for task in tasks]


def _above_log_start(offset_range: OffsetRange, first_offset: int, options: SourceOptions) -> OffsetRange:
    """Files keep deleted records until the segment is removed; only the broker knows its log start offset."""
    if offset_range.start >= first_offset:
        return offset_range
    report_loss(
        f"{offset_range.partition} starts at offset {first_offset} now: retention or a deletion removed "
        f"offsets {offset_range.start} to {min(first_offset, offset_range.end) - 1}",
        fail=options.fail_on_data_loss,
    )
    return replace(offset_range, start=min(first_offset, offset_range.end))


def check_nothing_missing(subscription: Subscription, found: Mapping[TopicPartition, object]) -> None:
    missing = subscription.missing(found)
    if missing:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{', '.join(missing)} does not exist: check the name, or create the topic",
        )


def check_dead_letter_topic(client: DriverClient, options: SourceOptions) -> None:
    topic = options.dead_letter_topic
    if topic is not None and not client.topic_exists(topic):
        raise ConfigError(
            f"deadLetterTopic {topic} does not exist: create it with `ruslo topic create {topic}`"
        )


def resume(
    began: SourceOffsets, until: SourceOffsets, client: DriverClient, *, fail_on_data_loss: bool
) -> dict[TopicPartition, int]:
    """The offset to read from for each partition of ``until``: the cluster may have changed since ``began``.

    Added partitions are read from their beginning. A deleted or recreated topic and a truncated log have lost
    records; failOnDataLoss decides what happens.
    """
    starts: dict[TopicPartition, int] = {}
    fresh: list[TopicPartition] = []
    recreated: set[str] = set()
    for partition, end in until.offsets.items():
        start = began.offsets.get(partition)
        if not began.same_topic(partition.topic, until):
            recreated.add(partition.topic)
            fresh.append(partition)
        elif start is None:
            fresh.append(partition)
        elif start > end:
            report_loss(
                f"{partition} ends at offset {end} now, but was read up to {start}", fail=fail_on_data_loss
            )
            starts[partition] = end
        else:
            starts[partition] = start
    for topic in sorted(recreated):
        report_loss(
            f"topic {topic} was deleted and recreated: unread records of the old topic are lost",
            fail=fail_on_data_loss,
        )
    deleted = [str(p) for p in began.offsets if p not in until.offsets and p.topic not in recreated]
    if deleted:
        report_loss(f"{', '.join(sorted(deleted))} does not exist anymore", fail=fail_on_data_loss)
    return {**starts, **(client.earliest(fresh) if fresh else {})}
