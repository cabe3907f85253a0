"""Creates the log of a new partition."""

from __future__ import annotations

import errno

from ruslo.config.log_config import LogConfig
from ruslo.model.ids import Uuid
from ruslo.model.topics import TopicPartition
from ruslo.storage.disk import Disk, DiskError
from ruslo.storage.log import Log
from ruslo.storage.partition_files import PARTITION_METADATA, format_partition_metadata
from ruslo.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, Segment, segment_stem
from ruslo.storage.trash import Trash


def create_log(
    disk: Disk,
    path: str,
    partition: TopicPartition,
    topic_id: Uuid,
    config: LogConfig,
    trash: Trash,
    now_ms: int,
) -> Log:
    """Create the directory and the first segment of a new partition.

    Nothing is synced here, because syncing thousands of partitions takes seconds. The first flush of the log
    syncs them before any record counts as durable.
    """
    segment = Segment(disk, path, 0, 0, now_ms)
    try:
        _make_directory(disk, path)
        disk.write_file(f"{path}/{PARTITION_METADATA}", format_partition_metadata(topic_id))
        segment.create_file()
        segment.release_files()
        # Kafka reports a segment without an offset index as damaged.
        disk.write_file(f"{segment_stem(path, 0)}{INDEX_SUFFIX}", b"")
    except DiskError as error:
        if error.disk_full:
            disk.remove_tree(path)
            error.fatal = False
        raise
    return Log(
        disk=disk,
        path=path,
        partition=partition,
        topic_id=topic_id,
        config=config,
        segments=[segment],
        trash=trash,
        flushed_ms=now_ms,
        created=True,
    )


def _make_directory(disk: Disk, path: str) -> None:
    try:
        disk.make_directory(path)
    except DiskError as error:
        # An earlier attempt that ran out of descriptors could not remove its directory either.
        if error.errno != errno.EEXIST or _has_records(disk, path):
            raise
        disk.remove_tree(path)
        disk.make_directory(path)


def _has_records(disk: Disk, path: str) -> bool:
    logs = (f"{path}/{name}" for name in disk.list_names(path) if name.endswith(LOG_SUFFIX))
    return any((disk.status(log) or (0,))[0] for log in logs)
