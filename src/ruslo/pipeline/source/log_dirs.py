"""The log directories of partitions, for a scan that reads their files.

A direct scan needs Spark on the broker's host, with permission to read its log directories.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from ruslo.model.errors import ConfigError, StorageError
from ruslo.model.ids import ZERO_UUID, Uuid
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.source.driver_client import DriverClient
from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.partition_files import PARTITION_METADATA, parse_partition_metadata


def partition_directories(
    client: DriverClient, partitions: Collection[TopicPartition], topic_ids: Mapping[str, Uuid]
) -> dict[TopicPartition, str]:
    """The directory of each partition; raises ConfigError unless all of them can be read on this host."""
    replicas = client.leader_replicas(partitions)
    found: dict[TopicPartition, str] = {}
    for partition in partitions:
        replica = replicas.get(partition)
        if replica is None:
            raise ConfigError(
                f"scan=direct: the leader of {partition} does not report its log directory; use scan=wire"
            )
        path = os.path.join(replica.log_dir, str(partition))
        check_directory(path, partition, topic_ids.get(partition.topic, ZERO_UUID))
        found[partition] = path
    return found


def check_directory(path: str, partition: TopicPartition, topic_id: Uuid) -> None:
    """Raise ConfigError unless this host has the files of this partition and may read them."""
    advice = "run Spark on the broker's host as a user that may read its files, or use scan=wire"
    if not os.path.isdir(path):
        raise ConfigError(f"scan=direct: {path}, the log directory of {partition}, does not exist: {advice}")
    if not os.access(path, os.R_OK | os.X_OK):
        raise ConfigError(f"scan=direct: no permission to read {path}: {advice}")
    # On another host the same path may belong to another broker.
    metadata = os.path.join(path, PARTITION_METADATA)
    if topic_id == ZERO_UUID or not os.path.exists(metadata):
        return
    try:
        found = parse_partition_metadata(LocalDisk(path).read_file(metadata), metadata)
    except StorageError as error:
        raise ConfigError(f"scan=direct: {error}; {advice}") from error
    if found != topic_id:
        raise ConfigError(
            f"scan=direct: {path} belongs to another topic of the same name, so to another broker: {advice}"
        )
