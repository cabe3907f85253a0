"""What a leader does to the records of one partition in a Produce request: the front door.

``accept_batch`` does all of it. The hot path takes the same steps one by one, because most batches need
only the first::

    header = check_batch(view, rules)                      # header and CRC; raises BatchRefused
    if needs_work(header, rules, now_ms):                  # False for nearly every batch
        view, header, time = finish_batch(view, header, rules, now_ms)
    patch(view, base_offset, leader_epoch)

Kafka decodes every record. Here the records are decoded when the topic needs it (compacted: keys; a codec
of its own), asks for it (``ruslo.record.validation=full``), or when the header looks odd: a timestamp
outside the allowed range, a maximum below the first timestamp, the LogAppendTime bit. So the answers are
Kafka's, but for records that contradict a header which looks right.
"""

from __future__ import annotations

import struct
from typing import Final

from ruslo.model.buffers import WriteBuffer
from ruslo.records.batch import (
    BASE_OFFSET_STRUCT,
    CODEC_MASK,
    LEADER_EPOCH_AT,
    LENGTH,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    HeaderFields,
)
from ruslo.records.header_check import check_batch
from ruslo.records.record_check import (
    NO_LOG_APPEND_TIME,
    AcceptedBatch,
    stamp_log_append_time,
    validate_records,
)
from ruslo.records.rules import KEEP_CODEC, BatchRefused, BatchRules, RecordError

__all__ = [
    "AcceptedBatch",
    "BatchRefused",
    "BatchRules",
    "HeaderFields",
    "NO_LOG_APPEND_TIME",
    "RecordError",
    "accept_batch",
    "check_batch",
    "finish_batch",
    "needs_records",
    "needs_work",
    "patch",
    "stamp_log_append_time",
    "validate_records",
]

_LEADER_EPOCH: Final = struct.Struct(">i")


def accept_batch(view: memoryview, rules: BatchRules, now_ms: int) -> AcceptedBatch:
    """Check one partition's payload and make it fit the topic; raises BatchRefused."""
    header = check_batch(view, rules)
    if needs_work(header, rules, now_ms):
        return finish_batch(view, header, rules, now_ms)
    return AcceptedBatch(view[: header[LENGTH] + LENGTH_OVERHEAD], header, NO_LOG_APPEND_TIME)


def needs_work(header: HeaderFields, rules: BatchRules, now_ms: int) -> bool:
    """Whether more than header and CRC must be looked at, or anything but offset and epoch changed."""
    return rules.log_append_time or needs_records(header, rules, now_ms)


def needs_records(header: HeaderFields, rules: BatchRules, now_ms: int) -> bool:
    """Whether the records inside must be decoded."""
    _, _, _, _, _, attributes, _, base_timestamp, max_timestamp, _, _, _, _ = header
    if rules.decodes_all or attributes & LOG_APPEND_TIME:
        return True
    if rules.target_codec != KEEP_CODEC and rules.target_codec != attributes & CODEC_MASK:
        return True
    return not rules.log_append_time and (
        max_timestamp > now_ms + rules.after_max_ms
        or base_timestamp < now_ms - rules.before_max_ms
        or max_timestamp < base_timestamp
    )


def finish_batch(view: memoryview, header: HeaderFields, rules: BatchRules, now_ms: int) -> AcceptedBatch:
    """The rest of ``accept_batch`` for a batch that ``needs_work``."""
    if needs_records(header, rules, now_ms):
        return validate_records(view, header, rules, now_ms)
    return stamp_log_append_time(view[: header[LENGTH] + LENGTH_OVERHEAD], header, now_ms)


def patch(batch: WriteBuffer, base_offset: int, leader_epoch: int) -> None:
    """Give a batch its place in the log, in place: both fields lie outside the CRC."""
    BASE_OFFSET_STRUCT.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, LEADER_EPOCH_AT, leader_epoch)
