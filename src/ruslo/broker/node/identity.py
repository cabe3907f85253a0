"""The identity of the data: what ``format`` wrote to the log directories, checked against the
configuration."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from ruslo.broker.node.bootstrap_features import feature_records, initial_features
from ruslo.broker.quorum.checkpoint_file import read_checkpoint
from ruslo.config.broker import BrokerConfig
from ruslo.model.errors import StorageError
from ruslo.model.ids import Uuid, uuid_to_text
from ruslo.protocol.message import Message
from ruslo.storage.disk import Disk, DiskError, DiskOpener
from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.log_dir import LogDir
from ruslo.storage.meta_properties import MetaProperties, read_meta_properties

BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"


@dataclass(frozen=True, slots=True)
class Identity:
    cluster_id: str
    node_id: int
    directory_ids: dict[str, Uuid]
    """The directory ids by path."""


def all_directories(config: BrokerConfig) -> list[str]:
    """Every directory with a ``meta.properties``: log.dirs and the metadata log directory, without
    duplicates."""
    return list(dict.fromkeys((*config.log_dirs, config.metadata_log_dir)))


def check_formatted(config: BrokerConfig, open_disk: DiskOpener | None = None) -> None:
    """Called before anything is locked or created. Raises StorageError with the command to format."""
    metas: dict[str, MetaProperties | None] = {}
    failed: dict[str, StorageError] = {}
    for path in all_directories(config):
        disk = (open_disk or LocalDisk)(path)
        try:
            # A missing directory has no meta.properties either, but for another reason.
            disk.list_names(path)
            metas[path] = read_meta_properties(disk)
        except DiskError as error:
            failed[path] = error
    if any(metas.values()):
        # This is not a new node: a missing directory belongs to a missing disk.
        if config.metadata_log_dir in failed:
            raise failed[config.metadata_log_dir]
    else:
        metas |= dict.fromkeys(failed)
    _require_formatted(config, metas)


def check_identity(config: BrokerConfig, directories: Sequence[LogDir]) -> Identity:
    """Check that all directories are formatted for this node and one cluster, each with its own id."""
    metas = {directory.path: directory.meta for directory in directories if directory.online}
    formatted = _require_formatted(config, metas)
    cluster_id = next(iter(formatted.values())).cluster_id
    paths_by_id: dict[Uuid, str] = {}
    for path, meta in formatted.items():
        meta.check_owner(path, cluster_id, config.node_id)
        other = paths_by_id.setdefault(meta.directory_id, path)
        if other != path:
            raise StorageError(
                f"{other} and {path} have the same directory.id {uuid_to_text(meta.directory_id)}: one is a "
                "copy of the other. Remove the copy from log.dirs"
            )
    return Identity(cluster_id, config.node_id, {path: meta.directory_id for path, meta in formatted.items()})


def read_bootstrap_records(disk: Disk) -> list[Message]:
    """The first records of a new cluster: the feature levels that ``format`` chose."""
    path = os.path.join(disk.directory, BOOTSTRAP_CHECKPOINT)
    if disk.status(path) is None:
        # An older Kafka formatted it without the file; such a cluster starts with the newest levels.
        return [record for record, _ in feature_records(initial_features(None, (), dynamic_quorum=False))]
    return list(read_checkpoint(disk, path).records())


def _require_formatted(
    config: BrokerConfig, metas: dict[str, MetaProperties | None]
) -> dict[str, MetaProperties]:
    formatted = {path: meta for path, meta in metas.items() if meta is not None}
    missing = [path for path in metas if path not in formatted]
    if missing:
        options = ["-c PROPERTY_FILE"]
        if not config.quorum_voters:
            options.append("--standalone" if config.is_controller else "--no-initial-controllers")
        if formatted:
            options += [f"--cluster-id {next(iter(formatted.values())).cluster_id}", "--ignore-formatted"]
        raise StorageError(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not formatted: meta.properties "
            "does not exist. If this is a new node, or a new directory of it, run\n"
            f"    ruslo storage format {' '.join(options)}\n"
            "If there should be data, check log.dirs and whether the disk is mounted"
        )
    return formatted
