"""Where reading continues in a cluster that has changed since the last batch.

Added partitions are read from their beginning. A deleted or recreated topic and a truncated log have lost
records; failOnDataLoss decides what happens.
"""

from __future__ import annotations

from ruslo.model.topics import TopicPartition
from ruslo.pipeline.source.data_loss import report_loss
from ruslo.pipeline.source.driver_client import DriverClient
from ruslo.pipeline.source.offsets import SourceOffsets


def resume(
    began: SourceOffsets, until: SourceOffsets, client: DriverClient, *, fail_on_data_loss: bool
) -> dict[TopicPartition, int]:
    """The offset to read from for each partition of ``until``."""
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
