"""The names of a partition directory and of its files, and ``partition.metadata``."""

from __future__ import annotations

from collections.abc import Iterable

from ruslo.model.errors import CorruptLogError
from ruslo.model.ids import ZERO_UUID, Uuid, uuid_from_text, uuid_to_text
from ruslo.model.topics import TopicPartition
from ruslo.storage.producer_snapshot import SNAPSHOT_SUFFIX
from ruslo.storage.segment import LOG_SUFFIX

PARTITION_METADATA = "partition.metadata"
DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
FUTURE_SUFFIX = "-future"

OFFSET_DIGITS = 20
_MAX_NAME_BYTES = 255


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition whose directory has this name; None if it is not such a name."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not number.isascii() or not number.isdigit():
        return None
    return TopicPartition(topic, int(number))


def renamed_directory(partition: TopicPartition, suffix: str, unique: Uuid) -> str:
    """``topic-0.<32 hex>-delete`` or ``-stray``; a long topic name is shortened to fit a file name."""
    ending = f"-{partition.partition}.{unique.hex()}{suffix}"
    return partition.topic[: _MAX_NAME_BYTES - len(ending)] + ending


def future_directory(partition: TopicPartition, unique: Uuid) -> str | None:
    """``topic-0.<32 hex>-future``, the copy in another log directory; None if the topic name is too long."""
    name = f"{partition}.{unique.hex()}{FUTURE_SUFFIX}"
    return name if len(name.encode()) <= _MAX_NAME_BYTES else None


def parse_future_directory(name: str) -> TopicPartition | None:
    """The partition of a ``-future`` directory; None if the name is not such a name."""
    stem, dot, unique = name.removesuffix(FUTURE_SUFFIX).rpartition(".")
    return parse_directory_name(stem) if dot and unique else None


def offset_of(name: str) -> int | None:
    """The offset in a file name; None if it does not start with one."""
    digits = name[:OFFSET_DIGITS]
    return int(digits) if len(digits) == OFFSET_DIGITS and digits.isascii() and digits.isdigit() else None


def segment_bases(names: Iterable[str]) -> list[int]:
    """The base offsets of the segments among ``names``, ascending."""
    offsets = (offset_of(name) for name in names if name.endswith(LOG_SUFFIX))
    return sorted(offset for offset in offsets if offset is not None)


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """The offsets of the producer snapshots among ``names``, ascending."""
    offsets = (offset_of(name) for name in names if name.endswith(SNAPSHOT_SUFFIX))
    return sorted(offset for offset in offsets if offset is not None)


def format_partition_metadata(topic_id: Uuid) -> bytes:
    # As in Kafka, without a newline at the end.
    return f"version: 0\ntopic_id: {uuid_to_text(topic_id)}".encode()


PARTITION_METADATA_SIZE = len(format_partition_metadata(ZERO_UUID))


def parse_partition_metadata(data: bytes, path: str) -> Uuid:
    try:
        fields = dict(line.split(": ", 1) for line in data.decode().splitlines())
        if fields["version"] != "0":
            raise ValueError(f"version {fields['version']}")
        return uuid_from_text(fields["topic_id"])
    except (ValueError, KeyError) as error:
        raise CorruptLogError(
            f"{path} is not a partition.metadata file ({error}); the topic id is unknown"
        ) from error
