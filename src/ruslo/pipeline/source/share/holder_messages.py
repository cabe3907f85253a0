"""Messages between the driver's reader and the process that holds the locks: pickles with their lengths."""

from __future__ import annotations

import pickle
import struct
from typing import IO, Final, NamedTuple

from ruslo.client.share.acknowledgements import SharePartitionId
from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.machines.share_partition.values import AcquiredRange
from ruslo.pipeline.client_properties import ClientProperties
from ruslo.pipeline.source.share.offset_ranges import OffsetRanges

_LENGTH: Final = struct.Struct(">I")


class Join(NamedTuple):
    """The first message."""

    client: ClientProperties
    group_id: str
    topics: tuple[str, ...]
    on_failure: AcknowledgeType
    """What happens to the records of the last batch when the reader ends before its next message."""
    unaccepted: dict[SharePartitionId, OffsetRanges]


class NextBatch(NamedTuple):
    """Accept the records of the finished batch, and lock those of the next one."""

    processed: dict[SharePartitionId, OffsetRanges]
    max_records: int | None
    is_last: bool


class Release(NamedTuple):
    """Give back all locked records."""


class Batch(NamedTuple):
    """The response to NextBatch."""

    records: dict[SharePartitionId, tuple[AcquiredRange, ...]]
    unaccepted: dict[SharePartitionId, OffsetRanges]


class Failed(NamedTuple):
    """The response to a message that failed."""

    code: int | None
    """The error code of a KafkaError."""
    message: str


def write_message(stream: IO[bytes], message: object) -> None:
    data = pickle.dumps(message)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def read_message(stream: IO[bytes]) -> object:
    """The next message; None when the other process has ended."""
    header = stream.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(header)
    data = stream.read(length)
    return pickle.loads(data) if len(data) == length else None
