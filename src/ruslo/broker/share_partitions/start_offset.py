"""Where a share group starts in a partition of which it has no state (``share.auto.offset.reset``)."""

from __future__ import annotations

from ruslo.broker.partitions.partition import Partition
from ruslo.config.iso_duration import iso_duration_ms
from ruslo.model.errors import ErrorCode, KafkaError

_BY_DURATION = "by_duration:"


def initial_offset(partition: Partition, reset: str, now_ms: int) -> int:
    """The offset; raises KafkaError, also while a new leader does not know the end offset (KIP-207)."""
    log = partition.log
    if reset == "earliest":
        return log.start_offset
    partition.require_end_offset()
    if reset == "latest":
        return log.high_watermark
    duration_ms = iso_duration_ms(reset.removeprefix(_BY_DURATION))
    assert duration_ms is not None, "the validator has accepted the config"
    found = log.offset_for_timestamp(now_ms - duration_ms, log.high_watermark)
    if found is None:
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"{partition} has no record of the last {duration_ms} ms, where share.auto.offset.reset={reset} "
            "begins. The group starts when a record is produced.",
        )
    return found.offset
