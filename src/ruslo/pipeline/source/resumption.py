"""Where reading goes on in a cluster that has changed since the last batch.

Partitions that were added are read from their beginning. A topic that was deleted, or created anew under
its name, and a log that has become shorter, have lost records; failOnDataLoss decides what follows.
"""

from __future__ import annotations

from ruslo.model.topics import TopicPartition
from ruslo.pipeline.source.data_loss import report_loss
from ruslo.pipeline.source.offsets import SourceOffsets
from ruslo.pipeline.source.survey import Survey


def resume(
    began: SourceOffsets, until: SourceOffsets, survey: Survey, *, fail_on_data_loss: bool
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
            report_loss(f"{partition} ends at offset {end} now, {start} was read", fail=fail_on_data_loss)
            starts[partition] = end
        else:
            starts[partition] = start
    for topic in sorted(recreated):
        report_loss(
            f"topic {topic} was deleted and created anew: what the old one held and was not read is gone",
            fail=fail_on_data_loss,
        )
    vanished = [str(p) for p in began.offsets if p not in until.offsets and p.topic not in recreated]
    if vanished:
        report_loss(f"{', '.join(sorted(vanished))} does not exist any more", fail=fail_on_data_loss)
    return {**starts, **(survey.earliest(fresh) if fresh else {})}
