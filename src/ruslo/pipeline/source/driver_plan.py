"""From offsets to tasks: what batch and streaming queries share on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ruslo.model.errors import ConfigError, ErrorCode, KafkaError
from ruslo.model.ids import ZERO_UUID, Uuid
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.source.data_loss import report_loss
from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.planning import Span, plan_tasks
from ruslo.pipeline.source.scan_task import ScanTask
from ruslo.pipeline.source.subscription import Subscription
from ruslo.pipeline.source.survey import Survey

_FEW_OFFSETS: Final = 1000
"""So few are one task, whatever their size: asking for sizes would take longer than it saves."""


def plan_scan(
    survey: Survey,
    options: SourceOptions,
    topic_ids: Mapping[str, Uuid],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> list[ScanTask]:
    """The tasks that read each partition from its start to its end."""
    read = [partition for partition, end in ends.items() if end > starts[partition]]
    total = sum(ends[p] - starts[p] for p in read)
    sizes = survey.bytes_per_offset(read) if total > _FEW_OFFSETS else dict.fromkeys(read, 1.0)
    spans = [Span(p, topic_ids.get(p.topic, ZERO_UUID), starts[p], ends[p], sizes[p]) for p in read]
    if options.scan == "direct":
        from ruslo.pipeline.source.log_dirs import partition_directories

        directories = partition_directories(survey, read, topic_ids)
        first = survey.earliest(read)
        spans = [
            replace(_still_there(span, first[span.partition], options), log_dir=directories[span.partition])
            for span in spans
        ]
    tasks = plan_tasks(
        spans,
        options.bytes_per_task,
        min_tasks=options.min_partitions,
        max_records_per_task=options.max_records_per_partition,
    )
    return [ScanTask(task) for task in tasks]


def _still_there(span: Span, first_offset: int, options: SourceOptions) -> Span:
    """Files keep deleted records until a whole segment goes; only the broker knows where its log begins."""
    if span.start >= first_offset:
        return span
    report_loss(
        f"{span.partition} begins at offset {first_offset} now: retention or a deletion took offsets "
        f"{span.start} to {min(first_offset, span.end) - 1}",
        fail=options.fail_on_data_loss,
    )
    return replace(span, start=min(first_offset, span.end))


def check_nothing_missing(subscription: Subscription, found: Mapping[TopicPartition, object]) -> None:
    missing = subscription.missing(found)
    if missing:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{', '.join(missing)} does not exist: check the name, or create the topic first",
        )


def check_dead_letter_topic(survey: Survey, options: SourceOptions) -> None:
    topic = options.dead_letter_topic
    if topic is not None and not survey.topic_exists(topic):
        raise ConfigError(
            f"deadLetterTopic {topic} does not exist: create it first, as with `ruslo topic create {topic}`"
        )
