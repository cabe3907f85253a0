"""``meta.properties``: the cluster and node that own a log directory; ``ruslo storage format`` writes it."""

from __future__ import annotations

from dataclasses import dataclass

from ruslo.config.properties import decode_properties, format_properties, parse_properties
from ruslo.model.errors import ConfigError, StorageError
from ruslo.model.ids import Uuid, is_reserved, uuid_from_text, uuid_to_text
from ruslo.storage.disk import Disk

META_PROPERTIES = "meta.properties"
_VERSION = "1"


@dataclass(frozen=True, slots=True)
class MetaProperties:
    cluster_id: str
    node_id: int
    directory_id: Uuid

    def to_bytes(self) -> bytes:
        fields = {
            "cluster.id": self.cluster_id,
            "directory.id": uuid_to_text(self.directory_id),
            "node.id": str(self.node_id),
            "version": _VERSION,
        }
        return format_properties(fields).encode()

    def check_owner(self, directory: str, cluster_id: str | None, node_id: int) -> None:
        """Raise StorageError if the owner is another cluster or node; ``cluster_id`` None: not known yet."""
        if cluster_id is not None and self.cluster_id != cluster_id:
            raise StorageError(
                f"{directory} belongs to cluster {self.cluster_id}, this node to {cluster_id}: "
                "point log.dirs at this cluster's data"
            )
        if self.node_id != node_id:
            raise StorageError(
                f"{directory} belongs to node {self.node_id}, this is node {node_id}: "
                "point log.dirs at this node's data, or set node.id to the directory's"
            )


def parse_meta_properties(data: bytes, path: str) -> MetaProperties:
    try:
        fields = parse_properties(decode_properties(data))
        if fields["version"] != _VERSION:
            raise StorageError(f"{path} has version {fields['version']}, only {_VERSION} is supported")
        return MetaProperties(
            fields["cluster.id"], int(fields["node.id"]), _directory_id(fields["directory.id"], path)
        )
    except KeyError as error:
        raise StorageError(f"{path} has no {error.args[0]}: format the directory again") from error
    except (ValueError, ConfigError) as error:
        raise StorageError(f"{path} cannot be read: {error}") from error


def _directory_id(text: str, path: str) -> Uuid:
    fix = (
        "restore the file from a backup, or empty the directory and run 'ruslo storage format' to have its "
        "replicas fetched again"
    )
    try:
        directory_id = uuid_from_text(text)
    except ValueError as error:
        raise StorageError(f"{path} has a damaged directory.id: {error}; {fix}") from error
    if is_reserved(directory_id):
        raise StorageError(f"{path} has a damaged directory.id: {text} is a reserved id; {fix}")
    return directory_id


def read_meta_properties(disk: Disk) -> MetaProperties | None:
    """The properties of a log directory; None if it is not formatted."""
    path = f"{disk.directory}/{META_PROPERTIES}"
    return parse_meta_properties(disk.read_file(path), path) if disk.status(path) is not None else None


def write_meta_properties(disk: Disk, meta: MetaProperties) -> None:
    disk.replace_file(f"{disk.directory}/{META_PROPERTIES}", meta.to_bytes())
