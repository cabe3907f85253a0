"""Reads keys and delays of records, for groups with ``ruslo.share.order`` or ``ruslo.share.delay.header``.

This is the only place where a share fetch decodes records, so only these groups pay for it. The result is
kept with the share-partition: a fetch that takes a part of a batch does not have it decoded again.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from xxhash import xxh3_64_intdigest

from ruslo.broker.share_partitions.group_config import ShareGroupConfig
from ruslo.broker.share_partitions.log_batches import LogBatches
from ruslo.machines.share_partition.values import DeliveryRule
from ruslo.model.errors import ProtocolError
from ruslo.records.reader import iter_batches, read_records
from ruslo.records.record import Record

logger = logging.getLogger(__name__)

MAX_DECODED_BYTES = 1 << 17
"""Bytes of the log that one fetch of such a group reads from a partition, unless one batch is larger."""
MAX_RECORDS = 20_000
MAX_DECOMPRESSED_BYTES = 16 << 20
"""Larger batches are delivered without order and delay: decoding one would stop the broker for too long."""
MAX_DELAY_MS = 7 * 24 * 3_600_000
"""A later delivery time counts as this delay: a wrong unit must not lock a record for centuries."""


class DecodedRules(NamedTuple):
    first: int
    last: int
    """The offsets of the batches that were decoded."""
    config: ShareGroupConfig
    rules: Sequence[DeliveryRule]
    """With the wall-clock time in ``not_before_ms``."""


def decode_rules(batches: LogBatches, config: ShareGroupConfig) -> DecodedRules:
    """The rules of all records in these batches that have one; a batch that cannot be decoded has none."""
    rules: list[DeliveryRule] = []
    data = memoryview(
        batches.read.file.pread(batches.ends[-1] - batches.read.position, batches.read.position)
    )
    for position, header in iter_batches(data):
        try:
            if header.count > MAX_RECORDS:
                raise ProtocolError(f"the batch at offset {header.base_offset} has {header.count} records")
            for record in read_records(data[position : position + header.size], MAX_DECOMPRESSED_BYTES):
                key = _key_hash(record) if config.is_ordered_by_key else None
                due_ms = _due_ms(record, config.delay_header) if config.delay_header else 0
                if key is not None or due_ms:
                    rules.append(DeliveryRule(record.offset, key, due_ms))
        except ProtocolError as error:
            logger.warning("Records are delivered without order and delay: %s", error)
    return DecodedRules(batches.ranges[0].first, batches.ranges[-1].last, config, rules)


def rules_from(
    decoded: DecodedRules, offset: int, count: int, now_ms: int, wall_ms: int
) -> list[DeliveryRule]:
    """The rules of ``count`` offsets from ``offset`` on, with times on the clock of the share-partition."""
    begin, end = (bisect_left(decoded.rules, each, key=_offset_of) for each in (offset, offset + count))
    return [
        rule._replace(not_before_ms=now_ms + min(rule.not_before_ms - wall_ms, MAX_DELAY_MS))
        if rule.not_before_ms > wall_ms
        else rule._replace(not_before_ms=0)
        for rule in decoded.rules[begin:end]
    ]


def _offset_of(rule: DeliveryRule) -> int:
    return rule.offset


def _key_hash(record: Record) -> int | None:
    """A signed hash of the key; two keys with the same hash wait for each other, which is harmless."""
    if record.key is None:
        return None
    return xxh3_64_intdigest(record.key) - (1 << 63)


def _due_ms(record: Record, header: str) -> int:
    """The delivery time of a record; 0 if its header is absent or is not a time."""
    for name, value in record.headers:
        if name == header and value is not None:
            text = bytes(value[:_LONGEST_TIME]).decode("ascii", "replace")
            is_relative = text.startswith("+")
            digits = text[1:] if is_relative else text
            if digits.isascii() and digits.isdigit():
                return int(digits) + (record.timestamp if is_relative else 0)
    return 0


_LONGEST_TIME = 20
