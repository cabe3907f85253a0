"""Where the leaders keep partitions, for a scan that reads their files.

A direct scan is for a Spark that runs on the broker's own host and may read its log directories.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from ruslo.model.errors import ConfigError, StorageError
from ruslo.model.ids import ZERO_UUID, Uuid
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.source.survey import Survey
from ruslo.storage.disk import LocalDisk
from ruslo.storage.partition_files import PARTITION_METADATA, parse_partition_metadata


def partition_directories(
    survey: Survey, partitions: Collection[TopicPartition], topic_ids: Mapping[str, Uuid]
) -> dict[TopicPartition, str]:
    """The directory of each partition; raises ConfigError unless all of them are here and can be read."""
    replicas = survey.leader_replicas(partitions)
    found: dict[TopicPartition, str] = {}
    for partition in partitions:
        replica = replicas.get(partition)
        if replica is None:
            raise ConfigError(
                f"scan=direct: the leader of {partition} does not say where it keeps it; use scan=wire"
            )
        path = os.path.join(replica.log_dir, str(partition))
        check_directory(path, partition, topic_ids.get(partition.topic, ZERO_UUID))
        found[partition] = path
    return found


def check_directory(path: str, partition: TopicPartition, topic_id: Uuid) -> None:
    """Whether the files of this very partition are on this host, and readable."""
    advice = "run Spark on the broker's host as a user who may read its files, or use scan=wire"
    if not os.path.isdir(path):
        raise ConfigError(f"scan=direct: {path}, where the broker keeps {partition}, is not here: {advice}")
    if not os.access(path, os.R_OK | os.X_OK):
        raise ConfigError(f"scan=direct: no permission to read {path}: {advice}")
    # Another broker's directory may have the same path on another host.
    metadata = os.path.join(path, PARTITION_METADATA)
    if topic_id == ZERO_UUID or not os.path.exists(metadata):
        return
    try:
        found = parse_partition_metadata(LocalDisk(path).read_file(metadata), metadata)
    except StorageError as error:
        raise ConfigError(f"scan=direct: {error}; {advice}") from error
    if found != topic_id:
        raise ConfigError(
            f"scan=direct: {path} belongs to another topic of the name, so to another broker: {advice}"
        )
