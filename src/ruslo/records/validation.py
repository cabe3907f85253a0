"""Validates a produced batch before a leader appends it.

``accept_batch`` does all steps. The hot path calls them one by one, because most batches need only the
first::

    header = check_batch(view, rules)                      # header and CRC; raises BatchRefused
    if needs_work(header, rules, now_ms):                  # False for nearly every batch
        view, header, time = finish_batch(view, header, rules, now_ms)
    patch(view, base_offset, leader_epoch)

Kafka decodes every record. Ruslo decodes records only in these cases, so its errors differ from Kafka's only
if records contradict a valid header:

* The topic is compacted (records need keys), has its own codec, or has ``ruslo.record.validation=full``.
* It has ``max.decompressed.message.bytes`` and the batch is compressed.
* The header has a timestamp outside the allowed range, a max timestamp below the base timestamp, or the
  LogAppendTime bit.
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
    """Check the records of one partition and convert them for the topic; raises BatchRefused."""
    header = check_batch(view, rules)
    if needs_work(header, rules, now_ms):
        return finish_batch(view, header, rules, now_ms)
    return AcceptedBatch(view[: header[LENGTH] + LENGTH_OVERHEAD], header, NO_LOG_APPEND_TIME)


def needs_work(header: HeaderFields, rules: BatchRules, now_ms: int) -> bool:
    """Whether records must be decoded, or anything but offset and leader epoch must be changed."""
    return rules.log_append_time or needs_records(header, rules, now_ms)


def needs_records(header: HeaderFields, rules: BatchRules, now_ms: int) -> bool:
    """Whether the records inside must be decoded."""
    _, _, _, _, _, attributes, _, base_timestamp, max_timestamp, _, _, _, _ = header
    if rules.decodes_all or attributes & rules.decoded_attributes:
        return True
    if rules.target_codec != KEEP_CODEC and rules.target_codec != attributes & CODEC_MASK:
        return True
    return not rules.log_append_time and (
        max_timestamp > now_ms + rules.after_max_ms
        or base_timestamp < now_ms - rules.before_max_ms
        or max_timestamp < base_timestamp
    )


def finish_batch(view: memoryview, header: HeaderFields, rules: BatchRules, now_ms: int) -> AcceptedBatch:
    """The other steps of ``accept_batch``, for a batch that ``needs_work``."""
    if needs_records(header, rules, now_ms):
        return validate_records(view, header, rules, now_ms)
    return stamp_log_append_time(view[: header[LENGTH] + LENGTH_OVERHEAD], header, now_ms)


def patch(batch: WriteBuffer, base_offset: int, leader_epoch: int) -> None:
    """Set base offset and leader epoch in place: the CRC does not cover them."""
    BASE_OFFSET_STRUCT.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, LEADER_EPOCH_AT, leader_epoch)
